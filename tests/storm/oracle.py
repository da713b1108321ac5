"""What must be true after a storm, read from Postgres, the sandbox and Temporal; each fault is a sentence."""

from collections import Counter
from collections.abc import AsyncIterator, Mapping
from typing import Any

from sqlalchemy import Row, text
from temporalio.api.enums.v1 import EventType, WorkflowTaskFailedCause
from temporalio.client import Client, WorkflowExecutionStatus

from tests.storm.scene import Storm
from threadline.domain import messages
from threadline.domain.messages import IncomingMessage

_MESSAGES = text("""
SELECT bug_id, seq, message_id, message_type, turn, wakes FROM bug_conversations WHERE sender_type <> 'bot'
""")
_SETTLED = text("""
SELECT t.bug_id, t.turn, t.action, t.result, t.read_seqs,
       (SELECT s.to_status || ': ' || s.reason FROM case_transitions s
        WHERE s.bug_id = t.bug_id AND s.at > t.finished_at ORDER BY s.rev LIMIT 1) AS next_step
FROM agent_turns t JOIN cases c USING (bug_id) WHERE t.status = 'done' AND t.turn <= c.turn ORDER BY t.bug_id, t.turn
""")
_OPEN = text("SELECT bug_id, status FROM cases WHERE status <> 'resolved'")

_WEATHER = text("""
SELECT (SELECT count(*) FROM case_transitions WHERE reason = 'reopened') AS reopened,
       (SELECT count(*) FROM case_transitions WHERE reason = 'reporter_closed') AS closed,
       (SELECT count(*) FROM agent_turns WHERE attempt > 1) AS interrupted
""")

_HEALTHY = (WorkflowExecutionStatus.COMPLETED, WorkflowExecutionStatus.CONTINUED_AS_NEW)
_EXPECTED_TASK_FAILURES = (
    WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND,
    WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_FORCE_CLOSE_COMMAND,
)
"""A signal came in while the run was ending, or too many at once: Temporal has the task done again."""


async def faults(storm: Storm, expected: Mapping[str, IncomingMessage]) -> list[str]:
    """Everything that is not as it must be; `expected` are all messages that people wrote, by id."""
    async with storm.database.begin() as work:
        stored = list(await work.connection.execute(_MESSAGES))
        turns = list(await work.connection.execute(_SETTLED))
        found = [f"{row.bug_id} was left {row.status}" for row in await work.connection.execute(_OPEN)]
    found += _storage(stored, expected) + _use(stored, turns) + _posts(storm, turns)
    return found + [fault async for fault in _runs(storm.client)]


async def weather(storm: Storm) -> dict[str, int]:
    """How often what a storm is made of has happened."""
    async with storm.database.begin() as work:
        counted = (await work.connection.execute(_WEATHER)).mappings().one()
    continued = storm.client.list_workflows("ExecutionStatus = 'ContinuedAsNew'")
    return {
        **{str(what): int(times) for what, times in counted.items()},
        "continued": len([1 async for _ in continued]),
    }


def _storage(stored: list[Row[Any]], expected: Mapping[str, IncomingMessage]) -> list[str]:
    times = Counter(row.message_id for row in stored)
    lost = [f"{identity} was never stored" for identity in expected if not times[identity]]
    unknown = [f"{identity} was stored, and nobody wrote it" for identity in times if identity not in expected]
    return lost + unknown + [f"{identity} was stored {n} times" for identity, n in times.items() if n > 1]


def _use(stored: list[Row[Any]], turns: list[Row[Any]]) -> list[str]:
    """A message is used by the one turn whose agent saw it, or by the closing that answered it."""
    seen = Counter((turn.bug_id, seq) for turn in turns for seq in turn.result.get("seen", ()))
    read = {(turn.bug_id, turn.turn, seq) for turn in turns for seq in turn.read_seqs}
    found = []
    for row in stored:
        times = seen[row.bug_id, row.seq] + (row.turn == 0) + ((row.bug_id, row.turn, row.seq) in read)
        must = row.wakes or row.message_type in (messages.REPORT, messages.MESSAGE)
        if times > 1 or (must and not times):
            found.append(f"{row.message_id} ({row.message_type}) of {row.bug_id} was used {times} times")
    return found


def _posts(storm: Storm, turns: list[Row[Any]]) -> list[str]:
    """Findings are posted, and on-call is called, once for each settled turn that asks for it.

    What was closed as the turn was settled is left out.
    """
    posted = Counter(post.key for post in storm.posts())
    found = [f"{key} was posted {times} times" for key, times in posted.items() if times > 1]
    escalations = Counter[str]()
    for turn in turns:
        escalations[turn.bug_id] += turn.action == "escalate"
        due = {
            "ask_reporter": (),
            "escalate": (f"turn:{turn.turn}:findings", f"escalation:{escalations[turn.bug_id]}"),
        }.get(turn.action, (f"turn:{turn.turn}:findings",))
        closed = turn.next_step in ("resolved: reporter_closed", "resolved: operator_resolved")
        missing = [key for key in due if not posted[f"{turn.bug_id}:{key}"]]
        if missing and not closed:
            found.append(f"{turn.bug_id}: {' and '.join(missing)} was not posted; next: {turn.next_step}")
    return found


async def _runs(client: Client) -> AsyncIterator[str]:
    async for run in client.list_workflows():
        if run.status not in _HEALTHY:
            yield f"{run.id} ({run.run_id}) is {run.status.name if run.status else 'unknown'}"
        handle = client.get_workflow_handle(run.id, run_id=run.run_id)
        async for event in handle.fetch_history_events():
            if event.event_type != EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED:
                continue
            failed = event.workflow_task_failed_event_attributes
            if failed.cause not in _EXPECTED_TASK_FAILURES:
                cause = WorkflowTaskFailedCause.Name(failed.cause)
                yield f"{run.id} ({run.run_id}) failed a task: {cause}: {failed.failure.message}"
