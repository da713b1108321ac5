"""The record of a turn is found by its messages, in order, and without waiting for a lock."""

import asyncio

from tests.support.conversation_store import (
    THREAD,
    StoredConversation,
    deletion,
    mention,
    says,
    ts,
)
from tests.support.patience import patient
from tests.support.recording import explained
from tests.support.tool_store import NOW, operation
from threadline.conversations.model.conversation import Refusal
from threadline.conversations.store.explain import FoundMessage, find_message, read_turn
from threadline.conversations.store.messages import MessageStore
from threadline.conversations.store.turns import TurnStore
from threadline.db.engine import Database
from threadline.threads.store import PostStore
from threadline.tools.model import ToolStatus
from threadline.tools.store import LoggedCall, ToolExecutionStore

CHANNEL = THREAD.channel


async def found(database: Database, at: float, channel: str = CHANNEL) -> FoundMessage | None:
    async with database.begin() as tx:
        return await find_message(tx, channel, ts(at))


async def posted(database: Database, key: str, at: float) -> None:
    async with database.begin() as tx:
        await PostStore(tx).claim(key, CHANNEL, THREAD.ts)
        await PostStore(tx).record_posted(key, ts(at))


async def test_turn_is_found_by_its_messages_and_the_parts_of_its_answer(
    talk: StoredConversation,
) -> None:
    await talk.hear(mention(0), says(1))
    await talk.turn(1)
    await talk.hear(mention(2))
    await talk.take_up(2)
    for key, at in (("turn:1", 3), ("turn:1#2", 4), ("model_away:2", 5)):
        await posted(talk.database, f"conversation:{THREAD.key}:{key}", at)
    turns = {0: 1, 1: 1, 2: 2, 3: 1, 4: 1, 5: 0}
    for at, turn in turns.items():
        seen = await found(talk.database, at)
        assert seen
        assert (seen.thread, seen.turn) == (THREAD, turn)
    word = await found(talk.database, 5)
    assert word
    assert word.notice == "model_away"
    assert await found(talk.database, 9) is None
    assert await found(talk.database, 0, "C2") is None


async def test_message_without_a_turn_has_its_reason(talk: StoredConversation) -> None:
    stored = await talk.store(mention(0), mention(1), mention(2))
    await talk.judge(
        {stored.unjudged[0].message_id: None, stored.unjudged[1].message_id: Refusal.DUPLICATE}
    )
    await talk.store(deletion(2))
    seen = [await found(talk.database, at) for at in range(3)]
    assert [each and (each.turn, each.verdict, each.deleted) for each in seen] == [
        (0, "ok", False),
        (0, "duplicate", False),
        (0, None, True),
    ]


async def test_deleted_message_may_have_been_read_by_its_turn_and_later_ones(
    talk: StoredConversation,
) -> None:
    for turn in (1, 2, 3):
        await talk.hear(mention(turn, "secret plan"))
        await talk.turn(turn)
    await talk.store(deletion(2))
    async with talk.database.begin() as tx:
        traces = [await read_turn(tx, THREAD, turn) for turn in (1, 2, 3)]
    assert [each.withheld for each in traces] == [False, True, True]
    [said] = traces[1].said
    assert (said["text"], said["deleted"]) == ("", True)


async def test_tool_calls_are_read_in_order_with_the_start_of_their_results(
    database: Database,
) -> None:
    results: dict[str, dict[str, object]] = {
        "b": {"data": {"text": "x" * 2_000_000}},
        "a": {"data": None, "error": {"code": "PROTOCOL"}},
    }
    async with database.begin() as tx:
        for at, (call_id, result) in enumerate(results.items()):
            made = LoggedCall(
                operation(call_id), "R1", "U1", "journal.append", {"n": at}, "f", NOW + at
            )
            await ToolExecutionStore(tx).intend(made)
            status = ToolStatus.ERROR if "error" in result else ToolStatus.OK
            await ToolExecutionStore(tx).finish(made, status, result, 7, NOW + 9)
        words = LoggedCall(operation("c"), "R1", "U1", "slack.post.summary", {}, "f", NOW + 5)
        await ToolExecutionStore(tx).finish(
            words, ToolStatus.OK, {"data": None, "display_text": "Said."}, None, NOW + 5
        )
        await ToolExecutionStore(tx).intend(
            LoggedCall(operation("d", step=2), "R1", "U1", "rfp.list", {}, "f", NOW)
        )
        calls = (await read_turn(tx, THREAD, 1)).tool_calls
    told = [(each["call_id"], each["status"], each["milliseconds"]) for each in calls]
    assert told == [("b", "ok", 7), ("a", "error", 7), ("c", "ok", None), ("d", "unknown", None)]
    assert len(calls[0]["result"]) == 4_000
    assert [each["result"] for each in calls[1:]] == ['{"code": "PROTOCOL"}', "Said.", None]
    assert calls[0]["parameters"] == {"n": 0}


async def test_trace_is_read_while_another_transaction_holds_the_row(
    talk: StoredConversation,
) -> None:
    await talk.hear(mention(0))
    await talk.turn(1)
    async with talk.database.begin() as held:
        await MessageStore(held).take_up(THREAD, 2, 1)  # holds the conversation's row
        async with asyncio.timeout(patient(10)), talk.database.begin() as tx:
            assert await find_message(tx, CHANNEL, ts(0))
            assert await TurnStore(tx).settled(THREAD, 1)
            assert (await read_turn(tx, THREAD, 1)).said


async def test_message_is_found_by_an_index(talk: StoredConversation) -> None:
    await talk.hear(mention(0))
    await talk.do("""
        INSERT INTO conversations (team, channel, thread_ts, stored)
        SELECT 'T1', 'C' || n % 50, (1600000000 + n) || '.000000', 1
          FROM generate_series(1, 20000) n""")
    await talk.do("""
        INSERT INTO conversation_messages (conversation_id, seq, message_id, sender_type,
                                           sender_id, message_type,
                                           message_text, channel, slack_ts, said_at)
        SELECT id, 1, 'T1:' || channel || ':' || thread_ts, 'unknown', 'U1', 'message', 'x',
               channel, thread_ts, 1
        FROM conversations WHERE id > 1""")
    await talk.do("ANALYZE conversations, conversation_messages, posts")
    async with explained(talk.database) as (tx, asked):
        assert await find_message(tx, CHANNEL, ts(0))
    [plan] = [each for each in asked.plans if "conversation_messages" in each]
    assert "conversation_messages_id_idx" in plan, plan
    assert "Seq Scan on conversation_messages" not in plan, plan
