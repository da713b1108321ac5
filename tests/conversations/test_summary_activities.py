"""The summary of old messages is made before a turn, in pieces, and never of deleted messages."""

import asyncio

import pytest

from tests.support.conversation_activities import ConversationActivityScene, make_talk, talk
from threadline.conversations.store.messages import MessageStore
from threadline.conversations.store.transcript import TranscriptStore
from threadline.errors import Transient
from threadline.models.model import Message, Role
from threadline.threads.model import IncomingMessage
from threadline_devstack.models.script import ScriptTurn

__all__ = ["make_talk", "talk"]


async def long_ago(talk: ConversationActivityScene, count: int, each: int = 10) -> IncomingMessage:
    """Store `count` entries of `each` bytes after a first message, which is returned."""
    first = talk.message("it all began with a secret")
    await talk.said(first)
    await talk.answer()
    entries = [
        (f"t:1:9:{number}", Message(Role.USER, f"{'x' * each} {number}."))
        for number in range(count)
    ]
    async with talk.database.begin() as tx:
        await TranscriptStore(tx).append(talk.thread, 1, 9, entries)
    return first


async def delete(talk: ConversationActivityScene, said: IncomingMessage) -> None:
    async with talk.database.begin() as tx:
        await MessageStore(tx).store(talk.thread, [talk.deletion(said)])


def summaries(talk: ConversationActivityScene) -> list[str]:
    """The prompt of each summary."""
    return [each.conversation.prompt for each in talk.model.log if not each.conversation.tools]


async def summarised(talk: ConversationActivityScene) -> int:
    """The place in the transcript up to which the summary reaches."""
    [row] = await talk.rows("SELECT summary, summary_until FROM conversations")
    assert bool(row["summary"]) == bool(row["summary_until"])
    return int(row["summary_until"])


async def test_summary_is_made_once_before_the_turn(talk: ConversationActivityScene) -> None:
    await long_ago(talk, 30)
    await talk.said("and now?")
    await talk.think(2)
    assert len(summaries(talk)) == 1
    assert str(talk.sent()[0]["content"]).startswith("[Earlier] ")
    await talk.think(2, 2)
    assert len(summaries(talk)) == 1
    assert str(talk.sent()[0]["content"]).startswith("[Earlier] ")


async def test_short_transcript_is_not_summarised(talk: ConversationActivityScene) -> None:
    await long_ago(talk, 3)
    await talk.said("and now?")
    await talk.think(2)
    assert summaries(talk) == []


async def test_few_large_messages_are_summarised(talk: ConversationActivityScene) -> None:
    await long_ago(talk, 5, 11_000)
    await talk.said("and now?")
    await talk.think(2)
    assert await summarised(talk)


async def test_started_turn_makes_no_summary(talk: ConversationActivityScene) -> None:
    await long_ago(talk, 3)
    await talk.said("and now?")
    await talk.think(2)
    entries = [(f"t:2:1:{number}", Message(Role.USER, f"{number}.")) for number in range(30)]
    async with talk.database.begin() as tx:
        await TranscriptStore(tx).append(talk.thread, 2, 1, entries)
    await talk.think(2, 2)
    assert summaries(talk) == []


async def test_deletion_causes_a_new_summary_in_pieces(
    talk: ConversationActivityScene,
) -> None:
    first = await long_ago(talk, 90, 1_500)
    await talk.said("and now?")
    await talk.answer(2)
    assert await summarised(talk)
    before = len(summaries(talk))
    await delete(talk, first)
    assert not await summarised(talk)
    await talk.said("and then?")
    await talk.think(3)
    assert await summarised(talk)
    asked = summaries(talk)[before:]
    assert asked[0].startswith("Summary so far: none")
    assert len(asked) > 2
    assert all(len(each) < 60_000 for each in asked)
    together = "".join(asked)
    assert all(f"x {number}." in together for number in range(70)), "each is summarised whole"
    assert "Person: (deleted by its author)" in asked[0]


async def test_summary_of_a_piece_is_kept_when_the_next_fails(
    talk: ConversationActivityScene,
) -> None:
    async def mute(turn: ScriptTurn) -> None:
        await turn.error(500)

    talk.model.script(
        mute,
        when=lambda asked: not asked.tools and not asked.prompt.startswith("Summary so far: none"),
    )
    await long_ago(talk, 90, 1_500)
    await talk.said("and now?")
    with pytest.raises(Transient):
        await talk.think(2)
    kept = await summarised(talk)
    assert 0 < kept < 80
    assert (await talk.think(2, attempt=2)).reply.text, (
        "the second attempt answers without the rest"
    )
    assert await summarised(talk) == kept


async def test_turn_cancelled_between_its_summary_and_its_call_goes_on_with_both(
    talk: ConversationActivityScene,
) -> None:
    """The cancelled attempt has kept its summary; the next one makes none, and asks once."""
    await long_ago(talk, 30)
    await talk.said("and now?")
    hangs = asyncio.Event()

    async def hang(turn: ScriptTurn) -> None:
        hangs.set()
        await asyncio.Event().wait()

    talk.model.script(hang, when=lambda asked: bool(asked.tools) and not hangs.is_set())
    thinking = asyncio.create_task(talk.think(2))
    await hangs.wait()
    thinking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await thinking
    assert len(summaries(talk)) == 1
    assert [key for key, _ in await talk.transcript() if key == "a:2:1"] == []
    assert (await talk.think(2, attempt=2)).reply.text
    assert len(summaries(talk)) == 1
    assert [key for key, _ in await talk.transcript() if key.startswith(("a:2", "c:2"))] == [
        "c:2",
        "a:2:1",
    ]


async def test_message_deleted_during_a_summary_is_in_no_summary(
    talk: ConversationActivityScene,
) -> None:
    first = await long_ago(talk, 30)
    await talk.said("and now?")

    async def meanwhile(turn: ScriptTurn) -> None:
        await delete(talk, first)
        await turn.text_only("It began with a secret.")

    talk.model.script(meanwhile, when=lambda asked: not asked.tools)
    await talk.think(2)
    assert not await summarised(talk)
    assert "a secret" not in str(talk.sent())
