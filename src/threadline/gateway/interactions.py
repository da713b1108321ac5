"""A press of a button becomes a signal to the workflow of its card. Pure and total. Source:
https://docs.slack.dev/reference/interaction-payloads/block_actions-payload."""

from collections.abc import Callable, Mapping
from typing import Any

from threadline.approvals.contract import approval_pressed
from threadline.approvals.model import APPROVE, REJECT
from threadline.handovers.contract import handover_pressed
from threadline.handovers.model import CLOSE, TAKE
from threadline.threads.model import ButtonPress
from threadline.threads.workflow_client import WorkflowStart

BLOCK_ACTIONS = "block_actions"
"""The `type` of what Slack delivers for a press."""
_MAX_LENGTH = 200
"""Characters of an id or a time."""
_BUTTONS: Mapping[str, Callable[[str, ButtonPress], WorkflowStart | None]] = {
    APPROVE: approval_pressed,
    REJECT: approval_pressed,
    TAKE: handover_pressed,
    CLOSE: handover_pressed,
}
"""For each button, the workflow that a press of it in a team is for; None where its value names none."""


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


def _text(value: object, *path: str) -> str:
    """The text at the end of a path of fields; empty where there is none of bounded length."""
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value if isinstance(value, str) and len(value) <= _MAX_LENGTH and value.isprintable() else ""
