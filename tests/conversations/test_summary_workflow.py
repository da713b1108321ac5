"""A crowded transcript is summarised before a turn reads it: as a step of its own, which the turn can do without."""

import asyncio

from temporalio.exceptions import ApplicationError

from tests.support.conversation_workflow import Talking, talking
from tests.support.temporal import skipping_time
from threadline.conversations.model import answers
from threadline.models.model import ModelReply


async def test_what_is_old_is_summarised_before_the_first_thought_of_a_turn_and_only_where_it_is_crowded() -> None:
    async with talking(ModelReply("First."), ModelReply("Second.")) as talk:
        await talk.say("one")
        await talk.until_said(1)
        await talk.until_known("Idle since ")
        assert talk.desk.summarised == []
        talk.desk.crowded = True
        await talk.say("two")
        assert await talk.until_said(2) == "Second."
        assert talk.desk.summarised == [2]
        shown = await _scheduled(talk)
        assert shown.index("summarise") < len(shown) - 1 - shown[::-1].index("think")


async def _scheduled(talk: Talking) -> list[str]:
    events = (await talk.handle.fetch_history()).events
    tasks = (event.activity_task_scheduled_event_attributes for event in events)
    return [task.activity_type.name for task in tasks if task.activity_type.name]


async def test_a_summary_that_fails_keeps_nobody_from_an_answer() -> None:
    async def broken() -> None:
        raise ApplicationError("The model is overloaded.")

    async with talking(ModelReply("There."), server=skipping_time) as talk:
        talk.desk.crowded = True
        talk.desk.hooks["summarise"] = [broken] * 5
        await talk.say("hello")
        await talk.later(seconds=30)
        assert await talk.until_said(1) == "There."
        assert talk.desk.summarised == [1, 1], "two attempts"


async def test_a_stop_breaks_a_summary_off() -> None:
    begun = asyncio.Event()

    async def never() -> None:
        begun.set()
        await asyncio.Event().wait()

    async with talking() as talk:
        talk.desk.crowded = True
        talk.desk.hooks["summarise"] = [never]
        await talk.say("hello")
        await begun.wait()
        await talk.stop()
        assert await talk.until_said(1) == answers.stopped([])
        assert talk.desk.asked == []
