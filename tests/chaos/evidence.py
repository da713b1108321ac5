"""The evidence of a run, read from Postgres, the Slack sandbox, Temporal, the logs and the git
repository.

In all rows `thread` is the case's number or the conversation's key, and `place` is the channel and
the timestamp of the thread's first message.
"""

import asyncio
import base64
import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import TextClause, text

from tests.chaos.faults import EndedRun, Faults
from tests.chaos.people import People, RelayedHandover, Written
from tests.chaos.stack import ChaosStack, key_of
from threadline.cases.model import NoticeKind
from threadline_devstack.slack import identity
from threadline_devstack.slack.model import SandboxMessage

_PLACE = "c.channel || ':' || c.thread_ts"
_KEY = f"c.team || ':' || {_PLACE}"
CASES = text(f"""
SELECT bug_id AS thread, {_PLACE} AS place, status, escalated, closings,
       (SELECT t.channel FROM threads t
        WHERE t.workflow_id = c.workflow_id AND t.kind = 'case:summary') AS summary_channel
FROM cases c
WHERE {_PLACE} = ANY(:places)
""")  # noqa: S608 - all parts are written here
_CASE_MESSAGES = text("""
SELECT bug_id AS thread, seq, message_id, message_type, message_text, said_at, turn, wants_turn,
       channel, redacted_at IS NOT NULL AS redacted
FROM bug_conversations
WHERE sender_type <> 'bot' AND bug_id = ANY(:cases) ORDER BY bug_id, seq
""")
_CASE_TURNS = text("""
SELECT t.bug_id AS thread, t.turn, t.action, t.result, t.read_seqs, t.attempt, t.failure,
       t.session_id,
       (SELECT s.to_status || ': ' || s.reason FROM case_transitions s
        WHERE s.bug_id = t.bug_id AND s.at > t.finished_at
          AND NOT EXISTS (SELECT FROM agent_turns n WHERE n.bug_id = t.bug_id AND n.turn > t.turn
                          AND n.started_at < s.at)
        ORDER BY s.rev LIMIT 1) AS next_step,
       EXISTS (SELECT FROM case_transitions s
        WHERE s.bug_id = t.bug_id AND s.at > t.finished_at AND s.to_status = 'resolved'
          AND s.reason IN ('reporter_closed', 'admin_resolved', 'admin_cancelled')
          AND NOT EXISTS (SELECT FROM agent_turns n WHERE n.bug_id = t.bug_id AND n.turn > t.turn
                          AND n.started_at < s.at)) AS closed,
       (SELECT extract(epoch FROM min(s.at))::float8 FROM case_transitions s
        WHERE s.bug_id = t.bug_id AND s.at > t.finished_at AND s.to_status = 'resolved'
          AND s.reason IN
              ('reporter_closed', 'admin_resolved', 'admin_cancelled')) AS closed_at,
       extract(epoch FROM t.finished_at)::float8 AS finished,
       (SELECT count(*) FROM case_transitions s
        WHERE s.bug_id = t.bug_id AND s.at < t.finished_at AND s.to_status = 'resolved') AS ends
FROM agent_turns t JOIN cases c USING (bug_id)
WHERE t.status = 'done' AND t.turn <= c.turn AND t.bug_id = ANY(:cases) ORDER BY t.bug_id, t.turn
""")
"""`closed`: people closed the case before a next turn began; `closed_at`: the time of their first
close after the turn.
"""
_RUNNING_TURNS = text("""
SELECT bug_id AS thread, turn FROM agent_turns WHERE status = 'running' AND bug_id = ANY(:cases)
""")
_UNSENT = text("""
SELECT split_part(key, ':', 1) AS bug_id, key FROM posts
WHERE ts IS NULL
  AND (split_part(key, ':', 1) = ANY(:cases) OR key LIKE 'conversation:%')
""")
"""Posts that were claimed and never sent."""
_SESSIONS = text("""
SELECT session_id, string_agg(entry, ' ') AS words FROM agent_session_entries
WHERE session_id = ANY(:sessions) GROUP BY session_id
""")
_FIXES = text("""
SELECT t.bug_id AS thread, t.turn, p.branch, p.commit
FROM agent_turns t JOIN cases c USING (bug_id) LEFT JOIN pull_requests p USING (bug_id)
WHERE t.status = 'done' AND t.turn <= c.turn AND t.has_fix AND t.bug_id = ANY(:cases)
ORDER BY t.bug_id, t.turn
""")
_FILES = text("""
SELECT a.bug_id AS thread, a.file_id, a.name, a.content IS NOT NULL AS there, a.error,
       CASE WHEN EXISTS (SELECT FROM agent_turns t
                         WHERE t.bug_id = m.bug_id AND m.seq = ANY(t.read_seqs))
            THEN 0 ELSE coalesce(m.turn, 0) END AS turn
FROM attachments a JOIN bug_conversations m USING (bug_id, message_id) WHERE a.bug_id = ANY(:cases)
""")
"""`turn` is the turn that was shown the message. A turn that read it through a tool already had
its workspace.
"""
_CONVERSATIONS = text(f"""
SELECT {_KEY} AS thread, {_PLACE} AS place, id, turn, reading_turn, stored FROM conversations c
WHERE stored > 0 AND {_PLACE} = ANY(:places)
""")  # noqa: S608 - all parts are written here
_MESSAGES = text(f"""
SELECT {_KEY} AS thread, m.seq, m.message_id, m.message_type, m.message_text, m.sender_id,
       m.said_at, m.channel, m.addressed, m.verdict, m.wants_turn, m.turn, m.step,
       m.redacted_at IS NOT NULL AS redacted, m.edited_at IS NOT NULL AS edited,
       read.shown, read.position
FROM conversation_messages m JOIN conversations c ON c.id = m.conversation_id
CROSS JOIN LATERAL (SELECT count(*) AS shown, min(t.position) AS position FROM transcript_entries t
                    WHERE t.conversation_id = c.id AND t.key = 'u:' || m.message_id) read
WHERE m.conversation_id = ANY(:ids) ORDER BY m.conversation_id, m.seq
""")  # noqa: S608 - all parts are written here
_TURNS = text(f"""
SELECT {_KEY} AS thread, t.turn, t.kind, t.answer, t.posted_at IS NOT NULL AS said,
       t.route->>'agent' AS agent, coalesce(t.route->'scope'->>'rfp_id', '') AS rfp_id,
       (SELECT count(*) FROM journal_entries j
        WHERE j.correlation_id = {_KEY} || ':' || t.turn) AS entries
FROM conversation_turns t JOIN conversations c ON c.id = t.conversation_id
WHERE c.id = ANY(:ids) AND t.settled_at IS NOT NULL ORDER BY c.id, t.turn
""")  # noqa: S608 - all parts are written here
_CALLS = text(f"""
SELECT {_KEY} AS thread, turn, step, tool_name, status, CASE tool_name
       WHEN 'journal.append' THEN parameters->>'text'
       WHEN 'opportunity.patch'
       THEN 'change ' || substring(parameters->>'patch' FROM 't[0-9]+[mr][0-9]*')
       ELSE parameters->'items'->0->>'title' END AS title
FROM agent_tool_executions c WHERE {_PLACE} = ANY(:places)
""")  # noqa: S608 - all parts are written here
_ITEMS = text("""
SELECT i.title, count(*) AS times FROM estimate_items i JOIN estimate_projects p USING (project_id)
WHERE p.name = :project GROUP BY i.title
UNION ALL
SELECT text, count(*) FROM journal_entries WHERE rfp_id = :rfp AND kind = 'note' GROUP BY text
UNION ALL
SELECT 'change ' || word, 1 FROM opportunity_states, jsonb_object_keys(document->'noted') word
WHERE rfp_id = :rfp
""")
_INSTALLATION_FAULTS = text("""
SELECT id, kind, subject, told_open, told_over, resolved_at IS NOT NULL AS over
FROM installation_faults WHERE last_seen > :since ORDER BY id
""")
_EMPTY_VERSIONS = text("""
SELECT coalesce(max(version), 1) - 1
       - (SELECT count(*) FROM opportunity_states, jsonb_object_keys(document->'noted')
          WHERE rfp_id = :rfp)
FROM opportunity_states WHERE rfp_id = :rfp
""")
_COUNTS = text("""
SELECT (SELECT count(*) FROM case_transitions
        WHERE reason = 'reopened' AND at > :since) AS reopened,
       (SELECT count(*) FROM case_transitions
        WHERE reason = 'reporter_closed' AND at > :since) AS closed,
       (SELECT count(*) FROM agent_turns WHERE attempt > 1 AND started_at > :since) AS interrupted,
       (SELECT count(*) FROM catch_up_messages WHERE sends > 0 AND last_at > :since) AS caught_up
""")


@dataclass
class Evidence:
    """The messages that people wrote, by id, and the rows of the queries above."""

    written: Mapping[str, Written]
    posts: Sequence[SandboxMessage] = ()
    unheard: set[str] = field(default_factory=set)
    """Ids of events that Slack gave up delivering, or that only a terminated run received."""
    cancelled: Counter[str] = field(default_factory=Counter)
    terminated: Counter[str] = field(default_factory=Counter)
    """The number of runs that an operator ended, by thread."""
    refusals: Sequence[tuple[float, float]] = ()
    """Spans in which Slack refused the bot, in seconds since 1970."""
    repaired: list[tuple[str, str]] = field(default_factory=list)
    """Threads that the sweep had to repair, with the event that it logged."""
    unsent: list[tuple[str, str]] = field(default_factory=list)
    """Threads with the keys of their posts that were claimed and never sent."""
    counts: dict[str, int] = field(default_factory=dict)
    """Counts of the events that make a run hard, such as reopened cases and retried turns."""

    installation_faults: list[Any] = field(default_factory=list)
    cases: list[Any] = field(default_factory=list)
    case_messages: list[Any] = field(default_factory=list)
    case_turns: list[Any] = field(default_factory=list)
    running_turns: list[Any] = field(default_factory=list)
    sessions: dict[str, str] = field(default_factory=dict)
    """The transcripts of the real agent, by session."""
    fixes: list[Any] = field(default_factory=list)
    files: list[Any] = field(default_factory=list)
    attached: Mapping[str, bool] = field(default_factory=dict)
    """Attached files, and whether the message of each still exists."""
    branches: dict[str, tuple[str, int]] = field(default_factory=dict)
    """The newest commit of each branch, and its number of commits."""

    conversations: list[Any] = field(default_factory=list)
    messages: list[Any] = field(default_factory=list)
    stop_signs: set[str] = field(default_factory=set)
    turns: list[Any] = field(default_factory=list)
    calls: list[Any] = field(default_factory=list)
    items: dict[str, int] = field(default_factory=dict)
    empty_versions: int = 0
    """Versions of the RFP's state without a change: a change was applied twice or overwritten."""
    handovers: Sequence[RelayedHandover] = ()
    guards_opened: bool = False
    """A guard was unreachable, and let something pass."""

    @property
    def threads(self) -> dict[str, str]:
        """Cases and conversations by place."""
        return {row.place: row.thread for row in (*self.cases, *self.conversations)}


def is_case(place: str) -> bool:
    return place.partition(":")[0] == identity.REPORTS


def thread_of_post(key: str) -> str:
    """Return the conversation's key or the case's number from the key of a post."""
    parts = key.split(":")
    return ":".join(parts[1:4]) if parts[0] == "conversation" else parts[0]


async def gather(
    stack: ChaosStack,
    people: People,
    faults: Faults,
    operators: Mapping[str, Written],
    since: datetime,
) -> Evidence:
    """Read all evidence of a run that has come to rest. `operators`: the messages of operators, by
    id.
    """
    evidence = Evidence(
        {**people.written, **operators},
        stack.bot_posts(),
        attached=people.attached,
        stop_signs=people.stop_signs,
        handovers=people.relayed(),
        branches=await _branches(stack),
        refusals=faults.refusals,
    )
    await _gather_rows(stack, people, evidence, since)
    names = {f"{identity.TEAM}:{place}": thread for place, thread in evidence.threads.items()}
    evidence.cancelled = _by_thread(names, faults.cancelled)
    evidence.terminated = _by_thread(names, faults.terminated)
    dropped = {
        (each.channel, each.event_ts)
        for each in stack.slack.deliveries.log
        if each.outcome == "dropped"
    }
    evidence.unheard = {each.id for each in evidence.written.values() if each.event in dropped}
    for run in faults.terminated:
        evidence.unheard |= await _signalled(stack, run)
    unposted = [each["case"] for each in stack.core_logs(since, "answer_missing")]
    restarted = [
        each["workflow_id"].partition(":")[2]
        for each in stack.core_logs(since, "workflow_restarted")
    ]
    evidence.repaired = [(case, "answer_missing") for case in unposted]
    evidence.repaired += [(names.get(key, key), "workflow_restarted") for key in restarted]
    evidence.guards_opened = any(stack.core_logs(since, "guard_failed_open"))
    evidence.counts |= _counts(evidence, people)
    return evidence


async def _gather_rows(
    stack: ChaosStack, people: People, evidence: Evidence, since: datetime
) -> None:
    async with stack.database.begin() as tx:

        async def rows(query: TextClause, **given: object) -> list[Any]:
            return list(await tx.execute(query, given))

        evidence.cases = await rows(CASES, places=[each.place for each in people.cases])
        cases = [row.thread for row in evidence.cases]
        evidence.case_messages = await rows(_CASE_MESSAGES, cases=cases)
        evidence.case_turns = await rows(_CASE_TURNS, cases=cases)
        evidence.running_turns = await rows(_RUNNING_TURNS, cases=cases)
        evidence.fixes = await rows(_FIXES, cases=cases)
        evidence.files = await rows(_FILES, cases=cases)
        unsent = await rows(_UNSENT, cases=cases)
        evidence.unsent = [(row.bug_id or thread_of_post(row.key), row.key) for row in unsent]
        sessions = await rows(
            _SESSIONS, sessions=[turn.session_id for turn in evidence.case_turns]
        )
        evidence.sessions = {row.session_id: row.words for row in sessions}

        places = [each.place for each in people.conversations]
        evidence.conversations = await rows(_CONVERSATIONS, places=places)
        ids = [row.id for row in evidence.conversations]
        evidence.messages = await rows(_MESSAGES, ids=ids)
        evidence.turns = await rows(_TURNS, ids=ids)
        evidence.calls = await rows(_CALLS, places=places)
        items = await rows(_ITEMS, project=people.project, rfp=people.rfp)
        evidence.items = {row.title: row.times for row in items}
        evidence.empty_versions = int(await tx.scalar(_EMPTY_VERSIONS, {"rfp": people.rfp}) or 0)
        evidence.installation_faults = await rows(_INSTALLATION_FAULTS, since=since)
        (counted,) = await rows(_COUNTS, since=since)
        evidence.counts = dict(counted._mapping)


def _counts(evidence: Evidence, people: People) -> dict[str, int]:
    kinds = Counter(turn.kind for turn in evidence.turns)
    conversations = {row.thread for row in evidence.conversations}
    relayed = [
        times
        for each in evidence.handovers
        for times in (*each.answers.values(), *each.asks.values())
    ]
    return {
        **{
            kind: _notices(evidence, kind)
            for kind in (NoticeKind.WAITS_FOR_WORKER, NoticeKind.WAITS_FOR_MENDING)
        },
        "installation_faults": len(evidence.installation_faults),
        "messages": sum(is_case(each.place) for each in people.written.values()),
        "turns": len(evidence.case_turns),
        "fixed": len(evidence.fixes),
        "conversations": len(evidence.conversations),
        "conversation_messages": sum(not is_case(each.place) for each in people.written.values()),
        "conversation_turns": len(evidence.turns),
        "items": sum(evidence.items.values()),
        **{
            kind: kinds[kind]
            for kind in ("answered", "posted_by_tool", "replied_by_rule", "silent", "stopped")
        },
        "repeated": sum(row.verdict == "duplicate" for row in evidence.messages),
        "relayed": sum(relayed),
        "conversations_cancelled": sum(evidence.cancelled[thread] for thread in conversations),
        "conversations_terminated": sum(evidence.terminated[thread] for thread in conversations),
    }


def _notices(evidence: Evidence, kind: NoticeKind) -> int:
    """Count the notices of a kind in the cases of this run."""
    cases = {row.thread for row in evidence.cases}
    keys = (key_of(post).split(":") for post in evidence.posts)
    return sum(key[0] in cases and key[1:2] == [kind] for key in keys)


def _by_thread(names: Mapping[str, str], runs: Sequence[EndedRun]) -> Counter[str]:
    keys = (run.workflow_id.partition(":")[2] for run in runs)
    return Counter(names.get(key, key) for key in keys)


async def _signalled(stack: ChaosStack, run: EndedRun) -> set[str]:
    """Return the ids of the messages that a terminated run was started with or received."""
    handle = stack.client.get_workflow_handle(run.workflow_id, run_id=run.run_id)
    return set(_ids_in((await handle.fetch_history()).to_json()))


def _ids_in(history: str) -> Iterator[str]:
    for payload in re.findall(r'"data": ?"([A-Za-z0-9+/=]+)"', history):
        try:
            told = json.loads(base64.b64decode(payload))
        except ValueError:
            continue
        pending = told.get("pending", []) if isinstance(told, dict) else []
        for each in [told, *pending]:
            if isinstance(each, dict) and isinstance(each.get("id"), str):
                yield each["id"]


async def _branches(stack: ChaosStack) -> dict[str, tuple[str, int]]:
    listed = await _git(
        stack, "for-each-ref", "--format=%(refname:short) %(objectname)", "refs/heads/threadline"
    )
    tips = dict(line.split() for line in listed.splitlines())
    return {
        name: (tip, int(await _git(stack, "rev-list", "--count", tip, "^main")))
        for name, tip in tips.items()
    }


async def _git(stack: ChaosStack, *arguments: str) -> str:
    command = ("git", f"--git-dir={stack.home.repository}", *arguments)
    path = {"PATH": os.environ.get("PATH", os.defpath)}
    git = await asyncio.create_subprocess_exec(*command, env=path, stdout=asyncio.subprocess.PIPE)
    return (await git.communicate())[0].decode()
