"""TurnStore: the turns of conversations. A turn's row holds its route from its start, and how it ended."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import ColumnElement, Row, and_, func, select, text, update
from sqlalchemy.dialects.postgresql import insert

from threadline.conversations.model.conversation import ConversationSnapshot, OutcomeKind
from threadline.conversations.store.conversation import (
    DISCARD_STALE_STOPS,
    Conversation,
    ConversationStore,
    in_thread,
    thread_key,
)
from threadline.conversations.store.transcript import READ, Transcript, TranscriptEntry, entries_in, transcript_of
from threadline.conversations.tables import conversation_turns, conversations
from threadline.db.engine import Store, Transaction
from threadline.db.values import storable
from threadline.jobs.model import JOB_QUESTION
from threadline.operator.model.routing import TurnRoute, normalise_question, truncate_question
from threadline.slack.model import Thread
from threadline.slack.text import with_forwarded
from threadline.threads.model import turn_id

MAX_RESUMED_TURNS = 6
"""Turns whose messages are one request, the last one included; what came before is in the transcript all the same."""
_MAX_QUESTION = 200
_ROUTE = TypeAdapter(TurnRoute)
_NO_CONTEXT: dict[str, Any] = {"context": "", "patterns": "", "analysis": ""}
_row = conversation_turns.c

_USAGE = text("""
SELECT coalesce(sum(m.input_tokens + m.output_tokens), 0) AS tokens, coalesce(sum(m.cost_usd), 0) AS cost_usd,
       count(*) FILTER (WHERE m.purpose = 'think') AS model_calls,
       (SELECT extract(epoch FROM clock_timestamp() - t.created_at) FROM conversation_turns t
        WHERE t.conversation_id = :id AND t.turn = :turn) AS seconds,
       ARRAY(SELECT e.tool_name FROM agent_tool_executions e
             WHERE e.team = :team AND e.channel = :channel AND e.thread_ts = :thread_ts AND e.turn = :turn
             ORDER BY e.step, e.created_at, e.call_id) AS tools,
       ARRAY(SELECT p.action_id FROM proposed_actions p
             WHERE p.team = :team AND p.correlation_id = :key AND p.decision IS NULL ORDER BY p.id) AS approvals
FROM model_calls m WHERE m.conversation_id = :id AND m.turn = :turn
""")
_TAKE_THE_REST = text("""
UPDATE conversation_messages SET turn = :turn, step = 0
WHERE conversation_id = :id AND wants_turn AND turn IS NULL AND (CAST(:until AS numeric) IS NULL OR said_at < :until)
  AND NOT (CAST(:silent AS boolean) AND addressed)
""")
_LAST_STOP = text("""
SELECT max(said_at) FROM conversation_messages WHERE conversation_id = :id AND message_type = 'stop' AND turn IS NULL
""")
_TEXTS = text("""
WITH mine AS (
    SELECT * FROM conversation_messages WHERE conversation_id = :id AND turn = :turn AND message_type = 'message'
)
SELECT m.message_text, m.forwarded FROM mine m
WHERE m.redacted_at IS NULL AND (m.addressed OR m.message_text !~ '<@[UW][A-Z0-9_]+[|>]' AND m.sender_id IN (
    SELECT sender_id FROM mine WHERE addressed
    UNION ALL
    SELECT sender_id FROM mine WHERE step = 1 AND NOT EXISTS (SELECT FROM mine WHERE addressed)))
ORDER BY m.said_at, m.seq
""")
"""Where nobody called the bot, whoever was alone with it when the turn began has spoken to it."""
_ASKED = text("""
SELECT m.slack_ts FROM conversations c JOIN conversation_messages m ON m.conversation_id = c.id AND m.turn = :turn
WHERE c.team = :team AND c.channel = :channel AND c.thread_ts = :thread_ts AND m.message_type IN ('message', 'stop')
ORDER BY m.said_at DESC
""")
_OPEN_QUESTIONS = text("""
SELECT q.user_id, q.turn, q.said_at FROM (
    SELECT DISTINCT ON (t.user_id) t.user_id, t.turn, (
        SELECT coalesce(max(m.said_at), 0) FROM conversation_messages m
        WHERE m.conversation_id = :id AND m.turn = t.turn AND m.sender_id = t.user_id AND m.message_type = 'message'
    ) AS said_at FROM conversation_turns t
    WHERE t.conversation_id = :id AND t.settled_at IS NOT NULL AND t.kind = ANY(:kinds)
    ORDER BY t.user_id, t.turn DESC
) q
WHERE NOT EXISTS (
    SELECT FROM conversation_turns t
    WHERE t.conversation_id = :id AND t.user_id = q.user_id AND t.turn > q.turn AND t.settled_at IS NOT NULL
      AND t.kind NOT IN ('replied_by_rule', 'silent') AND NOT (
          SELECT coalesce(bool_and(m.message_id ~ :job), false) FROM conversation_messages m
          WHERE m.conversation_id = :id AND m.turn = t.turn AND m.sender_id = t.user_id AND m.message_type = 'message'))
AND NOT EXISTS (
    SELECT FROM conversation_messages s
    WHERE s.conversation_id = :id AND s.message_type = 'stop' AND s.sender_id = q.user_id AND s.said_at > q.said_at)
""")
"""What was told by rule, or kept silent about, answers nothing, and neither does what a job has asked in somebody's
name; a word to stop ends the wait."""
_TURN = """
p.route, p.context, p.patterns, p.analysis, p.layers, p.result,
p.kind, p.answer, p.user_id, p.wants_detail, p.model_calls, p.settled_at, p.posted_at
"""
_ENTRIES = """
SELECT c.id, e.position, e.key, e.turn, e.step, e.body, m.sender_id, row_number() OVER (ORDER BY e.position) AS number
FROM conversations c
LEFT JOIN transcript_entries e ON e.conversation_id = c.id AND e.turn = :of_turn
LEFT JOIN conversation_messages m
     ON m.conversation_id = c.id AND e.key LIKE 'u:%' AND m.message_id = substr(e.key, length('u:') + 1)
WHERE c.team = :team AND c.channel = :channel AND c.thread_ts = :thread_ts
"""
_WITH_TURN = """
SELECT r.*, {turn} FROM ({rows}) r
LEFT JOIN conversation_turns p ON p.conversation_id = r.id AND p.turn = :of_turn AND r.number = 1 ORDER BY r.number
"""
_WITH_TRANSCRIPT = text(_WITH_TURN.format(turn=_TURN, rows=READ))
_LONGEST = """
(SELECT max(length(m.message_text) + length(m.forwarded)) FROM conversation_messages m
 WHERE m.conversation_id = r.id AND m.turn = :of_turn) AS longest
"""
_WITH_ENTRIES = text(_WITH_TURN.format(turn=f"{_TURN}, {_LONGEST}", rows=_ENTRIES))
_BESIDE = f"""
LEFT JOIN LATERAL (
    SELECT {_TURN}, h.taken_by FROM (SELECT c.id) here
    LEFT JOIN conversation_turns p ON p.conversation_id = here.id AND p.turn = :of_turn
    LEFT JOIN handovers h ON h.conversation_id = here.id AND h.closed_at IS NULL) beside ON true
"""  # noqa: S608 - both parts are written here
_MARK_POSTED = """
posted AS (
    UPDATE conversation_turns SET posted_at = now()
    WHERE conversation_id = :id AND turn = :of_turn AND posted_at IS NULL
)
"""
_SET_ANALYSIS = """
analysed AS (
    UPDATE conversation_turns SET analysis = :analysis
    WHERE conversation_id = :id AND turn = :of_turn AND settled_at IS NULL AND analysis = ''
    RETURNING route, context, patterns, analysis, layers, result
)
"""
_LAST_ANSWERS = text("""
SELECT answer, posted_at FROM (
    SELECT DISTINCT ON (v.thread_ts) left(t.answer, :longest) AS answer, t.posted_at
    FROM conversations v JOIN conversation_turns t ON t.conversation_id = v.id
    WHERE v.team = :team AND v.channel = :channel AND v.thread_ts = ANY(:threads)
      AND t.settled_at IS NOT NULL AND t.posted_at IS NOT NULL AND t.answer <> ''
      AND NOT EXISTS (SELECT FROM conversation_messages m
                      WHERE m.conversation_id = v.id AND m.turn = t.turn AND m.redacted_at IS NOT NULL)
    ORDER BY v.thread_ts, t.turn DESC
) last ORDER BY posted_at DESC
""")

_UNPOSTED = text("""
SELECT c.team, c.channel, c.thread_ts, t.turn
FROM conversation_turns t JOIN conversations c ON c.id = t.conversation_id
WHERE t.posted_at IS NULL AND t.answer <> '' AND c.stored > 0
  AND t.settled_at < now() - make_interval(secs => :grace) AND t.settled_at > now() - make_interval(secs => :horizon)
ORDER BY t.settled_at LIMIT :limit
""")


@dataclass(frozen=True)
class TurnPlan:
    """A turn's route. `context`, `patterns` and `analysis` are empty once it is settled; `layers` tell what was read.

    `result` is what it came to; None while it runs.
    """

    route: TurnRoute
    context: str = ""
    patterns: str = ""
    analysis: str = ""
    layers: tuple[Mapping[str, Any], ...] = ()
    result: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class SettledTurn:
    """How a turn ended. `posted_at` is None while its answer is not in Slack."""

    kind: OutcomeKind
    answer: str
    user_id: str
    wants_detail: bool
    model_calls: int
    settled_at: datetime
    posted_at: datetime | None


@dataclass(frozen=True)
class StoredTurn:
    """A turn with what it has brought to the transcript, in order, whether a summary tells it or not.

    `senders`: who has said what people said, by the keys of the entries; `longest`: characters of their longest message
    as it reads now.
    """

    plan: TurnPlan | None = None
    end: SettledTurn | None = None
    entries: tuple[TranscriptEntry, ...] = ()
    senders: Mapping[str, str] = field(default_factory=dict)
    longest: int = 0


@dataclass(frozen=True)
class TurnUsage:
    """What a turn took so far. `seconds` since it was routed; `tools` by their own names, in order; `approvals` are the
    ids of what it has proposed and nobody has decided."""

    model_calls: int
    tokens: int
    cost_usd: float
    seconds: float
    tools: tuple[str, ...]
    approvals: tuple[str, ...]


@dataclass(frozen=True)
class OpenQuestion:
    """`turn` has asked; `said_at` is when the person last spoke in it (seconds since 1970, Slack's clock)."""

    turn: int
    said_at: Decimal


class TurnStore(Store):
    """What changes a turn holds its conversation's row until the transaction ends; a settled turn stays as it is."""

    def __init__(self, tx: Transaction) -> None:
        super().__init__(tx)
        self._conversations = ConversationStore(tx)

    async def plan(self, thread: Thread, turn: int) -> TurnPlan | None:
        """A turn's route and what it was told; None where it was not routed yet, or ended before."""
        return _plan(await self._get(thread, turn))

    async def plan_and_transcript(self, thread: Thread, turn: int) -> tuple[TurnPlan | None, Transcript]:
        """As `plan` and `TranscriptStore.read`, in one statement."""
        rows = (await self._tx.execute(_WITH_TRANSCRIPT, thread_key(thread) | {"of_turn": turn})).all()
        return _plan(rows[0] if rows else None), transcript_of(rows)

    async def plan_and_snapshot(
        self, thread: Thread, turn: int
    ) -> tuple[TurnPlan | None, ConversationSnapshot, str | None]:
        """As `plan` and `ConversationStore.snapshot`, and who has the open handover; empty while nobody has taken it,
        None without one. One statement."""
        snapshot, rows = await self._conversations.snapshot_and_read(thread, {"of_turn": turn}, beside=_BESIDE)
        return (_plan(rows[0]), snapshot, rows[0].taken_by) if rows else (None, snapshot, None)

    async def settled(self, thread: Thread, turn: int) -> SettledTurn | None:
        """How a turn ended; None when it has not."""
        return _settled(await self._get(thread, turn))

    async def read(self, thread: Thread, turn: int) -> StoredTurn:
        """All of a turn; nothing of one that is not there."""
        rows = (await self._tx.execute(_WITH_ENTRIES, thread_key(thread) | {"of_turn": turn})).all()
        if not rows:
            return StoredTurn()
        senders = {each.key: each.sender_id for each in rows if each.sender_id}
        return StoredTurn(_plan(rows[0]), _settled(rows[0]), entries_in(rows), senders, rows[0].longest or 0)

    async def begin(self, thread: Thread, turn: int, route: TurnRoute) -> None:
        """Write down a turn's route; the first one stands."""
        row = await self._conversations.lock(thread)
        written = _ROUTE.dump_python(route, mode="json")
        new = insert(conversation_turns).values(conversation_id=row.id, turn=turn, route=written)
        await self._tx.execute(new.on_conflict_do_nothing())

    async def reroute(self, thread: Thread, turn: int, route: TurnRoute) -> None:
        """The turn takes another route from now on: the operator continues where the first agent has failed."""
        await self._change(thread, turn, route=_ROUTE.dump_python(route, mode="json"))

    async def set_context(
        self, thread: Thread, turn: int, context: str, patterns: str, layers: Sequence[Mapping[str, Any]]
    ) -> None:
        """What the operator is told in this turn: what was gathered first stands, so that no step is told more."""
        told = {"context": context, "patterns": patterns, "layers": list(layers)}
        await self._change(thread, turn, _row.context == "", **told)

    async def set_analysis(
        self, thread: Thread, turn: int, analysis: str
    ) -> tuple[TurnPlan | None, ConversationSnapshot]:
        """What the model made of the request; the first analysis stands. Returns the plan with it."""
        row = await self._conversations.lock(thread)
        given = {"id": row.id, "of_turn": turn, "analysis": storable(analysis)}
        beside = "LEFT JOIN analysed beside ON true"
        snapshot, rows = await self._conversations.snapshot_and_read(thread, given, also=_SET_ANALYSIS, beside=beside)
        return _plan(rows[0] if rows else None) or await self.plan(thread, turn), snapshot

    async def delete_content(self, conversation_id: int) -> None:
        """Somebody has deleted words that the operator may have been told: all that it was told is removed."""
        mine = _row.conversation_id == conversation_id
        await self._tx.execute(update(conversation_turns).where(mine, _row.settled_at.is_(None)).values(**_NO_CONTEXT))

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
    ) -> tuple[SettledTurn, ConversationSnapshot]:
        """End a turn: what it has taken up is answered, and what it was told is removed. The first end stands.

        Args:
            user_id: whom it answers.
            wants_detail: whether they asked for a long answer.
            question: the start of what the bot asks with it; a silent turn leaves an earlier question open.
            result: what it came to, in figures.
        """
        row = await self._conversations.lock(thread)
        ended: dict[str, Any] = {"kind": kind.value, "answer": answer, "user_id": user_id, "wants_detail": wants_detail}
        ended |= {"model_calls": model_calls, "result": result and dict(result), "settled_at": func.now()}
        new = insert(conversation_turns).values(conversation_id=row.id, turn=turn, **ended)
        first = new.on_conflict_do_update(
            index_elements=["conversation_id", "turn"], set_=ended | _NO_CONTEXT, where=_row.settled_at.is_(None)
        )
        end = _settled((await self._tx.execute(first.returning(conversation_turns))).one_or_none())
        if end is None:  # an earlier try has settled it
            before = await self.settled(thread, turn)
            if before is None:
                raise LookupError(f"turn {turn} of {thread.key} neither ends nor has ended")
            return before, await self._conversations.snapshot(thread)
        await self._take_the_rest(row, turn, kind)
        last = max(row.turn, turn)
        asked = row.question if kind is OutcomeKind.SILENT else storable(question)[:_MAX_QUESTION]
        change = {"turn": last, "question": asked}
        return end, (await self._conversations.update_and_read(thread, change, also=DISCARD_STALE_STOPS))[0]

    async def mark_posted(self, thread: Thread, turn: int) -> ConversationSnapshot:
        """A turn's answer is in Slack."""
        snapshot, _ = await self._conversations.update_and_read(thread, {}, {"of_turn": turn}, also=_MARK_POSTED)
        # The statement has read it as it was before.
        return replace(snapshot, unposted_turns=tuple(each for each in snapshot.unposted_turns if each != turn))

    async def unposted(self, grace: float, horizon: float, limit: int) -> list[tuple[Thread, int]]:
        """Turns whose answer is not in Slack, oldest first, though they ended between `horizon` and `grace` seconds
        ago."""
        given = {"grace": grace, "horizon": horizon, "limit": limit}
        rows = await self._tx.execute(_UNPOSTED, given)
        return [(Thread(row.team, row.channel, row.thread_ts), row.turn) for row in rows]

    async def asked(self, thread: Thread, turn: int) -> tuple[str, ...]:
        """The `ts` of the messages that a turn has taken up, the newest first."""
        rows = await self._tx.execute(_ASKED, thread_key(thread) | {"turn": turn})
        return tuple(rows.scalars())

    async def usage(self, thread: Thread, turn: int) -> TurnUsage:
        row = await self._conversations.lock(thread)
        given = {"id": row.id, "turn": turn, "key": turn_id(thread, turn)}
        used = (await self._tx.execute(_USAGE, thread_key(thread) | given)).one()
        spent = (used.model_calls, used.tokens, float(used.cost_usd), float(used.seconds or 0))
        return TurnUsage(*spent, tuple(used.tools), tuple(used.approvals))

    async def open_questions(
        self, thread: Thread, kinds: Sequence[OutcomeKind] = (OutcomeKind.ASKED,)
    ) -> dict[str, OpenQuestion]:
        """What nobody has answered yet, by the id of whoever was asked. What was told by rule since then, such as that
        there is no such RFP, leaves it open, and so does a silent turn. `kinds`: of the turns that have asked."""
        row = await self._conversations.lock(thread)
        which = {"id": row.id, "job": JOB_QUESTION, "kinds": [each.value for each in kinds]}
        rows = await self._tx.execute(_OPEN_QUESTIONS, which)
        return {row.user_id: OpenQuestion(row.turn, row.said_at) for row in rows}

    async def texts(self, thread: Thread, turn: int, *, own: bool = False) -> list[str]:
        """What was said to the bot that a turn has used, as it reads now, without what was deleted: what is addressed
        to it, and what its askers wrote besides and called nobody with. `own`: without what they forward, for rules."""
        row = await self._conversations.lock(thread)
        said = await self._tx.execute(_TEXTS, {"id": row.id, "turn": turn})
        return [each.message_text if own else with_forwarded(each.message_text, each.forwarded) for each in said]

    async def request_texts(
        self, thread: Thread, turn: int, *, plan: TurnPlan | None = None, whole: bool = False
    ) -> list[str]:
        """What somebody asks of a turn: each message of it and of the turns that it resumes, the earliest turn first,
        as far as rules on words read it, or to the end with what is forwarded (`whole`); what was deleted is left out.
        `plan`: the turn's, where it was read already."""
        texts: list[str] = []
        for _ in range(MAX_RESUMED_TURNS):
            texts = [*await self.texts(thread, turn, own=not whole), *texts]
            plan = plan or await self.plan(thread, turn)
            if plan is None or not plan.route.resumes_turn:
                break
            turn, plan = plan.route.resumes_turn, None
        asked = [normalise_question(each) for each in texts]
        return asked if whole else [truncate_question(each) for each in asked]

    async def last_answers(
        self, team: str, channel: str, threads: Collection[str], longest: int = 2_000
    ) -> list[tuple[str, datetime]]:
        """What was posted last in each of these threads of a channel (`threads`: their `ts`), and when, newest first.
        An answer to what was deleted since may quote it, and is left out. `longest`: characters of each."""
        given = {"team": team, "channel": channel, "threads": list(threads), "longest": longest}
        return [(row.answer, row.posted_at) for row in await self._tx.execute(_LAST_ANSWERS, given)]

    async def _get(self, thread: Thread, turn: int) -> Row[Any] | None:
        query = select(conversation_turns).join(conversations).where(in_thread(thread), _row.turn == turn)
        return (await self._tx.execute(query)).one_or_none()

    async def _take_the_rest(self, row: Conversation, turn: int, kind: OutcomeKind) -> None:
        """Who said to stop meant all that was said before it; a failure answers for all if there was no thought.

        One that nobody is told of does not for what was addressed to the bot, and came before the workflow heard of it.
        """
        if kind not in (OutcomeKind.STOPPED, OutcomeKind.FAILED, OutcomeKind.SILENT):
            return
        stop = None
        if kind is OutcomeKind.STOPPED:
            stop = (await self._tx.execute(_LAST_STOP, {"id": row.id})).scalar_one()
        if stop is not None or row.reading_turn < turn:
            rest = {"id": row.id, "turn": turn, "until": stop, "silent": kind is OutcomeKind.SILENT}
            await self._tx.execute(_TAKE_THE_REST, rest)

    async def _change(
        self, thread: Thread, turn: int, where: ColumnElement[bool] | None = None, **values: Any
    ) -> Row[Any] | None:
        """Change a turn that runs; None where there is none of which the condition holds."""
        row = await self._conversations.lock(thread)
        running = and_(_row.conversation_id == row.id, _row.turn == turn, _row.settled_at.is_(None))
        which = running if where is None else and_(running, where)
        changed = update(conversation_turns).where(which).values(**values).returning(conversation_turns)
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
