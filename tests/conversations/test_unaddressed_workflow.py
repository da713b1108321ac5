"""The bot reads messages between people in a conversation's thread, and shows and says nothing."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from temporalio.exceptions import ApplicationError

from tests.support.conversation_scene import BEN, ConversationScene, conversation
from tests.support.scripted_model import AWAY, SILENT, Reply, calls
from tests.support.temporal import skipping_time
from threadline.conversations.contract import ThinkRequest
from threadline.conversations.model.conversation import (
    ConversationLimits,
    NoticeReason,
    OutcomeKind,
)
from threadline.db.engine import Database
from threadline.errors import Permanent
from threadline.models.model import ModelReply, ToolChoice

PATIENCE = ConversationLimits(model_patience=600)
TO_BEN = f"did you see the match, <@{BEN}>?"
"""By somebody who is alone with the bot: this message calls another person and is overheard; later
messages are for the bot.
"""


@asynccontextmanager
async def overhearing(database: Database, *replies: Reply) -> AsyncIterator[ConversationScene]:
    """Two people talk in a thread in which the bot has answered; `replies` are the model's next
    replies.
    """
    script = ModelReply("Hello."), *replies
    async with conversation(database, *script, limits=PATIENCE, server=skipping_time) as scene:
        await scene.ask("any news")
        await scene.say("Anna, did you see the match?", BEN, addressed=False)
        yield scene


async def test_no_status_is_shown_for_messages_between_people(database: Database) -> None:
    async with overhearing(database, calls("look"), SILENT) as scene:
        await scene.until_settled(2)
        await scene.until_idle()
        assert scene.ran == ["look"]
        assert scene.statuses == ["thinking", "thinking"], (
            "while the first turn was decided and answered"
        )


@pytest.mark.parametrize(
    "faults",
    [
        [AWAY] * 6,
        [Permanent("The model's API refused the key: check OPENAI_API_KEY.")],
        [ApplicationError("The worker was shut down.", type="WorkerShutdown", non_retryable=True)]
        * 3,
    ],
    ids=["away", "refused", "lost"],
)
async def test_fault_with_a_message_between_people_is_silent(
    database: Database, faults: list[Exception]
) -> None:
    async with overhearing(database, *faults) as scene:
        await scene.later(minutes=11)
        settled = await scene.until_settled(2)
        assert (settled.kind, settled.answer) == (OutcomeKind.SILENT, "")
        assert (list(scene.said), scene.words) == ([1], [])
        assert await scene.ask("bot, what do you say?", BEN) == "Done."


async def test_fault_after_a_change_is_reported(database: Database) -> None:
    async with overhearing(database, calls("create:1"), Permanent("The key is refused.")) as scene:
        assert "The key is refused." in await scene.until_said(2)
        assert (await scene.until_settled(2)).kind is OutcomeKind.FAILED


async def test_question_during_an_overheard_turn_gets_its_own_turn(database: Database) -> None:
    """It came while the model looked at a message that was not for it."""

    async def silent(_: ThinkRequest) -> ModelReply:
        await scene.say("bot, what do you say?", BEN)
        await scene.until_stored(3)
        return SILENT

    async with overhearing(database, calls("look"), silent, ModelReply("I say yes.")) as scene:
        assert await scene.until_said(3) == "I say yes."
        assert (await scene.until_settled(2)).kind is OutcomeKind.SILENT
        assert await scene.prompts() == [
            (1, "any news"),
            (2, "Anna, did you see the match?"),
            (3, "bot, what do you say?"),
        ]


async def test_question_ends_an_overheard_turn_that_waits_for_the_model(
    database: Database,
) -> None:
    async with overhearing(database, AWAY, ModelReply("It is 990 a month.")) as scene:
        await scene.until_known("waiting for the model")
        await scene.say("what does Enterprise cost?", BEN)
        assert await scene.until_said(3) == "It is 990 a month."
        assert (await scene.until_settled(2)).kind is OutcomeKind.SILENT
        assert scene.words == []


async def test_question_during_a_turn_for_somebody_else_is_answered_in_it(
    database: Database,
) -> None:
    async def silent(_: ThinkRequest) -> ModelReply:
        await scene.say("bot, what do you say?")
        await scene.until_stored(3)
        return SILENT

    script = ModelReply("Hello."), calls("look"), silent, ModelReply("I say yes.")
    async with conversation(database, *script) as scene:
        await scene.ask("any news")
        await scene.say(TO_BEN, addressed=False)
        assert await scene.until_said(2) == "I say yes."
        assert [request.choice for request in scene.asked[1:]] == [ToolChoice.AUTO] * 3
        assert scene.settlement(2).answer_step == 3


async def test_author_of_a_question_gets_a_notice_that_the_model_is_away(
    database: Database,
) -> None:
    script = ModelReply("Hello."), AWAY, AWAY, ModelReply("I say yes.")
    async with conversation(database, *script, server=skipping_time) as scene:
        await scene.ask("any news")
        await scene.say(TO_BEN, addressed=False)
        await scene.until_known("waiting for the model")
        await scene.say("bot, what do you say?")
        await scene.until_stored(3)
        assert scene.words == []
        await scene.later(minutes=2)
        assert await scene.until_said(2) == "I say yes."
        assert scene.words == [(NoticeReason.MODEL_AWAY, "2")]
