"""A press of a button of an approval or a handover starts or signals its workflow, an example of a
help is asked, and no other interaction does anything.
"""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from threadline.approvals.contract import approval_workflow_id
from threadline.approvals.model import APPROVE, REJECT, ApprovalRun, button_value
from threadline.conversations.help import ASK_EXAMPLE, is_example
from threadline.conversations.model.conversation import ConversationTurn
from threadline.conversations.model.handover import HandoverInput, handover_workflow_id
from threadline.gateway.interactions import (
    ModalRequest,
    parse_button,
    parse_example,
    parse_modal_request,
    parse_submission,
)
from threadline.handovers.model import CLOSE, REPLY, TAKE
from threadline.slack.model import Thread
from threadline.threads.model import (
    BUTTON_PRESSED,
    ButtonPress,
    IncomingMessage,
    MessageKind,
    SenderType,
)
from threadline.threads.workflow_client import WorkflowStart
from threadline_devstack.slack.views import check_view

HASH = "0f" * 32
BOT_ID = "B_BOT"


def parsed(body: dict[str, Any]) -> WorkflowStart | None:
    """The start of a workflow by a press in the workspace T1."""
    return parse_button(body, "T1", BOT_ID)


def modal_of(body: dict[str, Any]) -> ModalRequest | None:
    """The modal that a press opens in the workspace T1."""
    return parse_modal_request(body, "T1", BOT_ID)


def sent(body: dict[str, Any]) -> WorkflowStart | None:
    """The start of a workflow by a modal that is sent in the workspace T1."""
    return parse_submission(body, "T1", BOT_ID)


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
        "container": {
            "message_ts": "1789999999.000100",
            "channel_id": "C1",
            "thread_ts": "1789999990.000100",
        },
        "actions": [pressed | (action or {})],
    }
    return plain | given


EXAMPLE = {"action_id": f"{ASK_EXAMPLE}:2", "value": "Which bugs are open?"}


def example_in(body: dict[str, Any]) -> IncomingMessage:
    """The message that a press of an example becomes."""
    found = parse_example(body, "T1", BOT_ID)
    assert found
    return found[1]


def press_in(body: dict[str, Any]) -> ButtonPress:
    """The press that the workflow receives."""
    start = parsed(body)
    assert isinstance(start, WorkflowStart)
    assert start.signal == BUTTON_PRESSED
    (press,) = start.signal_args
    assert isinstance(press, ButtonPress)
    return press


def test_click_names_its_person_action_and_place() -> None:
    start = parsed(payload())
    assert isinstance(start, WorkflowStart)
    assert start.workflow_id == approval_workflow_id("T1", "ACT-1")
    assert start.argument == ApprovalRun("T1", "ACT-1")
    press = press_in(payload())
    value = button_value("ACT-1", HASH)
    assert (press.user_id, press.value, press.action_id, press.at) == (
        "U1",
        value,
        APPROVE,
        1790000000.5,
    )
    assert (press.channel, press.thread_ts) == ("C1", "1789999990.000100")
    assert press_in(payload({"action_id": REJECT})).action_id == REJECT


@pytest.mark.parametrize("team", [{"id": "T1"}, {"id": "T2"}, None, {"id": ""}])
def test_press_is_for_our_workspace_when_made_in_another(team: object) -> None:
    body = payload(
        team=team, user={"id": "U1", "team_id": "T2"}, message={"bot_id": BOT_ID, "ts": "1.2"}
    )
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


def test_example_becomes_a_message_of_the_person_who_pressed_in_the_thread() -> None:
    body = payload(EXAMPLE)
    found = parse_example(body, "T1", BOT_ID)
    assert found
    thread, message = found
    assert thread == Thread("T1", "C1", "1789999990.000100")
    assert message == IncomingMessage(
        f"T1:C1:1789999999.000100:{ASK_EXAMPLE}:2:U1",
        MessageKind.MESSAGE,
        SenderType.UNKNOWN,
        "U1",
        "Which bugs are open?",
        "C1",
        "1790000000.500000",
        addressed=True,
    )
    assert is_example(message.id)
    assert parsed(body) is None
    assert modal_of(body) is None


def test_repeated_press_of_an_example_is_the_same_message() -> None:
    once, again = (example_in(payload({**EXAMPLE, "action_ts": ts})) for ts in ("1.5", "9.5"))
    assert once.id == again.id
    others = (
        payload(EXAMPLE, user={"id": "U2"}),
        payload({**EXAMPLE, "action_id": f"{ASK_EXAMPLE}:1"}),
        payload(EXAMPLE, container={"message_ts": "1789999999.000200", "channel_id": "C1"}),
    )
    assert len({once.id, *(example_in(each).id for each in others)}) == 4


def test_example_without_a_time_of_its_press_is_asked_at_the_time_of_the_help() -> None:
    for moment in ("", "soon", "inf", "1e99", None):
        message = example_in(payload({**EXAMPLE, "action_ts": moment}))
        assert message.ts == "1789999999.000100"


def test_help_outside_of_a_thread_begins_one() -> None:
    body = payload(EXAMPLE, container={"message_ts": "1789999999.000100", "channel_id": "D1"})
    found = parse_example(body, "T1", BOT_ID)
    assert found
    assert found[0] == Thread("T1", "D1", "1789999999.000100")


@pytest.mark.parametrize(
    "body",
    [
        {"type": "block_actions"},
        payload(),
        payload(EXAMPLE, actions="x"),
        payload(EXAMPLE, actions=[None, 3, {}]),
        payload(EXAMPLE, user=None),
        payload(EXAMPLE, container={"message_ts": "1789999999.000100"}),
        payload(EXAMPLE, container={"message_ts": "soon", "channel_id": "C1"}),
        payload(EXAMPLE, message={"bot_id": "B_ELSE", "ts": "1789999999.000100"}),
        payload({**EXAMPLE, "value": ""}),
        payload({**EXAMPLE, "value": "x" * 301}),
        payload({**EXAMPLE, "action_id": ASK_EXAMPLE}),
        payload({**EXAMPLE, "action_id": f"{ASK_EXAMPLE}:2:U1"}),
        payload({**EXAMPLE, "action_id": f"not_{ASK_EXAMPLE}:2"}),
    ],
)
def test_press_of_anything_else_asks_nothing(body: dict[str, Any]) -> None:
    assert parse_example(body, "T1", BOT_ID) is None


def test_click_on_a_handover_names_the_person_who_takes_or_closes_it() -> None:
    ref = ConversationTurn(Thread("T1", "C0GENERAL", "1789999990.000100"), 4)
    for button in (TAKE, CLOSE):
        body = payload({"action_id": button, "value": ref.key})
        start = parsed(body)
        press = press_in(body)
        assert isinstance(start, WorkflowStart)
        assert start.workflow_id == handover_workflow_id(ref.thread, 4)
        assert (start.argument, press.user_id, press.action_id) == (
            HandoverInput(ref),
            "U1",
            button,
        )
        assert (press.channel, press.thread_ts) == ("C1", "1789999990.000100")
    other = ConversationTurn(Thread("T2", "C0GENERAL", "1789999990.000100"), 4)
    assert parsed(payload({"action_id": TAKE, "value": other.key}, team={"id": "T2"})) is None


VALUE = "T1:C0GENERAL:1789999990.000100:4"


def submission(text: Any = "We pay it back.\nToday.", **given: Any) -> dict[str, Any]:
    view = {
        "id": "V1",
        "callback_id": REPLY,
        "private_metadata": f"C1 1789999990.000100 {VALUE}",
        "state": {"values": {REPLY: {REPLY: {"type": "plain_text_input", "value": text}}}},
    }
    plain: dict[str, Any] = {"type": "view_submission", "team": {"id": "T1"}, "user": {"id": "U1"}}
    return plain | {"view": view | given}


def test_press_of_reply_opens_a_modal_that_names_its_card() -> None:
    body = payload({"action_id": REPLY, "value": VALUE}, trigger_id="1.2.3")
    modal = modal_of(body)
    assert modal
    assert modal.trigger_id == "1.2.3"
    assert check_view(dict(modal.view))["callback_id"] == REPLY
    assert modal.view["private_metadata"] == f"C1 1789999990.000100 {VALUE}"
    assert parsed(body) is None, "nothing is signalled before the modal is sent"


@pytest.mark.parametrize(
    "body",
    [
        payload({"action_id": REPLY, "value": VALUE}),
        payload({"action_id": REPLY, "value": "x"}, trigger_id="1.2.3"),
        payload({"action_id": REPLY, "value": VALUE.replace("T1", "T2")}, trigger_id="1.2.3"),
        payload(
            {"action_id": REPLY, "value": VALUE}, trigger_id="1.2.3", message={"bot_id": "B_OTHER"}
        ),
        payload({"action_id": TAKE, "value": VALUE}, trigger_id="1.2.3"),
    ],
)
def test_any_other_press_opens_no_modal(body: dict[str, Any]) -> None:
    assert modal_of(body) is None


def test_modal_that_is_sent_is_a_press_with_its_text() -> None:
    start = sent(submission())
    assert isinstance(start, WorkflowStart)
    assert start.workflow_id == handover_workflow_id(
        Thread("T1", "C0GENERAL", "1789999990.000100"), 4
    )
    (press,) = start.signal_args
    assert press == ButtonPress(
        "U1", REPLY, VALUE, "V1:U1", 0.0, "C1", "1789999990.000100", "We pay it back.\nToday."
    )


def test_secrets_and_characters_that_cannot_be_stored_are_left_out_of_a_reply() -> None:
    start = sent(submission("a\x00b token ghp_" + "a1B2" * 9))
    assert isinstance(start, WorkflowStart)
    (press,) = start.signal_args
    assert press.text.startswith("ab token ")
    assert "ghp_" not in press.text


@pytest.mark.parametrize(
    "body",
    [
        {"type": "view_submission"},
        submission(callback_id="edit"),
        submission(private_metadata=""),
        submission(private_metadata=f"C1 1.1 {VALUE}:5"),
        submission(id=""),
        submission() | {"user": {}},
        submission(private_metadata=f"C1 1.1 {VALUE.replace('T1', 'T2')}"),
        submission(bot_id="B_OTHER"),
    ],
)
def test_any_other_modal_is_ignored(body: dict[str, Any]) -> None:
    assert sent(body) is None


def test_unreadable_time_is_left_open() -> None:
    for moment in ("nan", "soon", "-5", "1e300"):
        assert press_in(payload({"action_ts": moment})).at == 0.0


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.floats()
    | st.text(max_size=10)
    | st.just(button_value("ACT-1", HASH)),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["actions", "user", "id", "team", "value", "action_id", "container"]),
            inner,
        )
    ),
    max_leaves=15,
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    st.dictionaries(
        st.sampled_from(["actions", "user", "team", "container", "message"]), json_values
    )
)
def test_any_json_can_be_parsed(body: dict[str, Any]) -> None:
    assert isinstance(parsed(body), WorkflowStart | None)
    assert isinstance(modal_of(body), ModalRequest | None)
    assert isinstance(parse_example(body, "T1", BOT_ID), tuple | None)


view_values = st.recursive(
    st.none()
    | st.booleans()
    | st.floats()
    | st.text(max_size=10)
    | st.just(REPLY)
    | st.just(f"C1 1.1 {VALUE}"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["id", "callback_id", "private_metadata", "state", "values", REPLY]),
            inner,
        )
    ),
    max_leaves=15,
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from(["view", "user", "team"]), view_values))
def test_any_json_can_be_parsed_as_a_modal(body: dict[str, Any]) -> None:
    assert isinstance(sent(body), WorkflowStart | None)
