"""WorkflowClient: the one way to start a workflow, or to signal a running one."""

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
"""Set for cases, conversations and jobs alike: one list in Temporal's UI shows all threads of a
channel.
"""


@dataclass(frozen=True)
class WorkflowStart:
    """A workflow with its input; the `contract.py` of each feature makes its own. Omits empty
    fields.

    - `signal`, `signal_args`: a signal that is delivered with the start;
    - `channel`: Slack's id, for the search attribute `CaseChannel`;
    - `memo`, `title`: shown in Temporal's UI.
    """

    workflow: str
    workflow_id: str
    argument: Any
    signal: str = ""
    signal_args: tuple[Any, ...] = ()
    channel: str = ""
    memo: Mapping[str, Any] | None = None
    title: str = ""


class WorkflowClient:
    """Starts and lists workflows.

    Args:
        client: connected with the data converter of the workers.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    async def start(self, start: WorkflowStart) -> None:
        """Start a workflow, also one that has ended. A running one gets only the signal, if there
        is one.

        Returns when Temporal has accepted the request. The client's timeout is for each attempt: a
        caller with less time puts its own timeout around the call.

        Raises:
            Permanent: Temporal refuses the request as it is.
            Transient: any other error of Temporal, or no answer; the signal may have arrived.
        """
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
        """Return the status of the workflow's last run; None when Temporal does not know it, or
        deleted it.

        Raises:
            Transient: Temporal does not answer.
        """
        try:
            return (await self._client.get_workflow_handle(workflow_id).describe()).status
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return None
            raise Transient(
                f"Temporal did not report the status of {workflow_id}: {error.message}"
            ) from error

    async def listed_as_running(self, workflow_ids: Sequence[str]) -> set[str]:
        """Return those of the workflows, at most a thousand, that Temporal lists as running, in
        one call. The list lags: it may lack one that has just started, and show one that has just
        ended.

        Raises:
            Transient: Temporal does not return the list.
        """
        ids = ", ".join(f"'{each}'" for each in workflow_ids)
        query = f"ExecutionStatus = 'Running' AND WorkflowId IN ({ids})"
        try:
            # A full page would cost another call.
            return {
                each.id
                async for each in self._client.list_workflows(
                    query, page_size=len(workflow_ids) + 1
                )
            }
        except RPCError as error:
            raise Transient(f"Temporal did not list the workflows: {error.message}") from error


def in_channel(channel: str) -> TypedSearchAttributes:
    return TypedSearchAttributes([SearchAttributePair(CHANNEL_ATTRIBUTE, channel)])


def temporal_error(error: RPCError, what: str) -> Permanent | Transient:
    """Translate Temporal's error for a caller that tried to do `what`."""
    if error.status is RPCStatusCode.INVALID_ARGUMENT:
        return Permanent(f"Temporal refuses to {what}: {error.message}")
    return Transient(f"Temporal did not {what}: {error.message}")
