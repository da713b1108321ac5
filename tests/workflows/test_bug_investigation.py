"""Each way through a case, with its timers skipped; the design's actions and the rules where it is silent."""

import asyncpg

from tests.workflows.house import house, outcome
from threadline.db.engine import Database
from threadline.devstack.slack_sandbox.identity import REPORTS, SUMMARIES
from threadline.domain import messages
from threadline.domain.bug import Action

ASK, POST, ESCALATE, RESOLVE = Action.ASK_REPORTER, Action.POST_FINDINGS, Action.ESCALATE, Action.RESOLVED


async def test_a_report_gets_its_number_and_its_findings(database: Database, pool: asyncpg.Pool) -> None:
    async with house(database, pool, outcome(POST)) as home:
        await home.report()
        await home.until_status("new", "investigating", "pending_verification")
        assert any("BUG-1" in said for said in home.said(REPORTS))
        assert any("found it" in said for said in home.said(SUMMARIES))
        assert home.agent.batches == [["The cart total is wrong"]]
        case = await home.case()
        assert (case.title, case.severity) == ("Cart total", "S2")


async def test_a_question_waits_for_the_reporter_alone(database: Database, pool: asyncpg.Pool) -> None:
    async with house(database, pool, outcome(ASK), outcome(POST)) as home:
        await home.report()
        await home.until_status("awaiting_reporter")
        await home.until_said("Which browser?")
        await home.reporter("Firefox")
        await home.until_status("awaiting_reporter", "investigating", "pending_verification")
        assert home.agent.batches[1] == ["Firefox"]


async def test_never_mind_closes_at_once_and_a_message_reopens(database: Database, pool: asyncpg.Pool) -> None:
    async with house(database, pool, outcome(POST), outcome(POST, "looked again")) as home:
        await home.report()
        await home.until_status("pending_verification")
        await home.reporter("never mind", messages.CLOSE)
        assert await home.handle.result() == "resolved"
        assert (await home.case()).close_reason == "reporter_closed"
        assert home.agent.cleaned == ["BUG-1"]
        assert sum("closed, as its reporter asked" in said for said in home.said(REPORTS) + home.said(SUMMARIES)) == 2
        await home.reporter("It is back again in Chrome")
        await home.until_status("resolved", "investigating", "pending_verification")
        await home.until_said("looked again", SUMMARIES)
        assert [request.turn for request in home.agent.requests] == [1, 2]
