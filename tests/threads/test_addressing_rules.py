"""Ids are computed, never looked up."""

from threadline.cases.model import bug_workflow_id, session_id, sla_workflow_id
from threadline.conversations.model.conversation import (
    conversation_workflow_id,
    thread_of_conversation,
)
from threadline.slack.model import Thread
from threadline.threads.contract import route_reply_workflow_id
from threadline.threads.model import deletion_id, edit_id, message_id

THREAD = Thread("T1", "C1", "1700000000.000100")


def test_workflow_ids_are_those_of_running_workflows() -> None:
    assert bug_workflow_id(THREAD) == "bug:T1:C1:1700000000.000100"
    assert route_reply_workflow_id(THREAD) == "route:T1:C1:1700000000.000100"
    assert sla_workflow_id("BUG-7", 2) == "sla:BUG-7:2"
    assert conversation_workflow_id(THREAD) == "conversation:T1:C1:1700000000.000100"


def test_thread_is_read_back_from_a_conversation_workflow_id() -> None:
    assert thread_of_conversation(conversation_workflow_id(THREAD)) == THREAD


def test_message_edit_and_deletion_ids_differ_from_each_other_and_between_channels() -> None:
    ids = {
        message_id("T1", "C1", "1.0"),
        message_id("T1", "C2", "1.0"),
        edit_id("T1", "C1", "1.0", "2.0"),
        edit_id("T1", "C1", "1.0", "3.0"),
        deletion_id("T1", "C1", "1.0"),
    }
    assert len(ids) == 5


def test_each_attempt_has_a_session_id_of_its_own() -> None:
    sessions = {session_id("BUG-1", turn, attempt) for turn in (1, 2) for attempt in (1, 2)}
    assert len(sessions) == 4
    assert session_id("BUG-1", 1, 1) in sessions
