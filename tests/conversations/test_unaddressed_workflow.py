"""What people say to each other in a conversation's thread: read, and nothing is shown, told or announced to them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from temporalio.exceptions import ApplicationError

from tests.support.conversation_memory import AWAY, SILENT, Reply, calls
from tests.support.conversation_workflow import BEN, Talking, talking
from tests.support.temporal import skipping_time
from threadline.conversations.contract import WordKind
from threadline.conversations.model.conversation import ConversationLimits
from threadline.errors import Permanent
from threadline.models.model import ModelReply, OutcomeKind


@asynccontextmanager
async def overhearing(*replies: Reply) -> AsyncIterator[Talking]:
    """Two people talk in a thread in which the bot has answered; the model gives these replies from then on."""
    limits = ConversationLimits(model_patience=600)
    async with talking(ModelReply("Hello."), *replies, limits=limits, server=skipping_time) as talk:
        await talk.say("hello")
        await talk.until_said(1)
        await talk.say("Anna, did you see the match?", BEN, addressed=False)
        yield talk


async def test_nothing_is_shown_while_the_bot_reads_what_is_not_for_it() -> None:
    async with overhearing(calls("look", read_only=True), SILENT) as talk:
        await talk.until(lambda: 2 in talk.desk.settled, "the turn is settled")
        await talk.until_known("Idle since ")
        assert talk.desk.ran == ["look"]
        assert [words for words in talk.desk.statuses if words] == ["thinking"], "of the first turn"


@pytest.mark.parametrize(
    "faults",
    [
        [AWAY] * 6,
        [Permanent("My key for the language model is not accepted. Please tell the operators.")],
        [ApplicationError("The worker was shut down.", type="WorkerShutdown", non_retryable=True)] * 3,
    ],
    ids=["away", "refused", "lost"],
)
async def test_of_trouble_with_what_was_not_for_the_bot_nobody_hears(faults: list[Exception]) -> None:
    async with overhearing(*faults) as talk:
        await talk.later(minutes=11)
        await talk.until(lambda: 2 in talk.desk.settled, "the turn is settled")
        assert (talk.desk.settled[2].kind, talk.desk.settled[2].text) == (OutcomeKind.SILENT, "")
        assert (list(talk.desk.said), talk.desk.words) == ([1], [])
        await talk.say("bot, what do you say?", BEN)
        assert await talk.until_said(3) == "Done."


async def test_trouble_after_something_was_changed_is_told() -> None:
    async with overhearing(calls("create:1"), Permanent("My key is not accepted.")) as talk:
        assert (await talk.until_said(2)).startswith("My key is not accepted.")
        assert talk.desk.settled[2].kind is OutcomeKind.FAILED


async def test_who_addresses_the_bot_while_its_model_is_away_is_told() -> None:
    async with overhearing(AWAY, AWAY, ModelReply("I say yes.")) as talk:
        await talk.until_known("waiting for the model")
        await talk.say("bot, what do you say?", BEN)
        await talk.until_stored(3)
        assert talk.desk.words == []
        await talk.later(minutes=2)
        assert await talk.until_said(2) == "I say yes."
        assert [word.kind for word in talk.desk.words] == [WordKind.MODEL_AWAY]
