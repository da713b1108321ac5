"""What a case's run lives through: a database that refuses, faults nobody foresaw, Cancel, and its own next run."""

import asyncio

import asyncpg
import pytest
from sqlalchemy import text
from temporalio import activity
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.client import WorkflowExecutionStatus
from temporalio.exceptions import ApplicationError

from tests.support.case_scene import House, house, outcome
from tests.support.temporal import real_time, skipping_time
from threadline.cases.activities import LiveCaseActivities
from threadline.cases.contract import SaveRequest, Settled, TurnRequest
from threadline.cases.model import Action, Limits
from threadline.db.engine import Database
from threadline.errors import ClaimLost
from threadline.investigator.store import Claim, TurnOutcome
from threadline.threads import addressing
from threadline_devstack.slack.identity import SUMMARIES

pytestmark = pytest.mark.slow

ASK, POST, ESCALATE = Action.ASK_REPORTER, Action.POST_FINDINGS, Action.ESCALATE


async def test_storing_is_tried_again_after_a_fault_that_looks_permanent(
    database: Database, pool: asyncpg.Pool
) -> None:
    async def refused() -> bool:
        described = await home.handle.describe()
        pending = described.raw_description.pending_activities
        return any(each.activity_type.name == "flush_messages" and each.attempt > 3 for each in pending)

    async with house(database, pool, outcome(POST), outcome(POST, "went on")) as home:
        await home.report()
        await home.until_status("pending_verification")
        await _rename(home, "bug_conversations", "conversations_away")
        await home.reporter("one more thing")
        await home.until(refused, "storing is refused, and tried again")
        assert (await home.handle.query("state"))["pending"] == 1, "it stays in the inbox until it is stored"
        await _rename(home, "conversations_away", "bug_conversations")
        await home.until_said("went on", SUMMARIES)
        assert home.agent.batches[-1] == ["one more thing"]


async def _rename(home: House, table: str, to: str) -> None:
    async with home.database.begin() as work:
        await work.connection.execute(text(f"ALTER TABLE {table} RENAME TO {to}"))


async def test_a_fault_that_nobody_foresaw_fails_the_task_and_never_the_run(
    database: Database, pool: asyncpg.Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    @activity.defn(name="save_investigation_result")
    async def broken(_: LiveCaseActivities, __: SaveRequest) -> Settled:
        raise ApplicationError("nobody foresaw this", non_retryable=True)

    async def suspended() -> bool:
        events = (await home.handle.fetch_history()).events
        failures = [each.workflow_task_failed_event_attributes.failure.message for each in events]
        return any("that it does not handle" in message for message in failures)

    monkeypatch.setattr(LiveCaseActivities, "save_investigation_result", broken)
    async with house(database, pool, server=skipping_time) as home:
        await home.report()
        await home.until(suspended, "the workflow's task fails")
        await home.reporter("are you there?")
        assert (await home.handle.describe()).status is WorkflowExecutionStatus.RUNNING


async def test_cancel_in_the_ui_during_a_turn_closes_what_the_turn_can_no_longer_change(
    database: Database, pool: asyncpg.Pool
) -> None:
    async def slow(_: TurnRequest, claim: Claim) -> TurnOutcome:
        held.append(claim)
        began.set()
        await asyncio.Event().wait()
        raise AssertionError

    held: list[Claim] = []
    began = asyncio.Event()
    async with house(database, pool, slow) as home:
        await home.report()
        await began.wait()
        await home.reporter("one more thing")
        await home.handle.cancel()
        await home.handle.cancel()
        assert await home.result() == "resolved"
        assert (await home.case()).close_reason == "operator_cancelled"
        with pytest.raises(ClaimLost):
            await home.agent.turns.finish(held[0], outcome(POST))
        async with home.database.begin() as work:
            page = await work.conversation.entries("BUG-1", None, 100)
        assert "one more thing" in [entry.text for entry in page.entries]


async def test_the_clock_of_an_escalation_outlives_the_run_that_started_it(
    database: Database, pool: asyncpg.Pool
) -> None:
    limits = Limits(history_events=11)
    async with house(database, pool, outcome(ESCALATE), outcome(POST), limits=limits, server=real_time) as home:
        await home.report()
        await home.until_status("escalated")
        clock = home.environment.client.get_workflow_handle(addressing.sla_workflow_id("BUG-1", 1))
        parent = (await clock.describe()).raw_description.workflow_execution_info.parent_execution
        await home.reporter("any news?")
        await home.until_status("escalated", "investigating", "pending_verification")
        assert (await home.handle.describe()).run_id != parent.run_id, "the case ran on under a new run"
        assert (await clock.describe()).status is WorkflowExecutionStatus.RUNNING
        await home.developer("I am on it")

        async def acknowledged() -> bool:
            return bool((await clock.query("state"))["acknowledged"])

        await home.until(acknowledged, "the clock hears of the developer")


@pytest.mark.records("continued_as_new")
async def test_what_the_ui_shows_is_there_again_in_the_next_run(database: Database, pool: asyncpg.Pool) -> None:
    async with house(database, pool, outcome(ASK), limits=Limits(history_events=11), server=real_time) as home:
        await home.report()
        await home.until_status("awaiting_reporter")

        async def waits_in_the_next_run() -> bool:
            answer = await home.handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)
            started = (await home.handle.fetch_history()).events[0].workflow_execution_started_event_attributes
            return started.continued_execution_run_id != "" and answer.current_details.endswith(": Which browser?")

        await home.until(waits_in_the_next_run, "the next run says what it waits for")
        described = await home.handle.describe()
        assert await described.memo() == {"case": "BUG-1", "title": "Cart total"}
        shown = {pair.key.name: pair.value for pair in described.typed_search_attributes}
        assert (shown["CaseState"], shown["CaseSeverity"]) == ("awaiting_reporter", "S2")
