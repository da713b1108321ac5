"""A press of a button, or a modal that a person sends, becomes a signal to the workflow of its card. Pure and total.

Sources: https://docs.slack.dev/reference/interaction-payloads/block_actions-payload and
https://docs.slack.dev/reference/interaction-payloads/view-interactions-payload.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from threadline.approvals.contract import approval_pressed
from threadline.approvals.model import APPROVE, REJECT
from threadline.handovers.blocks import MAX_REPLY, reply_modal
from threadline.handovers.contract import handover_pressed
from threadline.handovers.model import CLOSE, REPLY, TAKE, UNDO, parse_value
from threadline.privacy.redaction import redact
from threadline.slack.model import clean_text
from threadline.threads.model import ButtonPress
from threadline.threads.workflow_client import WorkflowStart

BLOCK_ACTIONS = "block_actions"
"""The `type` of what Slack delivers for a press."""
VIEW_SUBMISSION = "view_submission"
"""The `type` of what Slack delivers for a modal that a person sends."""
_MAX_LENGTH = 300
"""Characters of an id, a time or a button's value."""
_BUTTONS: Mapping[str, Callable[[str, ButtonPress], WorkflowStart | None]] = {
    APPROVE: approval_pressed,
    REJECT: approval_pressed,
    TAKE: handover_pressed,
    CLOSE: handover_pressed,
    UNDO: handover_pressed,
}
"""For each button, the workflow that a press of it in a team is for; None where its value names none."""


@dataclass(frozen=True)
class ModalRequest:
    """A modal that a press asks for. Slack shows it to the person whose press has the trigger."""

    trigger_id: str
    view: Mapping[str, Any]


def parse_modal_request(body: Mapping[str, Any], team: str, bot_id: str) -> ModalRequest | None:
    """The modal of a pressed button; None for a button that opens none, and for any other JSON object. `team` and
    `bot_id`: as for `parse_button`."""
    if _text(body, "message", "bot_id") not in ("", bot_id):
        return None
    actions, trigger = body.get("actions"), _text(body, "trigger_id")
    for action in actions if isinstance(actions, list) else ():
        press = _press(body, action)
        ref = parse_value(press.value) if press.action_id == REPLY else None
        if ref and trigger and ref.thread.team == team:
            return ModalRequest(trigger, reply_modal(press.value, press.channel, press.thread_ts))
    return None


def parse_submission(body: Mapping[str, Any], team: str, bot_id: str) -> WorkflowStart | None:
    """The workflow of the card whose modal was sent, with a press that has its text; None for any other JSON object.
    `team` and `bot_id`: as for `parse_button`."""
    view = body.get("view")
    user, view_id = pressing_user(body), _text(view, "id")
    is_ours = _text(view, "callback_id") == REPLY and _text(view, "bot_id") in ("", bot_id)
    if not (is_ours and user and view_id):
        return None
    channel, _, rest = _text(view, "private_metadata").partition(" ")
    thread_ts, _, value = rest.partition(" ")
    text = _long_text(view, "state", "values", REPLY, REPLY, "value")
    press = ButtonPress(user, REPLY, value, f"{view_id}:{user}", 0.0, channel, thread_ts, text)
    return handover_pressed(team, press)


def parse_button(body: Mapping[str, Any], team: str, bot_id: str) -> WorkflowStart | None:
    """The workflow of the pressed button's card, with the press as its signal; None for any other JSON object.

    Args:
        body: the interaction.
        team: our workspace. The interaction's own `team` is where the person pressed, which in a channel that is shared
            with another company may be theirs.
        bot_id: our bot's. Each installation of an app has another: a card of another one is none of ours.
    """
    if _text(body, "message", "bot_id") not in ("", bot_id):
        return None
    actions = body.get("actions")
    for action in actions if isinstance(actions, list) else ():
        press = _press(body, action)
        workflow_of = _BUTTONS.get(press.action_id)
        if workflow_of and press.user_id and (start := workflow_of(team, press)):
            return start
    return None


def pressing_user(body: Mapping[str, Any]) -> str:
    """The id of the user who pressed; empty where the interaction names none."""
    return _text(body, "user", "id")


def _press(body: Mapping[str, Any], action: object) -> ButtonPress:
    user, button, moment = pressing_user(body), _text(action, "action_id"), _text(action, "action_ts")
    place = _text(body, "container", "message_ts") or _text(body, "message", "ts")
    try:
        at = float(moment)
    except ValueError:
        at = 0.0
    return ButtonPress(
        user_id=user,
        action_id=button,
        value=_text(action, "value"),
        key=":".join((place, user, button, moment or _text(body, "trigger_id"))),
        at=at if 0.0 < at < 1e11 else 0.0,
        channel=_text(body, "container", "channel_id") or _text(body, "channel", "id"),
        thread_ts=_text(body, "container", "thread_ts") or _text(body, "message", "thread_ts") or place,
    )


def _long_text(value: object, *path: str) -> str:
    """What a person wrote in a field, without secrets; empty if there is no text."""
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return redact(clean_text(value))[:MAX_REPLY] if isinstance(value, str) else ""


def _text(value: object, *path: str) -> str:
    """The text at the end of a path of fields; empty where there is none of bounded length."""
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value if isinstance(value, str) and len(value) <= _MAX_LENGTH and value.isprintable() else ""
