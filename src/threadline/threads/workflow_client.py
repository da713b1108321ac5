"""WorkflowClient: the one way to start a workflow, or to signal it where it runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.common import (
    SearchAttributeKey,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
    WorkflowIDReusePolicy,
)
from temporalio.service import RPCError, RPCStatusCode

from threadline.errors import Permanent, Transient
from threadline.threads.model import CORE_QUEUE

CHANNEL_ATTRIBUTE = SearchAttributeKey.for_keyword("CaseChannel")
"""Of cases, conversations and jobs alike: one list in Temporal's UI shows all threads of a channel."""


@dataclass(frozen=True)
class WorkflowStart:
    """A workflow with what it starts from; the `contract.py` of each feature makes its own. `signal`, with
    `signal_args`, is delivered with the start. `channel`, Slack's id, is the search attribute `CaseChannel`. `memo` and
    `title` are shown in Temporal's UI. What is empty is left out."""

    workflow: str
    workflow_id: str
    argument: Any
    signal: str = ""
    signal_args: tuple[Any, ...] = ()
    channel: str = ""
    memo: Mapping[str, Any] | None = None
    title: str = ""


class WorkflowClient:
    """Args: `client` is connected with the data converter of the workers."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def start(self, start: WorkflowStart) -> None:
        """Start a workflow, also one that has ended. To one that runs nothing but the signal happens, if there is one.
        It returns when Temporal has accepted it. The client's timeout is for each attempt: whoever must know sooner
        puts a timeout around the call. Raises `Permanent` when Temporal refuses the request as it is, and `Transient`
        for whatever else Temporal said, or when it is away: nothing is known of the signal."""
        try:
            await self._client.start_workflow(
                start.workflow,
                start.argument,
                id=start.workflow_id,
                task_queue=CORE_QUEUE,
                id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
                id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
                start_signal=start.signal or None,
                start_signal_args=start.signal_args,
                search_attributes=in_channel(start.channel) if start.channel else None,
                memo=start.memo,
                static_summary=start.title or None,
            )
        except RPCError as error:
            raise temporal_error(error, f"start {start.workflow_id}") from error

    async def status(self, workflow_id: str) -> WorkflowExecutionStatus | None:
        """How its last run stands; None when Temporal does not know it, or any more. Raises `Transient` when Temporal
        does not say."""
        try:
            return (await self._client.get_workflow_handle(workflow_id).describe()).status
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return None
            raise Transient(f"Temporal did not report the status of {workflow_id}: {error.message}") from error

    async def listed_as_running(self, workflow_ids: Sequence[str]) -> set[str]:
        """Which of these, at most a thousand, Temporal lists as running, in one call. The list is late: it may lack one
        that has just started, and show one that has just ended. Raises `Transient` when it cannot be had."""
        ids = ", ".join(f"'{each}'" for each in workflow_ids)
        query = f"ExecutionStatus = 'Running' AND WorkflowId IN ({ids})"
        try:
            # A page that is full is followed by another call.
            return {each.id async for each in self._client.list_workflows(query, page_size=len(workflow_ids) + 1)}
        except RPCError as error:
            raise Transient(f"Temporal did not list the workflows: {error.message}") from error


def in_channel(channel: str) -> TypedSearchAttributes:
    return TypedSearchAttributes([SearchAttributePair(CHANNEL_ATTRIBUTE, channel)])


def temporal_error(error: RPCError, what: str) -> Permanent | Transient:
    """What Temporal's answer means for whoever asked it to do `what`."""
    if error.status is RPCStatusCode.INVALID_ARGUMENT:
        return Permanent(f"Temporal refuses to {what}: {error.message}")
    return Transient(f"Temporal did not {what}: {error.message}")
