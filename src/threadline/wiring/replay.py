"""What a deploy asks before it rolls out: would this code go on with every workflow that is open?"""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

from temporalio.client import Client, WorkflowHistory
from temporalio.runtime import LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import Replayer

from threadline.errors import Permanent
from threadline.threads.replay_divergence import Divergence, explain, has_decisions
from threadline.wiring.temporal import replayer, temporal_client

OPEN = "ExecutionStatus = 'Running'"
FETCHES = 4
"""Histories that are fetched at once: a large one has some 50 MB."""
_TIMEOUT = 120.0
"""Seconds for one history, some fifty times what the longest that the server allows takes."""


@dataclass(frozen=True)
class ReplayVerdict:
    """`divergence` is None when the code decides as it was recorded."""

    workflow_id: str
    divergence: Divergence | None


@dataclass(frozen=True)
class ReplayRequest:
    """Which histories: files; else one workflow's newest run; else those of a query, the newest `limit` of them."""

    files: tuple[Path, ...] = ()
    workflow_id: str = ""
    query: str = OPEN
    limit: int | None = None


async def replay_histories(request: ReplayRequest) -> AsyncGenerator[ReplayVerdict, None]:
    """One after the other, as they are reached.

    Raises:
        Permanent: Temporal or the workflow is not there, or a file holds no history.
    """
    logging.getLogger("temporalio").setLevel(logging.CRITICAL)  # a verdict says it in one sentence
    judge = replayer(_silent())
    async with aclosing(_histories(request)) as histories:
        async for history in histories:
            yield ReplayVerdict(history.workflow_id, await replay_one(judge, history))


async def replay_one(judge: Replayer, history: WorkflowHistory) -> Divergence | None:
    """What a history and the code differ in; None when nothing, or when nobody has begun on it."""
    if not has_decisions(history):
        return None
    try:
        async with asyncio.timeout(_TIMEOUT):
            result = await judge.replay_workflow(history, raise_on_replay_failure=False)
            return await explain(judge, history, result.replay_failure) if result.replay_failure else None
    except TimeoutError:
        last = history.events[-1].event_id
        return Divergence(f"some event up to {last}", f"replay did not end in {_TIMEOUT:.0f} s.", "the code hangs")


def _silent() -> Runtime:
    quiet = TelemetryFilter(core_level="ERROR", other_level="ERROR")
    return Runtime(telemetry=TelemetryConfig(logging=LoggingConfig(filter=quiet)))


async def _histories(request: ReplayRequest) -> AsyncGenerator[WorkflowHistory, None]:
    if request.files:
        for file in request.files:
            yield _read(file)
        return
    client = await temporal_client()
    if request.workflow_id:
        yield await _newest_run(client, request.workflow_id)
        return
    async with aclosing(_fetched(client, request)) as histories:
        async for history in histories:
            yield history


def _read(file: Path) -> WorkflowHistory:
    try:
        return WorkflowHistory.from_json(file.stem, file.read_text(encoding="utf-8"))
    except (ValueError, KeyError) as error:
        raise Permanent(f"{file} is not a history saved by Temporal's UI or CLI: {error}") from error


async def _newest_run(client: Client, workflow_id: str) -> WorkflowHistory:
    try:
        return await client.get_workflow_handle(workflow_id).fetch_history()
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        raise Permanent(f"There is no workflow {workflow_id!r} in the namespace {client.namespace!r}.") from error


async def _fetched(client: Client, request: ReplayRequest) -> AsyncGenerator[WorkflowHistory, None]:
    """In the order of the list, some ahead of the one that is replayed."""
    ahead: list[asyncio.Task[WorkflowHistory]] = []
    try:
        async for found in client.list_workflows(request.query, limit=request.limit):
            handle = client.get_workflow_handle(found.id, run_id=found.run_id)
            ahead.append(asyncio.create_task(handle.fetch_history()))
            if len(ahead) == FETCHES:
                yield await ahead.pop(0)
        while ahead:
            yield await ahead.pop(0)
    except RPCError as error:
        raise Permanent(f"Temporal did not return the histories of {request.query!r}: {error.message}") from error
    finally:
        for task in ahead:
            task.cancel()
        await asyncio.gather(*ahead, return_exceptions=True)
