"""What is said while the model is away belongs to the call that it answers, or is given up with the rest."""

import asyncio

import pytest

from tests.support.conversation_memory import AWAY, calls
from tests.support.conversation_workflow import talking
from tests.support.temporal import skipping_time
from threadline.conversations.contract import ActRequest
from threadline.conversations.model import answers
from threadline.conversations.model.conversation import ConversationLimits
from threadline.conversations.step_failures import AWAY as GIVEN_UP
from threadline.models.model import ModelReply


async def test_what_is_said_while_the_model_is_away_is_given_up_with_the_rest_and_nobody_is_told_again() -> None:
    async with talking(*[AWAY] * 6, limits=ConversationLimits(model_patience=600), server=skipping_time) as talk:
        await talk.say("one")
        await talk.until_known("waiting for the model")
        await talk.say("two")
        await talk.until_stored(2)
        await talk.later(minutes=11)
        assert await talk.until_said(1) == answers.failed(GIVEN_UP, [])
        await talk.until_known("Idle since ")
        assert talk.desk.prompts == [(1, "one"), (1, "two")]
        assert [word.about for word in talk.desk.words] == ["1"]
        assert list(talk.desk.said) == [1]


@pytest.mark.slow
async def test_a_run_that_was_terminated_goes_on_behind_the_steps_in_which_the_model_was_away() -> None:
    acting = asyncio.Event()

    async def never(_: ActRequest) -> str:
        acting.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with talking(
        AWAY, calls("hang:1"), ModelReply("All is done."), tools={"hang": never}, server=skipping_time
    ) as talk:
        await talk.say("create one")
        await talk.until_known("waiting for the model")
        await talk.later(minutes=1)
        await acting.wait()
        await talk.handle.terminate("by hand")
        del talk.desk.tools["hang"]
        await talk.say("hello?")
        assert await talk.until_said(1) == "All is done."
        assert [request.step for request in talk.desk.asked] == [1, 2, 3]
        assert talk.desk.prompts == [(1, "create one"), (1, "hello?")]
