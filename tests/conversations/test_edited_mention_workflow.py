"""A message among people that is edited to call the bot is answered once, however the edit
arrives.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any

import pytest

from tests.support.conversation_scene import APART, BEN, ConversationScene, conversation
from tests.support.scripted_model import SILENT, Reply
from threadline.conversations.catch_up import ConversationThreads
from threadline.conversations.store.messages import MessageStore
from threadline.db.engine import Database
from threadline.gateway.routes import Route, RoutingConfig, route
from threadline.models.model import ModelReply
from threadline.threads.catch_up_store import CatchUpThread
from threadline.threads.comparison import missing_event
from threadline.threads.model import IncomingMessage
from threadline_devstack.slack.events import changed, posted
from threadline_devstack.slack.identity import BOT_ID, BOT_USER, GENERAL, REPORTER, TEAM
from threadline_devstack.slack.model import SandboxMessage

ROUTING = RoutingConfig(bot_user_id=BOT_USER, bot_id=BOT_ID, team=TEAM)
CALL = f"<@{BOT_USER}>"
WORDS = "what does the crane cost?"


@asynccontextmanager
async def overhearing(database: Database, *replies: Reply) -> AsyncIterator[ConversationScene]:
    """Two people talk in a thread in which the bot has answered."""
    async with conversation(database, ModelReply("Hello."), *replies) as scene:
        await scene.ask("any news")
        yield scene


def routed(event: Any) -> IncomingMessage:
    found = route({"team_id": TEAM, "event": event}, ROUTING)
    assert isinstance(found, Route), found
    return found.message


async def say(scene: ConversationScene, text: str, user: str = BEN) -> SandboxMessage:
    scene.clock.now += APART
    said = scene.slack.workspace.post(GENERAL, user, text, thread_ts=scene.thread.ts)
    await scene.send(routed(posted(scene.slack.workspace.channel(GENERAL), said)))
    return said


def edited(scene: ConversationScene, said: SandboxMessage, text: str) -> IncomingMessage:
    """The edit, as the gateway makes it of Slack's `message_changed`."""
    place = scene.slack.workspace.channel(GENERAL)
    events = list[Any]()
    scene.slack.workspace.listeners.append(events.append)
    scene.slack.workspace.edit(GENERAL, said.ts, text)
    scene.slack.workspace.listeners.remove(events.append)
    [event] = [each for each in events if each.get("subtype") == "message_changed"]
    assert event.keys() == changed(place, said, said, said.edited_ts).keys()
    return routed(event)


async def test_overheard_message_is_answered_once_it_calls_the_bot(database: Database) -> None:
    async with overhearing(database, SILENT, ModelReply("12 euros.")) as scene:
        said = await say(scene, WORDS)
        await scene.until_settled(2)
        await scene.send(edited(scene, said, f"{CALL} {WORDS}"))
        assert await scene.until_said(3) == "12 euros."
        assert (await scene.prompts())[-1][1] == WORDS
        await scene.until(
            lambda: said.ts in scene.marked.get("eyes", []), "its writer sees that it was heard"
        )


async def test_edit_that_arrives_several_times_is_answered_once(database: Database) -> None:
    async with overhearing(database, SILENT, ModelReply("12 euros.")) as scene:
        said = await say(scene, WORDS)
        await scene.until_settled(2)
        edit = edited(scene, said, f"{CALL} {WORDS}")
        for _ in range(2):
            await scene.send(edit)
        await scene.until_said(3)
        await scene.send(edit)
        assert await missed(scene, said) is None, "nothing is left for the catch-up"
        assert await scene.ask("and the lorry?") == "Done."
        assert sorted(scene.said) == [1, 3, 4]


async def test_edit_that_was_lost_is_found_by_the_catch_up(database: Database) -> None:
    async with overhearing(database, SILENT, ModelReply("12 euros.")) as scene:
        said = await say(scene, WORDS)
        await scene.until_settled(2)
        lost = edited(scene, said, f"{CALL} {WORDS}")
        found = await missed(scene, said)
        assert found is not None
        assert found.id == lost.id
        for each in (found, lost):
            await scene.send(each)
        assert await scene.until_said(3) == "12 euros."
        await scene.until_idle()
        assert sorted(scene.said) == [1, 3]


async def missed(scene: ConversationScene, said: SandboxMessage) -> IncomingMessage | None:
    """The event that the catch-up finds for a message."""
    thread = CatchUpThread(TEAM, GENERAL, scene.thread.ts, "", None, REPORTER, Decimal(0))
    async with scene.database.begin() as tx:
        stored = await MessageStore(tx).find(scene.thread, [f"{TEAM}:{GENERAL}:{said.ts}"])
        assert stored
    found = missing_event(
        ConversationThreads(BOT_USER),
        thread,
        said.as_slack(),
        stored,
        REPORTER,
        end=Decimal(10**12),
    )
    return routed(found.body["event"]) if found else None


async def test_edit_that_comes_before_its_message_is_answered_once(database: Database) -> None:
    async with overhearing(database, ModelReply("12 euros.")) as scene:
        scene.clock.now += APART
        workspace = scene.slack.workspace
        said = workspace.post(GENERAL, BEN, WORDS, thread_ts=scene.thread.ts)
        message = routed(posted(workspace.channel(GENERAL), said))
        await scene.send(edited(scene, said, f"{CALL} {WORDS}"))
        await scene.until_stored(2)
        await scene.send(message)
        assert await scene.until_said(2) == "12 euros."
        await scene.until_idle()
        assert sorted(scene.said) == [1, 2]


async def test_edit_during_the_turn_that_overhears_gets_a_turn_of_its_own(
    database: Database,
) -> None:
    async with overhearing(database) as scene:
        said: list[SandboxMessage] = []

        async def edit(_: object) -> ModelReply:
            await scene.send(edited(scene, said[0], f"{CALL} {WORDS}"))
            await scene.until_stored(3)
            return SILENT

        scene.model.replies = [edit, ModelReply("12 euros.")]
        said.append(await say(scene, WORDS))
        assert await scene.until_said(3) == "12 euros."
        assert sorted(scene.said) == [1, 3]


@pytest.mark.parametrize(
    "text",
    [
        f"{CALL} {WORDS} Sorry, the blue one.",
        f"{WORDS} `{CALL}`",
        f"> {CALL}\n{WORDS}",
        f"{WORDS} please",
    ],
)
async def test_message_that_was_answered_is_not_answered_again(
    database: Database, text: str
) -> None:
    async with overhearing(database, ModelReply("12 euros.")) as scene:
        said = await say(scene, f"{CALL} {WORDS}")
        await scene.until_said(2)
        await scene.send(edited(scene, said, text))
        await scene.until_stored(3)
        await scene.until_idle()
        assert sorted(scene.said) == [1, 2]


async def test_words_of_somebody_alone_with_the_bot_are_not_answered_again(
    database: Database,
) -> None:
    async with overhearing(database, ModelReply("12 euros.")) as scene:
        said = await say(scene, WORDS, user=REPORTER)
        await scene.until_said(2)
        await scene.send(edited(scene, said, f"{CALL} {WORDS}"))
        await scene.until_stored(3)
        await scene.until_idle()
        assert sorted(scene.said) == [1, 2]


async def test_message_answered_without_a_call_of_the_bot_is_not_answered_again(
    database: Database,
) -> None:
    async with overhearing(database, ModelReply("12 euros.")) as scene:
        said = await say(scene, WORDS)
        await scene.until_said(2)
        await scene.send(edited(scene, said, f"{CALL} {WORDS}"))
        await scene.until_stored(3)
        await scene.until_idle()
        assert sorted(scene.said) == [1, 2]


async def test_edit_that_removes_the_call_before_it_arrives_starts_no_turn(
    database: Database,
) -> None:
    async with overhearing(database, SILENT) as scene:
        said = await say(scene, WORDS)
        await scene.until_settled(2)
        calling = edited(scene, said, f"{CALL} {WORDS}")
        await scene.send(edited(scene, said, "never mind"))
        await scene.until_stored(3)
        await scene.send(calling)
        await scene.until_stored(4)
        await scene.until_idle()
        assert sorted(scene.said) == [1]


async def test_message_to_a_person_who_has_the_thread_stays_theirs(database: Database) -> None:
    async with overhearing(database) as scene:
        await scene.take_over()
        said = await say(scene, WORDS, user=REPORTER)
        await scene.until_settled(2)
        await scene.send(edited(scene, said, f"{CALL} {WORDS}"))
        await scene.until_stored(3)
        await scene.until_idle()
        assert sorted(scene.said) == [1]
