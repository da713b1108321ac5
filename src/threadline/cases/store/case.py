"""CaseStore: a case's row, its turns, its pull request and the directory of services.

Every write locks the case's row, raises its revision, and returns the snapshot as of that
revision: the workflow keeps the one with the highest. People's messages are in `messages.py`.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from sqlalchemy import Row, cast, delete, func, select, text, update
from sqlalchemy.dialects.postgresql import insert

from threadline.cases.model import (
    TRANSITIONS,
    Action,
    CaseRecord,
    CaseSnapshot,
    CaseStatus,
    Reason,
    Service,
    Settled,
    Severity,
    SlaEventKind,
    session_id,
)
from threadline.cases.outcome import AnsweredTurn, StoredOutcome, TurnPost
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
from threadline.db.engine import Query, Store
from threadline.db.values import storable
from threadline.db.words import stored_words
from threadline.errors import IllegalTransition, Permanent
from threadline.forge.model import PullRequest
from threadline.slack.model import Thread, clean_text
from threadline.threads.basis import MAX_READ, Basis
from threadline.threads.model import SenderType
from threadline.threads.tables import threads

Case = Row[Any]

_BY_ADMIN = (Reason.ADMIN_CANCELLED, Reason.ADMIN_RESOLVED)
_QUESTION_SHOWN = 200
SKIPPED_NUMBERS = 1000
"""Case numbers skipped after a restore: more than were assigned since the backup."""
ACTOR = "threadline"
"""The actor of a step that no person asked for."""

SNAPSHOT = text("""
SELECT c.*,
       EXISTS (SELECT FROM threads t
               WHERE t.workflow_id = c.workflow_id
                 AND t.kind = 'case:summary') AS has_summary_thread,
       coalesce(u.has_unread, false) AS has_unread,
       coalesce(u.reporter_wrote, false) AS reporter_wrote,
       c.status <> 'resolved' AND coalesce(u.closed_last, false) AS close_requested,
       EXISTS (SELECT FROM pull_requests p
               WHERE p.bug_id = c.bug_id AND p.state = 'open') AS pull_request_open,
       c.status = 'investigating' AND c.last_action = 'ask_reporter'
           AND NOT coalesce(u.reporter_wrote, false)
           AND coalesce((SELECT t.reason = 'question_unanswered' AND t.at > a.finished_at
                         FROM case_transitions t
                         JOIN agent_turns a ON a.bug_id = t.bug_id AND a.turn = c.turn
                         WHERE t.bug_id = c.bug_id
                         ORDER BY t.rev DESC LIMIT 1), false) AS unanswered,
       EXISTS (SELECT FROM attachments a
               WHERE a.bug_id = c.bug_id
                 AND a.content IS NULL AND a.error = '') AS attachments_pending,
       coalesce((SELECT t.attempt FROM agent_turns t
                 WHERE t.bug_id = c.bug_id AND t.turn = c.turn + 1), 0) AS attempts
FROM cases c CROSS JOIN LATERAL (
    SELECT bool_or(wants_turn) AS has_unread,
           bool_or(speaks AND sender_type = 'reporter') AS reporter_wrote,
           (array_agg(closes ORDER BY said_at DESC, seq DESC)
               FILTER (WHERE closes IS NOT NULL))[1] AS closed_last
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
"""The snapshot of a case. A message that was assigned to a turn counts as unused until that turn
is settled.

Two searches of the index by turn are united: for an OR of both, Postgres reads all messages of the
case as long as its statistics are poor.
"""
_ANSWERED_BY_CLOSE = text("""
UPDATE bug_conversations m SET turn = 0
FROM (SELECT max(said_at) AS said_at FROM bug_conversations
      WHERE bug_id = :bug_id AND sender_type <> 'bot' AND closes
        AND (turn IS NULL OR turn > :settled)) closing
WHERE m.bug_id = :bug_id AND m.sender_type <> 'bot' AND (m.turn IS NULL OR m.turn > :settled)
  AND m.said_at <= closing.said_at
""")
_ANSWERED_BY_ADMIN = text("""
UPDATE bug_conversations SET turn = 0
WHERE bug_id = :bug_id AND sender_type <> 'bot' AND (turn IS NULL OR turn > :settled)
""")
_CLOSER = text("""
SELECT sender_type, sender_id FROM bug_conversations
WHERE bug_id = :bug_id AND sender_type <> 'bot' AND closes AND (turn IS NULL OR turn > :settled)
ORDER BY said_at DESC, seq DESC LIMIT 1
""")
_REVOKE_UNSETTLED = text("""
UPDATE agent_turns SET token = token + 1, status = 'revoked',
    finished_at = coalesce(finished_at, clock_timestamp())
WHERE bug_id = :bug_id AND turn > :settled RETURNING turn, cost_usd, cost_known
""")
_RELEASE = text(
    "UPDATE bug_conversations SET turn = NULL WHERE bug_id = :bug_id AND turn > :settled"
)
_REVOKE = text("""
UPDATE agent_turns SET token = token + 1,
    status = CASE status WHEN 'running' THEN 'revoked' ELSE status END,
    finished_at = clock_timestamp()
WHERE bug_id = :bug_id AND turn = :turn
""")
_GIVE_UP = text("""
INSERT INTO agent_turns AS t
    (bug_id, turn, attempt, status, token, action, result, failure, finished_at)
VALUES (:bug_id, :turn, 0, 'done', 1, 'escalate',
        jsonb_build_object('summary', CAST(:failure AS text)),
        CAST(:failure AS text), clock_timestamp())
ON CONFLICT (bug_id, turn) DO UPDATE SET
    token = t.token + 1, status = 'done', action = excluded.action, result = excluded.result,
    diffs = '{}',
    has_fix = false, read_seqs = '{}', failure = excluded.failure,
    finished_at = excluded.finished_at
""")
_ASSIGN_WAITING = text("""
UPDATE bug_conversations SET turn = :turn
WHERE bug_id = :bug_id AND sender_type <> 'bot' AND turn IS NULL
""")
_USE_READ = text("""
UPDATE bug_conversations m SET
    turn = CASE WHEN k.uses THEN CAST(:turn AS int) END,
    read_in_turn = CASE WHEN k.uses THEN m.read_in_turn ELSE CAST(:turn AS int) END
FROM (SELECT id, sender_type = 'reporter' AND message_type <> 'close' AS uses
      FROM bug_conversations
      WHERE bug_id = :bug_id AND seq = ANY(:read) AND turn IS NULL) k
WHERE m.id = k.id
""")
"""Uses the reporter's messages that were read; a developer's come again in the next batch, marked.
"""
_FORGET_SESSIONS = text("DELETE FROM agent_sessions WHERE session_id = ANY(:sessions)")
_READ_SO_FAR = text("""
SELECT slack_ts FROM bug_conversations
WHERE bug_id = :bug_id AND sender_type <> 'bot' AND turn IS NOT NULL AND spoken
ORDER BY said_at DESC LIMIT :limit
""")
_SKIP_NUMBERS = text("""
SELECT setval(pg_get_serial_sequence('cases', 'id'),
              nextval(pg_get_serial_sequence('cases', 'id')) + :count)
""")
_GET = text("SELECT * FROM case_records WHERE bug_id = :bug_id")
_FOR_POST = text("""
SELECT c.*, t.action, t.result, t.failure, CASE WHEN t.cost_known THEN t.cost_usd END AS turn_cost,
       t.input_tokens + t.output_tokens AS turn_tokens,
       coalesce((SELECT w.words FROM reporter_words w WHERE w.bug_id = c.bug_id), '')
           AS reporter_words,
       ARRAY(SELECT ARRAY[m.channel, m.slack_ts] FROM bug_conversations m
             WHERE m.bug_id = c.bug_id AND m.sender_type <> 'bot' AND m.turn = t.turn
               AND m.spoken AND m.redacted_at IS NULL ORDER BY m.seq) AS used,
       ARRAY(SELECT m.slack_ts FROM bug_conversations m
             WHERE m.bug_id = c.bug_id AND m.sender_type <> 'bot' AND m.turn = t.turn
               AND m.spoken) AS asked,
       ARRAY(SELECT m.slack_ts FROM bug_conversations m
             WHERE m.bug_id = c.bug_id AND m.sender_type <> 'bot' AND m.turn <= t.turn
               AND m.spoken ORDER BY m.said_at DESC LIMIT :limit) AS read,
       t.has_findings,
       (SELECT e.result FROM agent_turns e
        WHERE e.bug_id = c.bug_id AND e.turn < t.turn AND e.has_findings
        ORDER BY e.turn DESC LIMIT 1) AS before,
       coalesce((SELECT e.result ->> 'severity' FROM agent_turns e
                 WHERE e.bug_id = c.bug_id AND e.turn < t.turn AND e.status = 'done'
                   AND e.failure = ''
                 ORDER BY e.turn DESC LIMIT 1), '') AS severity_before,
       coalesce((SELECT max(e.turn) FROM agent_turns e
                 JOIN posts p ON p.ts IS NOT NULL
                   AND p.key = e.bug_id || ':turn:' || e.turn || '\\:findings'
                 WHERE e.bug_id = c.bug_id AND e.turn < t.turn AND e.has_findings), 0)
           AS shown_in_turn,
       NOT EXISTS (SELECT FROM agent_turns l
                   WHERE l.bug_id = c.bug_id AND l.turn > t.turn AND l.turn <= c.turn
                     AND l.has_findings) AS is_newest
FROM case_records c JOIN agent_turns t ON t.bug_id = c.bug_id AND t.turn = :turn
WHERE c.bug_id = :bug_id
""")
_ESCALATION_THREADS = text("""
SELECT p.team, p.channel, p.thread_ts FROM threads p JOIN cases c USING (workflow_id)
WHERE c.bug_id = :bug_id AND p.kind = 'case:escalation' ORDER BY p.thread_ts
""")
_ASKED_BY_DEVELOPERS = text("""
SELECT m.channel, max(m.slack_ts) AS ts FROM bug_conversations m
WHERE m.bug_id = :bug_id AND m.sender_type = 'developer' AND m.spoken
  AND m.redacted_at IS NULL AND m.turn <= :turn
  AND m.turn > coalesce((
      SELECT max(t.turn) FROM agent_turns t
      WHERE t.bug_id = :bug_id AND t.turn < :turn
        AND t.action IS NOT NULL AND t.action <> 'ask_reporter'), 0)
GROUP BY m.channel
""")
"""A turn that asks the reporter answers no developer: the next one does."""


@dataclass(frozen=True)
class TurnRecord(AnsweredTurn):
    """A turn's row; `diffs` are by repository."""

    turn: int
    attempt: int
    status: str
    diffs: Mapping[str, str]
    base: Mapping[str, str]
    fix_requested_by: str
    cost_usd: float | None
    input_tokens: int
    output_tokens: int
    duration_s: float
    failure: str


class CaseStore(Store):
    # -- the row

    async def lock(self, bug_id: str) -> Case:
        """Wait for the case's row, and hold it until the transaction ends.

        `key_share` lets others insert rows that only refer to the case: two transactions that did
        so and then locked the case would otherwise wait for each other.

        Raises:
            Permanent: There is no such case.
        """
        query = select(cases).where(cases.c.bug_id == bug_id).with_for_update(key_share=True)
        row = (await self._tx.execute(query)).one_or_none()
        if row is None:
            raise _not_found(bug_id)
        return row

    async def lock_thread(self, thread: Thread) -> Case | None:
        """Lock a case as `lock` does, by the thread of its report; None when the thread has no
        case.
        """
        return (await self._tx.execute(_of(thread).with_for_update(key_share=True))).one_or_none()

    async def write(self, bug_id: str, **values: object) -> Case:
        """Change the locked row, raise its revision by one, and return it. A new title brings its
        words.
        """
        if "title" in values:
            values["title_words"] = stored_words(str(values["title"]))
        changed = (
            update(cases).where(cases.c.bug_id == bug_id).values(rev=cases.c.rev + 1, **values)
        )
        row: Case = (await self._tx.execute(changed.returning(cases))).one()
        return row

    async def record_transition(
        self,
        bug_id: str,
        rev: int,
        before: CaseStatus | None,
        to: CaseStatus,
        reason: Reason,
        actor: str,
    ) -> None:
        """Store the actor and the reason of a step; the database refuses to commit one without
        them.
        """
        row = {"from_status": before, "to_status": to, "reason": reason, "actor": actor}
        await self._tx.execute(insert(case_transitions).values(bug_id=bug_id, rev=rev, **row))

    async def snapshot(self, bug_id: str) -> CaseSnapshot:
        """Return the snapshot of a case, as this transaction sees it.

        Raises:
            Permanent: There is no such case.
        """
        row = (await self._tx.execute(SNAPSHOT, {"bug_id": bug_id})).one_or_none()
        if row is None:
            raise _not_found(bug_id)
        return refreshed(CaseSnapshot(), row)

    async def snapshot_of(self, thread: Thread) -> CaseSnapshot:
        """Return the snapshot of the case reported in a thread; `bug_id` is empty when there is
        none.
        """
        bug_id = await self.bug_id(thread)
        return await self.snapshot(bug_id) if bug_id else CaseSnapshot()

    async def bug_id(self, thread: Thread) -> str:
        """Return the id of the case reported in a thread; empty when there is none."""
        row = (await self._tx.execute(_of(thread))).one_or_none()
        return str(row.bug_id) if row else ""

    # -- its steps

    async def transition(
        self, bug_id: str, to: CaseStatus, reason: Reason, *, wait_until: float = 0.0
    ) -> CaseSnapshot:
        """Take one step; safe to repeat.

        A repeated step changes only the end of its wait, and records nothing twice.

        Args:
            bug_id: The case.
            to: The status after the step.
            reason: The reason for the step.
            wait_until: End of the wait that begins with the step, in seconds since 1970; 0 for
                none.

        Raises:
            IllegalTransition: The status does not allow the step.
        """
        case = await self.lock(bug_id)
        if case.status == to:
            await self.write(bug_id, wait_until=wait_until)
        elif to is CaseStatus.RESOLVED:
            await self._resolve(case, reason, ACTOR)
        else:
            reopened = {"close_reason": "", "resolved_at": None, "escalated": False}
            values = reopened if case.status == CaseStatus.RESOLVED else {}
            await self.step(case, to, reason, ACTOR, wait_until, **values)
        return await self.snapshot(bug_id)

    async def end(self, bug_id: str, reason: Reason) -> CaseSnapshot:
        """Resolve the case, unless an unused message contradicts it: then the snapshot comes back
        unresolved.

        A close by an admin is recorded as theirs, also when `reason` names the reporter. A turn
        that was not settled loses its claim and its number, so that a reopened case never meets
        its keys. Messages that the end answers count as used; later messages stay unused, and
        reopen the case.
        """
        case = await self.lock(bug_id)
        snapshot = await self.snapshot(bug_id)
        if case.status == CaseStatus.RESOLVED or not _may_end(reason, snapshot):
            return snapshot
        which = {"bug_id": bug_id, "settled": case.turn}
        actor = ACTOR
        if reason is Reason.REPORTER_CLOSED:
            closer = (await self._tx.execute(_CLOSER, which)).one()
            actor = closer.sender_id or actor
            if closer.sender_type == SenderType.ADMIN:
                reason = Reason.ADMIN_RESOLVED
            await self._tx.execute(_ANSWERED_BY_CLOSE, which)
        elif reason in _BY_ADMIN:
            await self._tx.execute(_ANSWERED_BY_ADMIN, which)
        await self._resolve(case, reason, actor)
        return await self.snapshot(bug_id)

    async def _resolve(self, case: Case, reason: Reason, actor: str) -> None:
        which = {"bug_id": case.bug_id, "settled": case.turn}
        await self._tx.execute(_RELEASE, which)
        revoked = (await self._tx.execute(_REVOKE_UNSETTLED, which)).one_or_none()
        await self.step(
            case,
            CaseStatus.RESOLVED,
            reason,
            actor,
            turn=revoked.turn if revoked else case.turn,
            cost_usd=case.cost_usd + (revoked.cost_usd if revoked else 0),
            cost_known=case.cost_known and (revoked is None or revoked.cost_known),
            closings=case.closings + 1,
            close_reason=reason,
            resolved_at=func.now(),
            escalated=False,
        )

    async def step(
        self,
        case: Case,
        to: CaseStatus,
        reason: Reason,
        actor: str,
        wait_until: float = 0.0,
        **values: object,
    ) -> Case:
        """Write a step of the locked row, with other values of it; return the new row.

        Each step ends the present wait: without `wait_until` no other one begins.

        Raises:
            IllegalTransition: The status does not allow the step.
        """
        now = CaseStatus(case.status)
        if to not in TRANSITIONS[now]:
            allowed = ", ".join(sorted(TRANSITIONS[now]))
            raise IllegalTransition(
                f"{case.bug_id} is {now} and cannot become {to}; it can become {allowed}"
            )
        row = await self.write(case.bug_id, status=to, wait_until=wait_until, **values)
        await self.record_transition(case.bug_id, row.rev, now, to, reason, actor)
        return row

    # -- its turns

    async def settle(self, bug_id: str, turn: int, failure: str = "") -> Settled:
        """Settle a turn: its attempts lose their claim, and the case takes over the committed
        outcome, once.

        A turn that committed nothing has no `action`, and may be tried again; with `failure`, a
        sentence for people, it is settled as an escalation instead. `action` is also None when the
        case's end took the turn's place.

        Raises:
            Permanent: The previous turn is not settled yet.
        """
        case = await self.lock(bug_id)
        row = await self._lock_turn(bug_id, turn)
        if turn > case.turn + 1:
            raise Permanent(
                f"turn {turn} of {bug_id} cannot be settled: the last settled one is {case.turn}"
            )
        if turn > case.turn and case.status != CaseStatus.RESOLVED:
            row = await self._close(case, turn, row, failure)
        snapshot = await self.snapshot(bug_id)
        if row is None or row.status != "done":
            return Settled(snapshot)
        # A fix that was kept but never opened (refused, say) is opened when a developer asks
        # again.
        asked_again = bool(
            row.fix_requested_by and any(row.diffs.values()) and not snapshot.pull_request_open
        )
        has_fix = row.has_fix or asked_again
        may_resolve = row.action == Action.RESOLVED and not has_fix
        # A developer judges a fix, not the agent that wrote it.
        if may_resolve and snapshot.pull_request_open:
            may_resolve = await self._developer_spoke(bug_id, turn)
        return Settled(snapshot, Action(row.action), has_fix, may_resolve)

    async def turn(self, bug_id: str, turn: int) -> TurnRecord:
        """Return the row of a turn.

        Raises:
            Permanent: No attempt ever ran under this number.
        """
        query = select(agent_turns).where(
            agent_turns.c.bug_id == bug_id, agent_turns.c.turn == turn
        )
        row = (await self._tx.execute(query)).one_or_none()
        if row is None:
            raise Permanent(
                f"{bug_id} has no turn {turn}; `threadline cases show {bug_id}` lists its turns"
            )
        return _turn(row)

    async def turns(self, bug_id: str) -> list[TurnRecord]:
        query = (
            select(agent_turns).where(agent_turns.c.bug_id == bug_id).order_by(agent_turns.c.turn)
        )
        return [_turn(row) for row in await self._tx.execute(query)]

    async def _lock_turn(self, bug_id: str, turn: int) -> Row[Any] | None:
        """Lock the turn's row, after the case's: this waits for an agent that commits at the
        moment.
        """
        query = select(agent_turns).where(
            agent_turns.c.bug_id == bug_id, agent_turns.c.turn == turn
        )
        return (await self._tx.execute(query.with_for_update())).one_or_none()

    async def _developer_spoke(self, bug_id: str, turn: int) -> bool:
        message = bug_conversations.c
        query = select(message.id).where(
            message.bug_id == bug_id,
            message.turn == turn,
            message.sender_type != SenderType.BOT,  # the index's own condition
            message.sender_type == SenderType.DEVELOPER,
            message.spoken,
        )
        return (await self._tx.execute(query.limit(1))).first() is not None

    async def _close(
        self, case: Case, turn: int, row: Row[Any] | None, failure: str
    ) -> Row[Any] | None:
        which = {"bug_id": case.bug_id, "turn": turn}
        if row is None or row.status != "done":
            if not failure:
                await self._tx.execute(_REVOKE, which)
                await self.write(case.bug_id)
                return None
            # No message was assigned: people take over the waiting ones, or the case would
            # escalate for ever.
            if row is None:
                await self._tx.execute(_ASSIGN_WAITING, which)
            await self._tx.execute(_GIVE_UP, {**which, "failure": clean_text(failure)})
            row = await self._lock_turn(case.bug_id, turn)
        if row is not None:
            await self._apply(case, row)
        return row

    async def _apply(self, case: Case, row: Row[Any]) -> None:
        outcome = StoredOutcome.model_validate(row.result)
        asks = row.action == Action.ASK_REPORTER
        # People who were called once are not called again because the agent cannot work.
        escalates = row.action == Action.ESCALATE and not (row.failure and case.escalated)
        if row.read_seqs:
            await self._tx.execute(
                _USE_READ, {"bug_id": case.bug_id, "turn": row.turn, "read": row.read_seqs}
            )
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
            cost_known=case.cost_known and row.cost_known,
            title=outcome.title.strip() or case.title,
            severity=outcome.severity or case.severity,
            components=outcome.affected_components or case.components,
        )
        if not row.failure:
            await self._forget_sessions(row)

    async def _forget_sessions(self, row: Row[Any]) -> None:
        """Delete the sessions of a turn's other attempts.

        Each attempt copies its parent's transcript: once one is the case's, the others are never
        read again.
        """
        attempts = range(1, row.attempt + 1)
        old = {session_id(row.bug_id, row.turn, attempt) for attempt in attempts} | {
            row.parent_session
        }
        if old := old - {row.session_id, ""}:
            await self._tx.execute(_FORGET_SESSIONS, {"sessions": sorted(old)})

    # -- its pull request, SLA events, services and posts

    async def pull_request(self, bug_id: str) -> PullRequest | None:
        row = (
            await self._tx.execute(select(pull_requests).where(pull_requests.c.bug_id == bug_id))
        ).one_or_none()
        if row is None:
            return None
        return PullRequest(**_fields(_names(PullRequest), row, {}))

    async def save_pull_request(self, bug_id: str, request: PullRequest) -> CaseSnapshot:
        """Store the state of a pull request at the code host.

        A later fix, a merge or a closing replaces it.
        """
        await self.lock(bug_id)
        row = {**vars(request), "merged_at": func.now() if request.state == "merged" else None}
        known = insert(pull_requests).values(bug_id=bug_id, opened_at=func.now(), **row)
        await self._tx.execute(known.on_conflict_do_update(index_elements=["bug_id"], set_=row))
        await self.write(bug_id)
        return await self.snapshot(bug_id)

    async def record_sla_event(
        self, bug_id: str, escalation: int, ordinal: int, kind: SlaEventKind, tier: int
    ) -> bool:
        """Store an event of an escalation's clock once; return False for a repeated one."""
        row = {
            "bug_id": bug_id,
            "escalation": escalation,
            "ordinal": ordinal,
            "kind": kind,
            "tier": tier,
        }
        kept = (
            insert(sla_events).values(row).on_conflict_do_nothing().returning(sla_events.c.ordinal)
        )
        return (await self._tx.execute(kept)).first() is not None

    async def services(self) -> list[Service]:
        """Return the directory of services, by name, in which the agent looks up owners."""
        return [
            Service(*row)
            for row in await self._tx.execute(select(services).order_by(services.c.name))
        ]

    async def replace_services(self, directory: Sequence[Service]) -> None:
        """Replace the directory of services; those that are missing in the new one are deleted."""
        names = [service.name for service in directory]
        await self._tx.execute(delete(services).where(services.c.name.not_in(names)))
        for service in directory:
            row = vars(service)
            known = insert(services).values(row)
            await self._tx.execute(known.on_conflict_do_update(index_elements=["name"], set_=row))

    async def for_post(self, bug_id: str, turn: int) -> TurnPost:
        """Load the source of a turn's posts in one statement.

        Raises:
            Permanent: No attempt ever ran under this number.
        """
        given = {"bug_id": bug_id, "turn": turn, "limit": MAX_READ}
        row = (await self._tx.execute(_FOR_POST, given)).one_or_none()
        if row is None:
            raise Permanent(
                f"{bug_id} has no turn {turn}; `threadline cases show {bug_id}` lists its turns"
            )
        return TurnPost(
            action=Action(row.action) if row.action else None,
            result=row.result,
            case=record_of(row),
            turn=turn,
            failure=row.failure,
            cost_usd=None if row.turn_cost is None else float(row.turn_cost),
            tokens=row.turn_tokens,
            reporter_words=row.reporter_words,
            used=tuple((channel, ts) for channel, ts in row.used),
            asked=tuple(row.asked),
            read=tuple(row.read),
            has_findings=row.has_findings,
            before=row.before,
            severity_before=row.severity_before,
            shown_in_turn=row.shown_in_turn,
            is_newest=row.is_newest,
        )

    async def escalation_threads(self, bug_id: str) -> list[Thread]:
        """Return the threads in which people were called, oldest first.

        There are none when escalations share the summaries' channel.
        """
        rows = await self._tx.execute(_ESCALATION_THREADS, {"bug_id": bug_id})
        return [Thread(row.team, row.channel, row.thread_ts) for row in rows]

    async def asked_by_developers(self, bug_id: str, turn: int) -> dict[str, str]:
        """Return the channels in which developers wrote messages that a turn answers.

        Each has the `ts` of their last message.
        """
        asked = {"bug_id": bug_id, "turn": turn}
        return {row.channel: row.ts for row in await self._tx.execute(_ASKED_BY_DEVELOPERS, asked)}

    async def basis(self, case: CaseRecord, kind: str) -> Basis:
        """Return the basis of a post about the case's present state: it answers the last used
        message.
        """
        newest = {"bug_id": case.bug_id, "limit": MAX_READ}
        read = tuple((await self._tx.execute(_READ_SO_FAR, newest)).scalars())
        return Basis(kind, case.thread.key, read[:1], read)

    async def skip_numbers(self, count: int = SKIPPED_NUMBERS) -> None:
        """Skip numbers that a lost database may have assigned to cases."""
        await self._tx.execute(_SKIP_NUMBERS, {"count": count})

    async def get(self, bug_id: str) -> CaseRecord:
        """Return a case as people see it.

        Raises:
            Permanent: There is no such case.
        """
        row = (await self._tx.execute(_GET, {"bug_id": storable(bug_id)})).one_or_none()
        if row is None:
            raise _not_found(bug_id)
        return record_of(row)


def _of(thread: Thread) -> Any:
    place = cases.c
    return select(cases).where(
        place.team == thread.team, place.channel == thread.channel, place.thread_ts == thread.ts
    )


def _not_found(bug_id: str) -> Permanent:
    return Permanent(f"there is no case {bug_id}; `threadline cases list` lists them")


def _may_end(reason: Reason, snapshot: CaseSnapshot) -> bool:
    if reason in _BY_ADMIN:
        return True
    return (
        snapshot.close_requested if reason is Reason.REPORTER_CLOSED else not snapshot.has_unread
    )


def refreshed(snapshot: CaseSnapshot, row: Row[Any]) -> CaseSnapshot:
    """Return the snapshot with the fields that a row of the case has."""
    more = {"question": row.last_question[:_QUESTION_SHOWN], "session_id": row.last_session_id}
    columns = _names(CaseSnapshot) & set(row._fields)
    return replace(snapshot, **_fields(columns, row, _OF_CASE), **more)


def record_of(row: Row[Any]) -> CaseRecord:
    return CaseRecord(
        **_fields(_names(CaseRecord) - {"thread", "summary", "pull_request"}, row, _OF_CASE),
        thread=Thread(row.team, row.channel, row.thread_ts),
        summary=Thread(row.team, row.summary_channel, row.summary_ts) if row.summary_ts else None,
        pull_request=row.url or "",
    )


def _turn(row: Row[Any]) -> TurnRecord:
    return TurnRecord(**_fields(_names(TurnRecord), row, _OF_TURN))


_OF_CASE: Mapping[str, Callable[[Any], Any]] = {"status": CaseStatus, "severity": Severity}
_OF_TURN: Mapping[str, Callable[[Any], Any]] = {
    "action": lambda name: Action(name) if name else None,
}


def _names(record: type[Any]) -> set[str]:
    return {each.name for each in fields(record)}


def _fields(
    names: Collection[str], row: Row[Any], types: Mapping[str, Callable[[Any], Any]]
) -> dict[str, Any]:
    """Return the fields of these names, which the row has as columns.

    `types` converts the fields that the row has as texts. A cost whose price is unknown is None.
    """
    found = row._asdict()
    if "cost_usd" in found:
        found["cost_usd"] = float(found["cost_usd"]) if found["cost_known"] else None
    return {name: types[name](found[name]) if name in types else found[name] for name in names}


def open_threads_query(team: str, before: float) -> Query:
    """Select open cases' threads whose root was written before a moment (seconds since 1970).

    The columns are `(channel, thread_ts, active_at)`.
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
