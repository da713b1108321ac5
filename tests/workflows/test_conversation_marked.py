"""What people say to each other: nobody is shown that it was heard."""

from tests.workflows.talking import BEN, Talking, talking
from threadline.workflows.conversation import TAKEN_IN


def marked(talk: Talking) -> list[str]:
    return [ts for each in talk.desk.markers if each.name == TAKEN_IN for _, ts in each.items]


async def test_only_what_was_said_to_the_bot_is_marked_as_taken_in() -> None:
    async with talking() as talk:
        await talk.say("hello there")
        await talk.until_said(1)
        aside, asked = talk.message("between us", BEN, addressed=False), talk.message("and you?", BEN)
        await talk.send(aside)
        await talk.until_stored(2)
        await talk.send(asked)
        await talk.until_stored(3)
        await talk.until(lambda: asked.ts in marked(talk), "the question is marked")
        assert aside.ts not in marked(talk)
