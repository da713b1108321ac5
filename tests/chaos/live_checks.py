"""Checks of Temporal, of the workspaces and of the machine's processes after a run."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import datetime
from unittest.mock import patch

import psutil  # type: ignore[import-untyped]
from temporalio.api.enums.v1 import EventType, WorkflowTaskFailedCause
from temporalio.client import WorkflowExecution, WorkflowExecutionStatus, WorkflowHistory

from tests.chaos.faults import EndedRun, cli_processes
from tests.chaos.oracle import Fault
from tests.chaos.stack import ChaosStack
from tests.chaos.worker import MENDING
from threadline.threads import model as thread_model
from threadline.threads.contract import CATCH_UP_ID, SWEEP_ID
from threadline.wiring.temporal import replayer

CLEANUP = 20.0
"""Seconds after the end of all cases within which workspaces and processes must be gone."""
_HEALTHY = (WorkflowExecutionStatus.COMPLETED, WorkflowExecutionStatus.CONTINUED_AS_NEW)
ENDLESS = (CATCH_UP_ID, SWEEP_ID)
_EXPECTED_TASK_FAILURES = (
    WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND,
    WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_FORCE_CLOSE_COMMAND,
)
"""Failures of a workflow task because a signal arrived while the run was ending, or too many
arrived at once: Temporal runs the task again.
"""


async def runs_of(stack: ChaosStack, since: datetime) -> list[WorkflowExecution]:
    """Return all workflow runs that began since then."""
    query = f"StartTime >= '{since.isoformat().replace('+00:00', 'Z')}'"
    return [run async for run in stack.client.list_workflows(query)]


async def judge_runs(
    stack: ChaosStack, runs: Sequence[WorkflowExecution], terminated: Sequence[EndedRun]
) -> list[Fault]:
    """Return runs that did not end well, tasks that failed, and histories that do not replay."""
    histories = await histories_of(stack, runs)
    with patch.multiple(thread_model, **MENDING):
        return [*judge_ends(runs, terminated), *await judge_histories(histories)]


def judge_ends(
    runs: Sequence[WorkflowExecution],
    terminated: Sequence[EndedRun] = (),
    endless: tuple[str, ...] = ENDLESS,
) -> list[Fault]:
    """Return runs that ended badly. `endless`: the prefixes of the ids of workflows that may still
    be running.
    """
    ended = {run.run_id for run in terminated}
    found = []
    for run in runs:
        by_hand = run.run_id in ended and run.status is WorkflowExecutionStatus.TERMINATED
        runs_on = run.id.startswith(endless) and run.status is WorkflowExecutionStatus.RUNNING
        if run.status not in _HEALTHY and not by_hand and not runs_on:
            found.append(
                Fault(
                    "",
                    f"{run.id} ({run.run_id}) is {run.status.name if run.status else 'unknown'}",
                )
            )
    return found


async def histories_of(
    stack: ChaosStack, runs: Sequence[WorkflowExecution]
) -> list[WorkflowHistory]:
    handles = (stack.client.get_workflow_handle(run.id, run_id=run.run_id) for run in runs)
    return [await handle.fetch_history() for handle in handles]


async def judge_histories(histories: Sequence[WorkflowHistory]) -> list[Fault]:
    """Return tasks that failed, and histories that do not replay."""
    found = []
    for history in histories:
        run = f"{history.workflow_id} ({history.run_id})"
        found += [Fault("", f"{run} failed a task: {words}") for words in _failed_tasks(history)]
    async with replayer().workflow_replay_iterator(_each(histories)) as replayed:
        async for result in replayed:
            if result.replay_failure is not None:
                found.append(
                    Fault(
                        "",
                        f"{result.history.workflow_id} does not replay: {result.replay_failure}",
                    )
                )
    return found


async def _each(histories: Sequence[WorkflowHistory]) -> AsyncIterator[WorkflowHistory]:
    for history in histories:
        yield history


def _failed_tasks(history: WorkflowHistory) -> Iterator[str]:
    for event in history.events:
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED:
            failed = event.workflow_task_failed_event_attributes
            if failed.cause not in _EXPECTED_TASK_FAILURES:
                yield f"{WorkflowTaskFailedCause.Name(failed.cause)}: {failed.failure.message}"


async def judge_leftovers(stack: ChaosStack, cases: Sequence[str]) -> list[Fault]:
    """Return workspaces of ended cases, agents of ended turns, and processes whose parent was
    killed.
    """
    until = time.monotonic() + CLEANUP
    while found := [*_workspaces(stack, cases), *_processes(stack)]:
        if time.monotonic() > until:
            return found
        await asyncio.sleep(0.3)
    return []


def _workspaces(stack: ChaosStack, cases: Sequence[str]) -> list[Fault]:
    folders = [stack.workspaces / "cases" / case for case in cases]
    return [
        Fault(folder.name, f"the workspace {folder} is left")
        for folder in folders
        if folder.exists()
    ]


def _processes(stack: ChaosStack) -> list[Fault]:
    idle = [
        Fault("", f"the agent {each.pid} runs, and no case is open")
        for each in cli_processes(stack)
    ]
    return idle + [
        Fault("", f"process {pid} ({words}) is nobody's") for pid, words in _orphans(stack)
    ]


def _orphans(stack: ChaosStack) -> list[tuple[int, str]]:
    """Return processes that work in the stack's folder and do not descend from the harness."""
    own = {each.pid for each in psutil.Process().children(recursive=True)} | {psutil.Process().pid}
    home = str(stack.home.root)
    found = []
    for each in psutil.process_iter():
        try:
            words = " ".join(each.cmdline())
            mine = home in words or each.cwd().startswith(home)
            postgres = "postgres" in each.name()
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
        if (
            mine and not postgres and each.pid not in own
        ):  # a killed server's children end when they notice
            found.append((each.pid, words[:80]))
    return found
