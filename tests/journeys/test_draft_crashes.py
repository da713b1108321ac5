"""The core worker is killed while it makes a draft of the answer: the person gets one answer, and
no recorded reply is paid again.
"""

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
import pytest_asyncio
from sqlalchemy import text

from tests.journeys.crashes import CrashScene, Reached, asking, settling, waiting_for
from threadline_devstack.stack import Stack

pytestmark = [
    pytest.mark.journey,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(180),
]

QUESTION = "We talked about the cart yesterday. What was the question that was still open?"
"""The decision adds nothing to the prompt of its answer."""
ENTRIES = text("LOCK TABLE transcript_entries IN EXCLUSIVE MODE")


@dataclass(frozen=True)
class Moment:
    """The moment at which the worker is killed, and the number of calls for the answer in all."""

    reached: Reached
    answers: int


MOMENTS = {
    "the draft is prepared": Moment(waiting_for(ENTRIES), 1),
    "the draft is asked": Moment(asking("conversing"), 2),
    "the kept draft is the answer": Moment(settling, 1),
}


@pytest_asyncio.fixture(loop_scope="session")
async def crash(stack: Stack) -> AsyncIterator[CrashScene]:
    # A worker that has just started makes drafts, whatever the turns of other tests were.
    await stack.processes.kill("core")
    await stack.processes.restart("core")
    async with CrashScene.ready(stack) as scene:
        yield scene


@pytest.mark.parametrize("moment", MOMENTS.values(), ids=MOMENTS)
async def test_turn_whose_worker_is_killed_at_its_draft_answers_once(
    crash: CrashScene, stack: Stack, moment: Moment
) -> None:
    words = f"{QUESTION} ({time.time_ns()})"
    async with moment.reached(crash, words) as root:
        await stack.processes.kill("core")
    assert crash.answers(root) == []
    await stack.processes.restart("core")
    await crash.answered(root)
    assert (await crash.asked(words)).total() == moment.answers
    assert await crash.paid(root) == [(1, 0), (1, 1)], (
        "each paid call is on record once: a decision, an answer"
    )
