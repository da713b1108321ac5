"""The timeline of a thread, from all sources in the order of time: people, bot, database,
Temporal, faults.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import text
from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowExecution

from tests.chaos.evidence import Evidence
from tests.chaos.oracle import Fault
from tests.chaos.stack import ChaosStack, key_of

THREADS = 3
LINES = 400
"""The number of threads in a failure report, and of lines per thread."""

_CASE_ROWS = text("""
SELECT created_at AS at, 'stored' AS what,
       coalesce(seq, 0) || ' ' || message_type || ' by ' || sender_type
       || ', turn ' || coalesce(turn::text, '-') || ', wants a turn ' || wants_turn
       || ': ' || message_id || ' ' || left(message_text, 60) AS words
FROM bug_conversations WHERE bug_id = :thread
UNION ALL
SELECT at, 'status', rev || ': ' || coalesce(from_status, '-') || ' → ' || to_status
       || ' (' || reason || ', ' || actor || ')'
FROM case_transitions WHERE bug_id = :thread
UNION ALL
SELECT started_at, 'turn', turn || ', attempt ' || attempt || ' begins: '
       || coalesce(first_seq::text, '-') || '…' || coalesce(last_seq::text, '-')
FROM agent_turns WHERE bug_id = :thread
UNION ALL
SELECT finished_at, 'turn', turn || ' is ' || status || ': ' || coalesce(action, '-')
       || ' ' || left(failure, 80) || ' ' || left(result::text, 80)
FROM agent_turns WHERE bug_id = :thread AND finished_at IS NOT NULL
UNION ALL
SELECT to_timestamp(claimed_at), 'ledger',
       key || CASE WHEN ts IS NULL THEN ' is claimed' ELSE ' is done as ' || ts END
FROM posts WHERE split_part(key, ':', 1) = :thread
""")

_CONVERSATION_ROWS = text("""
WITH conversation AS (SELECT *, team || ':' || channel || ':' || thread_ts AS key
                      FROM conversations
                      WHERE team || ':' || channel || ':' || thread_ts = :thread)
SELECT m.created_at AS at, 'stored' AS what, m.seq || ' ' || message_type || ' by ' || sender_id
       || ', turn ' || coalesce(m.turn || '/' || step, '-')
       || ', ' || coalesce(verdict, 'not judged') || ', wants a turn ' || wants_turn
       || ': ' || message_id || ' ' || left(message_text, 60) AS words
FROM conversation_messages m JOIN conversation ON conversation.id = conversation_id
UNION ALL
SELECT t.created_at, 'said', t.key || ' ' || left(t.body, 120)
FROM transcript_entries t JOIN conversation ON conversation.id = conversation_id
UNION ALL
SELECT settled_at, 'turn', t.turn || ' is ' || kind || ': ' || left(answer, 80)
FROM conversation_turns t JOIN conversation ON conversation.id = conversation_id
WHERE settled_at IS NOT NULL
UNION ALL
SELECT e.created_at, 'tool', e.turn || '/' || step || ' ' || coalesce(status, 'unknown') || ' '
       || left(parameters::text, 80)
FROM agent_tool_executions e JOIN conversation USING (team, channel, thread_ts)
UNION ALL
SELECT to_timestamp(claimed_at), 'ledger',
       p.key || CASE WHEN ts IS NULL THEN ' is claimed' ELSE ' is done as ' || ts END
FROM posts p JOIN conversation ON starts_with(p.key, 'conversation:' || conversation.key || ':')
""")


@dataclass(frozen=True, order=True)
class Moment:
    at: float
    source: str
    words: str

    def __str__(self) -> str:
        clock = datetime.fromtimestamp(self.at, UTC).strftime("%H:%M:%S.%f")[:-3]
        return f"    {clock} {self.source:8} {self.words}"


async def timeline_of(
    stack: ChaosStack,
    evidence: Evidence,
    runs: Sequence[WorkflowExecution],
    faults: Sequence[Fault],
) -> str:
    """Return the timelines of the first faulty threads."""
    concerned = list(dict.fromkeys(fault.thread for fault in faults if fault.thread))[:THREADS]
    places = {thread: place for place, thread in evidence.threads.items()}
    return "\n".join(
        [await _of_thread(stack, runs, each, places.get(each, each)) for each in concerned]
    )


async def _of_thread(
    stack: ChaosStack, runs: Sequence[WorkflowExecution], thread: str, place: str
) -> str:
    root = place.rpartition(":")[2] if ":" in place else ""
    moments = [
        *_slack(stack, thread, root),
        *(Moment(at, "chaos", words) for at, words in stack.log),
    ]
    async with stack.database.begin() as tx:
        query = _CONVERSATION_ROWS if ":" in thread else _CASE_ROWS
        rows = list(await tx.execute(query, {"thread": thread}))
    moments += [Moment(row.at.timestamp(), row.what, str(row.words)) for row in rows]
    for run in runs:
        if root and run.id.endswith(root):
            moments += await _history(stack, run)
    return "\n".join([f"  {thread}, begun as {root}:", *map(str, sorted(moments)[:LINES])])


def _slack(stack: ChaosStack, thread: str, root: str) -> Iterator[Moment]:
    for place in stack.slack.workspace.channels.values():
        for message in place.messages.values():
            key = key_of(message)
            if f"{thread}:" in key or root in (message.ts, message.thread_ts):
                who = key or message.user
                yield Moment(
                    float(message.ts),
                    "slack",
                    f"{place.id} {message.ts} {who}: {message.text[:60]!r}",
                )


async def _history(stack: ChaosStack, run: WorkflowExecution) -> list[Moment]:
    handle = stack.client.get_workflow_handle(run.id, run_id=run.run_id)
    names: dict[int, str] = {}
    moments = []
    async for event in handle.fetch_history_events():
        kind = EventType.Name(event.event_type).removeprefix("EVENT_TYPE_").lower()
        if kind == "activity_task_scheduled":
            names[event.event_id] = (
                event.activity_task_scheduled_event_attributes.activity_type.name
            )
        what = names.get(_scheduled(event, kind) or event.event_id, "")
        at = event.event_time.ToMicroseconds() / 1e6
        moments.append(
            Moment(
                at,
                "temporal",
                f"{run.run_id[-4:] if run.run_id else ''} {event.event_id} {kind} {what}",
            )
        )
    return moments


def _scheduled(event: object, kind: str) -> int:
    attributes = getattr(event, f"{kind}_event_attributes", None)
    return int(getattr(attributes, "scheduled_event_id", 0))
