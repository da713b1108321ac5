"""Presses of buttons and submitted modals, as signals to the workflows of their cards. Pure and
total.

Sources: https://docs.slack.dev/reference/interaction-payloads/block_actions-payload and
https://docs.slack.dev/reference/interaction-payloads/view-interactions-payload.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from threadline.approvals.contract import approval_pressed
from threadline.approvals.model import APPROVE, REJECT
from threadline.conversations.help import ASK_EXAMPLE, example_id
from threadline.handovers.blocks import MAX_REPLY, reply_modal
from threadline.handovers.contract import handover_pressed
from threadline.handovers.model import CLOSE, REPLY, TAKE, UNDO, parse_value
from threadline.privacy.redaction import redact
from threadline.slack.model import Thread, clean_text
from threadline.threads.model import ButtonPress, IncomingMessage, MessageKind, SenderType
from threadline.threads.workflow_client import WorkflowStart

BLOCK_ACTIONS = "block_actions"
"""The `type` of a delivery for a press."""
VIEW_SUBMISSION = "view_submission"
"""The `type` of a delivery for a submitted modal."""
_MAX_LENGTH = 300
"""Maximum characters of an id, a time or a button's value."""
_BUTTONS: Mapping[str, Callable[[str, ButtonPress], WorkflowStart | None]] = {
    APPROVE: approval_pressed,
    REJECT: approval_pressed,
    TAKE: handover_pressed,
    CLOSE: handover_pressed,
    UNDO: handover_pressed,
}
"""For each button, the function that returns the workflow of a press in a team; None if the
button's value names no workflow.
"""
_EXAMPLE = re.compile(rf"{ASK_EXAMPLE}:[0-9]{{1,2}}")
_TIMESTAMP = re.compile(r"[0-9]{1,12}\.[0-9]{1,6}")


@dataclass(frozen=True)
class ModalRequest:
    """A modal for a press. Slack shows it to the person whose press created the trigger."""

    trigger_id: str
    view: Mapping[str, Any]


def parse_modal_request(body: Mapping[str, Any], team: str, bot_id: str) -> ModalRequest | None:
    """Return the modal of a pressed button; None for a button without one, and for any other JSON
    object. `team` and `bot_id`: as for `parse_button`.
    """
    if _text(body, "message", "bot_id") not in ("", bot_id):
        return None
    actions = body.get("actions")
    trigger = _text(body, "trigger_id")
    for action in actions if isinstance(actions, list) else ():
        press = _press(body, action)
        ref = parse_value(press.value) if press.action_id == REPLY else None
        if ref and trigger and ref.thread.team == team:
            return ModalRequest(trigger, reply_modal(press.value, press.channel, press.thread_ts))
    return None


def parse_submission(body: Mapping[str, Any], team: str, bot_id: str) -> WorkflowStart | None:
    """Return the workflow of the card whose modal was submitted, with a press that carries its
    text; None for any other JSON object. `team` and `bot_id`: as for `parse_button`.
    """
    view = body.get("view")
    user = pressing_user(body)
    view_id = _text(view, "id")
    is_ours = _text(view, "callback_id") == REPLY and _text(view, "bot_id") in ("", bot_id)
    if not (is_ours and user and view_id):
        return None
    channel, _, rest = _text(view, "private_metadata").partition(" ")
    thread_ts, _, value = rest.partition(" ")
    text = _long_text(view, "state", "values", REPLY, REPLY, "value")
    press = ButtonPress(user, REPLY, value, f"{view_id}:{user}", 0.0, channel, thread_ts, text)
    return handover_pressed(team, press)


def parse_button(body: Mapping[str, Any], team: str, bot_id: str) -> WorkflowStart | None:
    """Return the workflow of the pressed button's card, with the press as its signal; None for any
    other JSON object.

    Args:
        body: the interaction.
        team: our workspace. The interaction's own `team` is the workspace in which the person
            pressed; in a channel that is shared with another company, it may be theirs.
        bot_id: our bot's. Each installation of an app has its own: cards of other bots are
            ignored.
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


def parse_example(
    body: Mapping[str, Any], team: str, bot_id: str
) -> tuple[Thread, IncomingMessage] | None:
    """Return a pressed example of a help as a message of the person who pressed, with its thread;
    None for any other JSON object. `team` and `bot_id`: as for `parse_button`.

    The message's id is the same when the person presses again, so the example is asked once.
    """
    if _text(body, "message", "bot_id") not in ("", bot_id):
        return None
    place = _text(body, "container", "message_ts") or _text(body, "message", "ts")
    actions = body.get("actions")
    for action in actions if isinstance(actions, list) else ():
        press = _press(body, action)
        at = f"{press.at:.6f}" if press.at else place
        is_placed = all(_TIMESTAMP.fullmatch(each) for each in (place, press.thread_ts, at))
        is_complete = is_placed and press.channel and press.user_id and press.value
        if not (_EXAMPLE.fullmatch(press.action_id) and is_complete):
            continue
        identity = example_id(team, press.channel, place, press.action_id, press.user_id)
        return Thread(team, press.channel, press.thread_ts), IncomingMessage(
            identity,
            MessageKind.MESSAGE,
            SenderType.UNKNOWN,
            press.user_id,
            redact(press.value),
            press.channel,
            at,
            addressed=True,
        )
    return None


def pressing_user(body: Mapping[str, Any]) -> str:
    """Return the id of the user who pressed; empty if the interaction names none."""
    return _text(body, "user", "id")


def _press(body: Mapping[str, Any], action: object) -> ButtonPress:
    user = pressing_user(body)
    button = _text(action, "action_id")
    moment = _text(action, "action_ts")
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
        thread_ts=_text(body, "container", "thread_ts")
        or _text(body, "message", "thread_ts")
        or place,
    )


def _long_text(value: object, *path: str) -> str:
    """Return a person's text in a field, with secrets redacted; empty if there is no text."""
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return redact(clean_text(value))[:MAX_REPLY] if isinstance(value, str) else ""


def _text(value: object, *path: str) -> str:
    """Return the text at the end of a path of fields; empty if there is none of bounded length."""
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return (
        value
        if isinstance(value, str) and len(value) <= _MAX_LENGTH and value.isprintable()
        else ""
    )
