"""A thumb on an answer reaches the conversation's store and wakes nobody, also in a conversation that has ended."""

from tests.support.conversation_workflow import BEN, talking
from tests.support.temporal import skipping_time
from threadline.models.model import ModelReply
from threadline.threads import messages


async def test_a_thumb_is_stored_and_begins_no_turn() -> None:
    async with talking(ModelReply("Hello.")) as talk:
        await talk.say("hello")
        await talk.until_said(1)
        thumbs = [talk.message("+1", BEN, kind, addressed=False) for kind in messages.THUMBS]
        for each in thumbs:
            await talk.send(each)
        await talk.until_stored(3)
        await talk.until_known("Idle since ")
        assert list(talk.desk.said) == [1]
        marked = {ts for marker in talk.desk.markers for _, ts in marker.items}
        assert not marked & {each.ts for each in thumbs}


async def test_a_thumb_on_an_old_answer_is_stored_by_a_run_of_its_own() -> None:
    async with talking(ModelReply("Hello."), server=skipping_time) as talk:
        await talk.say("hello")
        await talk.until_said(1)
        await talk.later(days=2)
        assert await talk.handle.result() == "quiet"
        await talk.send(talk.message("-1", BEN, messages.THUMB, addressed=False))
        await talk.until_stored(2)
        await talk.later(days=2)
        assert await talk.handle.result() == "quiet"
        assert list(talk.desk.said) == [1]
