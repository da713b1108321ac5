"""A press of a button of an approval or a hand-over starts or signals its workflow; no other interaction does."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from threadline.approvals.contract import approval_workflow_id
from threadline.approvals.model import APPROVE, REJECT, ApprovalRun, button_value
from threadline.conversations.model.conversation import ConversationTurn
from threadline.gateway.interactions import parse_button
from threadline.handovers.model import CLOSE, TAKE, HandoverInput, handover_workflow_id
from threadline.slack.model import Thread
from threadline.threads.model import BUTTON_PRESSED, ButtonPress
from threadline.threads.workflow_client import WorkflowStart

HASH, BOT_ID = "0f" * 32, "B_BOT"


def parsed(body: dict[str, Any]) -> WorkflowStart | None:
    """What a press starts in the workspace T1."""
    return parse_button(body, "T1", BOT_ID)


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


def press_in(body: dict[str, Any]) -> ButtonPress:
    """What the workflow is sent."""
    start = parsed(body)
    assert isinstance(start, WorkflowStart)
    assert start.signal == BUTTON_PRESSED
    (press,) = start.signal_args
    assert isinstance(press, ButtonPress)
    return press


def test_click_says_who_decides_which_action_and_where() -> None:
    start = parsed(payload())
    assert isinstance(start, WorkflowStart)
    assert start.workflow_id == approval_workflow_id("T1", "ACT-1")
    assert start.argument == ApprovalRun("T1", "ACT-1")
    press, value = press_in(payload()), button_value("ACT-1", HASH)
    assert (press.user_id, press.value, press.action_id, press.at) == ("U1", value, APPROVE, 1790000000.5)
    assert (press.channel, press.thread_ts) == ("C1", "1789999990.000100")
    assert press_in(payload({"action_id": REJECT})).action_id == REJECT


@pytest.mark.parametrize("team", [{"id": "T1"}, {"id": "T2"}, None, {"id": ""}])
def test_press_is_for_our_workspace_wherever_the_person_presses(team: object) -> None:
    body = payload(team=team, user={"id": "U1", "team_id": "T2"}, message={"bot_id": BOT_ID, "ts": "1.2"})
    start = parsed(body)
    assert isinstance(start, WorkflowStart)
    assert start.argument == ApprovalRun("T1", "ACT-1")


def test_each_press_has_a_key_of_its_own() -> None:
    keys = [press_in(payload({"action_ts": ts})).key for ts in ("1.5", "1.5", "1.6")]
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
        payload({"action_id": TAKE}),
        payload({"action_id": CLOSE}),
        payload({"value": "T1:C0GENERAL:1789999990.000100:4"}),
        payload(message={"bot_id": "B_ELSE", "ts": "1789999999.000100"}),
    ],
)
def test_click_on_anything_else_is_ignored(body: dict[str, Any]) -> None:
    assert parsed(body) is None


def test_click_on_a_handover_says_who_takes_or_closes_it() -> None:
    ref = ConversationTurn(Thread("T1", "C0GENERAL", "1789999990.000100"), 4)
    for button in (TAKE, CLOSE):
        body = payload({"action_id": button, "value": ref.key})
        start, press = parsed(body), press_in(body)
        assert isinstance(start, WorkflowStart)
        assert start.workflow_id == handover_workflow_id(ref.thread, 4)
        assert (start.argument, press.user_id, press.action_id) == (HandoverInput(ref), "U1", button)
        assert (press.channel, press.thread_ts) == ("C1", "1789999990.000100")
    other = ConversationTurn(Thread("T2", "C0GENERAL", "1789999990.000100"), 4)
    assert parsed(payload({"action_id": TAKE, "value": other.key}, team={"id": "T2"})) is None


def test_unreadable_time_is_left_open() -> None:
    for moment in ("nan", "soon", "-5", "1e300"):
        assert press_in(payload({"action_ts": moment})).at == 0.0


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
def test_any_json_can_be_parsed(body: dict[str, Any]) -> None:
    assert isinstance(parsed(body), WorkflowStart | None)
