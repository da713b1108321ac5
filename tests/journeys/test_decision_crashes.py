"""The core worker is killed in the middle of a decision and of a handover: each is finished, and
no step counts twice.
"""

import json
import os
import shutil
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio
from sqlalchemy import TextClause, text

from tests.journeys.crashes import (
    AGAIN,
    CrashScene,
    Reached,
    asking,
    settling,
    waiting_for,
)
from tests.support.journey_scene import JourneyScene
from threadline.conversations.store.conversation import ConversationStore
from threadline.decisions.store import DecisionStore
from threadline.handovers.model import CLOSE, TAKE, UNDO
from threadline_devstack import environment
from threadline_devstack.slack.identity import DEVELOPER, ESCALATIONS, REPORTER
from threadline_devstack.stack import Stack, StackOptions
from threadline_devstack.stories.scene import message_text

pytestmark = [
    pytest.mark.journey,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(180),
]

PRICE = "What does the Starter plan cost?"
CLAIM = "I demand a refund for the night of the outage"
ANSWER = "You get it back, all of it."
ASIDE = "lol who is this guy, anyone?"
DECIDING = "filling-in:decision"
DECISIONS = text("LOCK TABLE decisions IN EXCLUSIVE MODE")
"""The lock delays writes to the table, and no reads."""
PASSAGES_READ = text("LOCK TABLE knowledge_passages IN ACCESS EXCLUSIVE MODE")
TOOLS_READ = text("LOCK TABLE agent_tool_executions IN ACCESS EXCLUSIVE MODE")


class PriceScene(CrashScene):
    """A thread in which somebody asks for a price that the documents know."""

    async def record(self, root: str) -> tuple[bool, bool, bool]:
        """Whether the decision, the passages and the outcome are on record; of one round at
        most.
        """
        async with self._database.begin() as tx:
            conversation = await ConversationStore(tx).find_id(self.slack_thread(root))
            rounds = await DecisionStore(tx).rounds(conversation, 1)
        assert len(rounds) <= 1
        made = rounds[0] if rounds else None
        return made is not None, bool(made and made.sources), bool(made and made.judgement)

    async def decisions_asked(self, words: str) -> int:
        return sum(
            words in json.dumps(each.conversation.messages)
            for each in self.model.structured_requests
        )


def writing_after(lock: TextClause) -> Reached:
    """The decision's table is locked before the first lock is released: a step has read, and is
    about to write.
    """

    @asynccontextmanager
    async def reached(scene: CrashScene, words: str) -> AsyncIterator[str]:
        async with AsyncExitStack() as until_killed:
            async with waiting_for(lock)(scene, words) as root:
                holder = await until_killed.enter_async_context(scene.held(DECISIONS))
            await scene.until_waited_for(holder)
            yield root

    return reached


@dataclass(frozen=True)
class Moment:
    """The moment at which the worker is killed, with `PriceScene.record` at that moment, and the
    number of times that the model is asked in all.

    A reply that was not recorded by then is requested again.
    """

    reached: Reached
    record: tuple[bool, bool, bool]
    decisions: int = 1
    answers: int = 1


MOMENTS = {
    "the model decides": Moment(asking(DECIDING), (False, False, False), decisions=2),
    "the decision is kept": Moment(waiting_for(DECISIONS), (False, False, False), decisions=2),
    "it is looked up": Moment(waiting_for(PASSAGES_READ), (True, False, False)),
    "the passages are kept": Moment(writing_after(PASSAGES_READ), (True, False, False)),
    # The passages and the outcome are written in one transaction.
    "it is judged": Moment(waiting_for(TOOLS_READ), (True, False, False)),
    "the agent answers": Moment(asking("conversing"), (True, True, True), answers=2),
    "the turn is settled": Moment(settling, (True, True, True)),
}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def stack() -> AsyncIterator[Stack]:
    """Without drafts, which would add calls of the model: see test_draft_crashes.py."""
    folder = Path(tempfile.mkdtemp(prefix="threadline-journey-"))
    options = StackOptions(
        given=environment.pick(os.environ, environment.MACHINE),
        settings={"THREADLINE_DECISION_DRAFT": "false"},
    )
    async with Stack.running(folder, options) as stack:
        yield stack
    shutil.rmtree(folder)


@pytest_asyncio.fixture(loop_scope="session")
async def scene(stack: Stack) -> AsyncIterator[JourneyScene]:
    async with JourneyScene.on(stack) as scene:
        yield scene
        # A hold left by a failed test would hold the later ones as well.
        await scene.model.holds.release(DECIDING)


async def test_a_persons_answer_while_the_worker_is_dead_arrives_once(
    scene: JourneyScene, stack: Stack
) -> None:
    root = await scene.mention(REPORTER, CLAIM)
    card = await scene.until_card(root)
    await stack.processes.kill("core")
    await scene.press(DEVELOPER, card, TAKE)
    scene.slack.say(DEVELOPER, ESCALATIONS, ASIDE, thread=card["ts"])
    scene.slack.say(DEVELOPER, ESCALATIONS, f"reply: {ANSWER}", thread=card["ts"])
    await scene.until_delivered()
    await stack.processes.restart("core")
    await scene.until("the answer arrives", lambda: _said(scene, root, ANSWER), AGAIN)
    await scene.press(DEVELOPER, card, CLOSE)
    await scene.until_answer(root, "I am answering here again")
    said = [message_text(each) for each in scene.answers(root)]
    assert not any(ASIDE in each for each in said)
    assert [
        sum(words in each for each in said)
        for words in (ANSWER, "has taken this over", "handed it over")
    ] == [
        1,
        1,
        1,
    ]


async def test_a_reply_that_is_held_when_the_worker_is_killed_is_sent_once(
    scene: JourneyScene, stack: Stack
) -> None:
    root = await scene.mention(REPORTER, f"{CLAIM}, held")
    card = await scene.until_card(root)
    undone = await scene.reply_by_button(DEVELOPER, card, "You get nothing.")
    await scene.reply_by_button(DEVELOPER, card, ANSWER)
    await scene.press(DEVELOPER, undone, UNDO)
    await stack.processes.kill("core")
    await stack.processes.restart("core")
    await scene.until("the answer arrives", lambda: _said(scene, root, ANSWER), AGAIN)
    await scene.until_post(ESCALATIONS, card["ts"], ["Sent to", ANSWER])
    await scene.press(DEVELOPER, card, CLOSE)
    await scene.until_answer(root, "I am answering here again")
    said = [message_text(each) for each in scene.answers(root)]
    assert [sum(words in each for each in said) for words in (ANSWER, "You get nothing.")] == [
        1,
        0,
    ]


async def test_a_worker_that_is_killed_while_it_decides_decides_again_and_asks_one_person(
    scene: JourneyScene, stack: Stack
) -> None:
    scene.model.holds.arm(DECIDING)
    root = await scene.mention(REPORTER, f"{CLAIM} again")
    await scene.model_waits_at(DECIDING)
    await stack.processes.kill("core")
    await scene.model.holds.release(DECIDING)
    await stack.processes.restart("core")
    await scene.until("a person is asked", lambda: _said(scene, root, "handed it over"), AGAIN)
    card = await scene.until_card(root)
    await scene.press(DEVELOPER, card, CLOSE)
    await scene.until_answer(root, "I am answering here again")
    cards = [
        each
        for each in scene.slack.messages(ESCALATIONS)
        if f"{CLAIM} again" in message_text(each)
    ]
    assert len(cards) == 1
    assert len(scene.answers(root)) == 2


@pytest_asyncio.fixture(loop_scope="session")
async def price(stack: Stack) -> AsyncIterator[PriceScene]:
    async with PriceScene.ready(stack) as scene:
        yield scene


@pytest.mark.parametrize("moment", MOMENTS.values(), ids=MOMENTS)
async def test_a_turn_whose_worker_is_killed_goes_on_where_it_was_and_answers_once_with_its_source(
    price: PriceScene, stack: Stack, moment: Moment
) -> None:
    words = f"{PRICE} ({time.time_ns()})"
    async with moment.reached(price, words) as root:
        await stack.processes.kill("core")
    assert await price.record(root) == moment.record
    assert price.answers(root) == []
    await stack.processes.restart("core")
    [answer] = await price.answered(root)
    said = message_text(answer)
    assert "29 euros" in said
    assert said.count("Sources:") == 1
    assert await price.record(root) == (True, True, True)
    assert await price.decisions_asked(words) == moment.decisions
    assert (await price.asked(words)).total() == moment.answers
    assert await price.paid(root) == [(1, 0), (1, 1)], (
        "each paid call is on record once: a decision, an answer"
    )


async def _said(scene: JourneyScene, root: str, words: str) -> bool:
    return any(words in message_text(each) for each in scene.answers(root))
