"""What Temporal recorded of a run: ends that are none, tasks that failed, histories that do not replay."""

import base64
import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from temporalio.api.enums.v1 import EventType, WorkflowTaskFailedCause
from temporalio.client import WorkflowExecution, WorkflowExecutionStatus, WorkflowHistory

from tests.chaos.people import Written
from tests.chaos.stage import Stage
from tests.chaos.trouble import Ended
from threadline.threads.addressing import CATCH_UP_ID, SWEEP_ID
from threadline.wiring.temporal import replayer

_HEALTHY = (WorkflowExecutionStatus.COMPLETED, WorkflowExecutionStatus.CONTINUED_AS_NEW)
_EXPECTED_TASK_FAILURES = (
    WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND,
    WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_FORCE_CLOSE_COMMAND,
)
"""A signal came in while the run was ending, or too many at once: Temporal has the task done again."""


@dataclass(frozen=True)
class Fault:
    """`case` is the number of the case that it is about, or empty."""

    case: str
    words: str

    def __str__(self) -> str:
        return f"{self.case}: {self.words}" if self.case else self.words


async def runs_of(stage: Stage, since: datetime) -> list[WorkflowExecution]:
    """All workflow runs that began since then."""
    query = f"StartTime >= '{since.isoformat().replace('+00:00', 'Z')}'"
    return [run async for run in stage.client.list_workflows(query)]


async def judge_runs(stage: Stage, runs: Sequence[WorkflowExecution], terminated: Sequence[Ended]) -> list[Fault]:
    """Runs that did not end well, tasks that failed, histories that do not replay."""
    ended = {run.run_id for run in terminated}
    found, histories = [], []
    for run in runs:
        by_hand = run.run_id in ended and run.status is WorkflowExecutionStatus.TERMINATED
        looking = run.id.startswith((CATCH_UP_ID, SWEEP_ID)) and run.status is WorkflowExecutionStatus.RUNNING
        if run.status not in _HEALTHY and not by_hand and not looking:
            found.append(Fault("", f"{run.id} ({run.run_id}) is {run.status.name if run.status else 'unknown'}"))
        handle = stage.client.get_workflow_handle(run.id, run_id=run.run_id)
        history = await handle.fetch_history()
        histories.append(history)
        found += [Fault("", f"{run.id} ({run.run_id}) failed a task: {words}") for words in _failed_tasks(history)]
    async with replayer().workflow_replay_iterator(_each(histories)) as replayed:
        async for result in replayed:
            if result.replay_failure is not None:
                found.append(Fault("", f"{result.history.workflow_id} does not replay: {result.replay_failure}"))
    return found


async def _each(histories: Sequence[WorkflowHistory]) -> AsyncIterator[WorkflowHistory]:
    for history in histories:
        yield history


def _failed_tasks(history: WorkflowHistory) -> Iterator[str]:
    for event in history.events:
        if event.event_type != EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED:
            continue
        failed = event.workflow_task_failed_event_attributes
        if failed.cause not in _EXPECTED_TASK_FAILURES:
            yield f"{WorkflowTaskFailedCause.Name(failed.cause)}: {failed.failure.message}"


def given_up(stage: Stage, written: Mapping[str, Written]) -> set[str]:
    """The ids of what Slack will never deliver."""
    dropped = {(each.channel, each.event_ts) for each in stage.slack.deliveries.log if each.outcome == "dropped"}
    return {each.id for each in written.values() if each.event in dropped}


async def signalled(stage: Stage, run: Ended) -> set[str]:
    """The ids of what a terminated run had been told or was started with."""
    handle = stage.client.get_workflow_handle(run.workflow_id, run_id=run.run_id)
    history = (await handle.fetch_history()).to_json()
    return set(_ids_in(history))


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
