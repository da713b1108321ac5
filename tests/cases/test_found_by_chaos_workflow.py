"""What chaos found, reduced: each was a message lost or a case stuck, on real parts."""

from pathlib import Path

import asyncpg
from sqlalchemy import text
from temporalio.client import WorkflowExecutionStatus

from tests.privacy.canary_scene import dev_server, house_at
from tests.support.case_scene import Agent, house, outcome
from threadline.cases.model import Action, BugState
from threadline.db.engine import Database
from threadline.gateway.dispatcher import Dispatcher
from threadline.gateway.routes import Lookup
from threadline.investigator.store import AgentTurns
from threadline.slack.client import POST_EVENT
from threadline.threads import addressing, messages
from threadline.threads.addressing import Thread
from threadline.wiring.gateway import CaseThreads
from threadline_devstack.slack import identity

_STORED = text("SELECT count(*) FROM bug_conversations WHERE bug_id = 'BUG-1' AND message_id = :message_id")


async def test_a_cancel_of_a_run_that_continues_a_cancelled_one_still_closes_the_case(
    database: Database, pool: asyncpg.Pool, tmp_path: Path
) -> None:
    """On the real server: the one that skips time refuses the cancel of an activity that has just ended."""
    agent = Agent(AgentTurns(pool), [])
    async with dev_server(tmp_path) as address, house_at(address, None, database, pool, agent) as home:
        report = home.message(
            messages.REPORT, messages.REPORTER, identity.REPORTER, "The cart total is wrong", home.thread.ts
        )
        handle = await home.environment.client.start_workflow(
            addressing.BUG_WORKFLOW,
            BugState(thread=home.thread, stopped=True),
            id=addressing.bug_workflow_id(home.thread),
            task_queue=addressing.CORE_QUEUE,
            start_signal=addressing.INCOMING_MESSAGE,
            start_signal_args=[report],
        )
        await handle.cancel()
        await home.until_status("new", "resolved")
        assert (await home.case()).close_reason == "operator_cancelled"


async def test_a_reply_under_a_root_whose_post_was_never_confirmed_reaches_its_case(
    database: Database, pool: asyncpg.Pool
) -> None:
    """Slack stored the summary's root, and its answer was lost: the root's metadata alone says whose thread it is."""
    async with house(database, pool) as home:
        await home.report()
        await home.until_status("pending_verification")
        root = home.slack.workspace.post(
            identity.SUMMARIES,
            identity.BOT_USER,
            "BUG-1",
            bot_id=identity.BOT_ID,
            metadata={"event_type": POST_EVENT, "event_payload": {"key": "BUG-1:summary", "bug_id": "BUG-1"}},
        )
        async with database.begin() as work:
            unsure = text("UPDATE slack_posts SET ts = NULL WHERE key = 'BUG-1:summary'")
            assert (await work.connection.execute(unsure)).rowcount == 1
        reply = home.message(
            messages.MESSAGE, messages.DEVELOPER, identity.DEVELOPER, "the quantity?", "1.5", identity.SUMMARIES
        )
        thread = Thread(identity.TEAM, identity.SUMMARIES, root.ts)
        await Dispatcher(home.environment.client, CaseThreads(database)).dispatch(Lookup(thread, reply))

        async def stored() -> bool:
            async with home.database.begin() as work:
                return bool(await work.connection.scalar(_STORED, {"message_id": reply.id}))

        await home.until(stored, "the reply is stored with the case")
        async with database.begin() as work:
            assert await work.posts.ts_of("BUG-1:summary") == root.ts, "and nobody looks for the root any more"


async def test_the_clock_that_runs_is_told_of_the_end_also_when_another_escalation_was_settled_and_dropped(
    database: Database, pool: asyncpg.Pool
) -> None:
    """The close came while the second escalation's findings were being posted: its own clock never started."""
    again = outcome(Action.ESCALATE, "a second time")
    async with house(database, pool, outcome(Action.ESCALATE), again) as home:
        await home.report()
        await home.until_status("investigating", "escalated")
        home.slack.faults.slow("chat.postMessage", 1.0)
        await home.reporter("and now the invoices, too")

        async def settled() -> bool:
            return (await home.case()).turn == 2

        await home.until(settled, "the second turn is settled")
        await home.reporter("never mind", messages.CLOSE)
        await home.until_status("resolved")
        await home.result()
        assert (await home.case()).escalations == 2
        clock = home.environment.client.get_workflow_handle(addressing.sla_workflow_id("BUG-1", 1))

        async def stopped() -> bool:
            return (await clock.describe()).status is WorkflowExecutionStatus.COMPLETED

        await home.until(stopped, "the first clock was told")
        assert not any("a second time" in said for said in home.said(identity.ESCALATIONS)), "it was dropped"
