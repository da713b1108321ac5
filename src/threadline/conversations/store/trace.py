"""read_trace: what is stored about a turn, for people who want to know why the bot has answered so.

Nothing here waits for a conversation's row, nor keeps anybody from it.
"""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import select, text
from sqlalchemy.dialects.postgresql import JSONB

from threadline.conversations.store.conversation import in_thread, thread_key
from threadline.conversations.tables import conversation_messages, conversations, model_calls
from threadline.db.engine import Transaction
from threadline.slack.model import Thread
from threadline.threads.model import MessageKind

_RESULT_READ = 4_000
"""Characters of a result: of two megabytes nobody reads more."""
_ANSWER = re.compile(r"talk:([^:]+):([^:]+):([^:]+):turn:(\d+)(?:#\d+)?")
_NOTICE = re.compile(r"talk:([^:]+):([^:]+):([^:]+):([a-z_]+):.*", re.DOTALL)

_MESSAGE = text("""
SELECT c.team, c.channel, c.thread_ts, m.turn, m.verdict, m.redacted_at IS NOT NULL AS deleted
FROM conversation_messages m JOIN conversations c ON c.id = m.conversation_id
WHERE m.message_id = ANY(ARRAY(
    SELECT DISTINCT team || ':' || :channel || ':' || :ts FROM conversations WHERE channel = :channel))
LIMIT 1
""")
"""A permalink names no team."""
_POST = text("SELECT key FROM posts WHERE channel = :channel AND ts = :ts AND key LIKE 'talk:%' LIMIT 1")
"""The condition on the key is the index's own."""
_CASE = text("""
SELECT split_part(key, ':', 1) AS bug_id FROM posts WHERE channel = :channel AND ts = :ts AND key LIKE 'BUG-%'
UNION ALL
SELECT bug_id FROM bug_conversations WHERE channel = :channel AND slack_ts = :ts
UNION ALL
SELECT c.bug_id FROM threads t JOIN cases c USING (workflow_id) WHERE t.channel = :channel AND t.thread_ts = :ts
LIMIT 1
""")
_PRUNED = text("""
SELECT EXISTS (SELECT FROM conversations WHERE channel = :channel AND thread_ts = :root AND stored = 0)
""")
_DELETED = text("""
SELECT EXISTS (SELECT FROM conversation_messages m JOIN conversations c ON c.id = m.conversation_id
               WHERE c.team = :team AND c.channel = :channel AND c.thread_ts = :thread_ts
                 AND m.redacted_at IS NOT NULL AND coalesce(m.turn, 0) <= :turn)
""")
_CALLS = text("""
SELECT step, call_id, tool_name, parameters, coalesce(status, 'unknown') AS status, execution_time_ms AS milliseconds,
       left(coalesce(nullif(result->'error', 'null'), nullif(result->'data', 'null'), result->'display_text') #>> '{}',
            :longest) AS result, created_at AS begun_at
FROM agent_tool_executions
WHERE team = :team AND channel = :channel AND thread_ts = :thread_ts AND turn = :turn
ORDER BY step, created_at, call_id
""").columns(parameters=JSONB)
"""Of a failure the error, else what the model has read, else what people have."""


@dataclass(frozen=True)
class FoundMessage:
    """What a message is: of the turn `turn` of `thread`; 0 while no turn has used it.

    `notice`: what kind of notice of the bot's own it is, such as `throttled`; `verdict` why a person's message is not
    answered, `ok` where it may be; `deleted`: its author has taken it back.
    """

    thread: Thread
    turn: int = 0
    notice: str = ""
    verdict: str | None = None
    deleted: bool = False


@dataclass(frozen=True)
class MessageTrace:
    """A person's message that a turn has used; without its words where they were deleted."""

    user_id: str
    channel: str
    ts: str
    text: str
    deleted: bool
    addressed: bool


@dataclass(frozen=True)
class ToolCallTrace:
    """A call of a tool. `status` is `unknown` as long as nobody knows what came of it; `result`: its beginning."""

    step: int
    call_id: str
    tool_name: str
    parameters: Any
    status: str
    milliseconds: int | None
    result: str | None
    begun_at: datetime


@dataclass(frozen=True)
class ModelCallTrace:
    step: int
    purpose: str
    model: str
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    reasoning_tokens: int
    cost_usd: float
    milliseconds: int
    at: datetime


@dataclass(frozen=True)
class TurnTrace:
    """One turn. `messages` in its order; `tool_calls` as they were begun; `model_calls`, again or not, as they ended.

    `has_read_deleted`: a message of the thread was deleted that the turn may have read.
    """

    messages: tuple[MessageTrace, ...]
    tool_calls: tuple[ToolCallTrace, ...]
    model_calls: tuple[ModelCallTrace, ...]
    has_read_deleted: bool


async def read_trace(tx: Transaction, thread: Thread, turn: int) -> TurnTrace:
    """What is stored about a turn, whether it has ended or runs."""
    key = thread_key(thread) | {"turn": turn}
    said = conversation_messages.c
    query = select(
        *(said.sender_id, said.channel, said.slack_ts, said.message_text, said.redacted_at.is_not(None)), said.addressed
    ).join_from(conversation_messages, conversations)
    used = query.where(in_thread(thread), said.turn == turn, said.message_type == MessageKind.MESSAGE)
    messages = await tx.execute(used.order_by(said.said_at, said.seq))
    call = model_calls.c
    calls = select(
        *(call.step, call.purpose, call.model, call.input_tokens, call.cached_tokens, call.output_tokens),
        *(call.reasoning_tokens, call.cost_usd, call.milliseconds, call.created_at.label("at")),
    ).join_from(model_calls, conversations)
    asked = await tx.execute(calls.where(in_thread(thread), call.turn == turn).order_by(call.id))
    made = await tx.execute(_CALLS, key | {"longest": _RESULT_READ})
    return TurnTrace(
        tuple(MessageTrace(*each) for each in messages),
        tuple(ToolCallTrace(**each) for each in made.mappings()),
        tuple(ModelCallTrace(**each) for each in asked.mappings()),
        bool((await tx.execute(_DELETED, key)).scalar_one()),
    )


async def find_message(tx: Transaction, channel: str, ts: str) -> FoundMessage | None:
    """What a message of a conversation is; None when it is of none, or is pruned."""
    where = {"channel": channel, "ts": ts}
    key = (await tx.execute(_POST, where)).scalar_one_or_none()
    if answer := _ANSWER.fullmatch(key or ""):
        return FoundMessage(Thread(*answer.group(1, 2, 3)), int(answer.group(4)))
    if notice := _NOTICE.fullmatch(key or ""):
        return FoundMessage(Thread(*notice.group(1, 2, 3)), notice=notice.group(4))
    row = (await tx.execute(_MESSAGE, where)).one_or_none()
    if row is None:
        return None
    return FoundMessage(Thread(*row[:3]), row.turn or 0, verdict=row.verdict, deleted=row.deleted)


async def case_of_message(tx: Transaction, channel: str, ts: str) -> str:
    """The case that a message belongs to; empty for none."""
    return (await tx.execute(_CASE, {"channel": channel, "ts": ts})).scalar_one_or_none() or ""


async def is_pruned(tx: Transaction, channel: str, root: str) -> bool:
    """Whether the thread had a conversation that is pruned."""
    return bool((await tx.execute(_PRUNED, {"channel": channel, "root": root})).scalar_one())
