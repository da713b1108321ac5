"""TurnStore: the turns of conversations. A turn's row holds its route from the start, and its
result once it has ended.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import ColumnElement, Row, and_, func, select, text, update
from sqlalchemy.dialects.postgresql import insert

from threadline.conversations.model.conversation import ConversationSnapshot, OutcomeKind
from threadline.conversations.model.turn_route import TurnRoute
from threadline.conversations.store.conversation import (
    Conversation,
    ConversationStore,
    in_thread,
    thread_key,
)
from threadline.conversations.store.transcript import TranscriptEntry, entries_in
from threadline.conversations.tables import conversation_turns, conversations
from threadline.db.engine import Store, Transaction
from threadline.db.values import storable
from threadline.jobs.model import JOB_QUESTION
from threadline.operator.model.routing import normalise_question, truncate_question
from threadline.slack.model import Thread
from threadline.slack.text import with_forwarded
from threadline.threads.model import turn_id

MAX_RESUMED_TURNS = 6
"""Turns whose messages form one request, the last one included; the transcript holds earlier
messages all the same.
"""
_MAX_QUESTION = 200
_ROUTE = TypeAdapter(TurnRoute)
_NO_CONTEXT: dict[str, Any] = {"context": "", "patterns": "", "analysis": ""}
_row = conversation_turns.c

_USAGE = text("""
SELECT coalesce(sum(m.input_tokens + m.output_tokens), 0) AS tokens,
       CASE WHEN count(*) = count(m.cost_usd) THEN coalesce(sum(m.cost_usd), 0) END AS cost_usd,
       count(*) FILTER (WHERE m.purpose = 'think' AND m.failure = '') AS model_calls,
       (SELECT extract(epoch FROM clock_timestamp() - t.created_at) FROM conversation_turns t
        WHERE t.conversation_id = :id AND t.turn = :turn) AS seconds,
       ARRAY(SELECT e.tool_name FROM agent_tool_executions e
             WHERE e.team = :team AND e.channel = :channel AND e.thread_ts = :thread_ts
               AND e.turn = :turn
             ORDER BY e.step, e.created_at, e.call_id) AS tools,
       ARRAY(SELECT p.action_id FROM proposed_actions p
             WHERE p.team = :team AND p.correlation_id = :key AND p.decision IS NULL
               ORDER BY p.id) AS approvals
FROM model_calls m WHERE m.conversation_id = :id AND m.turn = :turn
""")
_TAKE_THE_REST = text("""
UPDATE conversation_messages SET turn = :turn, step = 0
WHERE conversation_id = :id AND wants_turn AND turn IS NULL
  AND (CAST(:until AS numeric) IS NULL OR said_at < :until)
  AND NOT (CAST(:silent AS boolean) AND addressed)
""")
_LAST_STOP = text("""
SELECT max(said_at) FROM conversation_messages
WHERE conversation_id = :id AND message_type = 'stop' AND turn IS NULL
""")
_TEXTS = text("""
WITH mine AS (
    SELECT * FROM conversation_messages
    WHERE conversation_id = :id AND turn = :turn AND message_type = 'message'
      AND verdict IS DISTINCT FROM 'heard'
)
SELECT m.message_text, m.forwarded FROM mine m
WHERE m.redacted_at IS NULL
  AND (m.addressed OR m.message_text !~ '<@[UW][A-Z0-9_]+[|>]' AND m.sender_id IN (
    SELECT sender_id FROM mine WHERE addressed
    UNION ALL
    SELECT sender_id FROM mine WHERE step = 1 AND NOT EXISTS (SELECT FROM mine WHERE addressed)))
ORDER BY m.said_at, m.seq
""")
"""In a turn without a mention of the bot, a user who was alone with it at the start has addressed
it.
"""
_ASKED = text("""
SELECT m.slack_ts FROM conversations c
JOIN conversation_messages m ON m.conversation_id = c.id AND m.turn = :turn
WHERE c.team = :team AND c.channel = :channel AND c.thread_ts = :thread_ts
  AND m.message_type IN ('message', 'stop')
ORDER BY m.said_at DESC
""")
_OPEN_QUESTIONS = text("""
SELECT q.user_id, q.turn, q.said_at FROM (
    SELECT DISTINCT ON (t.user_id) t.user_id, t.turn, (
        SELECT coalesce(max(m.said_at), 0) FROM conversation_messages m
        WHERE m.conversation_id = :id AND m.turn = t.turn
          AND m.sender_id = t.user_id AND m.message_type = 'message'
    ) AS said_at FROM conversation_turns t
    WHERE t.conversation_id = :id AND t.settled_at IS NOT NULL AND t.kind = ANY(:kinds)
    ORDER BY t.user_id, t.turn DESC
) q
WHERE NOT EXISTS (
    SELECT FROM conversation_turns t
    WHERE t.conversation_id = :id AND t.user_id = q.user_id AND t.turn > q.turn
      AND t.settled_at IS NOT NULL
      AND t.kind NOT IN ('replied_by_rule', 'silent') AND NOT (
          SELECT coalesce(bool_and(m.message_id ~ :job), false) FROM conversation_messages m
          WHERE m.conversation_id = :id AND m.turn = t.turn AND m.sender_id = t.user_id
            AND m.message_type = 'message'))
AND NOT EXISTS (
    SELECT FROM conversation_messages s
    WHERE s.conversation_id = :id AND s.message_type = 'stop' AND s.sender_id = q.user_id
      AND s.said_at > q.said_at)
""")
"""Replies by rule, silent turns and a job's requests in a user's name do not answer a question; a
request to stop ends the wait for its answer.
"""
_ENTRIES = text("""
SELECT e.position, e.key, e.turn, e.step, e.body, m.sender_id
FROM conversations c
JOIN transcript_entries e ON e.conversation_id = c.id AND e.turn = :turn
LEFT JOIN conversation_messages m
     ON m.conversation_id = c.id AND e.key LIKE 'u:%'
       AND m.message_id = substr(e.key, length('u:') + 1)
WHERE c.team = :team AND c.channel = :channel AND c.thread_ts = :thread_ts
ORDER BY e.position
""")
_LAST_ANSWERS = text("""
SELECT answer, posted_at FROM (
    SELECT DISTINCT ON (v.thread_ts) left(t.answer, :longest) AS answer, t.posted_at
    FROM conversations v JOIN conversation_turns t ON t.conversation_id = v.id
    WHERE v.team = :team AND v.channel = :channel AND v.thread_ts = ANY(:threads)
      AND t.settled_at IS NOT NULL AND t.posted_at IS NOT NULL AND t.answer <> ''
      AND NOT EXISTS (SELECT FROM conversation_messages m
                      WHERE m.conversation_id = v.id AND m.turn = t.turn
                        AND m.redacted_at IS NOT NULL)
    ORDER BY v.thread_ts, t.turn DESC
) last ORDER BY posted_at DESC
""")

_UNPOSTED = text("""
SELECT c.team, c.channel, c.thread_ts, t.turn
FROM conversation_turns t JOIN conversations c ON c.id = t.conversation_id
WHERE t.posted_at IS NULL AND t.answer <> '' AND c.stored > 0
  AND t.settled_at < now() - make_interval(secs => :grace)
  AND t.settled_at > now() - make_interval(secs => :horizon)
ORDER BY t.settled_at LIMIT :limit
""")


@dataclass(frozen=True)
class TurnPlan:
    """A turn's route and context. `context`, `patterns` and `analysis` are empty once it is
    settled; `layers` are reports on the context's layers.

    `result`: the turn's figures; None while it runs.
    """

    route: TurnRoute
    context: str = ""
    patterns: str = ""
    analysis: str = ""
    layers: tuple[Mapping[str, Any], ...] = ()
    result: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class SettledTurn:
    """The end of a turn. `posted_at` is None while its answer is not in Slack."""

    kind: OutcomeKind
    answer: str
    user_id: str
    wants_detail: bool
    model_calls: int
    settled_at: datetime
    posted_at: datetime | None


@dataclass(frozen=True)
class StoredTurn:
    """A turn with its transcript entries, in order, including those that a summary covers.

    `senders`: the authors of the entries, by their keys.
    """

    plan: TurnPlan | None = None
    end: SettledTurn | None = None
    entries: tuple[TranscriptEntry, ...] = ()
    senders: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TurnUsage:
    """The usage of a turn so far; the cost is None if the cost of one model call is unknown.

    `seconds`: since its start. `tools`: tool names, in order. `approvals`: ids of proposed actions
    that are still undecided.
    """

    model_calls: int
    tokens: int
    cost_usd: float | None
    seconds: float
    tools: tuple[str, ...]
    approvals: tuple[str, ...]


@dataclass(frozen=True)
class OpenQuestion:
    """A question that `turn` has asked; `said_at` is the time of the person's last message in it
    (seconds since 1970, Slack's clock).
    """

    turn: int
    said_at: Decimal


class TurnStore(Store):
    """Access to the turns of conversations; a settled turn never changes.

    A method that changes a turn locks its conversation's row until the transaction ends.
    """

    def __init__(self, tx: Transaction) -> None:
        super().__init__(tx)
        self._conversations = ConversationStore(tx)

    async def plan(self, thread: Thread, turn: int) -> TurnPlan | None:
        """Return a turn's route and context; None where it was not routed yet, or ended before it
        was.
        """
        return _plan(await self._get(thread, turn))

    async def settled(self, thread: Thread, turn: int) -> SettledTurn | None:
        """Return the end of a turn; None while it runs."""
        return _settled(await self._get(thread, turn))

    async def read(self, thread: Thread, turn: int) -> StoredTurn:
        """Return everything about a turn; an empty value when it does not exist."""
        row = await self._get(thread, turn)
        which = thread_key(thread) | {"turn": turn}
        entries = (await self._tx.execute(_ENTRIES, which)).all()
        senders = {each.key: each.sender_id for each in entries if each.sender_id}
        return StoredTurn(_plan(row), _settled(row), entries_in(entries), senders)

    async def begin(self, thread: Thread, turn: int, route: TurnRoute) -> None:
        """Store a turn's route; first write wins."""
        row = await self._conversations.lock(thread)
        written = _ROUTE.dump_python(route, mode="json")
        new = insert(conversation_turns).values(conversation_id=row.id, turn=turn, route=written)
        await self._tx.execute(new.on_conflict_do_nothing())

    async def reroute(self, thread: Thread, turn: int, route: TurnRoute) -> None:
        """Replace a turn's route: the operator continues after the assistant has failed."""
        await self._change(thread, turn, route=_ROUTE.dump_python(route, mode="json"))

    async def set_context(
        self,
        thread: Thread,
        turn: int,
        context: str,
        patterns: str,
        layers: Sequence[Mapping[str, Any]],
    ) -> None:
        """Store the operator's context for this turn; first write wins, so that all steps read the
        same.
        """
        told = {"context": context, "patterns": patterns, "layers": list(layers)}
        await self._change(thread, turn, _row.context == "", **told)

    async def set_analysis(self, thread: Thread, turn: int, analysis: str) -> TurnPlan | None:
        """Store the model's analysis of the request; first write wins. Returns the plan with
        it.
        """
        changed = await self._change(
            thread, turn, _row.analysis == "", analysis=storable(analysis)
        )
        return await self.plan(thread, turn) if changed is None else _plan(changed)

    async def delete_content(self, conversation_id: int) -> None:
        """Remove the contexts of running turns, which may quote a deleted message."""
        mine = _row.conversation_id == conversation_id
        await self._tx.execute(
            update(conversation_turns).where(mine, _row.settled_at.is_(None)).values(**_NO_CONTEXT)
        )

    async def settle(
        self,
        thread: Thread,
        turn: int,
        kind: OutcomeKind,
        answer: str,
        user_id: str,
        *,
        wants_detail: bool = False,
        model_calls: int = 0,
        question: str = "",
        result: Mapping[str, Any] | None = None,
    ) -> ConversationSnapshot:
        """End a turn: its messages count as answered, and its context is removed. First write
        wins.

        Args:
            thread: the conversation's thread.
            turn: the turn.
            kind: how it ended.
            answer: the text for the person; empty for a silent turn.
            user_id: the user whom it answers.
            wants_detail: whether they asked for a long answer.
            model_calls: the number of its model calls.
            question: the start of the bot's question in the answer; a silent turn leaves an
                earlier question open.
            result: figures about the turn.
        """
        row = await self._conversations.lock(thread)
        ended: dict[str, Any] = {
            "kind": kind.value,
            "answer": answer,
            "user_id": user_id,
            "wants_detail": wants_detail,
        }
        ended |= {
            "model_calls": model_calls,
            "result": result and dict(result),
            "settled_at": func.now(),
        }
        new = insert(conversation_turns).values(conversation_id=row.id, turn=turn, **ended)
        first = new.on_conflict_do_update(
            index_elements=["conversation_id", "turn"],
            set_=ended | _NO_CONTEXT,
            where=_row.settled_at.is_(None),
        )
        if not (await self._tx.execute(first)).rowcount:  # an earlier attempt has settled it
            return await self._conversations.snapshot(thread)
        await self._take_the_rest(row, turn, kind)
        last = max(row.turn, turn)
        asked = row.question if kind is OutcomeKind.SILENT else storable(question)[:_MAX_QUESTION]
        await self._conversations.discard_stale_stops(row.id, last)
        await self._conversations.change(thread, turn=last, question=asked)
        return await self._conversations.snapshot(thread)

    async def mark_posted(self, thread: Thread, turn: int) -> ConversationSnapshot:
        """Record that a turn's answer is in Slack."""
        row = await self._conversations.change(thread)
        mine = and_(_row.conversation_id == row.id, _row.turn == turn, _row.posted_at.is_(None))
        await self._tx.execute(update(conversation_turns).where(mine).values(posted_at=func.now()))
        return await self._conversations.snapshot(thread)

    async def unposted(self, grace: float, horizon: float, limit: int) -> list[tuple[Thread, int]]:
        """Return turns that ended between `horizon` and `grace` seconds ago and whose answer is
        not in Slack, oldest first.
        """
        given = {"grace": grace, "horizon": horizon, "limit": limit}
        rows = await self._tx.execute(_UNPOSTED, given)
        return [(Thread(row.team, row.channel, row.thread_ts), row.turn) for row in rows]

    async def asked(self, thread: Thread, turn: int) -> tuple[str, ...]:
        """Return the `ts` of the messages that a turn has taken up, newest first."""
        rows = await self._tx.execute(_ASKED, thread_key(thread) | {"turn": turn})
        return tuple(rows.scalars())

    async def usage(self, thread: Thread, turn: int) -> TurnUsage:
        row = await self._conversations.lock(thread)
        given = {"id": row.id, "turn": turn, "key": turn_id(thread, turn)}
        used = (await self._tx.execute(_USAGE, thread_key(thread) | given)).one()
        spent = (used.model_calls, used.tokens, used.cost_usd, float(used.seconds or 0))
        return TurnUsage(*spent, tuple(used.tools), tuple(used.approvals))

    async def open_questions(
        self, thread: Thread, kinds: Sequence[OutcomeKind] = (OutcomeKind.ASKED,)
    ) -> dict[str, OpenQuestion]:
        """Return the unanswered questions, by the id of the user who was asked.

        Later replies by rule, for example that there is no such RFP, leave a question open, and so
        do silent turns.

        `kinds`: the outcomes of turns that count as questions.
        """
        row = await self._conversations.lock(thread)
        which = {"id": row.id, "job": JOB_QUESTION, "kinds": [each.value for each in kinds]}
        rows = await self._tx.execute(_OPEN_QUESTIONS, which)
        return {row.user_id: OpenQuestion(row.turn, row.said_at) for row in rows}

    async def texts(self, thread: Thread, turn: int, *, own: bool = False) -> list[str]:
        """Return the messages to the bot that a turn has used, as they read now, without deleted
        ones.

        They are the addressed ones, and other messages of the same authors that mention no other
        user.

        `own`: without forwarded messages, for rules.
        """
        row = await self._conversations.lock(thread)
        said = await self._tx.execute(_TEXTS, {"id": row.id, "turn": turn})
        return [
            each.message_text if own else with_forwarded(each.message_text, each.forwarded)
            for each in said
        ]

    async def request_texts(
        self, thread: Thread, turn: int, *, plan: TurnPlan | None = None, whole: bool = False
    ) -> list[str]:
        """Return the messages of a request, without deleted ones: those of the turn and of the
        turns that it resumes, earliest turn first.

        Args:
            thread: the conversation's thread.
            turn: the last turn of the request.
            plan: the turn's plan, if the caller has read it.
            whole: full texts with forwarded messages; else each is cut at the length that rules
                read.
        """
        texts: list[str] = []
        for _ in range(MAX_RESUMED_TURNS):
            texts = [*await self.texts(thread, turn, own=not whole), *texts]
            plan = plan or await self.plan(thread, turn)
            if plan is None or not plan.route.resumes_turn:
                break
            turn = plan.route.resumes_turn
            plan = None
        asked = [normalise_question(each) for each in texts]
        return asked if whole else [truncate_question(each) for each in asked]

    async def last_answers(
        self, team: str, channel: str, threads: Collection[str], longest: int = 2_000
    ) -> list[tuple[str, datetime]]:
        """Return the last posted answer of each of these threads of a channel, and its time,
        newest first.

        An answer to a message that was deleted later may quote it, and is left out.

        Args:
            team: the Slack team.
            channel: the channel.
            threads: the `ts` of the threads.
            longest: characters of each answer.
        """
        given = {"team": team, "channel": channel, "threads": list(threads), "longest": longest}
        return [
            (row.answer, row.posted_at) for row in await self._tx.execute(_LAST_ANSWERS, given)
        ]

    async def _get(self, thread: Thread, turn: int) -> Row[Any] | None:
        query = (
            select(conversation_turns)
            .join(conversations)
            .where(in_thread(thread), _row.turn == turn)
        )
        return (await self._tx.execute(query)).one_or_none()

    async def _take_the_rest(self, row: Conversation, turn: int, kind: OutcomeKind) -> None:
        """Assign the remaining messages to a turn that ended early.

        A request to stop covers all earlier messages; a failure covers all if no model call was
        made. A silent failure leaves addressed messages for the next turn: they came before the
        workflow learned of them.
        """
        if kind not in (OutcomeKind.STOPPED, OutcomeKind.FAILED, OutcomeKind.SILENT):
            return
        stop = None
        if kind is OutcomeKind.STOPPED:
            stop = (await self._tx.execute(_LAST_STOP, {"id": row.id})).scalar_one()
        if stop is not None or row.reading_turn < turn:
            rest = {
                "id": row.id,
                "turn": turn,
                "until": stop,
                "silent": kind is OutcomeKind.SILENT,
            }
            await self._tx.execute(_TAKE_THE_REST, rest)

    async def _change(
        self, thread: Thread, turn: int, where: ColumnElement[bool] | None = None, **values: Any
    ) -> Row[Any] | None:
        """Change a running turn and return it; None when no such turn meets the condition."""
        row = await self._conversations.lock(thread)
        running = and_(
            _row.conversation_id == row.id, _row.turn == turn, _row.settled_at.is_(None)
        )
        which = running if where is None else and_(running, where)
        changed = (
            update(conversation_turns).where(which).values(**values).returning(conversation_turns)
        )
        now: Row[Any] | None = (await self._tx.execute(changed)).one_or_none()
        return now


def _plan(row: Row[Any] | None) -> TurnPlan | None:
    if row is None or row.route is None:
        return None
    route = _ROUTE.validate_python(row.route)
    return TurnPlan(route, row.context, row.patterns, row.analysis, tuple(row.layers), row.result)


def _settled(row: Row[Any] | None) -> SettledTurn | None:
    if row is None or row.settled_at is None:
        return None
    ended = (OutcomeKind(row.kind), row.answer, row.user_id, row.wants_detail, row.model_calls)
    return SettledTurn(*ended, row.settled_at, row.posted_at)
