"""Recorded histories of finished workflows replay with today's code.

A failure means that a deploy would break open threads. Do not record again to make it pass: put
the change behind a gate, `workflow.patched(...)`, as docs/deploying.md describes. `make histories`
records the workflows of all tests that are marked `records(name)`; use it for a new test, or while
no released version can still have open threads.
"""

import re
from pathlib import Path

import pytest
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer

from tests.replay import diverging, histories
from tests.support.temporal import sandbox_runner
from threadline.cases.workflow import BugInvestigationWorkflow
from threadline.wiring.temporal import WORKFLOWS

TESTS = Path(__file__).parents[1]
FILES = sorted(histories.FOLDER.iterdir())
MAX_BYTES = 100_000
_OF_A_MACHINE = re.compile(r"(?<![\w:/.])/(?:[\w.-]+/)+|\d+@\w")
"""An absolute path, or a process on a host."""
STEPS = set(
    """
act
begin_turn
cancel requested
cancelled run_agent_investigation
cancelled think
execute_action
check_pull_request
child started ApprovalWorkflow
child started CatchUpWorkflow
child started SLATrackingWorkflow
cleanup_workspace
compare_threads
continued as new
create_summary_thread
decide
decide_without_model
decide_action
end_case agent_resolved
end_case no_reply
end_case admin_cancelled
end_case reporter_closed
escalate_to_humans
expire_action
external signal acknowledged
external signal resolved
fail_job
failed open_pull_request Permanent
failed run_agent_investigation Permanent
failed run_agent_investigation Transient
failed run_agent_investigation WorkerShutdown
failed run_agent_investigation attempt 2
failed run_job
failed think Transient
fetch_report
forward_reply
look_at_job
mark_cancelled
load_approval
flush_messages closing_unposted
open_handover
open_pull_request
plan_catch_up
post_answer
post_clarification_question
post_closing
post_investigation_results
post_notice fix_refused
post_notice question_unanswered
post_notice reopened
post_outcome
post_thread_notice model_away
post_thread_notice throttled
press_handover
read_history_page
record_channel
relay_to_person
remind_handover
reply_privately
report_sla_event acknowledge_breach
report_sla_event acknowledge_reminder
report_sla_event daily_reminder
report_sla_event resolve_breach
report_sla_event resolve_reminder
result Asked the operator in the thread.
result approved
result cancelled
result catch-up runs already, swept
result catch-up started, swept
result expired
result forwarded
result idle
result ignored
result not a case
result rejected
result resolved
run_agent_investigation
run_job
save_investigation_result
select_threads
send_replies
finish_turn answered
finish_turn asked
finish_turn clarified
finish_turn escalated
finish_turn failed
finish_turn silent
finish_turn posted_by_tool
finish_turn stopped
finish_turn summarised
show_decision
show_handover
show_reply
signal acknowledged
signal button_pressed
signal close_requested
signal incoming_message
signal resolved
store_messages
sweep
think
timer fired
update_status fix_proposed
update_status question_asked
update_status question_unanswered
update_status reopened
""".strip().splitlines()
)
"""Facts of all recorded workflows together, from `histories.facts`."""

every_file = pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)


@every_file
async def test_recorded_run_replays(file: Path) -> None:
    judge = Replayer(
        workflows=WORKFLOWS,
        data_converter=pydantic_data_converter,
        workflow_runner=sandbox_runner(),
    )
    await judge.replay_workflow(histories.read(file))


@every_file
def test_recording_is_small_and_names_no_machine(file: Path) -> None:
    raw = file.read_text(encoding="utf-8")
    assert len(raw) < MAX_BYTES
    for text in (raw, *histories.payloads(histories.events(file))):
        assert not _OF_A_MACHINE.search(text)


def test_recordings_hold_every_step() -> None:
    assert not STEPS - {fact for file in FILES for fact in histories.facts(file)}


def test_every_recording_has_its_test() -> None:
    sources = (file.read_text(encoding="utf-8") for file in TESTS.rglob("test_*.py"))
    marked = {
        name for source in sources for name in re.findall(r'mark\.records\("(\w+)"\)', source)
    }
    assert {file.name.partition(".")[0] for file in FILES} == marked


@pytest.mark.parametrize(
    "changed", [diverging.OneActivityMore, diverging.AnotherOrder], ids=lambda each: each.__name__
)
async def test_changed_commands_do_not_replay(changed: type) -> None:
    workflows = [changed, *(each for each in WORKFLOWS if each is not BugInvestigationWorkflow)]
    careless = Replayer(
        workflows=workflows,
        data_converter=pydantic_data_converter,
        workflow_runner=sandbox_runner(),
    )
    runs = [histories.read(file) for file in histories.files("question_answered")]
    results = [await careless.replay_workflow(run, raise_on_replay_failure=False) for run in runs]
    assert any("Nondeterminism" in repr(result.replay_failure) for result in results)
