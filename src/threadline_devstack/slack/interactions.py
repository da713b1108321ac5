"""Clicks on buttons, and submitted modals: the payload for the app, and a click's `response_url`.

Source: https://docs.slack.dev/interactivity/handling-user-interaction.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from uuid import uuid4

from threadline_devstack.slack.blocks import check_blocks
from threadline_devstack.slack.identity import APP_ID, BOT_ID, BOT_USER, TEAM, TEAM_DOMAIN
from threadline_devstack.slack.model import Json, SandboxMessage, SlackRefusal
from threadline_devstack.slack.views import check_values
from threadline_devstack.slack.workspace import SlackWorkspace

USES = 5
LIFETIME = 30 * 60.0
"""Limits of a `response_url`: uses, and seconds."""


@dataclass
class ResponseUrl:
    channel: str
    ts: str
    user: str
    thread_ts: str
    expires: float
    uses: int = 0


class Interactions:
    """People's interactions with the bot's messages."""

    def __init__(self, workspace: SlackWorkspace, clock: Callable[[], float]) -> None:
        self._workspace = workspace
        self._clock = clock
        self._urls: dict[str, ResponseUrl] = {}

    def click(self, user: str, channel: str, ts: str, action_id: str) -> Json:
        """Return the `block_actions` payload of `user` pressing the button `action_id` of a
        message.

        Raises:
            SlackRefusal: the message or the button does not exist.
        """
        person = self._workspace.user(user)
        place = self._workspace.channel(channel)
        message = self._workspace.message(channel, ts)
        block_id, element = _button(message, action_id)
        ticket = uuid4().hex
        self._urls[ticket] = ResponseUrl(
            place.id, ts, user, message.thread_ts or ts, self._clock() + LIFETIME
        )
        kept = {
            name: element[name] for name in ("text", "value", "style", "type") if name in element
        }
        return {
            "type": "block_actions",
            "user": {
                "id": user,
                "username": person.name,
                "name": person.name,
                "team_id": person.team,
            },
            "api_app_id": APP_ID,
            "token": "sandbox-verification-token",
            "container": {
                "type": "message",
                "message_ts": ts,
                "channel_id": place.id,
                "is_ephemeral": False,
            }
            | ({"thread_ts": message.thread_ts} if message.thread_ts else {}),
            "trigger_id": self._trigger(user),
            "team": {"id": place.host, "domain": TEAM_DOMAIN},
            "enterprise": None,
            "is_enterprise_install": False,
            "channel": {"id": place.id, "name": place.name},
            "message": message.as_slack(),
            "state": {"values": {}},
            "response_url": f"{self._workspace.base_url}/actions/{TEAM}/{ticket}",
            "actions": [
                kept
                | {
                    "action_id": action_id,
                    "block_id": block_id,
                    "action_ts": f"{self._clock():.6f}",
                }
            ],
        }

    def submit(self, user: str, view_id: str, values: Mapping[str, str]) -> Json:
        """Return the `view_submission` payload of `user` sending a modal. The modal closes after
        the app's acknowledgement.

        Args:
            values: the contents of the fields, by their `action_id`.

        Raises:
            SlackRefusal: the modal is not theirs, or Slack's client would not let them send it.
        """
        person = self._workspace.user(user)
        view = self._workspace.views.get(view_id)
        if view is None or view.user != user:
            raise SlackRefusal("not_found")
        check_values(view, values)
        return {
            "type": "view_submission",
            "team": {"id": TEAM, "domain": TEAM_DOMAIN},
            "user": {
                "id": user,
                "username": person.name,
                "name": person.name,
                "team_id": person.team,
            },
            "api_app_id": APP_ID,
            "token": "sandbox-verification-token",
            "trigger_id": self._trigger(user),
            "view": view.as_slack(values),
            "response_urls": [],
            "is_enterprise_install": False,
            "enterprise": None,
        }

    def _trigger(self, user: str) -> str:
        return self._workspace.add_trigger(f"{uuid4().int % 10**13}.{uuid4().hex}", user)

    def respond(self, ticket: str, answer: Json) -> None:
        """Carry out the app's answer to a `response_url`: replace, delete, or post another
        message.

        Raises:
            SlackRefusal: `expired_url` or `used_url`, or an error of the post.
        """
        url = self._urls.get(ticket)
        if url is None or self._clock() > url.expires:
            raise SlackRefusal("expired_url")
        if url.uses >= USES:
            raise SlackRefusal("used_url")
        url.uses += 1
        text = str(answer.get("text") or "")
        blocks = check_blocks(answer.get("blocks") or [])
        if answer.get("delete_original"):
            self._workspace.delete(url.channel, url.ts)
        elif answer.get("replace_original"):
            self._workspace.edit(url.channel, url.ts, text, blocks=blocks)
        elif answer.get("response_type") == "in_channel":
            self._workspace.post(
                url.channel,
                BOT_USER,
                text,
                thread_ts=str(answer.get("thread_ts") or ""),
                blocks=blocks,
                bot_id=BOT_ID,
            )
        else:
            self._workspace.post_ephemeral(url.channel, url.user, text, blocks, url.thread_ts)


def _button(message: SandboxMessage, action_id: str) -> tuple[str, Json]:
    for block in message.blocks:
        for element in [*block.get("elements", []), block.get("accessory")]:
            if isinstance(element, dict) and element.get("action_id") == action_id:
                return str(block.get("block_id", "")), element
    raise SlackRefusal("action_not_found")
