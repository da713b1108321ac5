"""The verdict on a run: the rules of the chaos, and those for threads that stay open without
faults.

In the chaos some turns have to fail, and the catch-up has to repair. Here the workers are only
restarted, without an effect on people.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import text
from temporalio.client import WorkflowExecution

from tests.chaos import evidence as evidences
from tests.chaos import live_checks, oracle
from tests.chaos.evidence import Evidence
from tests.chaos.faults import Faults
from tests.chaos.oracle import Fault
from tests.chaos.people import People
from tests.chaos.plan import Plan, seeded_random
from tests.chaos.stack import CORES
from tests.scale.figures import Watch
from tests.scale.stack import ScaleStack
from threadline.cases.model import CaseStatus, bug_workflow_id
from threadline.conversations.model.conversation import OutcomeKind, conversation_workflow_id
from threadline.slack.model import Thread
from threadline.threads.catch_up_store import MAX_SENDS

SEED = 25
NO_PLAN = Plan(SEED, False, False, (), (), None, (), (), ())
REPLAYED = 50
"""Maximum number of runs whose histories are replayed."""
RESTING = (CaseStatus.PENDING_VERIFICATION, CaseStatus.AWAITING_REPORTER)
"""The states in which the scripted agent leaves a case."""
_NOWHERE = Thread("", "", "")
_OPEN = tuple(
    make_id(_NOWHERE).rstrip(":") for make_id in (bug_workflow_id, conversation_workflow_id)
)
"""Prefixes of the ids of workflows whose threads stay open."""

_BROKEN_TURNS = text("""
SELECT bug_id AS thread, turn, status, failure FROM agent_turns
WHERE status IN ('failed', 'revoked') OR failure <> '' ORDER BY bug_id, turn
""")
_UNSENT = text("SELECT key FROM posts WHERE ts IS NULL ORDER BY key")
_GIVEN_UP = text(
    "SELECT message_id FROM catch_up_messages WHERE sends >= :most ORDER BY message_id"
)


@dataclass
class Findings:
    """The results of a run, as plain data."""

    evidence: Evidence
    broken_turns: Sequence[Any] = ()
    """Rows of the agent's turns that failed or were revoked: `thread`, `turn`, `status`,
    `failure`.
    """
    unsent: Sequence[str] = ()
    """Keys of posts that were claimed and never sent."""
    given_up: Sequence[str] = ()
    """Ids of messages that the catch-up does not signal again."""
    undelivered: Sequence[str] = ()
    """Events that Slack gave up delivering, by channel and timestamp."""
    failed_tasks: Mapping[str, float | None] = field(default_factory=dict)
    """Failed workflow tasks of each core worker; None without an answer from it."""
    runs: Sequence[WorkflowExecution] = ()


async def gather(stack: ScaleStack, people: People, watch: Watch, since: datetime) -> Findings:
    """Collect all results, once the run is at rest."""
    evidence = await evidences.gather(stack, people, Faults(stack, NO_PLAN, people), {}, since)
    evidence.guards_opened = False  # no words are repeated here: one turn answers each
    async with stack.database.begin() as tx:
        broken = list(await tx.execute(_BROKEN_TURNS))
        unsent = list((await tx.execute(_UNSENT)).scalars())
        given_up = list((await tx.execute(_GIVEN_UP, {"most": MAX_SENDS})).scalars())
    log = stack.slack.deliveries.log
    caches = watch.caches()
    return Findings(
        evidence,
        broken,
        unsent,
        given_up,
        undelivered=[
            f"{each.channel}:{each.event_ts}" for each in log if each.outcome == "given_up"
        ],
        failed_tasks={
            name: caches[name]["failed_tasks"] if watch.is_scraped(name) else None
            for name in CORES
        },
        runs=await live_checks.runs_of(stack, since),
    )


def sample(runs: Sequence[WorkflowExecution]) -> list[WorkflowExecution]:
    """Choose `REPLAYED` runs at random, as many of each type of workflow as there are."""
    shuffled = list(runs)
    number = Counter[str]()
    ranked = []
    seeded_random(f"replay:{SEED}").shuffle(shuffled)
    for run in shuffled:
        number[run.workflow_type] += 1
        ranked.append((number[run.workflow_type], run))
    return [run for _, run in sorted(ranked, key=lambda each: each[0])[:REPLAYED]]


async def replay(stack: ScaleStack, since: datetime) -> list[Fault]:
    """Return the failed tasks in a sample of the runs, and the histories that do not replay."""
    runs = sample(await live_checks.runs_of(stack, since))
    return await live_checks.judge_histories(await live_checks.histories_of(stack, runs))


def judge(findings: Findings) -> list[Fault]:
    """Return every deviation from the required state."""
    return [
        *(fault for fault in oracle.judge(findings.evidence) if fault.words not in _AS_WANTED),
        *_unanswered(findings),
        *_undone(findings),
        *live_checks.judge_ends(findings.runs, endless=(*live_checks.ENDLESS, *_OPEN)),
    ]


_AS_WANTED = [f"was left {status}" for status in RESTING]
"""The oracle requires each case to be at its end."""


def _unanswered(findings: Findings) -> Iterator[Fault]:
    """Check that each turn of a conversation ends in the model's words, and each of the agent's in
    a result.

    A failed turn may be reported as one that is handed over: `escalated`.
    """
    for turn in findings.evidence.turns:
        if turn.kind != OutcomeKind.ANSWERED:
            yield Fault(
                turn.thread,
                f"turn {turn.turn} did not answer, and is {turn.kind}: “{turn.answer}”",
            )
    for turn in findings.broken_turns:
        yield Fault(
            turn.thread, f"turn {turn.turn} of the agent is {turn.status}: “{turn.failure}”"
        )
    for case in findings.evidence.cases:
        if case.status == CaseStatus.RESOLVED:
            yield Fault(case.thread, "was closed, and nobody asked for that")


def _undone(findings: Findings) -> Iterator[Fault]:
    for key in findings.unsent:
        yield Fault("", f"the post {key} is claimed and was never sent")
    for message in findings.given_up:
        yield Fault("", f"the catch-up has given up on {message}")
    for event in findings.undelivered:
        yield Fault("", f"the gateway never acknowledged the event {event}, and Slack gave up")
    for name, count in findings.failed_tasks.items():
        if count is None:
            yield Fault("", f"{name} does not say how many workflow tasks it has failed")
        elif count:
            yield Fault("", f"{name} has failed {count:.0f} workflow tasks")
