"""Checks before a deploy whether the new code can continue every open workflow."""

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowHistory
from temporalio.runtime import LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import Replayer

from threadline.errors import Permanent
from threadline.wiring.temporal import replayer, temporal_client

OPEN = "ExecutionStatus = 'Running'"
FETCHES = 4
"""Histories that are fetched concurrently: a large one has about 50 MB."""
_TIMEOUT = 120.0
"""Seconds for one history, about fifty times the time of the longest one that the server
allows.
"""

_TRIES = 3
_TOO_SLOW = "TMPRL1101"
"""The SDK's number for a workflow task that did not yield in time."""
_MESSAGES = re.compile(r'Failure \{ message: "((?:[^"\\]|\\.)*)"')
_NAMED = re.compile(r"HistoryEvent\(id: (\d+)")
_QUOTED = re.compile(r"scheduled event '([^']+)'")

_ADD_GATE = "a step was added, removed, moved or changed: put it behind a gate (workflow.patched)"
_KEEP_CODE = (
    "keep a workflow's code until its last run has ended; another product's workflows are left "
    "out by --query"
)
_RESTORE_DATA = (
    "the recorded data cannot be read: a key is missing that the workers have, or a field was "
    "removed or renamed, or added without a default"
)
_MEND_CODE = "the code raises there, and the workflow would hang in the worker: fix the code"


async def replay_histories(
    files: Sequence[Path], workflow_id: str, query: str, limit: int | None
) -> AsyncGenerator[tuple[str, str], None]:
    """Yield the id of each workflow, and the divergence of the code from its history; empty
    without one.

    The source is, in this order: files; else one workflow's newest run; else the matches of a
    query.

    Args:
        files: histories that Temporal's UI or CLI saved.
        workflow_id: empty for none.
        query: in Temporal's list filter.
        limit: the number of the query's newest matches; None for all.

    Raises:
        Permanent: the workflow does not exist, Temporal does not answer, or a file has no history.
    """
    # the verdict has the cause in one sentence
    logging.getLogger("temporalio").setLevel(logging.CRITICAL)
    quiet = TelemetryFilter(core_level="ERROR", other_level="ERROR")
    ours = replayer(Runtime(telemetry=TelemetryConfig(logging=LoggingConfig(filter=quiet))))
    async with aclosing(_histories(files, workflow_id, query, limit)) as histories:
        async for history in histories:
            yield history.workflow_id, await replay_one(ours, history)


async def replay_one(replayer: Replayer, history: WorkflowHistory) -> str:
    """Return the divergence of the code from a history; empty without one, or when no worker has
    begun the workflow.
    """
    if not _task_starts(history):
        return ""  # replaying a history without a workflow task would wait for ever
    try:
        async with asyncio.timeout(_TIMEOUT):
            failure = await _replay(replayer, history)
            return await explain_divergence(replayer, history, failure) if failure else ""
    except TimeoutError:
        last = history.events[-1].event_id
        took = f"replay did not end in {_TIMEOUT:.0f} s."
        return f"at some event up to {last}: {took} Likely cause: the code hangs."


async def _replay(replayer: Replayer, history: WorkflowHistory) -> Exception | None:
    """Replay a history, and return its failure.

    A task that takes more than two seconds counts as a deadlock for the SDK. On a busy machine
    the next replay may be faster.
    """
    failure: Exception | None = None
    for _ in range(_TRIES):
        result = await replayer.replay_workflow(history, raise_on_replay_failure=False)
        failure = result.replay_failure
        if failure is None or _TOO_SLOW not in str(failure):
            break
    return failure


async def _histories(
    files: Sequence[Path], workflow_id: str, query: str, limit: int | None
) -> AsyncGenerator[WorkflowHistory, None]:
    for file in files:
        try:
            history = WorkflowHistory.from_json(file.stem, file.read_text(encoding="utf-8"))
        except (ValueError, KeyError) as error:
            raise Permanent(
                f"{file} is not a history saved by Temporal's UI or CLI: {error}"
            ) from error
        yield history
    if files:
        return
    client = await temporal_client()
    if workflow_id:
        try:
            history = await client.get_workflow_handle(workflow_id).fetch_history()
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            raise Permanent(
                f"There is no workflow {workflow_id!r} in the namespace {client.namespace!r}."
            ) from error
        yield history
        return
    async with aclosing(_fetched(client, query, limit)) as histories:
        async for history in histories:
            yield history


async def _fetched(
    client: Client, query: str, limit: int | None
) -> AsyncGenerator[WorkflowHistory, None]:
    """Yield the histories in the order of the list, and fetch some ahead."""
    ahead: list[asyncio.Task[WorkflowHistory]] = []
    try:
        async for found in client.list_workflows(query, limit=limit):
            handle = client.get_workflow_handle(found.id, run_id=found.run_id)
            ahead.append(asyncio.create_task(handle.fetch_history()))
            if len(ahead) == FETCHES:
                yield await ahead.pop(0)
        while ahead:
            yield await ahead.pop(0)
    except RPCError as error:
        raise Permanent(
            f"Temporal did not return the histories of {query!r}: {error.message}"
        ) from error
    finally:
        for task in ahead:
            task.cancel()
        await asyncio.gather(*ahead, return_exceptions=True)


# ---- Why a history does not replay


def _task_starts(history: WorkflowHistory) -> list[int]:
    """Return the number of events up to each start of a workflow task."""
    started = EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED
    return [
        count for count, event in enumerate(history.events, start=1) if event.event_type == started
    ]


async def explain_divergence(
    replayer: Replayer, history: WorkflowHistory, failure: Exception
) -> str:
    """Find the event at which a history and the code diverge, by replaying shorter and shorter
    parts of it.

    Args:
        failure: the exception of the whole history's replay.
    """
    # The message of Temporal's core, without the structure that it prints around it.
    told = [
        found.replace('\\"', '"').replace("\\n", " ") for found in _MESSAGES.findall(str(failure))
    ]
    words = ": ".join(told[:3]) or f"{type(failure).__name__}: {failure}"
    cause = words.removeprefix("[TMPRL1100] ").rstrip(". ") + "."
    after, begun = await _first_failing(replayer, history)
    if "TMPRL1100" in words or "ondeterminis" in words:
        return _divergence(_decided(history, begun, words), cause, _ADD_GATE)
    if "is not registered" in words:
        return _divergence(history.events[0], cause, _KEEP_CODE)
    converter = replayer.config()["data_converter"]
    for event in history.events[after:begun]:
        fields = (getattr(_attributes(event), name, None) for name in ("input", "result"))
        try:
            await converter.decode(
                [payload for field in fields for payload in getattr(field, "payloads", ())]
            )
        except Exception:  # noqa: BLE001 - each converter has its own errors
            return _divergence(event, cause, _RESTORE_DATA)
    return _divergence(
        history.events[begun - 1], cause, _RESTORE_DATA if "decod" in words.lower() else _MEND_CODE
    )


def _divergence(event: HistoryEvent, cause: str, hint: str) -> str:
    kind = EventType.Name(event.event_type).removeprefix("EVENT_TYPE_").title().replace("_", "")
    shown = " ".join(filter(None, (kind, _details(event))))
    return f"at event {event.event_id} ({shown}): {cause} Likely cause: {hint}."


async def _first_failing(replayer: Replayer, history: WorkflowHistory) -> tuple[int, int]:
    """Return two positions, between which are the events that the first failing workflow task
    received. If a history ends with the start of a task, that task is not replayed.
    """
    cuts = [*_task_starts(history), len(history.events)]
    good = -1
    bad = len(cuts) - 1
    while bad - good > 1:
        middle = (good + bad) // 2
        part = WorkflowHistory(history.workflow_id, history.events[: cuts[middle]])
        result = await replayer.replay_workflow(part, raise_on_replay_failure=False)
        good, bad = (good, middle) if result.replay_failure else (middle, bad)
    return (cuts[bad - 2] if bad > 1 else 0), cuts[max(bad - 1, 0)]


def _decided(history: WorkflowHistory, begun: int, words: str) -> HistoryEvent:
    """Return the recorded event that the code does not repeat: the one that replay names, or the
    first that its task led to.
    """
    if named := _NAMED.search(words):
        return history.events[int(named.group(1)) - 1]
    commands = [
        event
        for event in history.events[begun:]
        if getattr(_attributes(event), "workflow_task_completed_event_id", 0)
    ]
    name = quoted.group(1) if (quoted := _QUOTED.search(words)) else ""
    of_that_name = [event for event in commands if name and name in _details(event)]
    return next(iter([*of_that_name, *commands]), history.events[-1])


def _attributes(event: HistoryEvent) -> Any:
    return getattr(event, event.WhichOneof("attributes") or "", None)


def _details(event: HistoryEvent) -> str:
    attributes = _attributes(event)
    for name in ("activity_type", "workflow_type"):
        if hasattr(attributes, name):
            return str(getattr(attributes, name).name)
    return str(getattr(attributes, "signal_name", "") or getattr(attributes, "marker_name", ""))
