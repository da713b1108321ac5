"""What a storm found, reduced: a close comes amid a turn's end, and is taken back before the case is closed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import asyncpg
import pytest
from sqlalchemy import text

from tests.support.case_scene import House, house, outcome
from threadline.cases.contract import TurnRequest
from threadline.cases.model import Action
from threadline.db.engine import Database
from threadline.investigator.store import Claim, TurnOutcome
from threadline.threads import messages
from threadline_devstack.slack.identity import ESCALATIONS, REPORTS, SUMMARIES

THE_TURN = "SELECT FROM agent_turns WHERE bug_id = 'BUG-1' AND turn = 1 FOR UPDATE"
THE_CASE = "SELECT FROM cases WHERE bug_id = 'BUG-1' FOR NO KEY UPDATE"
THE_POSTS = "LOCK TABLE slack_posts IN ACCESS EXCLUSIVE MODE"
_WAITING = text("""
SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()
""")


@asynccontextmanager
async def _holding(home: House, lock: str) -> AsyncIterator[None]:
    async with home.database.begin() as work:
        await work.connection.execute(text(lock))
        yield


async def _until_waiting(home: House, count: int) -> None:
    async def waiting() -> bool:
        async with home.database.begin() as work:
            return int(await work.connection.scalar(_WAITING) or 0) >= count

    await home.until(waiting, f"{count} wait for a lock")


@pytest.mark.parametrize(
    ("action", "channel"), [(Action.POST_FINDINGS, SUMMARIES), (Action.ESCALATE, ESCALATIONS)], ids=str
)
async def test_a_close_that_is_taken_back_while_a_turn_is_settled_does_not_swallow_what_it_asked_for(
    database: Database, pool: asyncpg.Pool, action: Action, channel: str
) -> None:
    async def play(_: TurnRequest, claim: Claim) -> TurnOutcome:
        await home.agent.turns.finish(claim, outcome(action, "first words"))
        async with _holding(home, THE_TURN):
            await home.reporter("never mind", messages.CLOSE)
            await _until_waiting(home, 1)
            await home.reporter("wait, it is still broken")
            await _until_waiting(home, 2)
        await asyncio.Event().wait()
        raise AssertionError("the close cancels it")

    async with house(database, pool, play, outcome(Action.POST_FINDINGS, "second words")) as home:
        await home.report()
        await home.until_said("second words", SUMMARIES)
        assert any("first words" in said for said in home.said(channel))


async def test_a_close_that_is_taken_back_while_findings_are_posted_does_not_swallow_the_escalation(
    database: Database, pool: asyncpg.Pool
) -> None:
    async def play(_: TurnRequest, __: Claim) -> TurnOutcome:
        playing.set()
        await held.wait()
        return outcome(Action.ESCALATE, "needs an admin")

    playing, held = asyncio.Event(), asyncio.Event()
    first, last = outcome(Action.POST_FINDINGS), outcome(Action.POST_FINDINGS, "last words")
    async with house(database, pool, first, play, last) as home:
        await home.report()
        await home.until_status("pending_verification")
        await home.reporter("it is worse now")
        await playing.wait()
        async with AsyncExitStack() as case_held:
            async with _holding(home, THE_POSTS):
                held.set()
                await _until_waiting(home, 1)
                await home.reporter("never mind", messages.CLOSE)
                await home.until(lambda: _has(home, "never mind", "eyes"), "the workflow knows of the close")
                await case_held.enter_async_context(_holding(home, THE_CASE))
                await home.reporter("wait, it is still broken")
                await _until_waiting(home, 2)
            await home.until(lambda: _has(home, "it is worse now", "white_check_mark"), "the findings are posted")
        await home.until_said("last words", SUMMARIES)
        assert any("needs an admin" in said for said in home.said(ESCALATIONS))


async def _has(home: House, words: str, reaction: str) -> bool:
    written = home.slack.workspace.channel(REPORTS).messages.values()
    return any(reaction in message.reactions for message in written if message.text == words)
