"""The summary of old messages: made before a turn, in pieces, and never of deleted messages."""

import pytest

from tests.support.conversation_activities import ConversationActivityScene, make_talk, talk
from threadline.conversations.contract import TalkTurn
from threadline.conversations.model.conversation import ConversationSnapshot
from threadline.conversations.store.messages import MessageStore
from threadline.conversations.store.transcript import TranscriptStore
from threadline.errors import Transient
from threadline.models.model import Message, Role
from threadline.threads.model import IncomingMessage
from threadline_devstack.models.script import ScriptTurn

__all__ = ["make_talk", "talk"]


async def long_ago(talk: ConversationActivityScene, count: int, each: int = 10) -> IncomingMessage:
    """A first turn with `count` entries of `each` bytes behind what it began with, which is returned."""
    first = talk.message("it all began with a secret")
    await talk.said(first)
    await talk.answer()
    entries = [(f"t:1:9:{number}", Message(Role.USER, f"{'x' * each} {number}.")) for number in range(count)]
    async with talk.database.begin() as tx:
        await TranscriptStore(tx).append(talk.thread, 1, 9, entries)
    return first


async def delete(talk: ConversationActivityScene, said: IncomingMessage) -> None:
    async with talk.database.begin() as tx:
        await MessageStore(tx).store(talk.thread, [talk.deletion(said)])


async def summarise(talk: ConversationActivityScene, turn: int = 2) -> ConversationSnapshot:
    return await talk.run(talk.thinking.summarise, TalkTurn(talk.thread, turn))


def summaries(talk: ConversationActivityScene) -> list[str]:
    """What was asked for each."""
    return [each.conversation.prompt for each in talk.model.log if not each.conversation.tools]


async def test_summary_is_made_once_before_the_turn(talk: ConversationActivityScene) -> None:
    await long_ago(talk, 30)
    marks = (await talk.said("and now?")).marks
    assert marks.crowded
    beats: list[object] = []
    talk.env.on_heartbeat = lambda *details: beats.append(details)
    after = await summarise(talk)
    assert beats, "a lost worker, and a word to stop, are heard of in seconds"
    assert not after.crowded
    assert after.rev > marks.rev
    assert len(summaries(talk)) == 1
    await talk.think(2)
    assert len(summaries(talk)) == 1
    assert str(talk.sent()[0]["content"]).startswith("[Earlier] ")


async def test_short_transcript_is_not_summarised(talk: ConversationActivityScene) -> None:
    await long_ago(talk, 3)
    assert not (await talk.said("and now?")).marks.crowded
    await summarise(talk)
    assert summaries(talk) == []


async def test_few_large_messages_are_summarised(talk: ConversationActivityScene) -> None:
    await long_ago(talk, 5, 11_000)
    assert (await talk.said("and now?")).marks.crowded
    assert not (await summarise(talk)).crowded


async def test_started_turn_makes_no_summary(talk: ConversationActivityScene) -> None:
    await long_ago(talk, 30)
    await talk.said("and now?")
    await talk.think(2)
    await summarise(talk)
    assert summaries(talk) == []


async def test_deletion_has_the_summary_made_again_in_pieces(talk: ConversationActivityScene) -> None:
    first = await long_ago(talk, 90, 1_500)
    await talk.said("and now?")
    assert not (await summarise(talk)).crowded
    before = len(summaries(talk))
    await delete(talk, first)
    assert not (await summarise(talk)).crowded
    asked = summaries(talk)[before:]
    assert asked[0].startswith("Summary so far: none")
    assert len(asked) > 2
    assert all(len(each) < 60_000 for each in asked)
    together = "".join(asked)
    assert all(f"x {number}." in together for number in range(70)), "each is told whole"
    assert "Person: (deleted by its author)" in asked[0]


async def test_summary_of_a_piece_is_kept_when_the_next_fails(talk: ConversationActivityScene) -> None:
    async def mute(turn: ScriptTurn) -> None:
        await turn.error(500)

    talk.model.script(mute, when=lambda asked: not asked.tools and not asked.prompt.startswith("Summary so far: none"))
    await long_ago(talk, 90, 1_500)
    await talk.said("and now?")
    with pytest.raises(Transient):
        await summarise(talk)
    [row] = await talk.rows("SELECT summary, summary_until FROM conversations")
    assert row["summary"]
    assert 0 < row["summary_until"] < 80


async def test_message_deleted_during_a_summary_is_in_no_summary(talk: ConversationActivityScene) -> None:
    first = await long_ago(talk, 30)
    await talk.said("and now?")

    async def meanwhile(turn: ScriptTurn) -> None:
        await delete(talk, first)
        await turn.text_only("It began with a secret.")

    talk.model.script(meanwhile, when=lambda asked: not asked.tools)
    await summarise(talk)
    [row] = await talk.rows("SELECT summary, summary_until FROM conversations")
    assert (row["summary"], row["summary_until"]) == ("", 0)
