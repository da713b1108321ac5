"""The connection to Temporal, by Temporal's own environment configuration, and what every worker has in common."""

import asyncio
from typing import Any

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.client import Client
from temporalio.envconfig import ClientConfig
from temporalio.service import RetryConfig, RPCError
from temporalio.worker import Replayer, WorkflowRunner
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from threadline.contracts.payload_converter import data_converter
from threadline.domain.errors import Permanent
from threadline.workflows.bug_investigation import BugInvestigationWorkflow
from threadline.workflows.route_reply import RouteReplyWorkflow
from threadline.workflows.sla_tracking import SLATrackingWorkflow

WORKFLOWS = (BugInvestigationWorkflow, RouteReplyWorkflow, SLATrackingWorkflow)
SEARCH_ATTRIBUTES = ("CaseState", "CaseSeverity", "CaseChannel")
_CONNECT_TRIES = 8
_CONNECT_TIMEOUT = 5.0
"""Seconds for one try: something may take the connection and never say a word."""


async def temporal_client(*, retry_config: RetryConfig | None = None, tries: int = _CONNECT_TRIES) -> Client:
    """Connect as `TEMPORAL_ADDRESS`, `TEMPORAL_NAMESPACE`, `TEMPORAL_API_KEY`, `TEMPORAL_TLS_*` or a profile say.

    Raises:
        Permanent: nothing answers there, after half a minute of trying.
    """
    config: dict[str, Any] = {"target_host": "localhost:7233", **ClientConfig.load_client_connect_config()}
    for attempt in range(1, tries + 1):
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT):
                return await Client.connect(**config, data_converter=data_converter, retry_config=retry_config)
        except (RuntimeError, RPCError, TimeoutError) as error:
            if attempt == tries:
                where = config["target_host"]
                raise Permanent(
                    f"Temporal does not answer at {where}: start it, or set TEMPORAL_ADDRESS ({error})"
                ) from error
            await asyncio.sleep(min(0.1 * 2**attempt, 2.0))
    raise AssertionError("unreachable")


async def missing_search_attributes(client: Client) -> list[str]:
    """Those that workflows set and the namespace lacks: with one missing, every workflow task would fail for ever."""
    request = ListSearchAttributesRequest(namespace=client.namespace)
    try:
        known = await client.operator_service.list_search_attributes(request)
    except RPCError as error:
        raise Permanent(
            f"Temporal does not let us use the namespace {client.namespace!r} (TEMPORAL_NAMESPACE): {error.message}"
        ) from error
    keyword = IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD
    return [name for name in SEARCH_ATTRIBUTES if known.custom_attributes.get(name) != keyword]


def workflow_runner() -> WorkflowRunner:
    """The sandbox, without loading the pure modules anew for each workflow: a fifteenth of the memory and time."""
    passed = ("threadline.domain", "threadline.contracts")
    return SandboxedWorkflowRunner(restrictions=SandboxRestrictions.default.with_passthrough_modules(*passed))


def replayer() -> Replayer:
    """Replays histories against the workflows as they are now."""
    return Replayer(workflows=WORKFLOWS, data_converter=data_converter, workflow_runner=workflow_runner())
