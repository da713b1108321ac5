"""One run: people write, things go wrong, calm returns, the oracle judges; and what came of it, in one record."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import psutil  # type: ignore[import-untyped]
from sqlalchemy import text
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.client import WorkflowExecution, WorkflowExecutionStatus
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.service import RPCError

from tests.chaos import histories, oracle, talk_evidence, talk_oracle, timeline
from tests.chaos.claimants import Claimants
from tests.chaos.histories import Fault
from tests.chaos.oracle import Evidence
from tests.chaos.people import People, Written
from tests.chaos.plan import LASTING, Plan
from tests.chaos.stage import CORES, Stage
from tests.chaos.talk_evidence import TalkEvidence
from tests.chaos.talkers import Talkers
from tests.chaos.trouble import Trouble, agents_of
from threadline.gateway.dispatcher import Dispatcher
from threadline.gateway.routes import Close
from threadline.threads import addressing, messages
from threadline.threads.addressing import Thread
from threadline.threads.catch_up_model import CatchUpState
from threadline.threads.messages import IncomingMessage
from threadline.wiring.gateway import CaseThreads
from threadline_devstack.slack import identity

LONGEST = 75.0
"""Seconds after the last word and the last blow within which every case must have come to its end."""
_HANDOVER = addressing.handover_workflow_id(Thread("", "", ""), 0).partition(":")[0]
TIDY = 20.0
"""Seconds after that for workspaces and processes to go."""

_OPEN = text("""
SELECT bug_id, status, thread_ts, escalated FROM cases
WHERE status <> 'resolved' AND channel = :channel AND thread_ts = ANY(:roots)
""")
_ENDS_UNSAID = text("""
SELECT count(*) FROM cases c
WHERE status = 'resolved' AND channel = :channel AND thread_ts = ANY(:roots)
  AND NOT EXISTS (SELECT FROM slack_posts p
                  WHERE p.ts IS NOT NULL AND p.key = c.bug_id || ':closing:' || c.closings || ':' || c.channel)
""")

_HAPPENED = text("""
SELECT (SELECT count(*) FROM case_transitions WHERE reason = 'reopened' AND at > :since) AS reopened,
       (SELECT count(*) FROM case_transitions WHERE reason = 'reporter_closed' AND at > :since) AS closed,
       (SELECT count(*) FROM agent_turns WHERE attempt > 1 AND started_at > :since) AS interrupted,
       (SELECT count(*) FROM resent_messages WHERE last_at > :since) AS caught_up
""")


@dataclass(frozen=True)
class Outcome:
    """What came of a run; `story` is the timeline of the cases that are at fault."""

    plan: Plan
    evidence: Evidence
    talk: TalkEvidence
    messages: int
    turns: int
    restarts: int
    seconds: float
    faults: tuple[Fault, ...]
    happened: Mapping[str, int]
    """How often what a storm is made of has happened: cases that were reopened, turns tried again, and more."""
    missed: tuple[str, ...] = ()
    """Kinds of blows that were planned and hit nothing."""
    story: str = ""


async def play(stage: Stage, plan: Plan, longest: float = LONGEST) -> Outcome:
    """Run a plan on a stage where nothing else runs; what has no end after `longest` seconds is stuck."""
    since, began, restarts = datetime.now(UTC) - timedelta(seconds=1), time.monotonic(), stage.restarts
    stage.log.clear()
    await stage.set_for(real=plan.real, http=plan.http)
    people, talkers = People(plan, stage.slack), Talkers(plan, stage)
    claimants = Claimants(plan, stage, talkers)
    trouble = Trouble(stage, plan, people, talkers)
    try:
        async with asyncio.TaskGroup() as together:
            together.create_task(people.play())
            together.create_task(talkers.play())
            together.create_task(claimants.play())
            together.create_task(trouble.rage())
    finally:
        trouble.end()
    calm = _Calm(stage, people, talkers, claimants, since)
    faults = await calm.come(longest * (2 if plan.real else 1))
    written, roots = {**people.written, **calm.operators}, [tale.root.ts for tale in people.tales]
    evidence = await oracle.gather(stage, written, roots, trouble.terminated, people.attached)
    talk = await talk_evidence.gather(stage, talkers, claimants, since, trouble)
    runs = await histories.runs_of(stage, since)
    faults += oracle.judge(evidence) + talk_oracle.judge(talk) + _healed(stage, evidence, since)
    faults += await histories.judge_runs(stage, runs, trouble.terminated)
    faults += await _left_behind(stage, list(evidence.bug_ids.values()))
    story = await timeline.told(stage, evidence, runs, faults) if faults else ""
    return Outcome(
        plan,
        evidence,
        talk,
        messages=len(people.written),
        turns=len(evidence.turns),
        restarts=stage.restarts - restarts,
        seconds=round(time.monotonic() - began, 1),
        faults=tuple(faults),
        missed=tuple(kind for kind in plan.kinds if kind not in LASTING and kind not in trouble.struck),
        happened={**await _happened(stage, runs, since), "fixed": len(evidence.effects.fixes), **talk.happened},
        story=story,
    )


async def _happened(stage: Stage, runs: Sequence[WorkflowExecution], since: datetime) -> dict[str, int]:
    async with stage.database.begin() as work:
        counted = (await work.connection.execute(_HAPPENED, {"since": since})).mappings().one()
    continued = sum(run.status is WorkflowExecutionStatus.CONTINUED_AS_NEW for run in runs)
    return {**{str(what): int(times) for what, times in counted.items()}, "continued": continued}


class _Calm:
    """Waits for the end of everything, and resolves what silence never resolves as an operator would."""

    def __init__(self, stage: Stage, people: People, talkers: Talkers, claimants: Claimants, since: datetime) -> None:
        self._stage, self._people, self._talkers, self._since = stage, people, talkers, since
        self._claimants = claimants
        self._dispatcher = Dispatcher(stage.client, CaseThreads(stage.database))
        self.operators: dict[str, Written] = {}
        """What operators said, which is stored like everything else."""

    async def come(self, longest: float) -> list[Fault]:
        """Returns what is stuck after `longest` seconds, and nothing when all is at its end before."""
        until = time.monotonic() + longest
        looking = asyncio.create_task(self._caught_up())
        try:
            while True:
                on_the_way = sum(delivery.outcome == "pending" for delivery in self._stage.slack.deliveries.log)
                caught_up = looking.done()
                running = await self._running()
                unfinished = await self._unfinished()
                if caught_up and not (on_the_way or running or unfinished):
                    looking.result()
                    return []
                if caught_up and not on_the_way and all(each.startswith(_HANDOVER) for each in running):
                    await self._claimants.close()
                if time.monotonic() > until:
                    late = [] if caught_up else [Fault("", "the catch-up has no end")]
                    return [*late, *await self._stuck(running, on_the_way)]
                await asyncio.sleep(0.4)
        finally:
            looking.cancel()

    async def _caught_up(self) -> None:
        """Ask for a look as a gateway does that was away for long, and wait for its end: edits in old threads, too."""
        looking = await self._stage.client.start_workflow(
            addressing.CATCH_UP_WORKFLOW,
            CatchUpState(),
            id=addressing.CATCH_UP_ID,
            task_queue=addressing.CORE_QUEUE,
            start_signal=addressing.LOOK,
            start_signal_args=[{"deep": True}],
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        )
        await looking.result()

    async def _running(self) -> list[str]:
        """Workflows that have not ended; the catch-up begins again and again."""
        query = "ExecutionStatus = 'Running'"
        ids = [run.id async for run in self._stage.client.list_workflows(query)]
        return [each for each in ids if not each.startswith(addressing.CATCH_UP_ID)]

    async def _unfinished(self) -> int:
        """Cases that are open, not there yet, or ended in silence; people resolve those that are with them."""
        roots = [tale.root.ts for tale in self._people.tales]
        channel = {"channel": identity.REPORTS, "roots": roots}
        async with self._stage.database.begin() as work:
            rows = list(await work.connection.execute(_OPEN, channel))
            known = len(list(await work.connection.execute(oracle._CASES, channel)))
            unsaid = int(await work.connection.scalar(_ENDS_UNSAID, channel) or 0)
        for row in rows:
            if row.escalated and row.status in ("escalated", "pending_verification"):
                await self._resolve(row.bug_id, row.thread_ts)
        return len(rows) + len(roots) - known + unsaid + await talk_evidence.unfinished(self._stage, self._talkers)

    async def _resolve(self, bug_id: str, root: str) -> None:
        now = f"{time.time():.6f}"
        told = f"ops:{bug_id}:{now}"
        close = IncomingMessage(told, messages.CLOSE, messages.OPERATOR, "ops", "done", identity.REPORTS, now)
        thread = Thread(identity.TEAM, identity.REPORTS, root)
        await self._dispatcher.dispatch(Close(thread, close))
        self.operators[told] = Written(told, messages.CLOSE, root, "done")

    async def _stuck(self, running: Sequence[str], on_the_way: int) -> list[Fault]:
        told = [Fault(self._case_of(each), f"{each} has no end: {await self._details(each)}") for each in running]
        return [*told, *([Fault("", f"{on_the_way} events were never acknowledged")] if on_the_way else [])]

    def _case_of(self, workflow_id: str) -> str:
        if workflow_id.startswith("talk:"):
            return workflow_id.removeprefix("talk:")
        roots = (tale.root for tale in self._people.tales if workflow_id.endswith(tale.root.ts))
        return next((self._people.bug_id(root) for root in roots), "")

    async def _details(self, workflow_id: str) -> str:
        """What Temporal's UI shows of a workflow."""
        handle = self._stage.client.get_workflow_handle(workflow_id)
        try:
            answer = await handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)
        except RPCError as error:
            return f"(it does not say: {error.message})"
        return " ".join(str(answer.current_details).split())


def _healed(stage: Stage, evidence: Evidence, since: datetime) -> list[Fault]:
    """What the sweep had to mend where nobody had terminated a run: it would hide what went wrong before."""
    mine, found = set(evidence.bug_ids.values()) - evidence.cut, list[Fault]()
    for name in CORES:
        told = stage.told(name, since, "case_revived", "answer_missing")
        found += [
            Fault(each["case"], f"the sweep had to mend it: {each['event']}") for each in told if each["case"] in mine
        ]
    return found


async def _left_behind(stage: Stage, cases: Sequence[str]) -> list[Fault]:
    """Workspaces of ended cases, agents of ended turns, and processes whose parent was killed."""
    until = time.monotonic() + TIDY
    while found := [*_workspaces(stage, cases), *_processes(stage)]:
        if time.monotonic() > until:
            return found
        await asyncio.sleep(0.3)
    return []


def _workspaces(stage: Stage, cases: Sequence[str]) -> list[Fault]:
    folders = [stage.workspaces / "cases" / case for case in cases]
    return [Fault(folder.name, f"the workspace {folder} is left") for folder in folders if folder.exists()]


def _processes(stage: Stage) -> list[Fault]:
    idle = [Fault("", f"the agent {each.pid} runs, and no case is open") for each in agents_of(stage)]
    return idle + [Fault("", f"process {pid} ({words}) is nobody's") for pid, words in strays(stage)]


def strays(stage: Stage) -> list[tuple[int, str]]:
    """Processes that work in the stage's folder and do not descend from the harness."""
    own = {each.pid for each in psutil.Process().children(recursive=True)} | {psutil.Process().pid}
    home, found = str(stage.home.root), []
    for each in psutil.process_iter():
        try:
            words = " ".join(each.cmdline())
            mine = home in words or each.cwd().startswith(home)
            postgres = "postgres" in each.name()
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
        if mine and not postgres and each.pid not in own:  # a killed server's children end when they notice
            found.append((each.pid, words[:80]))
    return found


def evidence_of(outcome: Outcome) -> str:
    """A failed run in words: its seed, its faults, and the timeline."""
    faults = "\n".join(f"  {fault}" for fault in outcome.faults)
    again = f"make chaos SEED={outcome.plan.seed}"
    return f"seed {outcome.plan.seed} ({', '.join(outcome.plan.kinds)}); again with: {again}\n{faults}\n{outcome.story}"


__all__ = ["Evidence", "Outcome", "evidence_of", "play", "strays"]
