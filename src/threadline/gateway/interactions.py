"""A click becomes a route: on a button of an approval or a hand-over, or on what nobody waits for. Pure and total.

Source: https://docs.slack.dev/reference/interaction-payloads/block_actions-payload.
"""

from collections.abc import Callable, Mapping
from typing import Any

from threadline.approvals.contract import approval_pressed
from threadline.approvals.model import APPROVE, REJECT
from threadline.gateway.routes import Ignored, IgnoreReason, Pressed
from threadline.handovers.contract import handover_pressed
from threadline.handovers.model import CLOSE, TAKE
from threadline.threads.model import ButtonPress
from threadline.threads.workflow_client import WorkflowStart

CLICK = "block_actions"
"""The `type` of what Slack delivers."""
_LONGEST = 200
"""Characters of anything that Slack calls an id or a time."""
_WORKFLOWS: Mapping[str, Callable[[str, ButtonPress], WorkflowStart | None]] = {
    APPROVE: approval_pressed,
    REJECT: approval_pressed,
    TAKE: handover_pressed,
    CLOSE: handover_pressed,
}
"""Of each button, which workflow a press of it is for; by team, and None where the press is for none."""


def route(body: Mapping[str, Any]) -> Pressed | Ignored:
    """Say where a click goes.

    Args:
        body: what Slack delivered, or any other JSON object.
    """
    actions = body.get("actions")
    for each in actions if isinstance(actions, list) else ():
        if found := _pressed(body, each):
            return found
    return Ignored(IgnoreReason.NO_BUTTON)


def _pressed(body: Mapping[str, Any], action: object) -> Pressed | None:
    press = _press(body, action)
    workflow_of = _WORKFLOWS.get(press.action_id)
    start = workflow_of(_team(body), press) if workflow_of and press.user_id else None
    return Pressed(start) if start else None


def _press(body: Mapping[str, Any], action: object) -> ButtonPress:
    user, button, moment = _text(body, "user", "id"), _text(action, "action_id"), _text(action, "action_ts")
    place = _text(body, "container", "message_ts") or _text(body, "message", "ts")
    return ButtonPress(
        user_id=user,
        action_id=button,
        value=_text(action, "value"),
        key=":".join((place, user, button, moment or _text(body, "trigger_id"))),
        at=_seconds(moment),
        channel=_text(body, "container", "channel_id") or _text(body, "channel", "id"),
        thread_ts=_text(body, "container", "thread_ts") or _text(body, "message", "thread_ts") or place,
    )


def _team(body: Mapping[str, Any]) -> str:
    return _text(body, "team", "id") or _text(body, "user", "team_id")


def _text(value: object, *path: str) -> str:
    """What stands at the end of a path of fields; empty where there is no text of bounded length."""
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value if isinstance(value, str) and len(value) <= _LONGEST and value.isprintable() else ""


def _seconds(moment: str) -> float:
    try:
        at = float(moment)
    except ValueError:
        return 0.0
    return at if 0.0 < at < 1e11 else 0.0
