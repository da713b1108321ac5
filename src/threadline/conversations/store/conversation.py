"""ConversationStore: the row of a conversation, whose lock covers every write to the
conversation.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import ColumnElement, Row, and_, bindparam, delete, func, select, text, update
from sqlalchemy.dialects.postgresql import insert

from threadline.conversations.model.conversation import ConversationNotFound, ConversationSnapshot
from threadline.conversations.tables import (
    conversation_files,
    conversation_messages,
    conversation_turns,
    conversations,
    handovers,
    model_calls,
    ratings,
    transcript_entries,
)
from threadline.db.engine import Query, Savepoint, Store, current_savepoint
from threadline.db.values import storable
from threadline.decisions.tables import decisions
from threadline.errors import Permanent
from threadline.models.model import CallFailure, Usage
from threadline.slack.model import Thread
from threadline.threads.model import message_id
from threadline.threads.tables import removed_content

Conversation = Row[Any]
_HELD = "threadline.conversations"
"""Key under which a connection keeps the rows that its transaction has locked."""
_TABLES = (
    *(
        conversation_files,
        conversation_messages,
        transcript_entries,
        conversation_turns,
        ratings,
        model_calls,
    ),
    *(decisions, handovers, removed_content),
)
"""Tables with the contents of a conversation. The messages under a handover's card are deleted
with the handover, by their foreign key.
"""

_SNAPSHOT = text("""
SELECT c.rev, c.stored, c.turn, c.question, c.cost_usd, u.earliest IS NOT NULL AS turn_due,
       u.earliest IS NOT NULL
       AND (u.addressed OR u.calls_nobody AND NOT c.has_several_people) AS addressed_due,
       u.stop_due, u.unposted_turns, u.files_due
FROM conversations c CROSS JOIN LATERAL (
    SELECT o.*,
           EXISTS (SELECT FROM conversation_messages s
                   WHERE s.conversation_id = c.id AND s.message_type = 'stop' AND s.turn IS NULL
                     AND s.said_at > o.earliest) AS stop_due,
           o.earliest IS NOT NULL AND EXISTS (
               SELECT FROM conversation_files f
               JOIN conversation_messages m ON m.conversation_id = c.id
                 AND m.message_id = f.message_id
               WHERE f.conversation_id = c.id AND f.fetched_at IS NULL
                 AND m.wants_turn AND (m.turn IS NULL OR m.turn > c.turn)) AS files_due,
           ARRAY(SELECT t.turn FROM conversation_turns t
                 WHERE t.conversation_id = c.id AND t.settled_at IS NOT NULL
                   AND t.posted_at IS NULL AND t.answer <> ''
                 ORDER BY t.turn LIMIT 20) AS unposted_turns
    FROM (SELECT min(m.said_at) AS earliest, bool_or(m.addressed) AS addressed,
                 bool_or(m.message_text !~ '<@[UW][A-Z0-9_]+[|>]') AS calls_nobody
          FROM conversation_messages m
          WHERE m.conversation_id = c.id AND m.wants_turn
            AND (m.turn IS NULL OR m.turn > c.turn)) o
) u
WHERE c.team = :team AND c.channel = :channel AND c.thread_ts = :thread_ts AND c.stored > 0
""")
"""A message that a turn has taken up counts as unused until that turn is settled.

The bot's own mention is not stored, so a stored mention addresses another user.
"""
_LOCK = (
    select(conversations)
    .where(
        *(conversations.c[name] == bindparam(name) for name in ("team", "channel", "thread_ts"))
    )
    .with_for_update(key_share=True)
)
_ADD_USAGE = text("""
WITH changed AS (
    UPDATE conversations SET rev = rev + 1, last_at = now(), cost_usd = cost_usd + :cost_usd
    WHERE team = :team AND channel = :channel AND thread_ts = :thread_ts RETURNING *
), call AS (
    INSERT INTO model_calls (conversation_id, turn, step, purpose, milliseconds, model,
                             input_tokens, cached_tokens, output_tokens, reasoning_tokens,
                             cost_usd)
    SELECT id, :turn, :step, :purpose, :milliseconds, :model, :input_tokens, :cached_tokens,
           :output_tokens, :reasoning_tokens, :cost_usd FROM changed
)
SELECT * FROM changed
""")
_ADD_FAILURE = text("""
WITH conversation AS (
    SELECT id FROM conversations
    WHERE team = :team AND channel = :channel AND thread_ts = :thread_ts FOR NO KEY UPDATE
)
INSERT INTO model_calls (conversation_id, turn, step, purpose, milliseconds, model, input_tokens,
                         cached_tokens, output_tokens, reasoning_tokens, cost_usd, failure)
SELECT c.id, :turn, :step, :purpose, :milliseconds, '', 0, 0, 0, 0, 0,
       CASE WHEN EXISTS (
           SELECT FROM conversation_messages m
           WHERE m.conversation_id = c.id
             AND m.redacted_at > now() - make_interval(secs => :unsure)
       ) THEN CAST(:told AS text)
       ELSE concat_ws(' ', CAST(:told AS text), nullif(CAST(:reason AS text), '')) END
FROM conversation c
""")
_DELETE_FAILURES = text("""
UPDATE model_calls SET failure = :withheld WHERE conversation_id = :id AND failure <> ''
""")
FAILURE_WITHHELD = "(The reason was removed, since a message was deleted.)"
_PREPARED = 120.0
"""Seconds before a model call in which its prompt may have been read."""
_DISCARD_STALE_STOPS = text("""
UPDATE conversation_messages s SET turn = :turn, step = 0
WHERE s.conversation_id = :id AND s.message_type = 'stop' AND s.turn IS NULL
  AND NOT EXISTS (
      SELECT FROM conversation_messages m
      WHERE m.conversation_id = :id AND m.said_at < s.said_at
        AND (m.turn IS NULL OR m.turn > :turn)
        AND (m.wants_turn OR m.verdict IS NULL AND m.needs_answer))
""")
_CLEAR_QUESTION = text("""
UPDATE conversations c SET question = ''
WHERE c.id = :id AND c.question <> '' AND (
    SELECT t.user_id FROM conversation_turns t
    WHERE t.conversation_id = c.id AND t.settled_at IS NOT NULL AND t.kind <> 'silent'
    ORDER BY t.turn DESC LIMIT 1) = ANY(:users)
""")
_THREAD_OF = text("""
SELECT c.team, c.channel, c.thread_ts FROM conversation_messages m
JOIN conversations c ON c.id = m.conversation_id
WHERE m.message_id = :message_id
UNION ALL
SELECT c.team, c.channel, c.thread_ts FROM posts p
JOIN conversations c ON c.team = :team AND c.channel = p.channel AND c.stored > 0
                    AND starts_with(p.key, 'conversation:' || c.team || ':' || c.channel
                                           || ':' || c.thread_ts || ':')
WHERE p.channel = :channel AND p.ts = :ts AND p.key LIKE 'conversation:%'
LIMIT 1
""")
"""The condition `LIKE` on the key lets Postgres use the partial index."""
_WORKING = text("""
SELECT v.team, v.channel, v.thread_ts FROM conversations v
WHERE v.team = :team AND v.channel = :channel AND v.stored > 0
  AND v.last_at > now() - interval '1 day'
  AND EXISTS (SELECT FROM conversation_messages m
              WHERE m.conversation_id = v.id AND m.wants_turn
                AND (m.turn IS NULL OR m.turn > v.turn))
ORDER BY v.last_at DESC LIMIT 1
""")
"""A turn never takes a day."""
_WAITING = text("""
SELECT c.id, c.team, c.channel, c.thread_ts FROM conversations c
WHERE c.id > :after AND c.stored > 0 AND c.last_at > now() - interval '30 days' AND (
    EXISTS (SELECT FROM conversation_messages m
            WHERE m.conversation_id = c.id AND m.wants_turn
              AND (m.turn IS NULL OR m.turn > c.turn))
    OR EXISTS (SELECT FROM conversation_messages m
               WHERE m.conversation_id = c.id AND m.turn IS NULL AND m.verdict IS NULL
                 AND m.needs_answer)
    OR EXISTS (SELECT FROM conversation_turns t
               WHERE t.conversation_id = c.id AND t.posted_at IS NULL AND t.answer <> ''
                 AND t.settled_at > now() - interval '30 days'
                                    - make_interval(secs => :idle_timeout)))
ORDER BY c.id LIMIT :limit
""")
"""A post that Slack refuses is retried for thirty days after the idle time of the run that kept
it.
"""
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
    t.team = c.team AND t.channel = c.channel AND t.thread_ts = c.thread_ts
    AND t.kind = 'conversation'
    OR t.kind = 'handover' AND t.workflow_id IN (
        SELECT 'handover:' || c.team || ':' || c.channel || ':' || c.thread_ts || ':' || h.turn
        FROM handovers h WHERE h.conversation_id = c.id))
""")
_DELETE_POSTS = text("""
DELETE FROM posts p USING conversations c
WHERE c.id = ANY(:ids) AND p.channel = c.channel AND p.thread_ts = c.thread_ts
  AND p.key LIKE 'conversation:%'
  AND starts_with(p.key, 'conversation:' || c.team || ':' || c.channel
                         || ':' || c.thread_ts || ':')
""")
"""The condition `LIKE` on the key lets Postgres use the partial index."""
_DELETE_HANDOVER_POSTS = text("""
DELETE FROM posts p USING handovers h, conversations c
WHERE h.conversation_id = ANY(:ids) AND c.id = h.conversation_id AND p.key LIKE 'handover:%'
  AND starts_with(p.key, 'handover:' || c.team || ':' || c.channel
                         || ':' || c.thread_ts || ':' || h.turn || ':')
""")
"""These posts are in two channels."""


@dataclass(frozen=True)
class WaitingConversation:
    """A conversation whose workflow must run; `id` is its position in the order of all."""

    id: int
    thread: Thread


@dataclass(frozen=True)
class _Held:
    """A row as its locking transaction knows it.

    `savepoint`: the one in which the row was locked, if any. `raised`: the transaction has raised
    the row's revision.
    """

    row: Conversation
    savepoint: Savepoint | None
    raised: bool

    @property
    def valid(self) -> bool:
        """False after a rollback of the savepoint, which has released its locks and undone its
        changes.
        """
        return self.savepoint is None or self.savepoint.in_force


class ConversationStore(Store):
    """Access to the rows of conversations; every method is safe to repeat.

    A transaction locks a conversation's row once and then remembers its contents: no other
    transaction changes the row until it ends.
    """

    async def lock(self, thread: Thread) -> Conversation:
        """Wait for the conversation's row, and lock it until the transaction ends.

        Raises:
            ConversationNotFound: no message in this thread was ever addressed to the bot.
        """
        row = await self.lock_if_exists(thread)
        if row is None:
            raise _not_found(thread)
        return row

    async def lock_if_exists(self, thread: Thread) -> Conversation | None:
        """Lock the row as `lock` does; return None when there is no row."""
        held = self._held().get(thread)
        if held and held.valid:
            return held.row
        row = (await self._tx.execute(_LOCK, thread_key(thread))).one_or_none()
        if row is not None:
            self._hold(row, raised=False)
        return row

    async def lock_or_create(self, thread: Thread) -> Conversation:
        """Return the locked row, created if need be; another transaction may be creating it
        concurrently.
        """
        await self._tx.execute(
            insert(conversations).values(thread_key(thread)).on_conflict_do_nothing()
        )
        return await self.lock(thread)

    async def thread_of(self, conversation_id: int) -> Thread:
        """Return the thread of a conversation, by its row's id. Raises `Permanent` when there is
        none.
        """
        row = conversations.c
        query = select(row.team, row.channel, row.thread_ts).where(row.id == conversation_id)
        found = (await self._tx.execute(query)).one_or_none()
        if found is None:
            raise Permanent(f"There is no conversation {conversation_id}.")
        return Thread(*found)

    async def find_id(self, thread: Thread) -> int | None:
        """Return the row's id; None when the thread has no conversation."""
        held = self._held().get(thread)
        if held and held.valid:
            return int(held.row.id)
        return (
            await self._tx.execute(select(conversations.c.id).where(in_thread(thread)))
        ).scalar_one_or_none()

    async def change(self, thread: Thread, **values: object) -> Conversation:
        """Change columns of the row, raise its revision by one, lock it, and return it.

        Raises:
            ConversationNotFound: as in `lock`.
        """
        clean = {
            name: storable(value) if isinstance(value, str) else value
            for name, value in values.items()
        }
        columns = conversations.c
        change = (
            update(conversations)
            .where(in_thread(thread))
            .values(rev=columns.rev + 1, last_at=func.now(), **clean)
            .returning(*(each for each in columns if each.name != "summary"))
        )
        row = (await self._tx.execute(change)).one_or_none()
        if row is None:
            raise _not_found(thread)
        self._hold(row, raised=True)
        return row

    async def touch(self, thread: Thread) -> None:
        """Raise the revision of the row, unless this transaction has raised it already."""
        await self.lock(thread)
        if not self._held()[thread].raised:
            await self.change(thread)

    async def discard_stale_stops(self, conversation_id: int, turn: int) -> None:
        """Assign to `turn`, the last settled one, each request to stop that has nothing left to
        stop.

        That is so when no earlier message is open, or can become open once it is judged.
        """
        await self._tx.execute(_DISCARD_STALE_STOPS, {"id": conversation_id, "turn": turn})

    async def current_step(self, thread: Thread, turn: int, step: int) -> int:
        """Return the step of a turn that may write in the transcript: this one, or a later one
        that has taken up messages.

        Returns 0 for a settled turn. The result holds until the transaction ends.
        """
        row = await self.lock(thread)
        if turn <= row.turn:
            return 0
        return max(step, row.reading_step) if row.reading_turn == turn else step

    async def clear_question(self, conversation_id: int, users: Sequence[str]) -> None:
        """Clear the open question if the bot asked it of one of `users`, who now want it to
        stop.
        """
        if users:
            await self._tx.execute(_CLEAR_QUESTION, {"id": conversation_id, "users": list(users)})
            self._held().clear()

    async def snapshot(self, thread: Thread) -> ConversationSnapshot:
        """Return the state of a thread as this transaction sees it; the empty one when nothing is
        stored.
        """
        row = (await self._tx.execute(_SNAPSHOT, thread_key(thread))).one_or_none()
        return _snapshot(row) if row else ConversationSnapshot()

    async def add_usage(
        self, thread: Thread, turn: int, step: int, purpose: str, usage: Usage, milliseconds: int
    ) -> None:
        """Store the cost of a model call, and lock the row. Every call counts, repeated ones too.

        Args:
            purpose: `think`, `draft`, `summarise`, `analyse`, `decide` or `compare`.

        Raises:
            ConversationNotFound: as in `lock`.
        """
        call = {
            "turn": turn,
            "step": step,
            "purpose": purpose,
            "milliseconds": milliseconds,
            **asdict(usage),
        }
        values = {
            name: storable(value) if isinstance(value, str) else value
            for name, value in call.items()
        }
        row = (await self._tx.execute(_ADD_USAGE, {**thread_key(thread), **values})).one_or_none()
        if row is None:
            raise _not_found(thread)
        self._hold(row, raised=True)

    async def add_failure(
        self,
        thread: Thread,
        turn: int,
        step: int,
        purpose: str,
        failure: CallFailure,
        milliseconds: int,
    ) -> None:
        """Store that a model call failed; does nothing without a conversation.

        The API's own message may quote a message that was deleted during the call, and is left out
        then.
        """
        call = {"turn": turn, "step": step, "purpose": purpose, "milliseconds": milliseconds}
        words = {"told": storable(failure.told), "reason": storable(failure.reason)}
        given = thread_key(thread) | call | words | {"unsure": milliseconds / 1000 + _PREPARED}
        await self._tx.execute(_ADD_FAILURE, given)

    async def delete_failures(self, conversation_id: int) -> None:
        """Remove the reasons of failed model calls, which may quote deleted messages."""
        await self._tx.execute(
            _DELETE_FAILURES, {"id": conversation_id, "withheld": FAILURE_WITHHELD}
        )

    async def thread_of_message(self, team: str, channel: str, ts: str) -> Thread | None:
        """Return the conversation that contains a person's message, or an answer of the bot; two
        indexed reads.
        """
        given = {
            "message_id": message_id(team, channel, ts),
            "team": team,
            "channel": channel,
            "ts": ts,
        }
        row = (await self._tx.execute(_THREAD_OF, given)).first()
        return Thread(*row) if row else None

    async def active_in_channel(self, team: str, channel: str) -> Thread | None:
        """Return the most recently active conversation of a channel in which a message waits for
        its answer; None without one.
        """
        row = (await self._tx.execute(_WORKING, {"team": team, "channel": channel})).one_or_none()
        return Thread(*row) if row else None

    async def waiting_conversations(
        self, after: int, limit: int, idle_timeout: float
    ) -> list[WaitingConversation]:
        """Return conversations in which a message waits for its answer, or an answer waits to be
        posted, in order.

        `idle_timeout`: seconds of silence after which their runs end.
        """
        rows = await self._tx.execute(
            _WAITING, {"after": after, "limit": limit, "idle_timeout": idle_timeout}
        )
        return [
            WaitingConversation(row.id, Thread(row.team, row.channel, row.thread_ts))
            for row in rows
        ]

    async def prune(self, before: float, limit: int = 100) -> int:
        """Delete the contents of conversations that are unchanged since a moment, and their
        threads' bindings.

        The row stays with its numbers, so that a new conversation in the thread never meets the
        keys of the old one.

        Args:
            before: the moment, in seconds since 1970.
            limit: conversations at most.

        Returns:
            The number of pruned conversations; 0 means that none is left.
        """
        old = list((await self._tx.execute(_OLD, {"before": before, "limit": limit})).scalars())
        for statement in (_UNBIND, _UNREGISTER, _DELETE_POSTS, _DELETE_HANDOVER_POSTS):
            await self._tx.execute(statement, {"ids": old})
        for table in _TABLES:
            await self._tx.execute(delete(table).where(table.c.conversation_id.in_(old)))
        zero = dict.fromkeys(
            (
                "stored",
                "deletions",
                "summary_until",
                "cost_usd",
                "quiet_until",
                "quiet_changed_at",
            ),
            0,
        )
        empty = {"question": "", "summary": "", "first_author": "", "has_several_people": False}
        emptied = update(conversations).where(conversations.c.id.in_(old))
        await self._tx.execute(emptied.values(rev=conversations.c.rev + 1, **zero, **empty))
        return len(old)

    def _held(self) -> dict[Thread, _Held]:
        """Return the rows that the transaction under way has locked."""
        connection = self._tx.sync_connection
        info = self._tx.info
        transaction = connection and connection.get_transaction()
        if transaction is None or info.get(_HELD, (None,))[0] is not transaction:
            info[_HELD] = (transaction, {})
        held: dict[Thread, _Held] = info[_HELD][1]
        return held

    def _hold(self, row: Conversation, *, raised: bool) -> None:
        self._held()[Thread(row.team, row.channel, row.thread_ts)] = _Held(
            row, current_savepoint(self._tx), raised
        )


def _not_found(thread: Thread) -> ConversationNotFound:
    return ConversationNotFound(
        f"there is no conversation in {thread.key}: mention the bot there first"
    )


def _snapshot(row: Conversation) -> ConversationSnapshot:
    """Build the snapshot from a row of `_SNAPSHOT`."""
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
        files_due=row.files_due,
        unposted_turns=tuple(row.unposted_turns),
        open_question=row.question,
        cost_usd=row.cost_usd,
    )


def in_thread(thread: Thread) -> ColumnElement[bool]:
    """Return the condition that selects the row of a thread in `conversations`."""
    row = conversations.c
    return and_(row.team == thread.team, row.channel == thread.channel, row.thread_ts == thread.ts)


def thread_key(thread: Thread) -> dict[str, str]:
    """Return the columns that identify a thread."""
    return {"team": thread.team, "channel": thread.channel, "thread_ts": thread.ts}


def active_threads_query(team: str, since: float) -> Query:
    """Return a query for `(channel, thread_ts, active_at)` of the conversations that were active
    since a moment (seconds since 1970).
    """
    row = conversations.c
    return select(
        row.channel, row.thread_ts, func.extract("epoch", row.last_at).label("active_at")
    ).where(
        row.team == team,
        row.stored > 0,
        row.last_at > func.to_timestamp(since),
        row.thread_ts.regexp_match("^[0-9]{1,12}[.][0-9]{6}$"),
    )
