"""The fourth scene of `threadline demo`: what to do with a question is decided first, and a person takes one over."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sqlalchemy import text

from threadline.db.engine import Database
from threadline.handovers.model import CLOSE, TAKE
from threadline_devstack.clients import Json
from threadline_devstack.slack.identity import DEVELOPER, ESCALATIONS, ON_CALL, REPORTER, SECOND_DEVELOPER
from threadline_devstack.stories.case_story import Chapter
from threadline_devstack.stories.operator_scene import require
from threadline_devstack.stories.scene import holds, is_by_bot, words_of
from threadline_devstack.stories.talk_scene import TalkScene

PRICE = "What does the Starter plan cost?"
THANKS = "Thanks!"
VAGUE = "How much does it cost?"
CLAIM = "I want my money back and compensation for the outage"
QUALIFIES = "Update my company name to Acme Corp"
"""What is on record of who asks, and is told again."""
MEETING = "Book a meeting with the support engineer on 2030-01-07 at ten"
WARRANTY = "How long does the warranty of a device run?"
"""Two of the handbook's documents say different things."""
ANSWER = "It is 24 months. The page of the support is out of date."
QUESTION = "Thank you! Does that hold for a device that I bought in May?"


class DecisionScene(TalkScene):
    """Threads of a channel, and the channel in which people take them over."""

    async def until_card(self, root: str) -> Json:
        """The message with which people are asked to take a thread over."""

        async def look() -> Json | None:
            shown = await self.slack.messages(ESCALATIONS)
            keys = [(message, message.get("metadata", {}).get("event_payload", {}).get("key", "")) for message in shown]
            return next((message for message, key in keys if f":{root}:" in key and key.endswith(":card")), None)

        return await self.until("people are asked to take it over", look)

    @asynccontextmanager
    async def without_table(self, name: str) -> AsyncIterator[None]:
        """As long as the block runs, what the tools keep there cannot be asked."""
        database = Database(self.stack.database_url, pool_size=1, application="threadline-devstack")
        try:
            await _rename(database, name, f"{name}_away")
            try:
                yield
            finally:
                await _rename(database, f"{name}_away", name)
        finally:
            await database.dispose()

    async def press(self, user: str, card: Json, button: str) -> None:
        await self.slack.post("clicks", user=user, channel=ESCALATIONS, ts=card["ts"], action_id=button)

    async def until_person_reads(self, card: Json, *words: str) -> None:
        async def look() -> bool:
            said = await self.slack.thread(ESCALATIONS, card["ts"])
            return any(is_by_bot(message) and holds(message, words) for message in said)

        await self.until(f"the person reads {' … '.join(words)}", look)


async def _rename(database: Database, name: str, new: str) -> None:
    async with database.begin() as work:
        await work.tx.execute(text(f"ALTER TABLE {name} RENAME TO {new}"))


async def from_the_documents(scene: DecisionScene) -> None:
    root = await scene.mention(ON_CALL, PRICE)
    answer = await scene.until_bot_says(root, "29 euros", "Sources:", "Starter plan")
    await scene.reply(ON_CALL, root, THANKS)
    thanked = await scene.until_bot_says(root, after=answer["ts"])
    require("Sources:" not in words_of(thanked), "documents were looked up for a word of thanks")


async def asked_back(scene: DecisionScene) -> None:
    root = await scene.mention(DEVELOPER, VAGUE)
    await scene.until_bot_says(root, "?")


async def qualified(scene: DecisionScene) -> None:
    root = await scene.mention(SECOND_DEVELOPER, f"{QUALIFIES}.")
    changed = await scene.until_bot_says(root, "Done: update")
    require(holds(changed, ("Acme Corp",)), f"the customer's record is not shown: {words_of(changed)}")


async def calendar_away(scene: DecisionScene) -> None:
    async with scene.without_table("appointment_resources"):
        root = await scene.mention(ON_CALL, f"{MEETING}.")
        told = await scene.until_bot_says(root, "I could not book", "handed it over to a person")
        card = await scene.until_card(root)
    require("Something went wrong on our side" in words_of(told), "what went wrong is told in a program's words")
    require(holds(card, (MEETING,)), "the card does not show what was to be booked")


async def claimed(scene: DecisionScene) -> None:
    root = await scene.mention(SECOND_DEVELOPER, CLAIM)
    await scene.until_bot_says(root, "handed it over to a person")
    require(holds(await scene.until_card(root), (CLAIM,)), "the card does not show what was asked")


async def taken_over(scene: DecisionScene) -> None:
    root = await scene.mention(REPORTER, WARRANTY)
    await scene.until_bot_says(root, "handed it over to a person")
    card = await scene.until_card(root)
    require(holds(card, (WARRANTY, "Warranty policy", "Support")), "the card does not show what contradicts itself")
    await scene.press(DEVELOPER, card, TAKE)
    taken = await scene.until_bot_says(root, "has taken this over")
    await scene.slack.say(DEVELOPER, ESCALATIONS, ANSWER, thread=card["ts"])
    await scene.until_bot_says(root, ANSWER, after=taken["ts"])
    await scene.reply(REPORTER, root, QUESTION)
    await scene.until_person_reads(card, QUESTION)
    await scene.press(DEVELOPER, card, CLOSE)
    await scene.until_bot_says(root, "I answer here again")
    said = [words_of(each) for each in await scene.answers(root)]
    require(sum(ANSWER in each for each in said) == 1, f"the person's answer is not there once: {said}")
    require(len(said) == 4, f"the bot has said {len(said)} things, and four are its: {said}")


DECISION_CHAPTERS = (
    Chapter("A price is read from the documents, with its source; thanks are not looked up", from_the_documents),
    Chapter("A question that cannot be answered yet is asked back about", asked_back),
    Chapter("What is on record of a customer is changed by a tool", qualified),
    Chapter("A meeting that cannot be booked because the calendar is away goes to a person", calendar_away),
    Chapter("A claim goes to a person at once", claimed),
    Chapter("Where documents contradict each other, a person takes over, answers, is answered, and closes", taken_over),
)
