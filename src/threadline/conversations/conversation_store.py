"""Conversations: what was said in them, which turn has used it, and how each turn ended."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass

from sqlalchemy import delete, func, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from threadline.conversations import conversation_row
from threadline.conversations import message_intake as conversation_intake
from threadline.conversations import message_reading as conversation_reading
from threadline.conversations import thread_reads as threads_read
from threadline.conversations.contract import Refusal, RefusedMessage
from threadline.conversations.conversation_row import Conversation
from threadline.conversations.message_intake import ConversationBatch
from threadline.conversations.message_reading import Asker, Stays, TakenUp
from threadline.conversations.model.conversation import ConversationMarks, OutcomeKind
from threadline.conversations.tables import (
    conversation_messages,
    conversation_turns,
    conversations,
    model_calls,
    thumbs,
    transcript,
    turn_plans,
)
from threadline.db.engine import Query
from threadline.db.values import storable
from threadline.decisions.tables import decisions
from threadline.handovers.tables import handover_answers, handovers
from threadline.models.model import Usage
from threadline.operator.store import MemoryStore
from threadline.slack.model import Thread
from threadline.threads.model import IncomingMessage, message_id

_QUESTION_KEPT = 200

_TAKE_THE_REST = text("""
UPDATE conversation_messages SET turn = :turn, step = 0
WHERE conversation_id = :id AND wants_turn AND turn IS NULL AND (CAST(:until AS numeric) IS NULL OR said_at < :until)
  AND NOT (CAST(:silent AS boolean) AND addressed)
""")
_LAST_STOP = text("""
SELECT max(said_at) FROM conversation_messages WHERE conversation_id = :id AND message_type = 'stop' AND turn IS NULL
""")
_THREAD_OF = text("""
SELECT c.team, c.channel, c.thread_ts FROM conversation_messages m JOIN conversations c ON c.id = m.conversation_id
WHERE m.message_id = :message_id
UNION ALL
SELECT c.team, c.channel, c.thread_ts FROM posts p
JOIN conversations c ON c.team = :team AND c.channel = p.channel AND c.stored > 0
                    AND starts_with(p.key, 'talk:' || c.team || ':' || c.channel || ':' || c.thread_ts || ':')
WHERE p.channel = :channel AND p.ts = :ts AND p.key LIKE 'talk:%'
LIMIT 1
""")
"""The condition on the key is the index's own."""
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
_FORGET_POSTS = text("""
DELETE FROM posts p USING conversations c
WHERE c.id = ANY(:ids) AND p.channel = c.channel AND p.thread_ts = c.thread_ts AND p.key LIKE 'talk:%'
  AND starts_with(p.key, 'talk:' || c.team || ':' || c.channel || ':' || c.thread_ts || ':')
""")
"""The first condition on the key is the index's own."""
_FORGET_HANDOVER_POSTS = text("""
DELETE FROM posts p USING handovers h, conversations c
WHERE h.conversation_id = ANY(:ids) AND c.id = h.conversation_id AND p.key LIKE 'handover:%'
  AND starts_with(p.key, 'handover:' || c.team || ':' || c.channel || ':' || c.thread_ts || ':' || h.turn || ':')
""")
"""They stand in two channels."""
_WAITING = text(f"""
SELECT c.id, c.team, c.channel, c.thread_ts FROM conversations c
WHERE c.id > :after AND c.stored > 0 AND c.last_at > now() - interval '30 days' AND (
    EXISTS (SELECT FROM conversation_messages m
            WHERE m.conversation_id = c.id AND m.wants_turn AND (m.turn IS NULL OR m.turn > c.turn))
    OR EXISTS (SELECT FROM conversation_messages m
               WHERE m.conversation_id = c.id AND m.turn IS NULL AND m.verdict IS NULL AND {conversation_row.WANTS})
    OR EXISTS (SELECT FROM conversation_turns t
               WHERE t.conversation_id = c.id AND t.said_at IS NULL AND t.answer <> ''
                 AND t.settled_at > now() - interval '1 day' - make_interval(secs => :quiet)))
ORDER BY c.id LIMIT :limit
""")  # noqa: S608 - both parts are written here
"""An answer that Slack refuses is tried again for a day after the silence in which the run that kept it ends."""
_OLD = text("""
SELECT id FROM conversations WHERE stored > 0 AND last_at < to_timestamp(:before)
ORDER BY last_at LIMIT :limit FOR UPDATE SKIP LOCKED
""")


@dataclass(frozen=True)
class SettledTurn:
    kind: OutcomeKind
    answer: str
    user_id: str
    detail: bool
    said: bool
    """The answer is in Slack."""


@dataclass(frozen=True)
class WaitingConversation:
    """A conversation whose workflow must run; `id` is its place in the order of all."""

    id: int
    thread: Thread


_PARTS = (
    conversation_messages,
    transcript,
    conversation_turns,
    turn_plans,
    decisions,
    handover_answers,
    handovers,
    thumbs,
    model_calls,
)


class ConversationStore:
    """What changes a conversation holds its row's lock until the transaction ends; all of it is safe to repeat.

    Where nothing is stored in a thread: `marks`, `store`, `settled` and the gateway's questions say so, and everything
    else raises `ConversationNotFound`.
    """

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def marks(self, thread: Thread) -> ConversationMarks:
        """What is known of a thread; empty marks when nothing is stored."""
        return await conversation_row.marks(self._connection, thread)

    async def store(self, thread: Thread, batch: Sequence[IncomingMessage]) -> ConversationBatch:
        """Store what arrived; the first message that is addressed to the bot opens the conversation.

        Args:
            batch: in any order, without secrets; an id may occur twice, or be stored already.

        Returns:
            The marks, and every message that wants an answer and was not judged yet, in the order in which they were
            said, also of earlier batches: until it is judged it starts no turn.
        """
        return await conversation_intake.store(self._connection, thread, batch)

    async def duplicates(self, thread: Thread, ids: Collection[str]) -> frozenset[str]:
        """Which of these messages their author had written in the thread before, within two minutes and not deleted
        since. The time runs from when it was last said, also when that was refused itself."""
        return await conversation_intake.duplicates(self._connection, thread, ids)

    async def judged(
        self, thread: Thread, verdicts: Mapping[str, Refusal | None], *, answers: bool = False
    ) -> ConversationMarks:
        """Write down what the guards said of messages, by id; None lets one pass. The first verdict stands.

        Args:
            answers: a question was open, so those that pass answer it.
        """
        return await conversation_intake.judge(self._connection, thread, verdicts, answers=answers)

    async def refused(self, thread: Thread, ids: Collection[str]) -> tuple[RefusedMessage, ...]:
        """Which of these messages the guards keep from the model, also when that was decided earlier."""
        return await conversation_intake.refused(self._connection, thread, ids)

    async def overheard(self, thread: Thread, ids: Collection[str]) -> frozenset[str]:
        """Which of these messages people have said to each other: nobody spoke to the bot, and several people write, or
        somebody else was called."""
        return await conversation_intake.overheard(self._connection, thread, ids)

    async def take_up(self, thread: Thread, turn: int, step: int, stays: Stays | None = None) -> list[TakenUp]:
        """What a call of the model is to read first, in the order in which it was said.

        Only the first try of a step takes up what is unused by then: a reply that an earlier try comes to in the end
        would else answer for messages that it has not seen. What `stays` waits for the next turn.
        """
        return await conversation_reading.take_up(self._connection, thread, turn, step, stays)

    async def open_step(self, thread: Thread, turn: int, step: int) -> int:
        """The step of a turn that may write in the transcript: this one, or a later one that has taken up messages.

        0: the turn is settled. It stays so until the transaction ends.
        """
        return await conversation_reading.open_step(self._connection, thread, turn, step)

    async def unread(self, thread: Thread, turn: int) -> list[TakenUp]:
        """What a turn has taken up and its transcript does not hold: it was stopped, or lost, before it could."""
        return await conversation_reading.unread(self._connection, thread, turn)

    async def unused(self, thread: Thread) -> list[TakenUp]:
        """What waits for a turn that is settled, in the order in which it was said."""
        return await conversation_reading.unused(self._connection, thread)

    async def several(self, thread: Thread) -> bool:
        """Whether several people write in it: then what calls nobody is not for the bot."""
        return bool((await conversation_row.locked(self._connection, thread)).several)

    async def deletions(self, thread: Thread) -> int:
        """See `threads_read.deletions`."""
        return await threads_read.deletions(self._connection, thread)

    async def forget_read(self, thread: Thread) -> None:
        """What a tool has read of the thread goes, and what is remembered of it: something was deleted meanwhile."""
        row = await conversation_row.locked(self._connection, thread)
        keys = await threads_read.forget(self._connection, thread, row.id)
        await MemoryStore(self._connection).forget_user_content(thread.team, keys)

    async def askers(self, thread: Thread, turn: int, step: int) -> list[Asker]:
        """Who wrote what a turn has taken up until a step, each once, whoever last spoke to the bot at the end."""
        return await conversation_reading.askers(self._connection, thread, turn, step)

    async def settle(
        self,
        thread: Thread,
        turn: int,
        kind: OutcomeKind,
        answer: str,
        user_id: str,
        detail: bool,
        model_calls: int,
        question: str,
    ) -> ConversationMarks:
        """End a turn: what it has taken up is answered. The first word about a turn stands.

        Args:
            user_id: whom it answers.
            detail: whether they asked for a long answer.
            question: the start of what the bot asks with it; a silent turn leaves an earlier question open.
        """
        row = await conversation_row.locked(self._connection, thread)
        ended = {"kind": kind.value, "answer": answer, "user_id": user_id, "detail": detail}
        new = insert(conversation_turns).values(conversation_id=row.id, turn=turn, model_calls=model_calls, **ended)
        first = new.on_conflict_do_nothing().returning(conversation_turns.c.turn)
        if (await self._connection.execute(first)).first():
            await self._take_the_rest(row, turn, kind)
            asked = row.question if kind is OutcomeKind.SILENT else storable(question)[:_QUESTION_KEPT]
            await conversation_row.write(self._connection, row.id, turn=max(row.turn, turn), question=asked)
            await conversation_row.use_stops(self._connection, row.id)
        return await self.marks(thread)

    async def _take_the_rest(self, row: Conversation, turn: int, kind: OutcomeKind) -> None:
        """Who said to stop meant all that was said before it; a failure answers for all if there was no thought.

        One that nobody is told of does not for what was addressed to the bot, and came before the workflow heard of it.
        """
        if kind not in (OutcomeKind.STOPPED, OutcomeKind.FAILED, OutcomeKind.SILENT):
            return
        stop = None
        if kind is OutcomeKind.STOPPED:
            stop = (await self._connection.execute(_LAST_STOP, {"id": row.id})).scalar_one()
        if stop is not None or row.taken_turn < turn:
            rest = {"id": row.id, "turn": turn, "until": stop, "silent": kind is OutcomeKind.SILENT}
            await self._connection.execute(_TAKE_THE_REST, rest)

    async def said(self, thread: Thread, turn: int) -> ConversationMarks:
        """A turn's answer is in Slack."""
        row = await conversation_row.locked(self._connection, thread)
        ended = conversation_turns.c
        unsaid = (ended.conversation_id == row.id, ended.turn == turn, ended.said_at.is_(None))
        await self._connection.execute(update(conversation_turns).where(*unsaid).values(said_at=func.now()))
        await conversation_row.write(self._connection, row.id)
        return await self.marks(thread)

    async def settled(self, thread: Thread, turn: int) -> SettledTurn | None:
        """How a turn ended; None when it has not."""
        query = select(conversation_turns).join(conversations).where(conversation_row.here(thread))
        row = (await self._connection.execute(query.where(conversation_turns.c.turn == turn))).one_or_none()
        if row is None:
            return None
        return SettledTurn(OutcomeKind(row.kind), row.answer, row.user_id, row.detail, row.said_at is not None)

    async def spent(self, thread: Thread, turn: int, step: int, purpose: str, usage: Usage, milliseconds: int) -> None:
        """Keep what a call of the model cost; each call that was made counts, be it the same again.

        Args:
            purpose: `think`, `summarise`, `analyse`, `decide` or `compare`.
        """
        row = await conversation_row.locked(self._connection, thread)
        call = {"turn": turn, "step": step, "purpose": purpose, "milliseconds": milliseconds}
        await self._connection.execute(insert(model_calls).values(conversation_id=row.id, **call, **asdict(usage)))
        await conversation_row.write(self._connection, row.id, cost_usd=row.cost_usd + usage.cost_usd)

    async def thread_of_message(self, team: str, channel: str, ts: str) -> Thread | None:
        """The conversation in which a person's message, or an answer of the bot, stands; two indexed reads."""
        identity = message_id(team, channel, ts)
        given = {"message_id": identity, "team": team, "channel": channel, "ts": ts}
        row = (await self._connection.execute(_THREAD_OF, given)).first()
        return Thread(*row) if row else None

    async def waiting_conversations(self, after: int, limit: int, quiet: float) -> list[WaitingConversation]:
        """Conversations in which a message waits for its answer, or an answer waits to be posted, in order.

        Args:
            quiet: seconds of silence after which a run of theirs ends.
        """
        rows = await self._connection.execute(_WAITING, {"after": after, "limit": limit, "quiet": quiet})
        return [WaitingConversation(row.id, Thread(row.team, row.channel, row.thread_ts)) for row in rows]

    async def prune(self, before: float, limit: int = 100) -> int:
        """Forget conversations that nothing has changed since a moment (seconds since 1970), at most `limit` of them.

        What was said, thought and answered goes, and what the thread was about. The row stays with its numbers, so that
        a conversation which begins anew in the thread never meets the keys of the old one.

        Returns:
            how many, so that 0 means none is left.
        """
        old = list((await self._connection.execute(_OLD, {"before": before, "limit": limit})).scalars())
        for statement in (_UNBIND, _UNREGISTER, _FORGET_POSTS, _FORGET_HANDOVER_POSTS):
            await self._connection.execute(statement, {"ids": old})
        for table in _PARTS:
            await self._connection.execute(delete(table).where(table.c.conversation_id.in_(old)))
        nobody = {"writer": "", "several": False}
        nothing = {"stored": 0, "question": "", "summary": "", "summary_until": 0, "cost_usd": 0.0, **nobody}
        forgotten = update(conversations).where(conversations.c.id.in_(old))
        await self._connection.execute(forgotten.values(rev=conversations.c.rev + 1, **nothing))
        return len(old)


def active_threads_query(team: str, since: float) -> Query:
    """`(channel, thread_ts, active_at)` of the conversations in which something was said since a moment.

    Args:
        since: seconds since 1970.
    """
    row = conversations.c
    return select(row.channel, row.thread_ts, func.extract("epoch", row.last_at).label("active_at")).where(
        row.team == team,
        row.stored > 0,
        row.last_at > func.to_timestamp(since),
        row.thread_ts.regexp_match("^[0-9]{1,12}[.][0-9]{6}$"),
    )
