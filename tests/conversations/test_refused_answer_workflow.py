"""Answers that Slack does not take: they are kept, keep nobody waiting, and are tried again when there is hope."""

import asyncio
from collections.abc import Awaitable, Callable

from temporalio.exceptions import ApplicationError

from tests.support.conversation_workflow import Talking, talking
from tests.support.temporal import real_time, skipping_time
from threadline.models.model import ModelReply


def refusing(talk: Talking, turn: int) -> Callable[[], Awaitable[None]]:
    """A hook for `post_answer`: what it was about to say is not said, for good."""

    async def refused() -> None:
        del talk.desk.said[turn]
        raise ApplicationError("The channel is archived.", type="Permanent", non_retryable=True)

    return refused


async def taken() -> None:
    """A hook that lets an answer pass."""


async def settled(talk: Talking, turn: int) -> None:
    await talk.until(lambda: talk.desk.turn == turn, f"turn {turn} is settled")
    await talk.until_known("Idle since ")


async def test_an_answer_that_slack_does_not_take_keeps_nobody_waiting() -> None:
    async with talking(ModelReply("First."), ModelReply("Second."), server=skipping_time) as talk:
        talk.desk.hooks["post_answer"] = [refusing(talk, 1), taken, refusing(talk, 1)]
        await talk.say("one")
        await settled(talk, 1)
        await talk.say("two")
        assert await talk.until_said(2) == "Second."
        await talk.until(lambda: not talk.desk.hooks["post_answer"], "the first is tried once more, in vain")
        await talk.later(hours=25)
        assert await talk.handle.result() == "quiet"
        assert talk.desk.said == {2: "Second."}


async def test_an_answer_that_slack_did_not_take_is_said_once_it_takes_another() -> None:
    async with talking(ModelReply("First."), ModelReply("Second.")) as talk:
        talk.desk.hooks["post_answer"] = [refusing(talk, 1)]
        await talk.say("one")
        await settled(talk, 1)
        await talk.say("two")
        await talk.until_said(1)
        assert list(talk.desk.said.items()) == [(2, "Second."), (1, "First.")]


async def test_an_answer_that_slack_did_not_take_is_said_first_by_the_next_run() -> None:
    async with talking(ModelReply("First."), ModelReply("Second."), server=skipping_time) as talk:
        talk.desk.hooks["post_answer"] = [refusing(talk, 1)]
        await talk.say("one")
        await settled(talk, 1)
        await talk.later(hours=25)
        assert await talk.handle.result() == "quiet"
        await talk.say("two")
        assert await talk.until_said(2) == "Second."
        assert list(talk.desk.said.items()) == [(1, "First."), (2, "Second.")]


async def test_an_answer_that_slack_never_takes_hides_no_later_one_from_the_next_run() -> None:
    written = asyncio.Event()

    async def stay() -> None:
        written.set()
        await asyncio.Event().wait()

    async with talking(ModelReply("First."), ModelReply("Second."), server=real_time) as talk:
        talk.desk.hooks["post_answer"] = [refusing(talk, 1), refusing(talk, 1), taken, refusing(talk, 1)]
        await talk.say("one")
        await settled(talk, 1)
        talk.desk.hooks["settle_turn"] = [stay]
        await talk.say("two")
        await written.wait()
        await talk.handle.terminate("by hand")
        await talk.send(talk.message("thanks", addressed=False))
        assert await talk.until_said(2) == "Second."
