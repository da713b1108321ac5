"""A close that arrives while a turn ends, and that a later message cancels before the case is
closed.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from sqlalchemy import text

from tests.support.case_scene import CaseScene, HeldTurn, StartCase, outcome
from threadline.cases.contract import TurnRequest
from threadline.cases.model import Action
from threadline.investigator.store import TurnClaim, TurnOutcome
from threadline.threads.model import MessageKind
from threadline_devstack.slack.identity import ESCALATIONS, REPORTS, SUMMARIES

THE_TURN = "SELECT FROM agent_turns WHERE bug_id = 'BUG-1' AND turn = 1 FOR UPDATE"
THE_CASE = "SELECT FROM cases WHERE bug_id = 'BUG-1' FOR NO KEY UPDATE"
THE_POSTS = "LOCK TABLE posts IN ACCESS EXCLUSIVE MODE"
_WAITING = text("""
SELECT count(*) FROM pg_stat_activity
WHERE wait_event_type = 'Lock' AND datname = current_database()
""")


@asynccontextmanager
async def _holding(scene: CaseScene, lock: str) -> AsyncIterator[None]:
    async with scene.database.begin() as tx:
        await tx.execute(text(lock))
        yield


async def _until_waiting(scene: CaseScene, count: int) -> None:
    async def waiting() -> bool:
        async with scene.database.begin() as tx:
            return int(await tx.scalar(_WAITING) or 0) >= count

    await scene.until(waiting, f"{count} wait for a lock")


@pytest.mark.parametrize(
    ("action", "posted", "channel"),
    [
        (Action.POST_FINDINGS, "I have updated the findings", SUMMARIES),
        (Action.ESCALATE, "first words", ESCALATIONS),
    ],
    ids=str,
)
async def test_close_retracted_while_a_turn_is_settled_keeps_its_action(
    start_case: StartCase, action: Action, posted: str, channel: str
) -> None:
    async def play(_: TurnRequest, claim: TurnClaim) -> TurnOutcome:
        await scene.agent.turns.finish(claim, outcome(action, "first words"))
        async with _holding(scene, THE_TURN):
            await scene.reporter("never mind", MessageKind.CLOSE)
            await _until_waiting(scene, 1)
            await scene.reporter("wait, it is still broken")
            await _until_waiting(scene, 2)
        await asyncio.Event().wait()
        raise AssertionError("the close cancels it")

    async with start_case(play, outcome(Action.POST_FINDINGS, "second words")) as scene:
        await scene.report()
        await scene.until_said("second words", SUMMARIES)
        await scene.until_said(posted, channel)


async def test_close_retracted_while_findings_are_posted_keeps_the_escalation(
    start_case: StartCase,
) -> None:
    turn = HeldTurn(outcome(Action.ESCALATE, "needs an admin"))
    first = outcome(Action.POST_FINDINGS)
    last = outcome(Action.POST_FINDINGS, "last words")
    async with start_case(first, turn, last) as scene:
        await scene.report()
        await scene.until_status("pending_verification")
        await scene.reporter("it is worse now")
        await turn.began.wait()
        async with AsyncExitStack() as case_held:
            async with _holding(scene, THE_POSTS):
                turn.finish.set()
                await _until_waiting(scene, 1)
                await scene.reporter("never mind", MessageKind.CLOSE)
                await scene.until(
                    lambda: _has(scene, "never mind", "eyes"), "the workflow knows of the close"
                )
                await case_held.enter_async_context(_holding(scene, THE_CASE))
                await scene.reporter("wait, it is still broken")
                await _until_waiting(scene, 2)
            await scene.until(
                lambda: _has(scene, "it is worse now", "speech_balloon"),
                "the findings are posted",
            )
        await scene.until_said("last words", SUMMARIES)
        assert scene.times_said("needs an admin", ESCALATIONS)


async def _has(scene: CaseScene, words: str, reaction: str) -> bool:
    written = scene.slack.workspace.channel(REPORTS).messages.values()
    return any(reaction in message.reactions for message in written if message.text == words)
