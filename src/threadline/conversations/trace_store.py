"""What is on record about a turn, for people who want to know why the bot has answered so. Nothing here waits for a
conversation's row, nor keeps anybody from it."""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import select, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncConnection

from threadline.conversations import conversation_row
from threadline.conversations.tables import conversation_messages, conversations, model_calls
from threadline.slack.model import Thread
from threadline.threads.model import MessageKind

_RESULT_READ = 4_000
"""Characters of a result: of two megabytes nobody reads more."""
_ANSWER = re.compile(r"talk:([^:]+):([^:]+):([^:]+):turn:(\d+)(?:#\d+)?")
_WORD = re.compile(r"talk:([^:]+):([^:]+):([^:]+):([a-z_]+):.*", re.DOTALL)

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
_FORGOTTEN = text("""
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
class Found:
    """What a message is: of the turn `turn` of `thread`; 0 while no turn has used it.

    `word`: what kind of notice of the bot's own it is, such as `limited`; `verdict` why a person's message is not
    answered, `ok` where it may be; `deleted`: its author has taken it back.
    """

    thread: Thread
    turn: int = 0
    word: str = ""
    verdict: str | None = None
    deleted: bool = False


@dataclass(frozen=True)
class Said:
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


class TurnTraces:
    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def find(self, channel: str, ts: str) -> Found | None:
        """What a message of a conversation is; None when it is of none, or is forgotten."""
        where = {"channel": channel, "ts": ts}
        key = (await self._connection.execute(_POST, where)).scalar_one_or_none()
        if answer := _ANSWER.fullmatch(key or ""):
            return Found(Thread(*answer.group(1, 2, 3)), int(answer.group(4)))
        if word := _WORD.fullmatch(key or ""):
            return Found(Thread(*word.group(1, 2, 3)), word=word.group(4))
        row = (await self._connection.execute(_MESSAGE, where)).one_or_none()
        if row is None:
            return None
        return Found(Thread(*row[:3]), row.turn or 0, verdict=row.verdict, deleted=row.deleted)

    async def case_of(self, channel: str, ts: str) -> str:
        """The case that a message belongs to; empty for none."""
        found = await self._connection.execute(_CASE, {"channel": channel, "ts": ts})
        return found.scalar_one_or_none() or ""

    async def is_forgotten(self, channel: str, root: str) -> bool:
        """Whether the thread had a conversation that is forgotten."""
        asked = await self._connection.execute(_FORGOTTEN, {"channel": channel, "root": root})
        return bool(asked.scalar_one())

    async def has_read_deleted(self, thread: Thread, turn: int) -> bool:
        """Whether a message of the thread was deleted that the turn may have read."""
        return bool((await self._connection.execute(_DELETED, _key(thread, turn))).scalar_one())

    async def said(self, thread: Thread, turn: int) -> list[Said]:
        """What people said that the turn has used, in its order."""
        row = conversation_messages.c
        query = select(
            row.sender_id, row.channel, row.slack_ts, row.message_text, row.redacted_at.is_not(None), row.addressed
        ).join_from(conversation_messages, conversations)
        mine = (conversation_row.here(thread), row.turn == turn, row.message_type == MessageKind.MESSAGE)
        rows = await self._connection.execute(query.where(*mine).order_by(row.said_at, row.seq))
        return [Said(*each) for each in rows]

    async def tool_calls(self, thread: Thread, turn: int) -> list[ToolCallTrace]:
        """In the order in which they were begun."""
        rows = await self._connection.execute(_CALLS, _key(thread, turn) | {"longest": _RESULT_READ})
        return [ToolCallTrace(**each) for each in rows.mappings()]

    async def model_calls(self, thread: Thread, turn: int) -> list[ModelCallTrace]:
        """Each that was made, again or not, in the order in which they ended."""
        row = model_calls.c
        query = select(
            *(row.step, row.purpose, row.model, row.input_tokens, row.cached_tokens, row.output_tokens),
            *(row.reasoning_tokens, row.cost_usd, row.milliseconds, row.created_at.label("at")),
        ).join_from(model_calls, conversations)
        mine = query.where(conversation_row.here(thread), row.turn == turn)
        rows = await self._connection.execute(mine.order_by(row.id))
        return [ModelCallTrace(**each) for each in rows.mappings()]


def _key(thread: Thread, turn: int) -> dict[str, Any]:
    return {"team": thread.team, "channel": thread.channel, "thread_ts": thread.ts, "turn": turn}
