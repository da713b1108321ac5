"""Identity is computed, never looked up."""

from threadline.threads import addressing
from threadline.threads.addressing import Thread

THREAD = Thread("T1", "C1", "1700000000.000100")


def test_ids_are_those_that_running_workflows_already_have() -> None:
    assert addressing.bug_workflow_id(THREAD) == "bug:T1:C1:1700000000.000100"
    assert addressing.route_reply_workflow_id(THREAD) == "route:T1:C1:1700000000.000100"
    assert addressing.sla_workflow_id("BUG-7", 2) == "sla:BUG-7:2"
    assert addressing.conversation_workflow_id(THREAD) == "talk:T1:C1:1700000000.000100"


def test_a_conversations_workflow_tells_its_thread() -> None:
    assert addressing.thread_of_conversation(addressing.conversation_workflow_id(THREAD)) == THREAD


def test_the_same_moment_in_two_channels_is_two_messages() -> None:
    assert addressing.message_id("T1", "C1", "1.0") != addressing.message_id("T1", "C2", "1.0")


def test_an_edit_and_a_deletion_have_ids_of_their_own() -> None:
    ids = {
        addressing.message_id("T1", "C1", "1.0"),
        addressing.edit_id("T1", "C1", "1.0", "2.0"),
        addressing.edit_id("T1", "C1", "1.0", "3.0"),
        addressing.deletion_id("T1", "C1", "1.0"),
    }
    assert len(ids) == 4


def test_each_attempt_has_a_session_of_its_own_that_is_known_beforehand() -> None:
    sessions = {addressing.session_id("BUG-1", turn, attempt) for turn in (1, 2) for attempt in (1, 2)}
    assert len(sessions) == 4
    assert addressing.session_id("BUG-1", 1, 1) in sessions
