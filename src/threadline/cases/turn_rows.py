"""Settling turns: the one place where what an agent committed becomes the case's, whatever way its attempt ended."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from threadline.cases import case_row
from threadline.cases.contract import Settled
from threadline.cases.model import Action, CaseStatus, Severity
from threadline.cases.tables import agent_turns, bug_conversations
from threadline.errors import Permanent
from threadline.threads import addressing, messages

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
_HAND_OVER = text("""
UPDATE bug_conversations SET turn = :turn WHERE bug_id = :bug_id AND sender_type <> 'bot' AND turn IS NULL
""")
_READ = text("""
UPDATE bug_conversations m SET
    turn = CASE WHEN k.uses THEN CAST(:turn AS int) END,
    read_through = CASE WHEN k.uses THEN m.read_through ELSE CAST(:turn AS int) END
FROM (SELECT id, sender_type = 'reporter' AND message_type <> 'close' AS uses FROM bug_conversations
      WHERE bug_id = :bug_id AND seq = ANY(:read) AND turn IS NULL) k
WHERE m.id = k.id
""")
"""What the reporter wrote is used when it was read; a developer's comes again in the next batch, marked."""
_FORGET = text("DELETE FROM agent_sessions WHERE session_id = ANY(:sessions)")


@dataclass(frozen=True)
class TurnRecord:
    """A turn as it lies in the database; `result` is the agent's structured outcome, `diffs` are by repository."""

    bug_id: str
    turn: int
    attempt: int
    status: str
    action: Action | None
    result: Mapping[str, Any]
    diffs: Mapping[str, str]
    base: Mapping[str, str]
    has_fix: bool
    fix_asked_by: str
    cost_usd: float
    input_tokens: int
    output_tokens: int
    duration_s: float
    failure: str


class Turns:
    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

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
        case = await case_row.lock(self._connection, bug_id)
        row = await self._row(bug_id, turn)
        if turn > case.turn + 1:
            raise Permanent(f"turn {turn} of {bug_id} cannot be settled: the last settled one is {case.turn}")
        if turn > case.turn and case.status != CaseStatus.RESOLVED:
            row = await self._close(case, turn, row, failure)
        marks = await case_row.marks(self._connection, bug_id)
        if row is None or row.status != "done":
            return Settled(marks)
        # A fix that was kept but never opened (refused, say) is opened when a developer asks again.
        asked_again = bool(row.fix_asked_by and any(row.diffs.values()) and not marks.pull_request_open)
        has_fix = row.has_fix or asked_again
        return Settled(marks, Action(row.action), has_fix, await self._developer_spoke(bug_id, turn))

    async def turn_result(self, bug_id: str, turn: int) -> TurnRecord:
        """Raises `Permanent` when nothing ever ran under this number."""
        row = await self._row(bug_id, turn)
        if row is None:
            raise Permanent(f"{bug_id} has no turn {turn}; `threadline cases show {bug_id}` lists its turns")
        return _record(row)

    async def turns_of(self, bug_id: str) -> list[TurnRecord]:
        query = select(agent_turns).where(agent_turns.c.bug_id == bug_id).order_by(agent_turns.c.turn)
        return [_record(row) for row in await self._connection.execute(query)]

    async def question(self, bug_id: str, turn: int) -> str:
        """What a turn asked the reporter; empty when it asked nothing."""
        return _words((await self.turn_result(bug_id, turn)).result, "clarification_question")

    async def _row(self, bug_id: str, turn: int) -> Row[Any] | None:
        """Locked, behind the case's row: an agent that commits at this moment is waited for."""
        query = select(agent_turns).where(agent_turns.c.bug_id == bug_id, agent_turns.c.turn == turn)
        return (await self._connection.execute(query.with_for_update())).one_or_none()

    async def _developer_spoke(self, bug_id: str, turn: int) -> bool:
        message = bug_conversations.c
        query = select(message.id).where(
            message.bug_id == bug_id,
            message.turn == turn,
            message.sender_type != messages.BOT,  # the index's own condition
            message.sender_type == messages.DEVELOPER,
            message.message_type.in_((messages.MESSAGE, messages.CLOSE)),
        )
        return (await self._connection.execute(query.limit(1))).first() is not None

    async def _close(self, case: case_row.Case, turn: int, row: Row[Any] | None, failure: str) -> Row[Any] | None:
        which = {"bug_id": case.bug_id, "turn": turn}
        if row is None or row.status != "done":
            if not failure:
                await self._connection.execute(_REVOKE, which)
                await case_row.write(self._connection, case.bug_id)
                return None
            if row is None:  # nothing was ever assigned: people take over what waits, or it would escalate for ever
                await self._connection.execute(_HAND_OVER, which)
            await self._connection.execute(_GIVE_UP, {**which, "failure": messages.clean(failure)})
            row = await self._row(case.bug_id, turn)
        if row is not None:
            await self._apply(case, row)
        return row

    async def _apply(self, case: case_row.Case, row: Row[Any]) -> None:
        asks = row.action == Action.ASK_REPORTER
        # People who were called once are not called again because the agent cannot work.
        escalates = row.action == Action.ESCALATE and not (row.failure and case.escalated)
        await self._connection.execute(_READ, {"bug_id": case.bug_id, "turn": row.turn, "read": row.read_seqs})
        await case_row.write(
            self._connection,
            case.bug_id,
            turn=row.turn,
            last_action=row.action,
            last_question=_words(row.result, "clarification_question") if asks else case.last_question,
            questions=case.questions + asks,
            escalations=case.escalations + escalates,
            escalated=case.escalated or escalates,
            session_head=case.session_head if row.failure else row.session_id,
            base={**case.base, **row.base},
            cost_usd=case.cost_usd + row.cost_usd,
            title=_words(row.result, "title") or case.title,
            severity=_severity(row.result) or case.severity,
            components=_components(row.result) or case.components,
        )
        if not row.failure:
            await self._forget_sessions(row)

    async def _forget_sessions(self, row: Row[Any]) -> None:
        """Each attempt copies its parent's transcript: once one is the case's, the others are never read again."""
        attempts = range(1, row.attempt + 1)
        old = {addressing.session_id(row.bug_id, row.turn, attempt) for attempt in attempts} | {row.parent_session}
        await self._connection.execute(_FORGET, {"sessions": sorted(old - {row.session_id, ""})})


def _record(row: Row[Any]) -> TurnRecord:
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
        fix_asked_by=row.fix_asked_by,
        cost_usd=float(row.cost_usd),
        input_tokens=row.input_tokens,
        output_tokens=row.output_tokens,
        duration_s=row.duration_s,
        failure=row.failure,
    )


def _words(result: Mapping[str, Any], name: str) -> str:
    value = result.get(name)
    return value.strip() if isinstance(value, str) else ""


def _severity(result: Mapping[str, Any]) -> Severity | None:
    named = _words(result, "severity")
    return Severity(named) if named in Severity.__members__ else None


def _components(result: Mapping[str, Any]) -> list[str]:
    named = result.get("affected_components")
    return [each for each in named if isinstance(each, str)] if isinstance(named, list) else []
