"""What people say to each other: nobody is shown that it was heard."""

from tests.support.conversation_workflow import ANNA, BEN, Talking, talking
from threadline.conversations.contract import Refusal, Refused, WordKind
from threadline.conversations.workflow import NOTHING_TO_STOP, REFUSED, TAKEN_IN
from threadline.threads import messages


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


async def test_a_word_to_stop_that_a_person_is_shown_is_marked_as_taken_in() -> None:
    async with talking() as talk:
        await talk.say("hello there")
        await talk.until_said(1)
        stop = talk.message("stop", kind=messages.STOP)
        talk.desk.passed_on = (stop.id,)
        await talk.send(stop)
        await talk.until(lambda: stop.ts in marked(talk), "the word is marked")
        assert NOTHING_TO_STOP not in [each.name for each in talk.desk.markers]


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


async def test_what_a_person_was_shown_is_shown_again_once_it_was_edited() -> None:
    async with talking() as talk:
        await talk.say("hello there")
        await talk.until_said(1)
        talk.desk.reworded = (1,)
        await talk.send(talk.message("hello you", kind=messages.EDIT))
        await talk.until(lambda: talk.desk.handed == ["relay 1"], "the first turn is shown as it reads now")
