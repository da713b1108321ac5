"""A click becomes a route: on a button of an approval, or on something that nobody waits for. Pure and total.

Source: https://docs.slack.dev/reference/interaction-payloads/block_actions-payload.
"""

from collections.abc import Mapping
from typing import Any

from threadline.domain import approvals
from threadline.domain.approvals import ButtonClick
from threadline.gateway.events import Clicked, Ignored, IgnoreReason

CLICK = "block_actions"
"""The `type` of what Slack delivers."""
_LONGEST = 200
"""Characters of anything that Slack calls an id or a time."""


def route(body: Mapping[str, Any]) -> Clicked | Ignored:
    """Say where a click goes.

    Args:
        body: what Slack delivered, or any other JSON object.
    """
    actions = body.get("actions")
    for each in actions if isinstance(actions, list) else ():
        if found := _clicked(body, each):
            return found
    return Ignored(IgnoreReason.NO_APPROVAL)


def _clicked(body: Mapping[str, Any], action: object) -> Clicked | None:
    pressed, value = _text(action, "action_id"), _text(action, "value")
    meant = approvals.button_read(value)
    team, user = _text(body, "team", "id") or _text(body, "user", "team_id"), _text(body, "user", "id")
    if pressed not in (approvals.APPROVE, approvals.REJECT) or not (meant and team and user):
        return None
    moment = _text(action, "action_ts")
    place = _text(body, "container", "message_ts") or _text(body, "message", "ts")
    click = ButtonClick(
        user_id=user,
        action_hash=meant[1],
        approve=pressed == approvals.APPROVE,
        key=f"{place}:{user}:{pressed}:{moment or _text(body, 'trigger_id')}",
        at=_seconds(moment),
        channel=_text(body, "container", "channel_id") or _text(body, "channel", "id"),
        thread_ts=_text(body, "container", "thread_ts") or _text(body, "message", "thread_ts") or place,
    )
    return Clicked(team, meant[0], click)


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
