"""What goes wrong around a case, and must neither wedge it nor stay unsaid: each was found in a review or a storm."""

import asyncio
from dataclasses import replace
from pathlib import Path

import asyncpg
import pytest

from tests.support.case_scene import REPORTER, House, house, outcome
from tests.support.temporal import real_time, skipping_time
from threadline.cases.contract import TurnRequest
from threadline.cases.model import Action, Limits
from threadline.db.engine import Database
from threadline.errors import ClaimLost, Permanent
from threadline.investigator.store import Claim, TurnOutcome
from threadline.threads import addressing, messages
from threadline.threads.messages import IncomingMessage
from threadline_devstack.slack.identity import BYSTANDER, ESCALATIONS, REPORTS, SUMMARIES

ASK, POST, ESCALATE, RESOLVE = Action.ASK_REPORTER, Action.POST_FINDINGS, Action.ESCALATE, Action.RESOLVED


async def test_an_agent_that_cannot_work_does_not_call_people_again_and_again(
    database: Database, pool: asyncpg.Pool
) -> None:
    broken = [Permanent("The model's key was refused.")] * 3
    async with house(database, pool, *broken) as home:
        await home.report()
        await home.until_status("escalated")
        await home.developer("I am on it")
        await home.until_status("escalated", "investigating", "escalated")
        await home.developer("still on it")
        await home.until_status(*["investigating", "escalated"] * 3)
        assert sum("needs a person" in said for said in home.said(ESCALATIONS)) == 1
        assert (await home.case()).escalations == 1


async def test_a_claim_that_was_lost_is_nobodys_fault(database: Database, pool: asyncpg.Pool) -> None:
    async with house(
        database, pool, ClaimLost("turn 1 is no longer held"), outcome(POST), server=skipping_time
    ) as home:
        await home.report()
        await home.later(seconds=5)
        await home.until_status("investigating", "pending_verification")
        assert [request.attempt for request in home.agent.requests] == [1, 2]


async def test_a_developer_acknowledges_also_while_a_turn_runs(database: Database, pool: asyncpg.Pool) -> None:
    async def long_turn(_: TurnRequest, __: Claim) -> TurnOutcome:
        began.set()
        await go_on.wait()
        return outcome(POST)

    began, go_on = asyncio.Event(), asyncio.Event()
    async with house(database, pool, outcome(ESCALATE), long_turn, outcome(POST)) as home:
        await home.report()
        await home.until_status("escalated")
        await home.reporter("any news?")
        await began.wait()
        await home.developer("I am on it")
        clock = home.environment.client.get_workflow_handle(addressing.sla_workflow_id("BUG-1", 1))

        async def acknowledged() -> bool:
            return bool((await clock.query("state"))["acknowledged"])

        await home.until(acknowledged, "the clock hears of the developer while the turn runs")
        go_on.set()


async def test_never_mind_after_the_end_does_not_close_what_a_developer_reopens(
    database: Database, pool: asyncpg.Pool
) -> None:
    async with house(database, pool, outcome(RESOLVE), outcome(POST, "looked again")) as home:
        await home.report()
        await home.result()
        await home.reporter("never mind", messages.CLOSE)
        await home.result()
        await home.developer("no, it is still broken")
        await home.until_status("resolved", "investigating", "pending_verification")
        await home.until_said("looked again", SUMMARIES)


async def test_a_close_takes_back_the_message_that_would_have_reopened(database: Database, pool: asyncpg.Pool) -> None:
    async def slow(_: TurnRequest, __: Claim) -> TurnOutcome:
        await home.reporter("never mind", messages.CLOSE)
        await asyncio.Event().wait()
        raise AssertionError

    async with house(database, pool, outcome(RESOLVE), slow) as home:
        await home.report()
        await home.result()
        await home.reporter("it is back")
        assert await home.result() == "resolved"
        assert (await home.case()).close_reason == "reporter_closed"


async def test_an_edit_or_a_stranger_opens_no_case_for_an_old_message(database: Database, pool: asyncpg.Pool) -> None:
    async with house(database, pool, server=skipping_time) as home:
        await home.later(hours=1)
        await home.send(_edit_of_the_report(home, "a typo mended"))
        assert await home.result() == "ignored"
        await home.send(home.message(messages.MESSAGE, messages.UNKNOWN, BYSTANDER, "me too", "1700000001.000001"))
        assert await home.result() == "ignored"
        assert not home.said(REPORTS)


async def test_an_edit_that_overtakes_its_report_is_kept(database: Database, pool: asyncpg.Pool) -> None:
    async with house(database, pool, outcome(POST)) as home:
        home.slack.workspace.edit(REPORTS, home.thread.ts, "The invoice total is wrong")
        await home.send(_edit_of_the_report(home, "The invoice total is wrong"))
        await home.report()  # with the words from before the edit
        await home.until_status("investigating", "pending_verification")
        assert home.agent.batches[0][0] == "The invoice total is wrong"


def _edit_of_the_report(home: House, words: str) -> IncomingMessage:
    original = f"T0SANDBOX:{REPORTS}:{home.thread.ts}"
    return IncomingMessage(
        f"{original}:e1",
        messages.EDIT,
        messages.REPORTER,
        REPORTER,
        words,
        REPORTS,
        home.thread.ts,
        correction_of=original,
        version="1700000000.000001",
    )


async def test_a_fix_that_was_refused_does_not_resolve_the_case(
    database: Database, pool: asyncpg.Pool, tmp_path: Path
) -> None:
    refused = outcome(RESOLVE, diffs={"nowhere": "no diff"}, base={"nowhere": "0" * 40}, has_fix=True)
    async with house(database, pool, outcome(POST), refused) as home:
        await home.report()
        await home.until_status("pending_verification")
        await home.developer("please fix it")
        await home.until_status("pending_verification", "investigating", "pending_verification")
        await home.until_said("No pull request was opened", SUMMARIES)


async def test_never_mind_is_not_kept_waiting_by_a_code_host_that_is_away(
    database: Database, pool: asyncpg.Pool
) -> None:
    fix = outcome(POST, diffs={"shop": _PATCH}, base={"shop": "0" * 40}, has_fix=True)
    away = {"shop": "https://127.0.0.1:1/acme/shop.git"}
    async with house(database, pool, outcome(POST), fix, repositories=away) as home:
        await home.report()
        await home.until_status("pending_verification")
        await home.developer("please fix it")
        await home.until_said("found it", SUMMARIES)
        await home.until_status("pending_verification", "investigating")
        await home.reporter("never mind", messages.CLOSE)
        await home.until_status("investigating", "resolved")


_PATCH = (
    "diff --git a/fixed.py b/fixed.py\nnew file mode 100644\n--- /dev/null\n+++ b/fixed.py\n@@ -0,0 +1 @@\n+fixed\n"
)


async def test_each_unanswered_question_is_told(database: Database, pool: asyncpg.Pool) -> None:
    async with house(
        database, pool, outcome(ASK), outcome(POST), outcome(ASK), outcome(POST), server=skipping_time
    ) as home:
        await home.report()
        await home.until_status("awaiting_reporter")
        await home.later(hours=2, minutes=1)
        await home.until_status("investigating", "pending_verification")
        await home.developer("ask again")
        await home.until_status("pending_verification", "investigating", "awaiting_reporter")
        await home.later(hours=2, minutes=1)
        await home.until_status("awaiting_reporter", "investigating", "pending_verification")
        assert sum("I have no answer to my question" in said for said in home.said(REPORTS)) == 2


@pytest.mark.parametrize("again", [1, 2])
async def test_each_reopening_is_told(database: Database, pool: asyncpg.Pool, again: int) -> None:
    async with house(database, pool, *[outcome(RESOLVE)] * 3) as home:
        await home.report()
        for _ in range(again):
            await home.result()
            await home.reporter("it is back again")
            await home.until_status("resolved", "investigating", "resolved")
        await home.result()
        assert sum("is open again" in said for said in home.said(REPORTS)) == again


async def test_a_terminated_case_carries_on_where_it_was(database: Database, pool: asyncpg.Pool) -> None:
    async def never(_: TurnRequest, __: Claim) -> TurnOutcome:
        began.set()
        await asyncio.Event().wait()
        raise AssertionError

    began = asyncio.Event()
    async with house(database, pool, never, outcome(POST), server=real_time) as home:
        await home.report()
        await began.wait()
        await home.handle.terminate("by hand")
        await home.reporter("hello?")
        await home.until_status("investigating", "pending_verification")
        assert home.agent.batches[-1] == ["The cart total is wrong", "hello?"]
        assert [request.attempt for request in home.agent.requests] == [1, 2]


async def test_much_text_at_once_is_stored_before_the_run_continues_as_new(
    database: Database, pool: asyncpg.Pool
) -> None:
    limits = Limits(history_events=12)
    script = outcome(POST), outcome(POST, "read it all")
    async with house(database, pool, *script, limits=limits, server=real_time) as home:
        await home.report()
        await home.until_status("pending_verification")
        for number in range(40):
            said = home.message(
                messages.MESSAGE, messages.REPORTER, REPORTER, f"{number} " + "x" * 30_000, f"{number}.5"
            )
            await home.send(replace(said, ts=f"18000000{number:02}.000100"))

        async def all_read() -> bool:
            return sum(len(batch) for batch in home.agent.batches) == 41

        await home.until(all_read, "every message is in a batch, once")


async def test_the_workspace_is_removed_although_the_run_would_continue_as_new(
    database: Database, pool: asyncpg.Pool
) -> None:
    async with house(database, pool, outcome(RESOLVE), limits=Limits(history_events=12)) as home:
        await home.report()
        assert await home.result() == "resolved"
        assert home.agent.cleaned == ["BUG-1"]
