"""What people say to each other: nobody is shown that it was heard."""

from tests.workflows.talking import ANNA, BEN, Talking, talking
from threadline.contracts.conversation import Refusal, Refused, WordKind
from threadline.workflows.conversation import REFUSED, TAKEN_IN


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


async def test_who_was_refused_before_the_run_began_is_told_too() -> None:
    async with talking() as talk:
        talk.desk.judged_late = (Refused("C1", "5.0", ANNA, Refusal.THROTTLED_FIRST),)
        await talk.say("hello there")
        await talk.until(lambda: talk.desk.words, "who wrote too much is told")
        assert [(word.kind, word.about) for word in talk.desk.words] == [(WordKind.THROTTLED, "5.0")]
        mark = (REFUSED[Refusal.THROTTLED_FIRST], ("C1", "5.0"))

        def marked() -> bool:
            return mark in [(each.name, item) for each in talk.desk.markers for item in each.items]

        await talk.until(marked, "what is refused is marked")
