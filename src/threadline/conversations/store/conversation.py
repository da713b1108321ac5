"""ConversationStore: the row of a conversation, under whose lock everything of the conversation is written."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

from sqlalchemy import ColumnElement, Row, TextClause, and_, bindparam, delete, func, select, text, update
from sqlalchemy.dialects.postgresql import insert

from threadline.conversations.model.conversation import ConversationNotFound, ConversationSnapshot
from threadline.conversations.tables import (
    conversation_messages,
    conversation_turns,
    conversations,
    model_calls,
    ratings,
    transcript_entries,
)
from threadline.db.engine import Query, Savepoint, Store, current_savepoint
from threadline.db.values import storable
from threadline.decisions.tables import decisions
from threadline.errors import Permanent
from threadline.handovers.tables import handover_answers, handovers
from threadline.models.model import Usage
from threadline.slack.model import Thread
from threadline.threads.model import message_id
from threadline.threads.tables import removed_content

Conversation = Row[Any]
NEEDS_ANSWER = r"""
m.message_type = 'message' AND m.redacted_at IS NULL
AND (m.addressed OR m.message_text ~ '\S' OR m.files <> '[]' OR m.forwarded <> '')
"""
"""A message in which there is something to answer: an empty one too, if it is addressed."""
_HELD = "threadline.conversations"
"""Under which a connection keeps the rows that its transaction has locked."""
_COLUMNS = ", ".join(f"c.{each.name}" for each in conversations.c if each.name != "summary")  # which may be long
_NONE: Mapping[str, object] = MappingProxyType({})
_TABLES = (
    *(conversation_messages, transcript_entries, conversation_turns, ratings, model_calls),
    *(decisions, handover_answers, handovers, removed_content),
)

_STATE = """
SELECT {columns}, u.earliest IS NOT NULL AS turn_due,
       u.earliest IS NOT NULL AND (u.addressed OR u.calls_nobody AND NOT c.has_several_people) AS addressed_due,
       u.stop_due, u.unposted_turns
FROM changed c CROSS JOIN LATERAL (
    SELECT o.*,
           EXISTS (SELECT FROM conversation_messages s
                   WHERE s.conversation_id = c.id AND s.message_type = 'stop' AND s.turn IS NULL
                     AND s.said_at > o.earliest) AS stop_due,
           ARRAY(SELECT t.turn FROM conversation_turns t
                 WHERE t.conversation_id = c.id AND t.settled_at IS NOT NULL AND t.posted_at IS NULL AND t.answer <> ''
                 ORDER BY t.turn LIMIT 20) AS unposted_turns
    FROM (SELECT min(m.said_at) AS earliest, bool_or(m.addressed) AS addressed,
                 bool_or(m.message_text !~ '<@[UW][A-Z0-9_]+[|>]') AS calls_nobody
          FROM conversation_messages m
          WHERE m.conversation_id = c.id AND m.wants_turn AND (m.turn IS NULL OR m.turn > c.turn)) o
) u
{beside}
"""
"""What was taken up by a turn counts as unused until that turn is settled.

The bot's own mention is not stored: one that is stored calls somebody else."""
_SNAPSHOT = (
    "WITH {also}changed AS (SELECT * FROM conversations "
    "WHERE team = :team AND channel = :channel AND thread_ts = :thread_ts AND stored > 0)"
)
_LOCK = (
    select(conversations)
    .where(*(conversations.c[name] == bindparam(name) for name in ("team", "channel", "thread_ts")))
    .with_for_update(key_share=True)
)
_UPDATE = """
WITH {also}changed AS (
    UPDATE conversations SET rev = rev + 1, last_at = now(){changes} WHERE id = :id RETURNING *
)
"""
_ADD_USAGE = text("""
WITH changed AS (
    UPDATE conversations SET rev = rev + 1, last_at = now(), cost_usd = cost_usd + :cost_usd
    WHERE team = :team AND channel = :channel AND thread_ts = :thread_ts RETURNING *
), call AS (
    INSERT INTO model_calls (conversation_id, turn, step, purpose, milliseconds, model, input_tokens, cached_tokens,
                             output_tokens, reasoning_tokens, cost_usd)
    SELECT id, :turn, :step, :purpose, :milliseconds, :model, :input_tokens, :cached_tokens,
           :output_tokens, :reasoning_tokens, :cost_usd FROM changed
)
SELECT * FROM changed
""")
DISCARD_STALE_STOPS = f"""stale AS (
UPDATE conversation_messages s SET turn = :turn, step = 0
WHERE s.conversation_id = :id AND s.message_type = 'stop' AND s.turn IS NULL
  AND NOT EXISTS (
      SELECT FROM conversation_messages m
      WHERE m.conversation_id = :id AND m.said_at < s.said_at AND (m.turn IS NULL OR m.turn > :turn)
        AND (m.wants_turn OR m.verdict IS NULL AND {NEEDS_ANSWER})))
"""  # noqa: S608 - both parts are written here
"""A word to stop that has nothing to stop any more goes to `turn`, the last that is settled: when nothing that was said
before it is open, or may come to be once it is judged. So a snapshot of the same statement tells of no stop by it."""
_CLEAR_QUESTION = text("""
UPDATE conversations c SET question = ''
WHERE c.id = :id AND c.question <> '' AND (
    SELECT t.user_id FROM conversation_turns t
    WHERE t.conversation_id = c.id AND t.settled_at IS NOT NULL AND t.kind <> 'silent'
    ORDER BY t.turn DESC LIMIT 1) = ANY(:users)
""")
_THREAD_OF = text("""
SELECT c.team, c.channel, c.thread_ts FROM conversation_messages m JOIN conversations c ON c.id = m.conversation_id
WHERE m.message_id = :message_id
UNION ALL
SELECT c.team, c.channel, c.thread_ts FROM posts p
JOIN conversations c ON c.team = :team AND c.channel = p.channel AND c.stored > 0
                    AND starts_with(p.key, 'conversation:' || c.team || ':' || c.channel || ':' || c.thread_ts || ':')
WHERE p.channel = :channel AND p.ts = :ts AND p.key LIKE 'conversation:%'
LIMIT 1
""")
"""The condition on the key is the index's own."""
_WORKING = text("""
SELECT v.team, v.channel, v.thread_ts FROM conversations v
WHERE v.team = :team AND v.channel = :channel AND v.stored > 0 AND v.last_at > now() - interval '1 day'
  AND EXISTS (SELECT FROM conversation_messages m
              WHERE m.conversation_id = v.id AND m.wants_turn AND (m.turn IS NULL OR m.turn > v.turn))
ORDER BY v.last_at DESC LIMIT 1
""")
"""No turn takes a day."""
_WAITING = text(f"""
SELECT c.id, c.team, c.channel, c.thread_ts FROM conversations c
WHERE c.id > :after AND c.stored > 0 AND c.last_at > now() - interval '30 days' AND (
    EXISTS (SELECT FROM conversation_messages m
            WHERE m.conversation_id = c.id AND m.wants_turn AND (m.turn IS NULL OR m.turn > c.turn))
    OR EXISTS (SELECT FROM conversation_messages m
               WHERE m.conversation_id = c.id AND m.turn IS NULL AND m.verdict IS NULL AND {NEEDS_ANSWER})
    OR EXISTS (SELECT FROM conversation_turns t
               WHERE t.conversation_id = c.id AND t.posted_at IS NULL AND t.answer <> ''
                 AND t.settled_at > now() - interval '30 days' - make_interval(secs => :idle_timeout)))
ORDER BY c.id LIMIT :limit
""")  # noqa: S608 - both parts are written here
"""An answer that Slack refuses is tried again for thirty days after the silence in which the run that kept it ends."""
_OLD = text("""
SELECT id FROM conversations WHERE stored > 0 AND last_at < to_timestamp(:before)
ORDER BY last_at LIMIT :limit FOR UPDATE SKIP LOCKED
""")
_UNBIND = text("""
DELETE FROM thread_bindings b USING conversations c
WHERE c.id = ANY(:ids) AND b.team = c.team AND b.channel = c.channel AND b.thread_ts = c.thread_ts
""")
_UNREGISTER = text("""
DELETE FROM threads t USING conversations c
WHERE c.id = ANY(:ids) AND (
    t.team = c.team AND t.channel = c.channel AND t.thread_ts = c.thread_ts AND t.kind = 'conversation'
    OR t.kind = 'handover' AND t.workflow_id IN (
        SELECT 'handover:' || c.team || ':' || c.channel || ':' || c.thread_ts || ':' || h.turn
        FROM handovers h WHERE h.conversation_id = c.id))
""")
_DELETE_POSTS = text("""
DELETE FROM posts p USING conversations c
WHERE c.id = ANY(:ids) AND p.channel = c.channel AND p.thread_ts = c.thread_ts AND p.key LIKE 'conversation:%'
  AND starts_with(p.key, 'conversation:' || c.team || ':' || c.channel || ':' || c.thread_ts || ':')
""")
"""The first condition on the key is the index's own."""
_DELETE_HANDOVER_POSTS = text("""
DELETE FROM posts p USING handovers h, conversations c
WHERE h.conversation_id = ANY(:ids) AND c.id = h.conversation_id AND p.key LIKE 'handover:%'
  AND starts_with(p.key, 'handover:' || c.team || ':' || c.channel || ':' || c.thread_ts || ':' || h.turn || ':')
""")
"""They stand in two channels."""


@dataclass(frozen=True)
class WaitingConversation:
    """A conversation whose workflow must run; `id` is its place in the order of all."""

    id: int
    thread: Thread


@dataclass(frozen=True)
class _Held:
    """A row as the transaction that has locked it knows it. `savepoint`: within which, if any.

    `raised`: the transaction has raised its revision.
    """

    row: Conversation
    savepoint: Savepoint | None
    raised: bool

    @property
    def valid(self) -> bool:
        """A savepoint that was rolled back has given its locks and changes back."""
        return self.savepoint is None or self.savepoint.stands


class ConversationStore(Store):
    """A transaction locks a conversation's row once: nobody else changes it until the transaction ends, and what the
    transaction changes of it is known. Everything is safe to repeat.
    """

    async def lock(self, thread: Thread) -> Conversation:
        """Wait for the conversation's row, and hold it until the transaction ends. Raises `ConversationNotFound` when
        nobody has spoken to the bot in this thread."""
        row = await self.lock_if_exists(thread)
        if row is None:
            raise _not_found(thread)
        return row

    async def lock_if_exists(self, thread: Thread) -> Conversation | None:
        """As `lock`; None when there is no row."""
        held = self._held().get(thread)
        if held and held.valid:
            return held.row
        row = (await self._tx.execute(_LOCK, thread_key(thread))).one_or_none()
        if row is not None:
            self._hold(row, raised=False)
        return row

    async def lock_or_create(self, thread: Thread) -> Conversation:
        """The locked row, made now if need be; another transaction may be making it too."""
        await self._tx.execute(insert(conversations).values(thread_key(thread)).on_conflict_do_nothing())
        return await self.lock(thread)

    async def thread_of(self, conversation_id: int) -> Thread:
        """The thread of a conversation, by its row's id. Raises `Permanent` when there is none."""
        row = conversations.c
        query = select(row.team, row.channel, row.thread_ts).where(row.id == conversation_id)
        found = (await self._tx.execute(query)).one_or_none()
        if found is None:
            raise Permanent(f"There is no conversation {conversation_id}.")
        return Thread(*found)

    async def find_id(self, thread: Thread) -> int | None:
        """The row's id; None where nobody has spoken to the bot."""
        held = self._held().get(thread)
        if held and held.valid:
            return int(held.row.id)
        return (await self._tx.execute(select(conversations.c.id).where(in_thread(thread)))).scalar_one_or_none()

    async def update(self, thread: Thread, **values: object) -> ConversationSnapshot:
        """Change columns of the locked row and raise its revision by one, behind all that the snapshot is to tell.
        Returns what is known of the thread now."""
        return (await self.update_and_read(thread, values))[0]

    async def update_and_read(
        self, thread: Thread, values: Mapping[str, object], given: Mapping[str, object] = _NONE, **more: str
    ) -> tuple[ConversationSnapshot, Sequence[Row[Any]]]:
        """As `update`, with more in the same statement, as in `snapshot_and_read`."""
        row = await self.lock(thread)
        clean = {name: storable(value) if isinstance(value, str) else value for name, value in values.items()}
        statement = _statement(_UPDATE, changes="".join(f", {name} = :{name}" for name in values), **more)
        rows = (await self._tx.execute(statement, {"id": row.id, **given, **clean})).all()
        self._hold(rows[0], raised=True)
        return _snapshot(rows[0]), rows

    async def touch(self, thread: Thread, given: Mapping[str, object] = _NONE, **more: str) -> ConversationSnapshot:
        """Raise the revision of the locked row, unless this transaction has raised it: something of it has changed.

        With more in the same statement, as in `snapshot_and_read`.
        """
        await self.lock(thread)
        if self._held()[thread].raised:
            return (await self.snapshot_and_read(thread, given, **more))[0]
        return (await self.update_and_read(thread, {}, given, **more))[0]

    async def current_step(self, thread: Thread, turn: int, step: int) -> int:
        """The step of a turn that may write in the transcript: this one, or a later one that has taken up messages.

        0: the turn is settled. It stays so until the transaction ends.
        """
        row = await self.lock(thread)
        if turn <= row.turn:
            return 0
        return max(step, row.reading_step) if row.reading_turn == turn else step

    async def clear_question(self, conversation_id: int, users: Sequence[str]) -> None:
        """Some people said to stop: what one of them was asked last waits for nothing any more."""
        if users:
            await self._tx.execute(_CLEAR_QUESTION, {"id": conversation_id, "users": list(users)})
            self._held().clear()

    async def snapshot(self, thread: Thread) -> ConversationSnapshot:
        """What is known of a thread, as this transaction sees it; nothing when nothing is stored."""
        return (await self.snapshot_and_read(thread))[0]

    async def snapshot_and_read(
        self, thread: Thread, given: Mapping[str, object] = _NONE, **more: str
    ) -> tuple[ConversationSnapshot, Sequence[Row[Any]]]:
        """As `snapshot`, with more in the same statement; no rows when nothing is stored. `given`: parameters of
        `more`. `more`: `also`, common table expressions, of whose changes the snapshot knows nothing; `beside`, a join
        of that name whose columns the rows have as well. None may be named as one of `conversations`."""
        rows = (await self._tx.execute(_statement(_SNAPSHOT, **more), {**thread_key(thread), **given})).all()
        return (_snapshot(rows[0]) if rows else ConversationSnapshot()), rows

    async def add_usage(
        self, thread: Thread, turn: int, step: int, purpose: str, usage: Usage, milliseconds: int
    ) -> None:
        """Store what a call of the model cost; each call that was made counts, be it the same again. The row is held
        from then on. `purpose`: `think`, `summarise`, `analyse`, `decide` or `compare`. Raises `ConversationNotFound`,
        as `lock` does."""
        call = {"turn": turn, "step": step, "purpose": purpose, "milliseconds": milliseconds, **asdict(usage)}
        values = {name: storable(value) if isinstance(value, str) else value for name, value in call.items()}
        row = (await self._tx.execute(_ADD_USAGE, {**thread_key(thread), **values})).one_or_none()
        if row is None:
            raise _not_found(thread)
        self._hold(row, raised=True)

    async def thread_of_message(self, team: str, channel: str, ts: str) -> Thread | None:
        """The conversation in which a person's message, or an answer of the bot, stands; two indexed reads."""
        given = {"message_id": message_id(team, channel, ts), "team": team, "channel": channel, "ts": ts}
        row = (await self._tx.execute(_THREAD_OF, given)).first()
        return Thread(*row) if row else None

    async def active_in_channel(self, team: str, channel: str) -> Thread | None:
        """The conversation in a channel in which something waits for its answer, the last active; None without one."""
        row = (await self._tx.execute(_WORKING, {"team": team, "channel": channel})).one_or_none()
        return Thread(*row) if row else None

    async def waiting_conversations(self, after: int, limit: int, idle_timeout: float) -> list[WaitingConversation]:
        """Conversations in which a message waits for its answer, or an answer waits to be posted, in order.
        `idle_timeout`: seconds of silence after which a run of theirs ends."""
        rows = await self._tx.execute(_WAITING, {"after": after, "limit": limit, "idle_timeout": idle_timeout})
        return [WaitingConversation(row.id, Thread(row.team, row.channel, row.thread_ts)) for row in rows]

    async def prune(self, before: float, limit: int = 100) -> int:
        """Delete what conversations hold that nothing has changed since a moment (`before`: seconds since 1970), at
        most `limit` of them. Returns how many, so that 0 means none is left. What was said, thought and answered goes,
        and what the thread was about. The row stays with its numbers, so that a conversation which begins anew in the
        thread never meets the keys of the old one."""
        old = list((await self._tx.execute(_OLD, {"before": before, "limit": limit})).scalars())
        for statement in (_UNBIND, _UNREGISTER, _DELETE_POSTS, _DELETE_HANDOVER_POSTS):
            await self._tx.execute(statement, {"ids": old})
        for table in _TABLES:
            await self._tx.execute(delete(table).where(table.c.conversation_id.in_(old)))
        zero = dict.fromkeys(("stored", "deletions", "summary_until", "cost_usd"), 0)
        empty = {"question": "", "summary": "", "first_author": "", "has_several_people": False}
        emptied = update(conversations).where(conversations.c.id.in_(old))
        await self._tx.execute(emptied.values(rev=conversations.c.rev + 1, **zero, **empty))
        return len(old)

    def _held(self) -> dict[Thread, _Held]:
        """The rows that the transaction under way has locked."""
        connection, info = self._tx.sync_connection, self._tx.info
        transaction = connection and connection.get_transaction()
        if transaction is None or info.get(_HELD, (None,))[0] is not transaction:
            info[_HELD] = (transaction, {})
        held: dict[Thread, _Held] = info[_HELD][1]
        return held

    def _hold(self, row: Conversation, *, raised: bool) -> None:
        self._held()[Thread(row.team, row.channel, row.thread_ts)] = _Held(row, current_savepoint(self._tx), raised)


@cache
def _statement(begin: str, *, changes: str = "", also: str = "", beside: str = "") -> TextClause:
    also = f"{also}, " if also else ""
    columns = f"beside.*, {_COLUMNS}" if beside else _COLUMNS  # of two columns with one name the last counts
    return text(begin.format(also=also, changes=changes) + _STATE.format(columns=columns, beside=beside))


def _not_found(thread: Thread) -> ConversationNotFound:
    return ConversationNotFound(f"there is no conversation in {thread.key}: speak to the bot there first")


def _snapshot(row: Conversation) -> ConversationSnapshot:
    """Of a row of `_STATE`."""
    if not row.stored:
        return ConversationSnapshot()
    return ConversationSnapshot(
        rev=row.rev,
        exists=True,
        message_count=row.stored,
        turn=row.turn,
        turn_due=row.turn_due,
        addressed_due=row.addressed_due,
        stop_due=row.stop_due,
        unposted_turns=tuple(row.unposted_turns),
        open_question=row.question,
        cost_usd=row.cost_usd,
    )


def in_thread(thread: Thread) -> ColumnElement[bool]:
    """Of `conversations`: the row of a thread."""
    row = conversations.c
    return and_(row.team == thread.team, row.channel == thread.channel, row.thread_ts == thread.ts)


def thread_key(thread: Thread) -> dict[str, str]:
    """The columns that identify a thread."""
    return {"team": thread.team, "channel": thread.channel, "thread_ts": thread.ts}


def active_threads_query(team: str, since: float) -> Query:
    """`(channel, thread_ts, active_at)` of the conversations in which something was said since a moment (seconds since
    1970)."""
    row = conversations.c
    return select(row.channel, row.thread_ts, func.extract("epoch", row.last_at).label("active_at")).where(
        row.team == team,
        row.stored > 0,
        row.last_at > func.to_timestamp(since),
        row.thread_ts.regexp_match("^[0-9]{1,12}[.][0-9]{6}$"),
    )
