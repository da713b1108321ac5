"""The transcript holds each entry once, in order, and the same to the last character."""

import asyncio

import pytest

from tests.support.conversation_store import THREAD, StoredConversation, mention
from threadline.conversations.store.transcript import Transcript, TranscriptStore
from threadline.conversations.store.turns import TurnStore
from threadline.models.model import Message, Role, ToolCall
from threadline.slack.model import Thread


@pytest.fixture
async def talk(talk: StoredConversation) -> StoredConversation:
    """A thread with something stored, so that there is a transcript."""
    await talk.hear(mention(1))
    return talk


def assistant(content: str) -> Message:
    return Message(Role.ASSISTANT, content, (ToolCall("c1", "a.b", "{}"),), provider_data="[]")


async def at(talk: StoredConversation, key: str) -> Message | None:
    async with talk.database.begin() as tx:
        return await TranscriptStore(tx).get(talk.thread, key)


async def test_first_entry_of_a_key_is_kept(talk: StoredConversation) -> None:
    await talk.append(
        ("c:1", Message(Role.SYSTEM, "note")),
        ("a:1:1", assistant("first")),
        ("c:1", assistant("x")),
    )
    await talk.append(
        ("a:1:1", assistant("second")), ("t:1:1:c1", Message(Role.TOOL, "2", call_id="c1"))
    )
    assert await at(talk, "a:1:1") == assistant("first")
    assert [(each.position, each.key) for each in (await talk.read()).messages] == [
        (1, "c:1"),
        (2, "a:1:1"),
        (3, "t:1:1:c1"),
    ]


async def test_reply_appended_by_two_workers_is_stored_once(
    talk: StoredConversation, other: StoredConversation
) -> None:
    await asyncio.gather(
        *(one.append(("a:1:1", assistant(f"{n}"))) for n in range(10) for one in (talk, other)),
        *(talk.append((f"t:1:1:{n}", Message(Role.TOOL, f"{n}"))) for n in range(10)),
    )
    assert await at(talk, "a:1:1") == await at(other, "a:1:1")
    read = (await talk.read()).messages
    assert [each.position for each in read] == list(range(1, 12))
    assert len({each.key for each in read}) == 11


async def test_missing_entry_is_not_read(talk: StoredConversation) -> None:
    elsewhere = StoredConversation(talk.database, Thread("T1", "C1", "1"))
    await talk.append(("a:1:1", assistant("mine")))
    assert await at(talk, "a:1:2") is None
    assert await at(elsewhere, "a:1:1") is None
    assert await elsewhere.read() == Transcript()


@pytest.mark.parametrize(
    "odd", ["a\x00b", "half \ud800", "x" * 100_000, "🙂" * 150, "sha256:" + "0" * 64]
)
async def test_key_may_have_any_characters(talk: StoredConversation, odd: str) -> None:
    await talk.append((f"t:1:1:{odd}", Message(Role.TOOL, "one")))
    await talk.append(
        (f"t:1:1:{odd}", Message(Role.TOOL, "again")),
        (f"t:1:1:{odd}.", Message(Role.TOOL, "another")),
    )
    assert await at(talk, f"t:1:1:{odd}") == Message(Role.TOOL, "one")
    assert await at(talk, f"t:1:1:{odd}.") == Message(Role.TOOL, "another")


async def test_summary_replaces_what_it_covers_and_never_covers_less(
    talk: StoredConversation,
) -> None:
    await talk.append(*((f"u:{n}", Message(Role.USER, f"{n}")) for n in range(1, 6)))
    async with talk.database.begin() as tx:
        await TranscriptStore(tx).replace_with_summary(THREAD, "one to \x00three", 3)
        await TranscriptStore(tx).replace_with_summary(THREAD, "one and two", 2)
    read = await talk.read()
    assert (read.summary, read.summary_until) == ("one to three", 3)
    assert [each.message.content for each in read.messages] == ["4", "5"]
    assert await at(talk, "u:1") == Message(Role.USER, "1"), (
        "the transcript itself keeps everything"
    )
    async with talk.database.begin() as tx:
        await TranscriptStore(tx).replace_with_summary(THREAD, "one to five", 5)
    assert (await talk.read()).messages == ()


async def test_rewritten_entry_discards_a_summary_that_covers_it(talk: StoredConversation) -> None:
    await talk.append(*((f"u:{n}", Message(Role.USER, f"{n}")) for n in range(1, 5)))
    async with talk.database.begin() as tx:
        await TranscriptStore(tx).replace_with_summary(THREAD, "one and two", 2)
        await TranscriptStore(tx).rewrite(THREAD, "u:3", "drei")
        await TranscriptStore(tx).rewrite(THREAD, "u:9", "nobody wrote it")
    assert (await talk.read()).summary == "one and two"
    async with talk.database.begin() as tx:
        await TranscriptStore(tx).rewrite(THREAD, "u:2", "zwei")
    read = await talk.read()
    assert (read.summary, [each.message.content for each in read.messages]) == (
        "",
        ["1", "zwei", "drei", "4"],
    )


async def test_single_turn_and_the_end_are_read(talk: StoredConversation) -> None:
    for turn in (1, 2, 3):
        await talk.append((f"u:{turn}", Message(Role.USER, f"{turn}")), turn=turn)
    async with talk.database.begin() as tx:
        await TranscriptStore(tx).replace_with_summary(THREAD, "one", 1)
        [first] = (await TurnStore(tx).read(THREAD, 1)).entries
        assert (first.key, first.turn, first.step) == ("u:1", 1, 1)
        assert [each.key for each in (await TranscriptStore(tx).read(THREAD)).messages] == [
            "u:2",
            "u:3",
        ]
        assert (
            await TranscriptStore(tx).append(THREAD, 3, 1, [("u:3", Message(Role.USER, "3"))]) == 0
        )
