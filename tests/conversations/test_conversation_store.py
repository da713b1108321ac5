"""Conversations: the messages that open them, are stored, are for the bot, and are deleted."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import text

from tests.support.conversation_store import (
    REPORTER,
    STRANGER,
    THREAD,
    StoredConversation,
    deletion,
    edit,
    flags,
    identity,
    mention,
    says,
    stop,
    texts,
    ts,
)
from threadline.conversations.model.conversation import (
    ConversationNotFound,
    ConversationSnapshot,
    Refusal,
)
from threadline.conversations.store.conversation import ConversationStore
from threadline.conversations.store.transcript import TranscriptStore
from threadline.conversations.store.turns import TurnStore
from threadline.db.engine import Database
from threadline.models.model import Usage
from threadline.slack.model import FileRef, Thread
from threadline.threads.model import IncomingMessage, MessageKind, ThreadOwner, parse_message
from threadline.threads.store import PostStore, Quarantine, ThreadBindingStore, ThreadStore


async def test_unaddressed_thread_stores_nothing(talk: StoredConversation) -> None:
    addressed_stop = says(4, "stop", kind=MessageKind.STOP, addressed=True)
    batch = (says(1, "a chat"), edit(0, "new words", 2), deletion(0), stop(3), addressed_stop)
    stored = await talk.store(*batch)
    assert (stored.snapshot, stored.unjudged, stored.quarantined) == (
        ConversationSnapshot(),
        (),
        (),
    )
    assert await talk.rows("SELECT 1 FROM conversation_messages") == []
    async with talk.database.begin() as tx:
        assert await ThreadStore(tx).owner(THREAD) is None


async def test_first_addressed_message_opens_and_its_batch_is_stored(
    talk: StoredConversation,
) -> None:
    stored = await talk.store(says(2, "and this"), mention(1, "hi"))
    assert (stored.snapshot.exists, stored.snapshot.message_count, stored.snapshot.turn_due) == (
        True,
        2,
        False,
    )
    unjudged = [(each.message_id, each.user_id, each.ts) for each in stored.unjudged]
    assert unjudged == [(identity(1), REPORTER, ts(1)), (identity(2), REPORTER, ts(2))]
    assert stored.unjudged[0].said_at == float(ts(1))
    async with talk.database.begin() as tx:
        owner = ThreadStore(tx).owner
        assert await owner(THREAD) == ThreadOwner(f"conversation:{THREAD.key}", "conversation")
        assert await owner(replace(THREAD, team="T2")) is None
        assert await owner(replace(THREAD, ts=ts(1))) is None


async def test_conversation_takes_over_a_thread_that_was_a_cases(talk: StoredConversation) -> None:
    async with talk.database.begin() as tx:
        case = ThreadOwner(f"bug:{THREAD.key}", "case:report")
        await ThreadStore(tx).register(case, THREAD.channel, THREAD.ts)
    await talk.store(mention(1, "hi"))
    async with talk.database.begin() as tx:
        await ThreadStore(tx).register(case, THREAD.channel, THREAD.ts)
        assert await ThreadStore(tx).owner(THREAD) == ThreadOwner(
            f"conversation:{THREAD.key}", "conversation"
        )


async def test_message_is_due_once_it_is_judged(talk: StoredConversation) -> None:
    before = (await talk.store(mention(1))).snapshot
    snapshot = await talk.judge({identity(1): None})
    assert flags(before) == (False, False, False)
    assert flags(snapshot) == (True, True, False)
    assert snapshot.rev > before.rev
    assert await talk.snapshot() == snapshot


async def test_first_verdict_on_a_message_is_kept(talk: StoredConversation) -> None:
    await talk.store(mention(1), says(2), says(3))
    first = {
        identity(1): None,
        identity(2): Refusal.DUPLICATE,
        identity(3): Refusal.THROTTLED_FIRST,
    }
    await talk.judge(first)
    snapshot = await talk.judge(
        dict.fromkeys(reversed(first), Refusal.THROTTLED) | {identity(2): None}
    )
    assert flags(snapshot) == (True, True, False)
    assert (await talk.store(mention(1), says(2))).unjudged == ()
    assert texts(await talk.take_up(1)) == ["any news"]
    again = await talk.store(mention(1), says(2), says(3), deletion(9))
    assert [(each.message_id, each.verdict) for each in again.messages] == [
        (identity(1), "ok"),
        (identity(2), Refusal.DUPLICATE),
        (identity(3), Refusal.THROTTLED_FIRST),
        (deletion(9).id, None),
    ]


async def test_message_stored_and_not_judged_is_judged_by_the_next_attempt(
    talk: StoredConversation,
) -> None:
    first = await talk.store(mention(1), says(2))
    again = await talk.store(mention(1), says(2))
    assert again.unjudged == first.unjudged
    assert again.snapshot.message_count == 2
    await talk.judge({identity(1): None})
    assert [each.message_id for each in (await talk.store(says(3))).unjudged] == [
        identity(2),
        identity(3),
    ]


async def test_batch_stored_fifty_times_at_once_is_stored_once(
    talk: StoredConversation, other: StoredConversation
) -> None:
    batch = (
        mention(1),
        *(says(at, str(at)) for at in range(2, 12)),
        edit(2, "better", 5),
        deletion(3),
        stop(20),
    )
    stored = await asyncio.gather(
        *(each.store_with_retries(*batch) for _ in range(25) for each in (talk, other))
    )
    rows = await talk.rows("SELECT seq, message_id FROM conversation_messages ORDER BY seq")
    assert [row["seq"] for row in rows] == list(range(1, 15))
    assert {row["message_id"] for row in rows} == {each.id for each in batch}
    assert {each.snapshot.message_count for each in stored} == {14}
    assert len({each.snapshot.rev for each in stored}) == 50
    assert len(await talk.rows("SELECT 1 FROM conversations")) == 1


async def test_two_workers_with_different_verdicts_leave_one(
    talk: StoredConversation, other: StoredConversation
) -> None:
    await talk.store(mention(1), *(says(at) for at in range(2, 10)))
    ids = [identity(at) for at in range(1, 10)]
    verdicts: tuple[Refusal | None, ...] = (None, Refusal.DUPLICATE)
    await asyncio.gather(
        *(
            one.judge(dict.fromkeys(ids, verdict))
            for one, verdict in zip((talk, other), verdicts, strict=True)
        )
    )
    [row] = await talk.rows("SELECT DISTINCT verdict, wants_turn FROM conversation_messages")
    assert row["wants_turn"] == (row["verdict"] == "ok")


async def test_messages_of_a_single_person_are_for_the_bot(talk: StoredConversation) -> None:
    await talk.hear(mention(1))
    await talk.turn(1)
    assert flags(await talk.hear(says(2, "and the second one?"))) == (True, True, False)
    await talk.turn(2)
    assert flags(await talk.hear(says(3, "what do you think?", sender_id=STRANGER))) == (
        True,
        False,
        False,
    )
    assert flags(await talk.hear(mention(4, sender_id=STRANGER))) == (True, True, False)
    await talk.turn(3)
    assert flags(await talk.hear(says(5))) == (True, False, False)


async def test_unaddressed_message_is_for_the_bot_unless_another_person_is_meant(
    talk: StoredConversation,
) -> None:
    await talk.hear(mention(1, root_author_id=REPORTER))
    await talk.turn(1)
    assert flags(await talk.hear(says(2, "<@U9> have a look"))) == (False, False, False)
    assert flags(await talk.hear(says(3, "and the second one?", root_author_id=REPORTER))) == (
        True,
        True,
        False,
    )
    await talk.turn(2)
    assert flags(await talk.hear(mention(4, "what does <@U9> say?"))) == (True, True, False)
    await talk.turn(3)
    assert flags(await talk.hear(says(5, "thanks, I will try that", root_author_id=STRANGER))) == (
        True,
        False,
        False,
    )


async def test_root_author_and_called_people_decide_whether_a_message_is_overheard(
    talk: StoredConversation,
) -> None:
    async def overheard(*batch: IncomingMessage) -> set[str]:
        return {
            each.message_id for each in (await talk.store(*batch)).messages if each.not_addressed
        }

    words = (
        mention(1, root_author_id=REPORTER),
        says(2),
        says(3, "<@U9> have a look"),
        mention(4, "ask <@U9>"),
    )
    assert await overheard(*words) == {identity(3)}
    assert await overheard(*words, says(5, root_author_id=STRANGER)) == {
        identity(2),
        identity(3),
        identity(5),
    }


@pytest.mark.parametrize(
    ("message", "wants_turn"),
    [
        (mention(2, ""), True),
        (says(2, ""), False),
        (says(2, " \n\t"), False),
        (says(2, "", files=(FileRef("F1", "a.png"),)), True),
        (says(2, "??"), True),
    ],
)
async def test_empty_message_starts_no_turn(
    talk: StoredConversation, message: IncomingMessage, wants_turn: bool
) -> None:
    await talk.hear(mention(1))
    await talk.turn(1)
    stored = await talk.store(message)
    assert bool(stored.unjudged) is wants_turn
    assert (await talk.judge({message.id: None})).turn_due is wants_turn


@pytest.mark.parametrize(
    "unstorable",
    [
        {"words": "nul \x00 byte"},
        {"words": "half \ud800 pair"},
        {"id": "a\x00b"},
        {"channel": "\x00"},
        {"files": (FileRef("\x00"),)},
    ],
)
async def test_message_that_postgres_refuses_is_quarantined(
    talk: StoredConversation, unstorable: dict[str, Any]
) -> None:
    batch = (mention(1), says(2, **unstorable), says(3, "after", version="1\x00"))
    stored = await talk.store(*batch)
    assert (stored.snapshot.message_count, len(stored.quarantined), len(stored.unjudged)) == (
        2,
        1,
        2,
    )
    again = await talk.store(*batch)
    assert (again.snapshot.message_count, again.quarantined) == (2, ())
    async with talk.database.begin() as tx:
        [kept] = await Quarantine(tx).messages(10)
        assert (await Quarantine(tx).count())[0] == 1
    assert (kept.thread, kept.message_id) == (THREAD, stored.quarantined[0])
    assert kept.error.startswith("the database refused this message")


async def test_unreadable_message_is_kept_without_a_conversation(talk: StoredConversation) -> None:
    stored = await talk.store(parse_message([{"no": "id"}]))
    assert len(stored.quarantined) == 1
    assert not stored.snapshot.exists
    async with talk.database.begin() as tx:
        assert [each.thread for each in await Quarantine(tx).messages(10)] == [THREAD]


async def test_costs_of_model_calls_add_up(talk: StoredConversation) -> None:
    await talk.hear(mention(1))
    usage = Usage("gpt\x00-x", 100, 40, 20, 10, 0.25)
    for step, purpose in ((1, "think"), (1, "summarise"), (2, "think")):
        async with talk.database.begin() as tx:
            await ConversationStore(tx).add_usage(THREAD, 1, step, purpose, usage, 1_234)
    assert (await talk.snapshot()).cost_usd == 0.75
    rows = await talk.rows("SELECT * FROM model_calls ORDER BY id")
    assert [(row["step"], row["purpose"]) for row in rows] == [
        (1, "think"),
        (1, "summarise"),
        (2, "think"),
    ]
    kept = {
        name: rows[0][name]
        for name in ("model", "input_tokens", "cached_tokens", "output_tokens", "milliseconds")
    }
    assert kept == {
        "model": "gpt-x",
        "input_tokens": 100,
        "cached_tokens": 40,
        "output_tokens": 20,
        "milliseconds": 1_234,
    }


async def test_unknown_cost_of_a_call_leaves_the_cost_of_its_turn_unknown(
    talk: StoredConversation,
) -> None:
    await talk.hear(mention(1))
    for usage in (Usage("gpt-x", 100, 0, 20, 0, 0.25), Usage("local", 100, 0, 20, 0, None)):
        async with talk.database.begin() as tx:
            await ConversationStore(tx).add_usage(THREAD, 1, 1, "think", usage, 1_234)
            spent = await TurnStore(tx).usage(THREAD, 1)
    assert (spent.cost_usd, spent.tokens) == (None, 240)
    assert (await talk.snapshot()).cost_usd is None


async def test_changes_without_a_conversation_are_refused(talk: StoredConversation) -> None:
    for change in (talk.take_up(1), talk.settle(1), talk.said(1), talk.judge({}), talk.append()):
        with pytest.raises(ConversationNotFound):
            await change


async def test_thread_of_a_message_or_post_is_found(talk: StoredConversation) -> None:
    await talk.hear(mention(0), says(1))
    await talk.turn(1)
    async with talk.database.begin() as tx:
        for key, at in ((f"conversation:{THREAD.key}:turn:1", 2), ("BUG-1:turn:1:findings", 3)):
            await PostStore(tx).claim(key, THREAD.channel, THREAD.ts)
            await PostStore(tx).record_posted(key, ts(at))
    async with talk.database.begin() as tx:
        of = ConversationStore(tx).thread_of_message
        found = {at: await of(THREAD.team, THREAD.channel, ts(at)) for at in range(5)}
        assert found == {0: THREAD, 1: THREAD, 2: THREAD, 3: None, 4: None}
        for at in (1, 2):
            assert await of("T2", THREAD.channel, ts(at)) is None
            assert await of(THREAD.team, "C2", ts(at)) is None


_POST = """
INSERT INTO posts (key, channel, thread_ts, claimed_at, ts)
VALUES (:key, :channel, :ts, 0, '9.0')
"""


async def test_old_conversations_are_deleted_in_steps(database: Database) -> None:
    talks = [StoredConversation(database, Thread("T1", "C1", ts(number))) for number in range(5)]
    for number, talk in enumerate(talks):
        await talk.hear(mention(number, "secret words"))
        await talk.turn(1, "a secret answer")
        async with database.begin() as tx:
            await ConversationStore(tx).add_usage(talk.thread, 1, 1, "think", Usage("gpt-x"), 1)
            await TranscriptStore(tx).replace_with_summary(talk.thread, "secret", 1)
        await talk.do(
            "UPDATE conversations SET last_at = to_timestamp(:n) WHERE id = :n + 1", n=number
        )
        async with database.begin() as tx:
            await ThreadBindingStore(tx).bind(talk.thread, "project", "PRJ-1", "U1")
            for key in (
                f"conversation:{talk.thread.key}:turn:1",
                f"conversation:{talk.thread.key}5:turn:1",
            ):
                post = {"key": key, "channel": "C1", "ts": talk.thread.ts}
                await tx.execute(text(_POST), post)
    async with database.begin() as tx:
        assert [await ConversationStore(tx).prune(3, 2) for _ in range(3)] == [2, 1, 0]
    assert [(await talk.snapshot()).exists for talk in talks] == [False, False, False, True, True]
    for table in (
        "conversation_messages",
        "transcript_entries",
        "conversation_turns",
        "model_calls",
        "thread_bindings",
    ):
        assert len(await talks[0].rows(f"SELECT 1 FROM {table}")) == 2, table  # noqa: S608 - from above
    assert len(await talks[0].rows("SELECT 1 FROM conversations WHERE summary <> ''")) == 2
    posts = {row["key"] for row in await talks[0].rows("SELECT key FROM posts")}
    assert [f"conversation:{talk.thread.key}:turn:1" in posts for talk in talks] == [
        False,
        False,
        False,
        True,
        True,
    ]
    assert len(posts) == 2 + 5, "with every other message of those threads"


async def test_new_conversation_does_not_reuse_keys_of_the_deleted_one(
    talk: StoredConversation,
) -> None:
    await talk.hear(mention(1, "before"))
    await talk.turn(1, "Which?", question="Which?")
    before = await talk.snapshot()
    async with talk.database.begin() as tx:
        assert await ConversationStore(tx).prune(before=2_000_000_000_000.0) == 1
        assert await ThreadStore(tx).owner(THREAD) is None
    assert await talk.snapshot() == ConversationSnapshot()
    assert (await talk.store(says(2, "not to the bot"))).snapshot == ConversationSnapshot()
    snapshot = await talk.hear(mention(3, "after"))
    assert (snapshot.exists, snapshot.message_count, snapshot.turn, snapshot.open_question) == (
        True,
        1,
        1,
        "",
    )
    assert snapshot.rev > before.rev
    assert texts(await talk.take_up(2)) == ["after"]
    assert [each.position for each in (await talk.read()).messages] == [1]
