"""A case's run outlives a failing database, unforeseen faults, Cancel and continue-as-new."""

import pytest
from sqlalchemy import text
from temporalio import activity
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.client import WorkflowExecutionStatus
from temporalio.exceptions import ApplicationError

from tests.support.case_scene import CaseScene, HeldTurn, StartCase, outcome
from tests.support.temporal import skipping_time
from threadline.cases.activities import LiveCaseActivities
from threadline.cases.contract import SettleRequest
from threadline.cases.model import Action, CaseLimits, Settled
from threadline.errors import ClaimLost
from threadline_devstack.slack.identity import SUMMARIES

pytestmark = pytest.mark.slow

ASK = Action.ASK_REPORTER
POST = Action.POST_FINDINGS
ESCALATE = Action.ESCALATE


async def test_storing_is_retried_after_a_fault_that_looks_permanent(
    start_case: StartCase,
) -> None:
    async def refused() -> bool:
        described = await scene.handle.describe()
        pending = described.raw_description.pending_activities
        return any(
            each.activity_type.name == "flush_messages" and each.attempt > 3 for each in pending
        )

    async with start_case(outcome(POST), outcome(POST, "went on")) as scene:
        await scene.report()
        await scene.until_status("pending_verification")
        await _rename(scene, "bug_conversations", "conversations_away")
        await scene.reporter("one more thing")
        await scene.until(refused, "storing is refused, and tried again")
        assert (await scene.handle.query("state"))["pending"] == 1, (
            "it stays in the inbox until it is stored"
        )
        await _rename(scene, "conversations_away", "bug_conversations")
        await scene.until_said("went on", SUMMARIES)
        assert scene.agent.batches[-1] == ["one more thing"]


async def _rename(scene: CaseScene, table: str, to: str) -> None:
    async with scene.database.begin() as tx:
        await tx.execute(text(f"ALTER TABLE {table} RENAME TO {to}"))


async def test_unforeseen_fault_fails_the_task_and_never_the_run(
    start_case: StartCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    @activity.defn(name="save_investigation_result")
    async def broken(_: LiveCaseActivities, __: SettleRequest) -> Settled:
        raise ApplicationError("nobody foresaw this", non_retryable=True)

    async def suspended() -> bool:
        events = (await scene.handle.fetch_history()).events
        failures = [each.workflow_task_failed_event_attributes.failure.message for each in events]
        return any("that it does not handle" in message for message in failures)

    monkeypatch.setattr(LiveCaseActivities, "save_investigation_result", broken)
    async with start_case(server=skipping_time) as scene:
        await scene.report()
        await scene.until(suspended, "the workflow's task fails")
        await scene.reporter("are you there?")
        assert (await scene.handle.describe()).status is WorkflowExecutionStatus.RUNNING


@pytest.mark.usefixtures("activation_order")
async def test_cancel_in_the_ui_during_a_turn_fences_out_the_turn(start_case: StartCase) -> None:
    turn = HeldTurn()
    async with start_case(turn) as scene:
        await scene.report()
        await turn.began.wait()
        await scene.reporter("one more thing")
        await scene.handle.cancel()
        await scene.handle.cancel()
        assert await scene.result() == "resolved"
        assert (await scene.case()).close_reason == "admin_cancelled"
        assert turn.claim
        with pytest.raises(ClaimLost):
            await scene.agent.turns.finish(turn.claim, outcome(POST))
        assert "one more thing" in await scene.texts()


async def test_clock_of_an_escalation_outlives_the_run_that_started_it(
    start_case: StartCase,
) -> None:
    limits = CaseLimits(max_history_events=11)
    async with start_case(outcome(ESCALATE), outcome(POST), limits=limits) as scene:
        await scene.report()
        await scene.until_status("escalated")
        clock = scene.clock()
        parent = (await clock.describe()).raw_description.workflow_execution_info.parent_execution
        await scene.reporter("any news?")
        await scene.until_status("escalated", "investigating", "pending_verification")
        assert (await scene.handle.describe()).run_id != parent.run_id, (
            "the case continued in a new run"
        )
        assert (await clock.describe()).status is WorkflowExecutionStatus.RUNNING
        await scene.developer("I am on it")
        await scene.until_acknowledged()


@pytest.mark.records("continued_as_new")
async def test_next_run_shows_its_wait_in_the_ui(start_case: StartCase) -> None:
    async with start_case(outcome(ASK), limits=CaseLimits(max_history_events=11)) as scene:
        await scene.report()
        await scene.until_status("awaiting_reporter")

        async def waits_in_the_next_run() -> bool:
            answer = await scene.handle.query(
                "__temporal_workflow_metadata", result_type=WorkflowMetadata
            )
            started = (
                (await scene.handle.fetch_history())
                .events[0]
                .workflow_execution_started_event_attributes
            )
            return started.continued_execution_run_id != "" and answer.current_details.endswith(
                ": Which browser?"
            )

        await scene.until(waits_in_the_next_run, "the next run says what it waits for")
        described = await scene.handle.describe()
        assert await described.memo() == {"case": "BUG-1", "title": "Cart total"}
        shown = {pair.key.name: pair.value for pair in described.typed_search_attributes}
        assert (shown["CaseState"], shown["CaseSeverity"]) == ("awaiting_reporter", "S2")
