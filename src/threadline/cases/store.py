"""A case's own life: what is known of it, the steps it takes, and how it ends."""

from sqlalchemy import func, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from threadline.cases import case_row
from threadline.cases.model import CaseStatus, Marks, Reason, Severity
from threadline.cases.tables import cases
from threadline.slack.model import Thread
from threadline.threads import messages

_BY_OPERATOR = (Reason.OPERATOR_CANCELLED, Reason.OPERATOR_RESOLVED)

_ANSWERED_BY_CLOSE = text("""
UPDATE bug_conversations m SET turn = 0
FROM (SELECT max(said_at) AS said_at FROM bug_conversations
      WHERE bug_id = :bug_id AND message_type = 'close' AND wakes AND sender_type IN ('reporter', 'operator')
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
WHERE bug_id = :bug_id AND message_type = 'close' AND wakes AND sender_type IN ('reporter', 'operator')
  AND (turn IS NULL OR turn > :settled)
ORDER BY said_at DESC, seq DESC LIMIT 1
""")
_REVOKE = text("""
UPDATE agent_turns SET token = token + 1, status = 'revoked', finished_at = coalesce(finished_at, clock_timestamp())
WHERE bug_id = :bug_id AND turn > :settled RETURNING turn, cost_usd
""")
_UNANSWERED = text("""
SELECT c.status = 'investigating' AND c.last_action = 'ask_reporter' AND t.reason = 'question_unanswered'
FROM cases c JOIN case_transitions t USING (bug_id) WHERE c.bug_id = :bug_id ORDER BY t.rev DESC LIMIT 1
""")
"""A turn that goes on without an answer may not ask, so the last action is no question any more once it is settled."""
_RELEASE = text("UPDATE bug_conversations SET turn = NULL WHERE bug_id = :bug_id AND turn > :settled")


class Cases:
    """Every write happens under the case row's lock and answers with the marks as of the revision it made."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def marks(self, thread: Thread) -> Marks:
        """What is known of a thread; `bug_id` is empty when it has no case."""
        query = select(cases.c.bug_id).where(
            cases.c.team == thread.team, cases.c.channel == thread.channel, cases.c.thread_ts == thread.ts
        )
        bug_id = (await self._connection.execute(query)).scalar_one_or_none()
        return await self.marks_of(bug_id) if bug_id else Marks()

    async def marks_of(self, bug_id: str) -> Marks:
        """Raises `CaseNotFound`."""
        return await case_row.marks(self._connection, bug_id)

    async def goes_on_unanswered(self, bug_id: str) -> bool:
        """Whether the case is under investigation since its question ran out of time, and no turn has ended since."""
        return bool((await self._connection.execute(_UNANSWERED, {"bug_id": bug_id})).scalar_one_or_none())

    async def describe(self, bug_id: str, *, title: str, severity: Severity, components: list[str]) -> Marks:
        """What the rules read out of the report, until the agent knows better: a title that is set is kept."""
        case = await case_row.lock(self._connection, bug_id)
        if not case.title and case.turn == 0:
            await case_row.write(self._connection, bug_id, title=title, severity=severity, components=components)
        return await self.marks_of(bug_id)

    async def transition(
        self, bug_id: str, to: CaseStatus, reason: Reason, *, actor: str = "threadline", wait_until: float = 0.0
    ) -> Marks:
        """Take one step. Taking it again changes `wait_until` alone, and records nothing twice.

        Args:
            wait_until: when the wait that begins with it ends, in seconds since 1970; 0 for none.

        Raises:
            IllegalTransition: the status does not allow it.
        """
        case = await case_row.lock(self._connection, bug_id)
        if case.status == to:
            await case_row.write(self._connection, bug_id, wait_until=wait_until)
        elif to is CaseStatus.RESOLVED:
            await self._resolve(case, reason, actor)
        else:
            reopened = {"close_reason": "", "resolved_at": None, "escalated": False}
            values = reopened if case.status == CaseStatus.RESOLVED else {}
            await case_row.step(self._connection, case, to, reason, actor, wait_until=wait_until, **values)
        return await self.marks_of(bug_id)

    async def end(self, bug_id: str, reason: Reason, *, actor: str = "threadline") -> Marks:
        """Resolve the case, unless an unused message speaks against it: then the marks come back unresolved.

        A close by an operator is recorded as theirs, also when `reason` says that the reporter closed it.

        A turn that was not settled loses its claim and its number, so that a reopened case never meets its keys. What
        the ending answers counts as used; what was said after it stays unused, and reopens the case.
        """
        case = await case_row.lock(self._connection, bug_id)
        marks = await self.marks_of(bug_id)
        if case.status == CaseStatus.RESOLVED or not _may_end(reason, marks):
            return marks
        which = {"bug_id": bug_id, "settled": case.turn}
        if reason is Reason.REPORTER_CLOSED:
            closer = (await self._connection.execute(_CLOSER, which)).one()
            actor = closer.sender_id or actor
            if closer.sender_type == messages.OPERATOR:
                reason = Reason.OPERATOR_RESOLVED
            await self._connection.execute(_ANSWERED_BY_CLOSE, which)
        elif reason in _BY_OPERATOR:
            await self._connection.execute(_ANSWERED_BY_OPERATOR, which)
        await self._resolve(case, reason, actor)
        return await self.marks_of(bug_id)

    async def _resolve(self, case: case_row.Case, reason: Reason, actor: str) -> None:
        which = {"bug_id": case.bug_id, "settled": case.turn}
        await self._connection.execute(_RELEASE, which)
        revoked = (await self._connection.execute(_REVOKE, which)).one_or_none()
        await case_row.step(
            self._connection,
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


def _may_end(reason: Reason, marks: Marks) -> bool:
    if reason in _BY_OPERATOR:
        return True
    return marks.close_due if reason is Reason.REPORTER_CLOSED else not marks.message_due
