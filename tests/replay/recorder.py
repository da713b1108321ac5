"""Records the workflows of tests marked `records(name)`: pytest's option `--record` writes their
histories again.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from temporalio.client import (
    Client,
    Interceptor,
    OutboundInterceptor,
    StartWorkflowInput,
    WorkflowHandle,
    WorkflowHistory,
)
from temporalio.service import RPCError, RPCStatusCode

Run = tuple[str, str]
"""Id of a workflow and of its run."""


class Recorder(Interceptor):
    """Notes the workflows that a test starts, and keeps the histories of their runs."""

    def __init__(self) -> None:
        self.histories: list[WorkflowHistory] = []
        self._started: dict[Run, None] = {}

    def intercept_client(
        self,
        next: OutboundInterceptor,  # noqa: A002 - the SDK's name
    ) -> OutboundInterceptor:
        started = self._started

        class Noting(OutboundInterceptor):
            async def start_workflow(
                self,
                input: StartWorkflowInput,  # noqa: A002 - the SDK's name
            ) -> WorkflowHandle[Any, Any]:
                handle = await super().start_workflow(input)
                started[handle.id, handle.result_run_id or ""] = None
                return handle

        return Noting(next)

    async def keep(self, client: Client) -> None:
        """Read the histories of all runs of this client's namespace, while the server runs."""
        waiting = {**self._started, **await _listed(client)}
        self._started.clear()
        seen: set[Run] = set()
        while waiting:
            run, _ = waiting.popitem()
            if run in seen:
                continue
            seen.add(run)
            history = await client.get_workflow_handle(run[0], run_id=run[1]).fetch_history()
            if any(
                each.HasField("workflow_task_completed_event_attributes")
                for each in history.events
            ):
                self.histories.append(history)
            waiting.update(dict.fromkeys(_leads_to(history)))
        self.histories.sort(key=lambda each: each.events[0].event_time.ToNanoseconds())


async def _listed(client: Client) -> dict[Run, None]:
    """Return the runs that the server lists. The server that skips time cannot list any."""
    try:
        return {(each.id, each.run_id): None async for each in client.list_workflows("")}
    except RPCError as error:
        if error.status is not RPCStatusCode.UNIMPLEMENTED:
            raise
        return {}


def _leads_to(history: WorkflowHistory) -> Iterator[Run]:
    """Return the runs that this one was continued from, continues as, and started as children."""
    before = history.events[
        0
    ].workflow_execution_started_event_attributes.continued_execution_run_id
    after = history.events[
        -1
    ].workflow_execution_continued_as_new_event_attributes.new_execution_run_id
    yield from ((history.workflow_id, run) for run in (before, after) if run)
    for event in history.events:
        child = event.child_workflow_execution_started_event_attributes.workflow_execution
        if child.run_id:
            yield child.workflow_id, child.run_id


_recorder: Recorder | None = None


def recorder() -> Recorder | None:
    """Return the recorder of the running test if the test is recorded."""
    return _recorder


@contextmanager
def recording() -> Iterator[Recorder]:
    global _recorder
    _recorder = Recorder()
    try:
        yield _recorder
    finally:
        _recorder = None
