"""Clicks become routes: those on an approval's buttons, and nothing else."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from threadline.approvals.buttons import APPROVE, REJECT, button_value
from threadline.gateway import interactions as clicks
from threadline.gateway.routes import Clicked, Ignored, IgnoreReason, Pressed
from threadline.handovers.model import CLOSE, TAKE, HandoverRef
from threadline.slack.model import Thread

HASH = "0f" * 32


def payload(action: dict[str, Any] | None = None, **given: Any) -> dict[str, Any]:
    pressed = {
        "action_id": APPROVE,
        "value": button_value("ACT-1", HASH),
        "action_ts": "1790000000.5",
        "type": "button",
    }
    plain: dict[str, Any] = {
        "type": "block_actions",
        "team": {"id": "T1"},
        "user": {"id": "U1", "team_id": "T9"},
        "container": {"message_ts": "1789999999.000100", "channel_id": "C1", "thread_ts": "1789999990.000100"},
        "actions": [pressed | (action or {})],
    }
    return plain | given


def test_click_says_who_decides_which_action_and_where() -> None:
    route = clicks.route(payload())
    assert isinstance(route, Clicked)
    assert (route.team, route.action_id) == ("T1", "ACT-1")
    click = route.click
    assert (click.user_id, click.action_hash, click.approve, click.at) == ("U1", HASH, True, 1790000000.5)
    assert (click.channel, click.thread_ts) == ("C1", "1789999990.000100")
    assert clicks.route(payload({"action_id": REJECT})).click.approve is False  # type: ignore[union-attr]


def test_each_press_has_a_key_of_its_own() -> None:
    keys = [clicks.route(payload({"action_ts": ts})).click.key for ts in ("1.5", "1.5", "1.6")]  # type: ignore[union-attr]
    assert keys[0] == keys[1] != keys[2]


@pytest.mark.parametrize(
    "body",
    [
        {"type": "block_actions"},
        payload(actions="x"),
        payload(actions=[None, 3, {}]),
        payload({"action_id": "open_ticket"}),
        payload({"value": "ACT-1"}),
        payload({"value": f"ACT-1:{HASH}0"}),
        payload({"value": f"ACT-1/../x:{HASH}"}),
        payload(user={"id": ""}),
        payload(user=None),
    ],
)
def test_click_on_anything_else_is_ignored(body: dict[str, Any]) -> None:
    assert clicks.route(body) == Ignored(IgnoreReason.NO_APPROVAL)


def test_click_on_a_handover_says_who_takes_or_closes_it() -> None:
    ref = HandoverRef(Thread("T1", "C0GENERAL", "1789999990.000100"), 4)
    for button, closes in ((TAKE, False), (CLOSE, True)):
        route = clicks.route(payload({"action_id": button, "value": ref.key}))
        assert isinstance(route, Pressed)
        assert (route.ref, route.click.user_id, route.click.close) == (ref, "U1", closes)
        assert (route.click.channel, route.click.thread_ts) == ("C1", "1789999990.000100")
    elsewhere = payload({"action_id": TAKE, "value": ref.key}, team={"id": "T2"})
    assert clicks.route(elsewhere) == Ignored(IgnoreReason.NO_APPROVAL)


def test_unreadable_time_is_left_open() -> None:
    for moment in ("nan", "soon", "-5", "1e300"):
        assert clicks.route(payload({"action_ts": moment})).click.at == 0.0  # type: ignore[union-attr]


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=10) | st.just(button_value("ACT-1", HASH)),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["actions", "user", "id", "team", "value", "action_id", "container"]), inner)
    ),
    max_leaves=15,
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from(["actions", "user", "team", "container", "message"]), json_values))
def test_any_json_gets_a_route(body: dict[str, Any]) -> None:
    assert isinstance(clicks.route(body), Clicked | Ignored)
