"""What the storm found, reduced: a turn is settled while a close is due, and then the close is taken back."""

import asyncio

import asyncpg
import pytest
from sqlalchemy import text

from tests.workflows.house import House, house, outcome
from threadline.contracts.bug import TurnRequest
from threadline.db.agent_turns import Claim, TurnOutcome
from threadline.db.engine import Database
from threadline.devstack.slack_sandbox.identity import ESCALATIONS, SUMMARIES
from threadline.domain import messages
from threadline.domain.bug import Action

_TURN = text("SELECT FROM agent_turns WHERE bug_id = 'BUG-1' AND turn = 1 FOR UPDATE")
_WAITING = text("""
SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()
""")


async def _until_waiting(home: House, count: int) -> None:
    async def waiting() -> bool:
        async with home.database.begin() as work:
            return int(await work.connection.scalar(_WAITING) or 0) >= count

    await home.until(waiting, f"{count} wait for the turn's row")


async def _settled_between_close_and_a_further_word(home: House, claim: Claim, done: TurnOutcome) -> None:
    """The turn commits; "never mind" comes; while it is settled, the reporter goes on."""
    await home.agent.turns.finish(claim, done)
    async with home.database.begin() as work:
        await work.connection.execute(_TURN)
        await home.reporter("never mind", messages.CLOSE)
        await _until_waiting(home, 1)
        await home.reporter("wait, it is still broken")
        await _until_waiting(home, 2)
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("action", "channel"), [(Action.POST_FINDINGS, SUMMARIES), (Action.ESCALATE, ESCALATIONS)], ids=str
)
async def test_a_close_that_was_taken_back_does_not_swallow_what_the_turn_asked_for(
    database: Database, pool: asyncpg.Pool, action: Action, channel: str
) -> None:
    async def play(_: TurnRequest, claim: Claim) -> TurnOutcome:
        await _settled_between_close_and_a_further_word(home, claim, outcome(action, "first words"))
        raise AssertionError("the close cancels it")

    async with house(database, pool, play, outcome(Action.POST_FINDINGS, "second words")) as home:
        await home.report()
        await home.until_said("second words", SUMMARIES)
        await home.until_status("pending_verification")
        assert any("first words" in said for said in home.said(channel))
