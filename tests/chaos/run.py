"""One run: people write, faults strike, every thread comes to its end, and the oracle judges."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy import text
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.client import WorkflowExecutionStatus
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.service import RPCError

from tests.chaos import evidence as evidences
from tests.chaos import live_checks, oracle, timeline
from tests.chaos.evidence import Evidence
from tests.chaos.faults import Faults
from tests.chaos.oracle import Fault
from tests.chaos.people import People, Written
from tests.chaos.plan import LASTING, Plan
from tests.chaos.stack import ChaosStack
from threadline.conversations.model.handover import handover_workflow_id
from threadline.gateway.router import EventRouter, NotAccepted, ThreadLookup
from threadline.gateway.routes import Route, RouteTarget, RoutingConfig
from threadline.slack.model import Thread
from threadline.threads.contract import (
    CATCH_UP_ID,
    CATCH_UP_REQUESTED,
    CATCH_UP_WORKFLOW,
    CatchUpState,
)
from threadline.threads.model import CORE_QUEUE, IncomingMessage, MessageKind, SenderType
from threadline_devstack.slack import identity

LONGEST = 75.0
"""Seconds within which one more thread must end, once people have stopped writing and the faults
are over.
"""
_HANDOVER = handover_workflow_id(Thread("", "", ""), 0).partition(":")[0]

_UNSAID_ENDS = text("""
SELECT count(*) FROM cases c
WHERE status = 'resolved' AND c.channel || ':' || c.thread_ts = ANY(:places)
  AND NOT EXISTS (SELECT FROM posts p
                  WHERE p.ts IS NOT NULL
                    AND p.key = c.bug_id || ':closing:' || c.closings || ':' || c.channel)
""")
_UNTOLD_FAULTS = text("""
SELECT count(*) FROM installation_faults
WHERE (resolved_at IS NULL AND NOT told_open) OR (resolved_at IS NOT NULL AND NOT told_over)
""")
"""The admin gets the notice that a fault is over once its end has settled."""
_UNFINISHED_CONVERSATIONS = text("""
SELECT count(*) FROM conversations c WHERE c.channel || ':' || c.thread_ts = ANY(:places) AND (
    EXISTS (SELECT FROM conversation_messages m
            WHERE m.conversation_id = c.id AND m.wants_turn
              AND (m.turn IS NULL OR m.turn > c.turn))
    OR EXISTS (SELECT FROM conversation_turns t
               WHERE t.conversation_id = c.id AND t.posted_at IS NULL AND t.answer <> ''))
""")


@dataclass(frozen=True)
class Outcome:
    """The result of a run."""

    plan: Plan
    evidence: Evidence
    counts: dict[str, int]
    seconds: float
    faults: tuple[Fault, ...]
    missed: tuple[str, ...] = ()
    """Kinds of faults that were planned and had no target."""
    timeline: str = ""
    """The timeline of the faulty threads."""

    @property
    def report(self) -> str:
        """A report of a failed run: its seed, its faults and the timeline."""
        faults = "\n".join(f"  {fault}" for fault in self.faults)
        again = f"make chaos SEED={self.plan.seed}"
        return (
            f"seed {self.plan.seed} ({', '.join(self.plan.kinds)}); again with: "
            f"{again}\n{faults}\n{self.timeline}"
        )


async def play(stack: ChaosStack, plan: Plan, longest: float = LONGEST) -> Outcome:
    """Run a plan on a stack that runs nothing else. The run is stuck if nothing ends for `longest`
    seconds.
    """
    since = datetime.now(UTC) - timedelta(seconds=1)
    began = time.monotonic()
    restarts = stack.restarts
    stack.log.clear()
    await stack.use(real=plan.real, http=plan.http)
    people = People(plan, stack)
    faults = Faults(stack, plan, people)
    try:
        async with asyncio.TaskGroup() as together:
            together.create_task(people.play())
            together.create_task(faults.play())
    finally:
        await faults.end()
    settling = _Settling(stack, people)
    found = await settling.wait(longest * (2 if plan.real else 1))
    evidence = await evidences.gather(stack, people, faults, settling.written, since)
    runs = await live_checks.runs_of(stack, since)
    found += oracle.judge(evidence)
    found += await live_checks.judge_runs(stack, runs, faults.terminated)
    found += await live_checks.judge_leftovers(stack, [row.thread for row in evidence.cases])
    continued = sum(run.status is WorkflowExecutionStatus.CONTINUED_AS_NEW for run in runs)
    return Outcome(
        plan,
        evidence,
        counts={
            "threads": len(plan.cases),
            "restarts": stack.restarts - restarts,
            "continued": continued,
            **evidence.counts,
        },
        seconds=round(time.monotonic() - began, 1),
        faults=tuple(found),
        missed=tuple(
            kind for kind in plan.kinds if kind not in LASTING and kind not in faults.struck
        ),
        timeline=await timeline.timeline_of(stack, evidence, runs, found) if found else "",
    )


@dataclass
class Patience:
    """Waits as long as the number of unfinished things falls: a busy machine gets time, and no
    wait is endless.
    """

    seconds: float
    _fewest: float = float("inf")
    _until: float = 0.0

    def is_over(self, left: int, now: float) -> bool:
        """Return whether the number of unfinished things has not fallen for `seconds`."""
        if left < self._fewest:
            self._fewest = left
            self._until = now + self.seconds
        return now > self._until


class _Settling:
    """Waits for the end of all threads, and resolves, as an operator, cases that silence never
    resolves.
    """

    def __init__(self, stack: ChaosStack, people: People) -> None:
        self._stack = stack
        self._people = people
        self._dispatcher = EventRouter(RoutingConfig(), stack.client, ThreadLookup(stack.database))
        self.written: dict[str, Written] = {}
        """Messages of operators, which are stored like all others."""

    async def wait(self, longest: float) -> list[Fault]:
        """Return nothing as soon as everything has ended, or the unfinished things once nothing
        ends for `longest` seconds.
        """
        patience = Patience(longest)
        catch_up = asyncio.create_task(self._catch_up())
        try:
            while True:
                pending = sum(
                    delivery.outcome == "pending" for delivery in self._stack.slack.deliveries.log
                )
                caught_up = catch_up.done()
                running = await self._running()
                unfinished = await self._unfinished()
                if caught_up and not (pending or running or unfinished):
                    catch_up.result()
                    return []
                at_rest = (
                    caught_up
                    and not pending
                    and all(each.startswith(_HANDOVER) for each in running)
                )
                if at_rest and not self._people.answer_late_cards():
                    await self._people.close_handovers()
                left = pending + len(running) + unfinished + int(not caught_up)
                if patience.is_over(left, time.monotonic()):
                    late = [] if caught_up else [Fault("", "the catch-up has no end")]
                    return [*late, *await self._stuck(running, pending)]
                await asyncio.sleep(0.4)
        finally:
            catch_up.cancel()

    async def _catch_up(self) -> None:
        """Catch up twice: a deletion that Slack gave up delivering is believed after two passes
        have missed the message between an older and a newer one.
        """
        for place in self._stack.slack.workspace.channels.values():
            if not place.is_archived and place.messages:
                self._stack.slack.workspace.post(
                    place.id, identity.BOT_USER, "Good evening", bot_id=identity.BOT_ID
                )
        for _ in range(2):
            await self._deep_pass()

    async def _deep_pass(self) -> None:
        """Run a deep catch-up, as a gateway does after a long absence; it also finds edits in old
        threads.
        """
        run = await self._stack.client.start_workflow(
            CATCH_UP_WORKFLOW,
            CatchUpState(),
            id=CATCH_UP_ID,
            task_queue=CORE_QUEUE,
            start_signal=CATCH_UP_REQUESTED,
            start_signal_args=[{"deep": True}],
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        )
        await run.result()

    async def _running(self) -> list[str]:
        """Return the workflows that have not ended, except the catch-up, which begins again and
        again.
        """
        runs = self._stack.client.list_workflows("ExecutionStatus = 'Running'")
        return [run.id async for run in runs if not run.id.startswith(CATCH_UP_ID)]

    async def _unfinished(self) -> int:
        """Count the threads in which something is due, and resolve the cases that people have.

        Due are cases that are open, not stored yet, or whose end is not posted yet; conversations
        with a message that waits for its answer, or an answer that waits for its post; and faults
        of the installation without a notice to the admin.
        """
        cases = {"places": [each.place for each in self._people.cases]}
        conversations = {"places": [each.place for each in self._people.conversations]}
        async with self._stack.database.begin() as tx:
            known = list(await tx.execute(evidences.CASES, cases))
            due = int(await tx.scalar(_UNSAID_ENDS, cases) or 0)
            due += int(await tx.scalar(_UNFINISHED_CONVERSATIONS, conversations) or 0)
            due += int(await tx.scalar(_UNTOLD_FAULTS) or 0)
        unresolved = [row for row in known if row.status != "resolved"]
        for row in unresolved:
            if row.escalated and row.status in ("escalated", "pending_verification"):
                with suppress(NotAccepted):  # a busy machine; the next look tries again
                    await self._resolve(row.thread, row.place)
        return len(unresolved) + len(self._people.cases) - len(known) + due

    async def _resolve(self, bug_id: str, place: str) -> None:
        now = f"{time.time():.6f}"
        id_ = f"ops:{bug_id}:{now}"
        close = IncomingMessage(
            id_, MessageKind.CLOSE, SenderType.ADMIN, "ops", "done", identity.REPORTS, now
        )
        thread = Thread(identity.TEAM, identity.REPORTS, place.rpartition(":")[2])
        await self._dispatcher.deliver(Route(RouteTarget.CASE, thread, close))
        self.written[id_] = Written(id_, MessageKind.CLOSE, place, "done")

    async def _stuck(self, running: Sequence[str], pending: int) -> list[Fault]:
        found = [
            Fault(self._thread_of(each), f"{each} has no end: {await self._details(each)}")
            for each in running
        ]
        return [
            *found,
            *([Fault("", f"{pending} events were never acknowledged")] if pending else []),
        ]

    def _thread_of(self, workflow_id: str) -> str:
        if workflow_id.startswith("conversation:"):
            return workflow_id.removeprefix("conversation:")
        cases = (case for case in self._people.cases if workflow_id.endswith(case.place))
        return next((self._people.bug_id(case) for case in cases), "")

    async def _details(self, workflow_id: str) -> str:
        """Return the details that Temporal's UI shows of a workflow."""
        handle = self._stack.client.get_workflow_handle(workflow_id)
        try:
            answer = await handle.query(
                "__temporal_workflow_metadata", result_type=WorkflowMetadata
            )
        except RPCError as error:
            return f"(it does not say: {error.message})"
        return " ".join(str(answer.current_details).split())
