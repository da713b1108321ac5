"""CaseStore: a case's row, its turns, its pull request and the directory of services.

Every write locks the case's row, raises its revision, and returns the snapshot as of that revision: the workflow keeps
those with the highest one. What people wrote is in `cases/message_store.py`.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import Row, cast, delete, func, select, text, true, tuple_, update
from sqlalchemy.dialects.postgresql import insert

from threadline.cases.model import (
    START_REASONS,
    SUMMARY,
    TRANSITIONS,
    Action,
    CaseNotFound,
    CaseSnapshot,
    CaseStatus,
    Reason,
    Service,
    Settled,
    Severity,
    SlaEventKind,
    session_id,
)
from threadline.cases.outcome import StoredOutcome
from threadline.cases.report import ParsedReport
from threadline.cases.tables import (
    agent_turns,
    bug_conversations,
    case_transitions,
    cases,
    pull_requests,
    services,
    sla_events,
)
from threadline.db.columns import SLACK_TIME
from threadline.db.engine import Query, Transaction
from threadline.db.values import storable
from threadline.errors import IllegalTransition, Permanent
from threadline.slack.model import Thread, clean_text
from threadline.threads.model import MessageKind, SenderType
from threadline.threads.store import first_thread
from threadline.threads.tables import threads

Case = Row[Any]
PullRequestState = Literal["open", "merged", "closed"]

_BY_OPERATOR = (Reason.OPERATOR_CANCELLED, Reason.OPERATOR_RESOLVED)
_QUESTION_SHOWN = 200

SNAPSHOT = text("""
SELECT c.*,
       EXISTS (SELECT FROM threads t
               WHERE t.workflow_id = c.workflow_id AND t.kind = 'case:summary') AS has_summary_thread,
       coalesce(u.has_unread, false) AS has_unread, coalesce(u.reporter_wrote, false) AS reporter_wrote,
       coalesce(u.developer_wrote, false) AS developer_wrote,
       c.status <> 'resolved' AND coalesce(u.closed_last, false) AS close_requested,
       EXISTS (SELECT FROM pull_requests p WHERE p.bug_id = c.bug_id AND p.state = 'open') AS pull_request_open,
       c.status = 'investigating' AND c.last_action = 'ask_reporter' AND NOT coalesce(u.reporter_wrote, false)
           AND (SELECT t.reason FROM case_transitions t WHERE t.bug_id = c.bug_id ORDER BY t.rev DESC LIMIT 1)
               = 'question_unanswered' AS unanswered,
       EXISTS (SELECT FROM attachments a
               WHERE a.bug_id = c.bug_id AND a.content IS NULL AND a.error = '') AS attachments_pending,
       coalesce((SELECT t.attempt FROM agent_turns t WHERE t.bug_id = c.bug_id AND t.turn = c.turn + 1), 0) AS attempts
FROM cases c CROSS JOIN LATERAL (
    SELECT bool_or(wants_turn) AS has_unread,
           bool_or(speaks AND sender_type = 'reporter') AS reporter_wrote,
           bool_or(speaks AND sender_type = 'developer') AS developer_wrote,
           (array_agg(message_type = 'close' ORDER BY said_at DESC, seq DESC)
               FILTER (WHERE sender_type IN ('reporter', 'operator') AND wants_turn))[1] AS closed_last
    FROM (
        SELECT *, (wants_turn OR message_type = 'edit') AND message_type <> 'close' AS speaks
        FROM (SELECT * FROM bug_conversations m
              WHERE m.bug_id = c.bug_id AND m.sender_type <> 'bot' AND m.turn IS NULL
              UNION ALL SELECT * FROM bug_conversations m
              WHERE m.bug_id = c.bug_id AND m.sender_type <> 'bot' AND m.turn > c.turn) m
    ) unused
) u
WHERE c.bug_id = :bug_id
""")
"""A message that was assigned to a turn counts as unused until that turn is settled. Two searches of the index by turn
are united: for an OR of both Postgres reads all that was ever said in the case as long as its statistics are poor.
"""


_ANSWERED_BY_CLOSE = text("""
UPDATE bug_conversations m SET turn = 0
FROM (SELECT max(said_at) AS said_at FROM bug_conversations
      WHERE bug_id = :bug_id AND message_type = 'close' AND wants_turn AND sender_type IN ('reporter', 'operator')
        AND (turn IS NULL OR turn > :settled)) closing
WHERE m.bug_id = :bug_id AND m.sender_type <> 'bot' AND (m.turn IS NULL OR m.turn > :settled)
  AND m.said_at <= closing.said_at
""")
_ANSWERED_BY_OPERATOR = text("""
UPDATE bug_conversations SET turn = 0
WHERE bug_id = :bug_id AND sender_type <> 'bot' AND (turn IS NULL OR turn > :settled)
""")
_CLOSER = text("""
SELECT sender_type, sender_id FROM bug_conversations
WHERE bug_id = :bug_id AND message_type = 'close' AND wants_turn AND sender_type IN ('reporter', 'operator')
  AND (turn IS NULL OR turn > :settled)
ORDER BY said_at DESC, seq DESC LIMIT 1
""")
_REVOKE_UNSETTLED = text("""
UPDATE agent_turns SET token = token + 1, status = 'revoked', finished_at = coalesce(finished_at, clock_timestamp())
WHERE bug_id = :bug_id AND turn > :settled RETURNING turn, cost_usd
""")
_RELEASE = text("UPDATE bug_conversations SET turn = NULL WHERE bug_id = :bug_id AND turn > :settled")
_REVOKE = text("""
UPDATE agent_turns SET token = token + 1, status = CASE status WHEN 'running' THEN 'revoked' ELSE status END,
    finished_at = clock_timestamp()
WHERE bug_id = :bug_id AND turn = :turn
""")
_GIVE_UP = text("""
INSERT INTO agent_turns AS t (bug_id, turn, attempt, status, token, action, result, failure, finished_at)
VALUES (:bug_id, :turn, 0, 'done', 1, 'escalate', jsonb_build_object('summary', CAST(:failure AS text)),
        CAST(:failure AS text), clock_timestamp())
ON CONFLICT (bug_id, turn) DO UPDATE SET
    token = t.token + 1, status = 'done', action = excluded.action, result = excluded.result, diffs = '{}',
    has_fix = false, read_seqs = '{}', failure = excluded.failure, finished_at = excluded.finished_at
""")
_ASSIGN_WAITING = text("""
UPDATE bug_conversations SET turn = :turn WHERE bug_id = :bug_id AND sender_type <> 'bot' AND turn IS NULL
""")
_USE_READ = text("""
UPDATE bug_conversations m SET
    turn = CASE WHEN k.uses THEN CAST(:turn AS int) END,
    read_in_turn = CASE WHEN k.uses THEN m.read_in_turn ELSE CAST(:turn AS int) END
FROM (SELECT id, sender_type = 'reporter' AND message_type <> 'close' AS uses FROM bug_conversations
      WHERE bug_id = :bug_id AND seq = ANY(:read) AND turn IS NULL) k
WHERE m.id = k.id
""")
"""What the reporter wrote is used when it was read; a developer's comes again in the next batch, marked."""
_FORGET_SESSIONS = text("DELETE FROM agent_sessions WHERE session_id = ANY(:sessions)")
_SEARCH = text("""
WITH asked AS (
    SELECT string_agg(quote_literal(lexeme), ' | ')::tsquery AS query
    FROM unnest(to_tsvector('english', left(:words, 4000)))
)
SELECT c.bug_id FROM cases c CROSS JOIN asked a
LEFT JOIN LATERAL (
    SELECT max(ts_rank(to_tsvector('english', m.message_text), a.query)) AS rank FROM bug_conversations m
    WHERE m.bug_id = c.bug_id AND m.sender_type = 'reporter' AND m.redacted_at IS NULL
      AND to_tsvector('english', m.message_text) @@ a.query) told ON true
WHERE c.team = :team AND (:status = '' OR c.status = :status) AND (NOT :open_only OR c.status <> 'resolved')
  AND (:component = '' OR EXISTS (SELECT FROM unnest(c.components) AS each
                                  WHERE strpos(lower(each), lower(:component)) > 0))
  AND (a.query IS NULL OR told.rank IS NOT NULL OR to_tsvector('english', c.title) @@ a.query
       OR c.bug_id = upper(:words))
ORDER BY greatest(told.rank, ts_rank(to_tsvector('english', c.title), a.query), 0) DESC, c.id DESC LIMIT :limit
""")
"""By words that the reporter used or that are in the title: any of them, the case that has most of them first."""
_REPORTER_WORDS = """
coalesce((SELECT string_agg(words, E'\\n') FROM (
    SELECT message_text AS words FROM bug_conversations
    WHERE bug_id = c.bug_id AND sender_type = 'reporter' AND redacted_at IS NULL
    UNION ALL SELECT f.name FROM attachments f JOIN bug_conversations m USING (bug_id, message_id)
    WHERE f.bug_id = c.bug_id AND m.sender_type = 'reporter') told), '') AS reporter_words
"""
_SUMMARY_AND_FIX = """
LEFT JOIN LATERAL (SELECT channel, thread_ts FROM threads
                   WHERE workflow_id = c.workflow_id AND kind = 'case:summary' ORDER BY thread_ts LIMIT 1) s ON true
LEFT JOIN pull_requests p ON p.bug_id = c.bug_id
"""
_FOR_POST = text(f"""
SELECT c.*, s.channel AS summary_channel, s.thread_ts AS summary_ts, p.url, t.action, t.result, t.failure,
       t.cost_usd AS turn_cost, {_REPORTER_WORDS}
FROM cases c JOIN agent_turns t ON t.bug_id = c.bug_id AND t.turn = :turn {_SUMMARY_AND_FIX}
WHERE c.bug_id = :bug_id
""")  # noqa: S608 - all parts are written here
_FOR_CARDS = text(f"""
SELECT c.*, s.channel AS summary_channel, s.thread_ts AS summary_ts, p.url, {_REPORTER_WORDS},
       (SELECT at FROM case_transitions WHERE bug_id = c.bug_id ORDER BY rev DESC LIMIT 1) AS status_since,
       coalesce((SELECT message_text FROM agent_conversations
                 WHERE bug_id = c.bug_id AND sender_type = 'reporter' AND message_type IN ('report', 'message')
                 ORDER BY message_type = 'report' DESC, said_at, id LIMIT 1), '') AS report,
       coalesce((SELECT jsonb_agg(jsonb_build_array(action, result) ORDER BY turn DESC) FROM agent_turns
                 WHERE bug_id = c.bug_id AND turn <= c.turn), '[]') AS turns
FROM cases c {_SUMMARY_AND_FIX}
WHERE c.team = :team AND c.bug_id = ANY(:bug_ids) ORDER BY array_position(CAST(:bug_ids AS text[]), c.bug_id)
""")  # noqa: S608 - as above
_CLOSING_UNPOSTED = """
EXISTS (SELECT FROM threads place
        WHERE c.status = 'resolved' AND place.workflow_id = c.workflow_id AND place.kind <> 'case:escalation'
          AND NOT EXISTS (SELECT FROM posts p WHERE p.ts IS NOT NULL
                          AND p.key = c.bug_id || ':closing:' || c.closings || ':' || place.channel))
"""
_IS_CLOSING_UNPOSTED = text(f"SELECT {_CLOSING_UNPOSTED} FROM cases c WHERE c.bug_id = :bug_id")  # noqa: S608 - all of it is written here
_OPEN = text(f"""
SELECT c.id, c.bug_id, c.team, c.channel, c.thread_ts FROM cases c
WHERE c.id > :after AND (c.status <> 'resolved'
    OR c.resolved_at > now() - interval '60 days' AND EXISTS (
        SELECT FROM bug_conversations m
        WHERE m.bug_id = c.bug_id AND m.wants_turn AND m.sender_type <> 'bot' AND (m.turn IS NULL OR m.turn > c.turn))
    OR c.resolved_at > now() - interval '1 day' AND {_CLOSING_UNPOSTED})
ORDER BY c.id LIMIT :limit
""")  # noqa: S608 - as above
_ESCALATED = text("""
SELECT c.id, c.bug_id, c.escalations, c.severity, p.claimed_at,
       EXISTS (SELECT FROM bug_conversations m
               WHERE m.bug_id = c.bug_id AND m.sender_type = 'developer' AND m.message_type IN ('message', 'close')
                 AND m.said_at > CAST(p.claimed_at AS numeric)) AS acknowledged
FROM cases c JOIN posts p ON p.key = c.bug_id || ':escalation:' || c.escalations AND p.ts IS NOT NULL
WHERE c.id > :after AND c.escalated AND c.status <> 'resolved' ORDER BY c.id LIMIT :limit
""")
_UNPOSTED = text(f"""
SELECT * FROM (
SELECT c.id, c.bug_id, t.turn, CASE t.action WHEN 'ask_reporter' THEN 'question' ELSE 'findings' END AS kind,
       c.status = 'investigating' AND t.turn = c.turn AS owed
FROM cases c JOIN agent_turns t ON t.bug_id = c.bug_id AND t.turn <= c.turn AND t.status = 'done'
WHERE t.finished_at < now() - make_interval(secs => :grace) AND t.finished_at > now() - interval '30 days'
  AND (t.action <> 'ask_reporter' OR t.turn = c.turn AND c.status = 'awaiting_reporter')
  AND NOT EXISTS (SELECT FROM posts p WHERE p.ts IS NOT NULL AND p.key IN (
          c.bug_id || ':turn:' || t.turn || '\\:findings', c.bug_id || ':turn:' || t.turn || '\\:question',
          c.bug_id || ':undeliverable:' || t.turn))
  AND NOT EXISTS (SELECT FROM case_transitions s
                  WHERE s.bug_id = c.bug_id AND s.at >= t.finished_at
                    AND s.reason IN ('reporter_closed', 'operator_cancelled', 'operator_resolved'))
UNION ALL
SELECT c.id, c.bug_id, c.turn, 'closing', true FROM cases c
WHERE c.resolved_at < now() - make_interval(secs => :grace) AND c.resolved_at > now() - interval '30 days'
  AND {_CLOSING_UNPOSTED}
) unposted WHERE id > :after AND (:owed OR NOT owed) ORDER BY id, turn LIMIT :limit
""")  # noqa: S608 - as above
"""A question may go unposted when the reporter wrote meanwhile, and an outcome when the case was closed. Findings that
could not be posted are made good by the notice that says so."""
_SUMMARIES = first_thread(cases.c.workflow_id, SUMMARY)
_CASES = select(
    cases, _SUMMARIES.c.channel.label("summary_channel"), _SUMMARIES.c.thread_ts.label("summary_ts")
).outerjoin(_SUMMARIES, true())
"""Cases with their thread in the summaries channel."""


@dataclass(frozen=True)
class CaseRecord:
    """A case in full. `summary`: its thread in the summaries channel; `wait_until`: seconds since 1970, 0 for none."""

    bug_id: str
    thread: Thread
    reporter_id: str
    title: str
    severity: Severity
    components: list[str]
    status: CaseStatus
    summary: Thread | None
    turn: int
    questions: int
    escalations: int
    closings: int
    wait_until: float
    close_reason: str
    base: dict[str, str]
    cost_usd: float
    created_at: datetime
    resolved_at: datetime | None


@dataclass(frozen=True)
class Transition:
    """`before` is None for the opening."""

    before: str | None
    to: str
    reason: str
    actor: str
    at: datetime


@dataclass(frozen=True)
class TurnRecord:
    """A turn as it is stored; `result` is the agent's structured outcome, `diffs` are by repository."""

    bug_id: str
    turn: int
    attempt: int
    status: str
    action: Action | None
    result: Mapping[str, Any]
    diffs: Mapping[str, str]
    base: Mapping[str, str]
    has_fix: bool
    fix_requested_by: str
    cost_usd: float
    input_tokens: int
    output_tokens: int
    duration_s: float
    failure: str

    @property
    def outcome(self) -> StoredOutcome:
        return StoredOutcome.model_validate(self.result)


@dataclass(frozen=True)
class PullRequest:
    """`number` is None where the code host knows branches alone; `commit` is its newest; `turn` made that."""

    repository: str
    branch: str
    url: str
    number: int | None
    commit: str
    turn: int
    state: PullRequestState = "open"


@dataclass(frozen=True)
class SettledTurn:
    action: Action | None
    result: Mapping[str, Any]

    @property
    def outcome(self) -> StoredOutcome:
        return StoredOutcome.model_validate(self.result)


@dataclass(frozen=True)
class CardSource:
    """What a case's card is made of: `turns` are its settled ones, the last one first.

    `report` is the text that opened the case; `pull_request` an address, or empty; `reporter_words` are as in
    `TurnPost`.
    """

    case: CaseRecord
    status_since: datetime
    report: str
    reporter_words: str
    pull_request: str
    turns: Sequence[SettledTurn]


@dataclass(frozen=True)
class TurnPost:
    """What a turn's posts are made of.

    `fix_url`: of the case's pull request; `reporter_words`: all that the reporter has written, with the names of what
    they attached.
    """

    case: CaseRecord
    turn: int
    action: Action | None
    result: Mapping[str, Any]
    failure: str
    cost_usd: float
    fix_url: str | None
    reporter_words: str

    @property
    def outcome(self) -> StoredOutcome:
        return StoredOutcome.model_validate(self.result)


@dataclass(frozen=True)
class OpenCase:
    """A case whose workflow must run; `id` is its place in the order of all."""

    id: int
    bug_id: str
    thread: Thread


@dataclass(frozen=True)
class OpenEscalation:
    """An escalation whose clock must run.

    `started`: when people were called, in seconds since 1970; `acknowledged`: a developer has written since.
    """

    id: int
    bug_id: str
    number: int
    severity: Severity
    started: float
    acknowledged: bool


@dataclass(frozen=True)
class MissingAnswer:
    """What finished and was not posted: the `question` or the `findings` of a turn, or how the case ended (`closing`).

    `owed`: the case's workflow has it before it, and posts it as soon as it can. `id` is the case's.
    """

    id: int
    bug_id: str
    turn: int
    kind: str
    owed: bool


class CaseStore:
    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    # -- the row -------------------------------------------------------------------------------------------------------

    async def lock(self, bug_id: str) -> Case:
        """Wait for the case's row and hold it until the transaction ends.

        `key_share` lets others insert rows that only refer to the case: two transactions that did so and then locked
        the case would otherwise wait for each other.

        Raises:
            CaseNotFound: there is no such case.
        """
        query = select(cases).where(cases.c.bug_id == bug_id).with_for_update(key_share=True)
        row = (await self._tx.execute(query)).one_or_none()
        if row is None:
            raise _not_found(bug_id)
        return row

    async def lock_thread(self, thread: Thread) -> Case | None:
        """As `lock`, by the thread that the case was reported in; None when it has none."""
        return (await self._tx.execute(_of(thread).with_for_update(key_share=True))).one_or_none()

    async def write(self, bug_id: str, **values: object) -> int:
        """Change the locked row, raising its revision by one; returns the new revision."""
        changed = update(cases).where(cases.c.bug_id == bug_id).values(rev=cases.c.rev + 1, **values)
        return int((await self._tx.execute(changed.returning(cases.c.rev))).scalar_one())

    async def record_transition(
        self, bug_id: str, rev: int, before: CaseStatus | None, to: CaseStatus, reason: Reason, actor: str
    ) -> None:
        """Keep who took a step and why; the database refuses to commit a step without it."""
        row = {"from_status": before, "to_status": to, "reason": reason, "actor": actor}
        await self._tx.execute(insert(case_transitions).values(bug_id=bug_id, rev=rev, **row))

    async def snapshot(self, bug_id: str) -> CaseSnapshot:
        """What is known of a case, as this transaction sees it. Raises `CaseNotFound`."""
        row = (await self._tx.execute(SNAPSHOT, {"bug_id": bug_id})).one_or_none()
        if row is None:
            raise _not_found(bug_id)
        return _snapshot(row)

    async def snapshot_of(self, thread: Thread) -> CaseSnapshot:
        """What is known of the case that was reported in a thread; `bug_id` is empty when there is none."""
        bug_id = await self.bug_id(thread)
        return await self.snapshot(bug_id) if bug_id else CaseSnapshot()

    async def bug_id(self, thread: Thread) -> str:
        """The case that was reported in a thread; empty when there is none."""
        row = (await self._tx.execute(_of(thread))).one_or_none()
        return str(row.bug_id) if row else ""

    async def record_batch(
        self, case: Case, snapshot: CaseSnapshot, message_count: int, report: ParsedReport | None, *, start_turn: bool
    ) -> CaseSnapshot:
        """Write what a stored batch changes in its case, in the transaction that stored it.

        Args:
            case: the locked row.
            snapshot: as they were read in this transaction.
            message_count: the highest `seq` by now.
            report: what the rules read out of the report; None where the case has a title.
            start_turn: make the case `investigating`.
        """
        before, now = snapshot.status, CaseStatus.INVESTIGATING
        fields: dict[str, object] = dict(vars(report)) if report else {}
        if report:
            snapshot = replace(snapshot, title=report.title, severity=report.severity)
        if not start_turn:
            rev = await self.write(case.bug_id, message_count=message_count, **fields)
            return replace(snapshot, rev=rev, message_count=message_count)
        rev = await self.write(case.bug_id, message_count=message_count, status=now, wait_until=0.0, **fields)
        await self.record_transition(case.bug_id, rev, before, now, START_REASONS[before], "threadline")
        return replace(snapshot, rev=rev, message_count=message_count, status=now, wait_until=0.0)

    # -- its steps -----------------------------------------------------------------------------------------------------

    async def transition(
        self,
        bug_id: str,
        to: CaseStatus,
        reason: Reason,
        *,
        actor: str = "threadline",
        wait_until: float = 0.0,
    ) -> CaseSnapshot:
        """Take one step. Taking it again changes `wait_until` alone, and records nothing twice.

        Args:
            wait_until: when the wait that begins with it ends, in seconds since 1970; 0 for none.

        Raises:
            IllegalTransition: the status does not allow it.
        """
        case = await self.lock(bug_id)
        if case.status == to:
            await self.write(bug_id, wait_until=wait_until)
        elif to is CaseStatus.RESOLVED:
            await self._resolve(case, reason, actor)
        else:
            reopened = {"close_reason": "", "resolved_at": None, "escalated": False}
            values = reopened if case.status == CaseStatus.RESOLVED else {}
            await self._step(case, to, reason, actor, wait_until=wait_until, **values)
        return await self.snapshot(bug_id)

    async def end(self, bug_id: str, reason: Reason, *, actor: str = "threadline") -> CaseSnapshot:
        """Resolve the case, unless an unused message speaks against it: then the snapshot comes back unresolved.

        A close by an operator is recorded as theirs, also when `reason` says that the reporter closed it.

        A turn that was not settled loses its claim and its number, so that a reopened case never meets its keys. What
        the ending answers counts as used; what was said after it stays unused, and reopens the case.
        """
        case = await self.lock(bug_id)
        snapshot = await self.snapshot(bug_id)
        if case.status == CaseStatus.RESOLVED or not _may_end(reason, snapshot):
            return snapshot
        which = {"bug_id": bug_id, "settled": case.turn}
        if reason is Reason.REPORTER_CLOSED:
            closer = (await self._tx.execute(_CLOSER, which)).one()
            actor = closer.sender_id or actor
            if closer.sender_type == SenderType.ADMIN:
                reason = Reason.OPERATOR_RESOLVED
            await self._tx.execute(_ANSWERED_BY_CLOSE, which)
        elif reason in _BY_OPERATOR:
            await self._tx.execute(_ANSWERED_BY_OPERATOR, which)
        await self._resolve(case, reason, actor)
        return await self.snapshot(bug_id)

    async def _resolve(self, case: Case, reason: Reason, actor: str) -> None:
        which = {"bug_id": case.bug_id, "settled": case.turn}
        await self._tx.execute(_RELEASE, which)
        revoked = (await self._tx.execute(_REVOKE_UNSETTLED, which)).one_or_none()
        await self._step(
            case,
            CaseStatus.RESOLVED,
            reason,
            actor,
            turn=revoked.turn if revoked else case.turn,
            cost_usd=case.cost_usd + (revoked.cost_usd if revoked else 0),
            closings=case.closings + 1,
            close_reason=reason,
            resolved_at=func.now(),
            escalated=False,
            wait_until=0.0,
        )

    async def _step(self, case: Case, to: CaseStatus, reason: Reason, actor: str, **values: object) -> None:
        now = CaseStatus(case.status)
        if to not in TRANSITIONS[now]:
            allowed = ", ".join(sorted(TRANSITIONS[now]))
            raise IllegalTransition(f"{case.bug_id} is {now} and cannot become {to}; it can become {allowed}")
        rev = await self.write(case.bug_id, status=to, **values)
        await self.record_transition(case.bug_id, rev, now, to, reason, actor)

    # -- its turns -----------------------------------------------------------------------------------------------------

    async def settle(self, bug_id: str, turn: int, failure: str = "") -> Settled:
        """Close a turn: whatever runs for it loses its claim, and what it has committed is taken over, once.

        Args:
            failure: a sentence for people; with it a turn that committed nothing is settled as an escalation.

        Returns:
            `action` is None when the turn had committed nothing and may be tried again, or when the case's end took
            its place.

        Raises:
            Permanent: the turn before it is not settled yet.
        """
        case = await self.lock(bug_id)
        row = await self._lock_turn(bug_id, turn)
        if turn > case.turn + 1:
            raise Permanent(f"turn {turn} of {bug_id} cannot be settled: the last settled one is {case.turn}")
        if turn > case.turn and case.status != CaseStatus.RESOLVED:
            row = await self._close(case, turn, row, failure)
        snapshot = await self.snapshot(bug_id)
        if row is None or row.status != "done":
            return Settled(snapshot)
        # A fix that was kept but never opened (refused, say) is opened when a developer asks again.
        asked_again = bool(row.fix_requested_by and any(row.diffs.values()) and not snapshot.pull_request_open)
        has_fix = row.has_fix or asked_again
        may_resolve = row.action == Action.RESOLVED and not has_fix
        if may_resolve and snapshot.pull_request_open:  # a fix is judged by a developer, not by the agent that wrote it
            may_resolve = await self._developer_spoke(bug_id, turn)
        return Settled(snapshot, Action(row.action), has_fix, may_resolve)

    async def turn(self, bug_id: str, turn: int) -> TurnRecord:
        """Raises `Permanent` when nothing ever ran under this number."""
        query = select(agent_turns).where(agent_turns.c.bug_id == bug_id, agent_turns.c.turn == turn)
        row = (await self._tx.execute(query)).one_or_none()
        if row is None:
            raise Permanent(f"{bug_id} has no turn {turn}; `threadline cases show {bug_id}` lists its turns")
        return _turn(row)

    async def turns(self, bug_id: str) -> list[TurnRecord]:
        """In order."""
        query = select(agent_turns).where(agent_turns.c.bug_id == bug_id).order_by(agent_turns.c.turn)
        return [_turn(row) for row in await self._tx.execute(query)]

    async def _lock_turn(self, bug_id: str, turn: int) -> Row[Any] | None:
        """Locked, behind the case's row: an agent that commits at this moment is waited for."""
        query = select(agent_turns).where(agent_turns.c.bug_id == bug_id, agent_turns.c.turn == turn)
        return (await self._tx.execute(query.with_for_update())).one_or_none()

    async def _developer_spoke(self, bug_id: str, turn: int) -> bool:
        message = bug_conversations.c
        query = select(message.id).where(
            message.bug_id == bug_id,
            message.turn == turn,
            message.sender_type != SenderType.BOT,  # the index's own condition
            message.sender_type == SenderType.DEVELOPER,
            message.message_type.in_((MessageKind.MESSAGE, MessageKind.CLOSE)),
        )
        return (await self._tx.execute(query.limit(1))).first() is not None

    async def _close(self, case: Case, turn: int, row: Row[Any] | None, failure: str) -> Row[Any] | None:
        which = {"bug_id": case.bug_id, "turn": turn}
        if row is None or row.status != "done":
            if not failure:
                await self._tx.execute(_REVOKE, which)
                await self.write(case.bug_id)
                return None
            if row is None:  # nothing was ever assigned: people take over what waits, or it would escalate for ever
                await self._tx.execute(_ASSIGN_WAITING, which)
            await self._tx.execute(_GIVE_UP, {**which, "failure": clean_text(failure)})
            row = await self._lock_turn(case.bug_id, turn)
        if row is not None:
            await self._apply(case, row)
        return row

    async def _apply(self, case: Case, row: Row[Any]) -> None:
        outcome, asks = StoredOutcome.model_validate(row.result), row.action == Action.ASK_REPORTER
        # People who were called once are not called again because the agent cannot work.
        escalates = row.action == Action.ESCALATE and not (row.failure and case.escalated)
        if row.read_seqs:
            await self._tx.execute(_USE_READ, {"bug_id": case.bug_id, "turn": row.turn, "read": row.read_seqs})
        await self.write(
            case.bug_id,
            turn=row.turn,
            last_action=row.action,
            last_question=outcome.clarification_question.strip() if asks else case.last_question,
            questions=case.questions + asks,
            escalations=case.escalations + escalates,
            escalated=case.escalated or escalates,
            last_session_id=case.last_session_id if row.failure else row.session_id,
            base={**case.base, **row.base},
            cost_usd=case.cost_usd + row.cost_usd,
            title=outcome.title.strip() or case.title,
            severity=outcome.severity or case.severity,
            components=outcome.affected_components or case.components,
        )
        if not row.failure:
            await self._forget_sessions(row)

    async def _forget_sessions(self, row: Row[Any]) -> None:
        """Each attempt copies its parent's transcript: once one is the case's, the others are never read again."""
        attempts = range(1, row.attempt + 1)
        old = {session_id(row.bug_id, row.turn, attempt) for attempt in attempts} | {row.parent_session}
        if old := old - {row.session_id, ""}:
            await self._tx.execute(_FORGET_SESSIONS, {"sessions": sorted(old)})

    # -- what goes with it ---------------------------------------------------------------------------------------------

    async def pull_request(self, bug_id: str) -> PullRequest | None:
        """The one pull request of the case."""
        row = (await self._tx.execute(select(pull_requests).where(pull_requests.c.bug_id == bug_id))).one_or_none()
        if row is None:
            return None
        return PullRequest(row.repository, row.branch, row.url, row.number, row.commit, row.turn, row.state)

    async def save_pull_request(self, bug_id: str, request: PullRequest) -> CaseSnapshot:
        """Keep it as it is at the code host now; a later fix, a merge or a closing replaces what was known."""
        await self.lock(bug_id)
        row = {**vars(request), "merged_at": func.now() if request.state == "merged" else None}
        known = insert(pull_requests).values(bug_id=bug_id, opened_at=func.now(), **row)
        await self._tx.execute(known.on_conflict_do_update(index_elements=["bug_id"], set_=row))
        await self.write(bug_id)
        return await self.snapshot(bug_id)

    async def record_sla_event(self, bug_id: str, escalation: int, ordinal: int, kind: SlaEventKind, tier: int) -> bool:
        """Keep an event of an escalation's clock once; False when it was there already."""
        row = {"bug_id": bug_id, "escalation": escalation, "ordinal": ordinal, "kind": kind, "tier": tier}
        kept = insert(sla_events).values(row).on_conflict_do_nothing().returning(sla_events.c.ordinal)
        return (await self._tx.execute(kept)).first() is not None

    async def services(self) -> list[Service]:
        """Who owns what: the directory in which the agent looks up an owner, by name."""
        return [Service(*row) for row in await self._tx.execute(select(services).order_by(services.c.name))]

    async def replace_services(self, directory: Sequence[Service]) -> None:
        """Make the directory what is given: services that are not in it are forgotten."""
        names = [service.name for service in directory]
        await self._tx.execute(delete(services).where(services.c.name.not_in(names)))
        for service in directory:
            row = vars(service)
            known = insert(services).values(row)
            await self._tx.execute(known.on_conflict_do_update(index_elements=["name"], set_=row))

    async def for_post(self, bug_id: str, turn: int) -> TurnPost:
        """All that a turn's posts are made of, in one statement.

        Raises:
            CaseNotFound: there is no such case.
            Permanent: nothing ever ran under this number.
        """
        row = (await self._tx.execute(_FOR_POST, {"bug_id": bug_id, "turn": turn})).one_or_none()
        if row is None:
            raise Permanent(f"{bug_id} has no turn {turn}; `threadline cases show {bug_id}` lists its turns")
        action = Action(row.action) if row.action else None
        case = _record(row)
        return TurnPost(case, turn, action, row.result, row.failure, float(row.turn_cost), row.url, row.reporter_words)

    # -- what the sweep looks for --------------------------------------------------------------------------------------

    async def open_cases(self, after: int, limit: int) -> Sequence[OpenCase]:
        """Cases that are not resolved, or were written in since, or whose end was not posted within a day, in order."""
        rows = await self._tx.execute(_OPEN, {"after": after, "limit": limit})
        return [OpenCase(row.id, row.bug_id, Thread(row.team, row.channel, row.thread_ts)) for row in rows]

    async def open_escalations(self, after: int, limit: int) -> Sequence[OpenEscalation]:
        """Escalations of open cases for which people were called, in order."""
        rows = await self._tx.execute(_ESCALATED, {"after": after, "limit": limit})
        return [
            OpenEscalation(
                row.id, row.bug_id, row.escalations, Severity(row.severity), row.claimed_at, row.acknowledged
            )
            for row in rows
        ]

    async def missing_answers(
        self, grace: float, limit: int, after: int = 0, *, owed: bool = True
    ) -> Sequence[MissingAnswer]:
        """What finished longer than `grace` seconds ago and was not posted, in order.

        Args:
            owed: also what a workflow will post.
        """
        which = {"grace": grace, "limit": limit, "after": after, "owed": owed}
        return [MissingAnswer(**row) for row in (await self._tx.execute(_UNPOSTED, which)).mappings()]

    async def closing_is_unposted(self, bug_id: str) -> bool:
        """Whether the case has ended, and some thread of it was not told how."""
        return bool((await self._tx.execute(_IS_CLOSING_UNPOSTED, {"bug_id": bug_id})).scalar_one_or_none())

    # -- lists ---------------------------------------------------------------------------------------------------------

    async def get(self, bug_id: str) -> CaseRecord:
        """Raises `CaseNotFound`."""
        row = (await self._tx.execute(_CASES.where(cases.c.bug_id == bug_id))).one_or_none()
        if row is None:
            raise _not_found(bug_id)
        return _record(row)

    async def list(
        self, *, status: CaseStatus | None = None, open_only: bool = False, reporter_id: str = "", limit: int = 50
    ) -> list[CaseRecord]:
        """The newest cases first."""
        query = _CASES.order_by(cases.c.id.desc()).limit(limit)
        if status:
            query = query.where(cases.c.status == status)
        if open_only:
            query = query.where(cases.c.status != CaseStatus.RESOLVED)
        if reporter_id:
            query = query.where(cases.c.reporter_id == reporter_id)
        return [_record(row) for row in await self._tx.execute(query)]

    async def search(
        self,
        team: str,
        *,
        words: str = "",
        status: CaseStatus | None = None,
        component: str = "",
        open_only: bool = False,
        limit: int = 20,
    ) -> Sequence[CardSource]:
        """A team's cases, those that have most of the words first, else the newest.

        Args:
            words: any of them is in the title, or in what the reporter wrote; or a case's number.
            component: a part of the name of one that the case has.
        """
        given = {"words": storable(words).strip(), "component": storable(component).strip(), "status": status or ""}
        wanted = {"team": team, "open_only": open_only, "limit": limit, **given}
        ids = [row.bug_id for row in await self._tx.execute(_SEARCH, wanted)]
        return await self.for_cards(team, ids)

    async def for_cards(self, team: str, bug_ids: Sequence[str]) -> Sequence[CardSource]:
        """What the cards of a team's cases are made of, in one statement and in this order; unknown ones are left out.

        It reads no diffs: those of all turns of 21 cases may be hundreds of megabytes.
        """
        rows = await self._tx.execute(_FOR_CARDS, {"team": team, "bug_ids": list(bug_ids)})
        return [
            CardSource(
                case=_record(row),
                status_since=row.status_since,
                report=row.report,
                reporter_words=row.reporter_words,
                pull_request=row.url or "",
                turns=[SettledTurn(Action(action) if action else None, result) for action, result in row.turns],
            )
            for row in rows
        ]

    async def bug_ids(self, threads: Collection[Thread]) -> dict[Thread, str]:
        """The cases that were reported in these threads."""
        place = tuple_(cases.c.team, cases.c.channel, cases.c.thread_ts)
        query = select(cases.c.team, cases.c.channel, cases.c.thread_ts, cases.c.bug_id)
        rows = await self._tx.execute(query.where(place.in_([(each.team, each.channel, each.ts) for each in threads])))
        return {Thread(*row[:3]): row.bug_id for row in rows}

    async def transitions(self, bug_id: str) -> Sequence[Transition]:
        """Oldest first."""
        step = case_transitions.c
        query = select(step.from_status, step.to_status, step.reason, step.actor, step.at)
        rows = await self._tx.execute(query.where(step.bug_id == bug_id).order_by(step.rev))
        return [Transition(*row) for row in rows]


def _of(thread: Thread) -> Any:
    place = cases.c
    return select(cases).where(place.team == thread.team, place.channel == thread.channel, place.thread_ts == thread.ts)


def _not_found(bug_id: str) -> CaseNotFound:
    return CaseNotFound(f"there is no case {bug_id}; `threadline cases list` lists them")


def _may_end(reason: Reason, snapshot: CaseSnapshot) -> bool:
    if reason in _BY_OPERATOR:
        return True
    return snapshot.close_requested if reason is Reason.REPORTER_CLOSED else not snapshot.has_unread


def _snapshot(row: Row[Any]) -> CaseSnapshot:
    return CaseSnapshot(
        rev=row.rev,
        bug_id=row.bug_id,
        title=row.title,
        status=CaseStatus(row.status),
        severity=Severity(row.severity),
        reporter_id=row.reporter_id,
        message_count=row.message_count,
        turn=row.turn,
        questions=row.questions,
        escalations=row.escalations,
        closings=row.closings,
        escalated=row.escalated,
        wait_until=row.wait_until,
        has_unread=row.has_unread,
        reporter_wrote=row.reporter_wrote,
        developer_wrote=row.developer_wrote,
        close_requested=row.close_requested,
        attachments_pending=row.attachments_pending,
        attempts=row.attempts,
        pull_request_open=row.pull_request_open,
        last_action=row.last_action,
        question=row.last_question[:_QUESTION_SHOWN],
        session_id=row.last_session_id,
        cost_usd=float(row.cost_usd),
        has_summary_thread=row.has_summary_thread,
        unanswered=row.unanswered,
    )


def _record(row: Row[Any]) -> CaseRecord:
    return CaseRecord(
        bug_id=row.bug_id,
        thread=Thread(row.team, row.channel, row.thread_ts),
        reporter_id=row.reporter_id,
        title=row.title,
        severity=Severity(row.severity),
        components=row.components,
        status=CaseStatus(row.status),
        summary=Thread(row.team, row.summary_channel, row.summary_ts) if row.summary_ts else None,
        turn=row.turn,
        questions=row.questions,
        escalations=row.escalations,
        closings=row.closings,
        wait_until=row.wait_until,
        close_reason=row.close_reason,
        base=row.base,
        cost_usd=float(row.cost_usd),
        created_at=row.created_at,
        resolved_at=row.resolved_at,
    )


def _turn(row: Row[Any]) -> TurnRecord:
    return TurnRecord(
        bug_id=row.bug_id,
        turn=row.turn,
        attempt=row.attempt,
        status=row.status,
        action=Action(row.action) if row.action else None,
        result=row.result,
        diffs=row.diffs,
        base=row.base,
        has_fix=row.has_fix,
        fix_requested_by=row.fix_requested_by,
        cost_usd=float(row.cost_usd),
        input_tokens=row.input_tokens,
        output_tokens=row.output_tokens,
        duration_s=row.duration_s,
        failure=row.failure,
    )


def open_threads_query(team: str, before: float) -> Query:
    """`(channel, thread_ts, active_at)` of the threads of open cases whose root was written before a moment.

    Args:
        before: seconds since 1970.
    """
    written_at = cast(threads.c.thread_ts, SLACK_TIME)
    return (
        select(threads.c.channel, threads.c.thread_ts, written_at.label("active_at"))
        .join(cases, cases.c.workflow_id == threads.c.workflow_id)
        .where(
            threads.c.team == team,
            cases.c.status != CaseStatus.RESOLVED,
            threads.c.thread_ts.regexp_match("^[0-9]{1,12}[.][0-9]{6}$"),
            written_at <= before,
        )
    )
