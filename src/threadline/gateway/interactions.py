"""A click becomes a route: on a button of an approval or a hand-over, or on what nobody waits for. Pure and total.

Source: https://docs.slack.dev/reference/interaction-payloads/block_actions-payload.
"""

from collections.abc import Mapping
from typing import Any

from threadline.approvals import buttons as approvals
from threadline.approvals.buttons import ButtonClick
from threadline.gateway.routes import Clicked, Ignored, IgnoreReason, Pressed
from threadline.handovers import model as handovers
from threadline.handovers.model import HandoverClick

CLICK = "block_actions"
"""The `type` of what Slack delivers."""
_LONGEST = 200
"""Characters of anything that Slack calls an id or a time."""


def route(body: Mapping[str, Any]) -> Clicked | Pressed | Ignored:
    """Say where a click goes.

    Args:
        body: what Slack delivered, or any other JSON object.
    """
    actions = body.get("actions")
    for each in actions if isinstance(actions, list) else ():
        if found := _clicked(body, each) or _pressed(body, each):
            return found
    return Ignored(IgnoreReason.NO_APPROVAL)


def _clicked(body: Mapping[str, Any], action: object) -> Clicked | None:
    pressed, value = _text(action, "action_id"), _text(action, "value")
    meant = approvals.button_read(value)
    team, user = _team(body), _text(body, "user", "id")
    if pressed not in (approvals.APPROVE, approvals.REJECT) or not (meant and team and user):
        return None
    approve = pressed == approvals.APPROVE
    return Clicked(team, meant[0], ButtonClick(user, meant[1], approve, *_moment_and_place(body, action)))


def _pressed(body: Mapping[str, Any], action: object) -> Pressed | None:
    pressed, ref = _text(action, "action_id"), handovers.button_read(_text(action, "value"))
    user = _text(body, "user", "id")
    if pressed not in (handovers.TAKE, handovers.CLOSE) or not (ref and user and ref.thread.team == _team(body)):
        return None
    return Pressed(ref, HandoverClick(user, pressed == handovers.CLOSE, *_moment_and_place(body, action)))


def _team(body: Mapping[str, Any]) -> str:
    return _text(body, "team", "id") or _text(body, "user", "team_id")


def _moment_and_place(body: Mapping[str, Any], action: object) -> tuple[str, float, str, str]:
    """The click's key, when it was, and the channel and the thread in which whoever clicked is answered."""
    moment = _text(action, "action_ts")
    place = _text(body, "container", "message_ts") or _text(body, "message", "ts")
    parts = (place, _text(body, "user", "id"), _text(action, "action_id"), moment or _text(body, "trigger_id"))
    channel = _text(body, "container", "channel_id") or _text(body, "channel", "id")
    thread_ts = _text(body, "container", "thread_ts") or _text(body, "message", "thread_ts") or place
    return ":".join(parts), _seconds(moment), channel, thread_ts


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
