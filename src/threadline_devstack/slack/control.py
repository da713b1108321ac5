"""`/control/…`: JSON by which people act in the workspace, and tests order its misbehaviour and read its state."""

import base64
import binascii
import inspect
import json
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from threadline_devstack.slack.delivery import EventDeliveries
from threadline_devstack.slack.faults import SlackFaults
from threadline_devstack.slack.identity import BOT_USER, TEAM
from threadline_devstack.slack.interactions import Interactions
from threadline_devstack.slack.model import Json, SandboxChannel, SandboxMessage, SandboxUser, SlackRefusal
from threadline_devstack.slack.socket_mode import SocketConnections
from threadline_devstack.slack.workspace import SlackWorkspace

Action = Callable[..., Any]


class Control:
    """Answers `{"ok": true, …}`; 400 with `{"ok": false, "error": …}` for what cannot be done.

    An action is a function that takes the fields of the JSON by their names: see each one for what it takes.
    """

    def __init__(
        self,
        workspace: SlackWorkspace,
        deliveries: EventDeliveries,
        sockets: SocketConnections,
        faults: SlackFaults,
        interactions: Interactions,
    ) -> None:
        self._workspace, self._deliveries, self._sockets = workspace, deliveries, sockets
        self._interactions = interactions
        self._actions: dict[str, Action] = {
            "messages": self._post,
            "messages/edit": self._edit,
            "messages/delete": self._delete,
            "messages/unfurl": workspace.unfurl,
            "reactions": workspace.react,
            "reactions/remove": workspace.unreact,
            "files": self._upload,
            "clicks": self._click,
            "channels": self._create_channel,
            "channels/archive": workspace.archive,
            "channels/join": workspace.join,
            "channels/leave": workspace.leave,
            "channels/direct": workspace.open_im,
            "users": self._create_user,
            "faults": faults.order,
            "faults/clear": faults.clear,
            "sockets/disconnect": self._disconnect,
            "sockets/cut": self._cut,
            "request-url": self._set_request_url,
            "request-url/verify": self._verify_request_url,
        }

    def routes(self) -> list[Route]:
        return [
            *(Route(f"/control/{path}", _endpoint(act), methods=["POST"]) for path, act in self._actions.items()),
            Route("/control/state", self._state),
            Route("/control/deliveries", self._log),
        ]

    async def _state(self, request: Request) -> Response:
        """Everything: users, channels with their messages (reactions and metadata among them), ephemeral messages,
        and what the bot says it is doing."""
        channels = [
            place.as_slack()
            | {"members": place.members}
            | {"messages": [message.as_slack(include_metadata=True) for message in place.messages.values()]}
            for place in self._workspace.channels.values()
        ]
        people = [user.as_slack() for user in self._workspace.users.values()]
        extra = {"ephemerals": self._workspace.ephemerals, "sockets": self._sockets.count}
        extra |= {"statuses": self._workspace.statuses()}
        return JSONResponse({"team": TEAM, "bot_user": BOT_USER, "users": people, "channels": channels} | extra)

    async def _log(self, request: Request) -> Response:
        return JSONResponse({"deliveries": [asdict(delivery) for delivery in self._deliveries.log]})

    def _post(self, channel: str, user: str, text: str = "", **more: Any) -> Json:
        """`more`: those of thread_ts, broadcast, files (their ids), bot_id, username and subtype that are given."""
        if unknown := more.keys() - {"thread_ts", "broadcast", "files", "bot_id", "username", "subtype"}:
            raise ValueError(f"unknown arguments {sorted(unknown)}")
        message = self._workspace.post(channel, user, text, **more)
        return {"channel": message.channel, "ts": message.ts, "message": message.as_slack()}

    def _edit(self, channel: str, ts: str, text: str, user: str = "") -> SandboxMessage:
        return self._workspace.edit(channel, ts, text, by=user)

    def _delete(self, channel: str, ts: str, user: str = "") -> None:
        self._workspace.delete(channel, ts, by=user)

    def _upload(
        self, user: str, name: str, content_base64: str, mimetype: str = "", announced: int | None = None
    ) -> Json:
        """A file that a message may then show by its id; `announced` is a size that Slack tells instead of its own."""
        try:
            content = base64.b64decode(content_base64, validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise SlackRefusal("invalid_content_base64") from None
        file = self._workspace.add_file(name, self._workspace.user(user).id, content, mimetype)
        file.announced = announced
        return {"file": file.as_slack()}

    async def _click(self, user: str, channel: str, ts: str, action_id: str) -> Json:
        """The answer says whether the app acknowledged it in time."""
        payload = self._interactions.click(user, channel, ts, action_id)
        return {"acknowledged": await self._deliveries.interact(payload) is not None}

    def _create_channel(self, name: str, members: list[str] | None = None, **more: str) -> SandboxChannel:
        """Without `members` everyone is in it, the bot too; `more`: `id`, if it is to have a certain one."""
        everyone = list(self._workspace.users)
        return self._workspace.create_channel(name, everyone if members is None else members, more.get("id", ""))

    def _create_user(self, name: str, real_name: str = "", **more: Any) -> Json:
        """`more`: `id`, and what is given of is_bot, is_restricted, is_ultra_restricted, is_stranger and team."""
        user = SandboxUser(name=name, real_name=real_name or name, **more)
        return {"user": self._workspace.add_user(user).as_slack()}

    async def _disconnect(self, reason: str = "refresh_requested") -> Json:
        """Every connection is told to reconnect."""
        return {"told": await self._sockets.disconnect(reason)}

    async def _cut(self) -> Json:
        return {"cut": await self._sockets.cut()}

    def _set_request_url(self, url: str) -> None:
        """Where events go from now on; empty for Socket Mode."""
        self._deliveries.request_url = url

    async def _verify_request_url(self) -> Json:
        return {"verified": await self._deliveries.verify_url()}


def _endpoint(action: Action) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        try:
            given: Any = json.loads(await request.body() or b"{}")
            inspect.signature(action).bind(**given)
            done = action(**given)
            return JSONResponse({"ok": True} | _told(await done if isinstance(done, Awaitable) else done))
        except SlackRefusal as refused:
            return JSONResponse({"ok": False, "error": refused.error} | refused.details, status_code=400)
        except (TypeError, ValueError) as wrong:
            return JSONResponse({"ok": False, "error": f"unreadable arguments: {wrong}"}, status_code=400)

    return endpoint


def _told(done: Any) -> Json:
    match done:
        case SandboxMessage():
            return {"message": done.as_slack()}
        case SandboxChannel():
            return {"channel": done.as_slack()}
        case dict():
            return done
        case _:
            return {}
