"""Corrections: the model reads the newest wording, and no text that its author has deleted."""

import itertools

import pytest

from tests.support.conversation_store import (
    REPORTER,
    THREAD,
    StoredConversation,
    deletion,
    edit,
    flags,
    identity,
    mention,
    says,
    texts,
)
from threadline.conversations.store.transcript import TranscriptStore
from threadline.slack.model import FileRef
from threadline.threads.model import parse_message


async def test_corrections_need_no_turn(talk: StoredConversation) -> None:
    await talk.hear(mention(1))
    await talk.turn(1)
    stored = await talk.store(edit(1, "better", 5), deletion(1), parse_message([1, 2]))
    assert stored.unjudged == ()
    assert flags(stored.snapshot) == (False, False, False)


@pytest.mark.parametrize(
    "order", list(itertools.permutations(("original", "first edit", "second edit")))
)
async def test_newest_edit_is_taken_up_in_any_order_of_arrival(
    talk: StoredConversation, order: tuple[str, ...]
) -> None:
    which = {
        "original": says(2, "v0"),
        "first edit": edit(2, "v1", 5),
        "second edit": edit(2, "v2", 50),
    }
    await talk.hear(mention(1, "hi"))
    for name in order:
        await talk.hear(which[name])
    assert texts(await talk.take_up(1)) == ["hi", "v2"]
    assert await talk.take_up(1, 2) == [], "the edits are shown with their original"


async def test_forwarded_words_go_with_their_message(talk: StoredConversation) -> None:
    told = "[Forwarded message by Bob]\n> stop"
    await talk.hear(mention(1, "hi"), says(2, "", forwarded=told), says(3, "look", forwarded=told))
    await talk.hear(edit(3, "look here", 5, forwarded="[Quoted]\n> why?"))
    first, second, third = await talk.take_up(1)
    assert (first.shown, second.text, second.shown) == ("hi", "", told)
    assert (third.text, third.shown) == ("look here", "look here\n[Quoted]\n> why?")
    await talk.hear(deletion(2), deletion(3))
    assert [each.forwarded for each in await talk.take_up(1)] == ["", "", ""]


async def test_edit_replaces_files_where_it_has_some(talk: StoredConversation) -> None:
    await talk.hear(mention(1, "hi", files=(FileRef("F1"),)), edit(1, "hi!", 5))
    await talk.hear(
        says(2, "look", files=(FileRef("F1"),)), edit(2, "look here", 5, files=(FileRef("F2"),))
    )
    assert [each.files for each in await talk.take_up(1)] == [(FileRef("F1"),), (FileRef("F2"),)]


async def test_edit_of_a_message_that_the_model_has_read_is_shown_once(
    talk: StoredConversation,
) -> None:
    await talk.hear(mention(1, "three days"))
    await talk.take_up(1)
    snapshot = await talk.hear(edit(1, "four days", 5), edit(1, "five days", 9))
    assert snapshot.turn_due
    [shown] = await talk.take_up(1, 2)
    assert (shown.text, shown.edit_of, shown.author_id) == ("five days", identity(1), REPORTER)
    assert await talk.take_up(1, 2) == [shown]
    await talk.settle(1)
    await talk.hear(edit(1, "four and a half", 7))
    await talk.hear(says(2, "next"))
    assert texts(await talk.take_up(2)) == ["next"], "an edit that was overtaken by a newer one"


@pytest.mark.parametrize("order", list(itertools.permutations(("original", "edit", "deletion"))))
async def test_message_deleted_before_its_turn_is_gone_in_any_order_of_arrival(
    talk: StoredConversation, order: tuple[str, ...]
) -> None:
    which = {
        "original": says(2, "secret"),
        "edit": edit(2, "still secret", 5),
        "deletion": deletion(2),
    }
    await talk.hear(mention(1, "hi"))
    await talk.turn(1)
    for name in order:
        snapshot = await talk.hear(which[name])
    assert flags(snapshot) == (False, False, False)
    assert await talk.take_up(2) == []
    assert (
        await talk.rows("SELECT 1 FROM conversation_messages WHERE message_text LIKE '%secret%'")
        == []
    )


async def test_deletion_removes_file_names(talk: StoredConversation) -> None:
    await talk.hear(mention(1, "", files=(FileRef("F1", "secret.txt"),)), deletion(1))
    assert (
        await talk.rows("SELECT 1 FROM conversation_messages WHERE files::text LIKE '%secret%'")
        == []
    )


async def test_deletion_before_the_verdict_leaves_nothing_to_judge(
    talk: StoredConversation,
) -> None:
    await talk.store(mention(1))
    assert (await talk.store(deletion(1))).unjudged == ()
    assert not (await talk.judge({identity(1): None})).turn_due


async def test_message_deleted_during_its_turn_is_redacted(talk: StoredConversation) -> None:
    await talk.hear(mention(1, "my secret"), says(2, "and more"))
    await talk.take_up(1)
    await talk.hear(edit(1, "still secret", 5))
    await talk.take_up(1, 2)
    assert (await talk.hear(deletion(1))).turn_due, "the turn is under way"
    read = (await talk.read()).messages
    assert [each.message.content for each in read] == [
        "(deleted by its author)",
        "and more",
        "(deleted by its author)",
    ]
    assert [each.message.author for each in read] == [REPORTER] * 3
    assert texts(await talk.take_up(1)) == ["(deleted by its author)", "and more"]
    for table, column in (
        ("transcript_entries", "body"),
        ("conversation_messages", "message_text"),
    ):
        assert await talk.rows(f"SELECT 1 FROM {table} WHERE {column} LIKE '%secret%'") == []  # noqa: S608 - from above


@pytest.mark.parametrize(("at", "kept"), [(1, ""), (2, "It is about a secret.")])
async def test_deletion_discards_a_summary_that_covers_the_message(
    talk: StoredConversation, at: int, kept: str
) -> None:
    await talk.hear(mention(1, "my secret"), says(2, "and more"))
    await talk.take_up(1)
    async with talk.database.begin() as tx:
        await TranscriptStore(tx).replace_with_summary(THREAD, "It is about a secret.", 1)
    await talk.hear(deletion(at))
    read = await talk.read()
    assert read.summary == kept
    assert [each.position for each in read.messages] == ([2] if kept else [1, 2])
