"""The one row under whose lock everything of a case is written, and the marks that are read under it."""

from typing import Any

from sqlalchemy import Row, insert, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection

from threadline.cases.model import TRANSITIONS, CaseNotFound, CaseStatus, Marks, Reason, Severity
from threadline.cases.tables import case_transitions, cases
from threadline.errors import IllegalTransition
from threadline.slack.model import Thread

Case = Row[Any]

_QUESTION_SHOWN = 200

_MARKS = text("""
SELECT c.*, EXISTS (SELECT FROM threads t WHERE t.workflow_id = c.workflow_id AND t.kind = 'case:summary') AS presented,
       coalesce(u.message_due, false) AS message_due, coalesce(u.reporter_due, false) AS reporter_due,
       coalesce(u.developer_due, false) AS developer_due,
       c.status <> 'resolved' AND coalesce(u.closed_last, false) AS close_due,
       EXISTS (SELECT FROM pull_requests p WHERE p.bug_id = c.bug_id AND p.state = 'open') AS pull_request_open,
       EXISTS (SELECT FROM attachments a WHERE a.bug_id = c.bug_id AND a.content IS NULL AND a.error = '') AS files_due,
       coalesce((SELECT t.attempt FROM agent_turns t WHERE t.bug_id = c.bug_id AND t.turn = c.turn + 1), 0) AS attempts
FROM cases c CROSS JOIN LATERAL (
    SELECT bool_or(wakes) AS message_due,
           bool_or(speaks AND sender_type = 'reporter') AS reporter_due,
           bool_or(speaks AND sender_type = 'developer') AS developer_due,
           (array_agg(message_type = 'close' ORDER BY said_at DESC, seq DESC)
               FILTER (WHERE sender_type IN ('reporter', 'operator') AND wakes))[1] AS closed_last
    FROM (
        SELECT *, (wakes OR message_type = 'edit') AND message_type <> 'close' AS speaks
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


async def lock(connection: AsyncConnection, bug_id: str) -> Case:
    """Wait for the case's row and hold it until the transaction ends.

    `key_share` lets others insert rows that only refer to the case: two units of work that did so and then locked the
    case would otherwise wait for each other.

    Raises:
        CaseNotFound: there is no such case.
    """
    row = (
        await connection.execute(select(cases).where(cases.c.bug_id == bug_id).with_for_update(key_share=True))
    ).one_or_none()
    if row is None:
        raise CaseNotFound(f"there is no case {bug_id}; `threadline cases list` lists them")
    return row


async def lock_by_thread(connection: AsyncConnection, thread: Thread) -> Case | None:
    query = select(cases).where(
        cases.c.team == thread.team, cases.c.channel == thread.channel, cases.c.thread_ts == thread.ts
    )
    return (await connection.execute(query.with_for_update(key_share=True))).one_or_none()


async def write(connection: AsyncConnection, bug_id: str, **values: object) -> int:
    """Change the locked row, raising its revision by one; returns the new revision."""
    changed = update(cases).where(cases.c.bug_id == bug_id).values(rev=cases.c.rev + 1, **values)
    return int((await connection.execute(changed.returning(cases.c.rev))).scalar_one())


async def step(
    connection: AsyncConnection, case: Case, to: CaseStatus, reason: Reason, actor: str, **values: object
) -> None:
    """Take one step of the case's life and record it.

    Raises:
        IllegalTransition: the status does not allow it.
    """
    now = CaseStatus(case.status)
    if to not in TRANSITIONS[now]:
        allowed = ", ".join(sorted(TRANSITIONS[now]))
        raise IllegalTransition(f"{case.bug_id} is {now} and cannot become {to}; it can become {allowed}")
    rev = await write(connection, case.bug_id, status=to, **values)
    await record(connection, case.bug_id, rev, now, to, reason, actor)


async def record(
    connection: AsyncConnection,
    bug_id: str,
    rev: int,
    before: CaseStatus | None,
    to: CaseStatus,
    reason: Reason,
    actor: str,
) -> None:
    """Keep who took a step and why; the database refuses to commit a step without it."""
    await connection.execute(
        insert(case_transitions).values(
            bug_id=bug_id, rev=rev, from_status=before, to_status=to, reason=reason, actor=actor
        )
    )


async def marks(connection: AsyncConnection, bug_id: str) -> Marks:
    """What is known of the case, as this transaction sees it."""
    row = (await connection.execute(_MARKS, {"bug_id": bug_id})).one_or_none()
    if row is None:
        raise CaseNotFound(f"there is no case {bug_id}; `threadline cases list` lists them")
    return Marks(
        rev=row.rev,
        bug_id=row.bug_id,
        title=row.title,
        status=CaseStatus(row.status),
        severity=Severity(row.severity),
        reporter_id=row.reporter_id,
        stored=row.stored,
        turn=row.turn,
        questions=row.questions,
        escalations=row.escalations,
        closings=row.closings,
        escalated=row.escalated,
        wait_until=row.wait_until,
        message_due=row.message_due,
        reporter_due=row.reporter_due,
        developer_due=row.developer_due,
        close_due=row.close_due,
        files_due=row.files_due,
        attempts=row.attempts,
        pull_request_open=row.pull_request_open,
        last_action=row.last_action,
        question=row.last_question[:_QUESTION_SHOWN],
        session_id=row.session_head,
        cost_usd=float(row.cost_usd),
        presented=row.presented,
    )
