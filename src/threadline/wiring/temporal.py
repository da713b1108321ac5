"""The connection to Temporal, configured by Temporal's own environment variables, and the common
parts of all workers.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import structlog
from temporalio.api.enums.v1 import IndexedValueType, TaskQueueType
from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.api.taskqueue.v1 import PollerInfo, TaskQueue
from temporalio.api.workflowservice.v1 import (
    DescribeNamespaceRequest,
    DescribeTaskQueueRequest,
    DescribeTaskQueueResponse,
)
from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleIntervalSpec,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleSpec,
    ScheduleUpdate,
    ScheduleUpdateInput,
)
from temporalio.converter import (
    DataConverter,
    DefaultFailureConverter,
    DefaultFailureConverterWithEncodedAttributes,
)
from temporalio.envconfig import ClientConfig
from temporalio.runtime import Runtime
from temporalio.service import KeepAliveConfig, RetryConfig, RPCError
from temporalio.worker import Replayer, WorkflowInstance, WorkflowInstanceDetails
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from threadline.approvals.contract import ApprovalActivities
from threadline.approvals.workflow import ApprovalWorkflow
from threadline.cases.contract import AgentActivities, CaseActivities, CasePostActivities
from threadline.cases.sla import SLATrackingWorkflow
from threadline.cases.workflow import BugInvestigationWorkflow
from threadline.conversations.contract import ConversationActivities, RelayActivities
from threadline.conversations.workflow import ConversationWorkflow
from threadline.errors import Permanent
from threadline.handovers.contract import HandoverActivities
from threadline.handovers.workflow import HandoverWorkflow
from threadline.jobs.contract import JobActivities
from threadline.jobs.workflow import AgentJobWorkflow
from threadline.privacy.encryption import EncryptionCodec
from threadline.privacy.keys import KeyRing
from threadline.settings import PayloadSettings
from threadline.threads.activity import until_stopped
from threadline.threads.contract import (
    CATCH_UP_ID,
    SWEEP_ID,
    SWEEP_WORKFLOW,
    CatchUpActivities,
    SweepActivities,
    SweepRequest,
    ThreadActivities,
)
from threadline.threads.model import CORE_QUEUE
from threadline.threads.payload_converter import SHARED_MODULES
from threadline.threads.payload_converter import data_converter as plain_converter
from threadline.threads.workflow import CatchUpWorkflow, RouteReplyWorkflow, SweepWorkflow

CONTRACTS = (
    CaseActivities,
    CasePostActivities,
    AgentActivities,
    ConversationActivities,
    RelayActivities,
    HandoverActivities,
    ApprovalActivities,
    JobActivities,
    CatchUpActivities,
    SweepActivities,
    ThreadActivities,
)
WORKFLOWS = (
    BugInvestigationWorkflow,
    ConversationWorkflow,
    RouteReplyWorkflow,
    SLATrackingWorkflow,
    CatchUpWorkflow,
    SweepWorkflow,
    ApprovalWorkflow,
    HandoverWorkflow,
    AgentJobWorkflow,
)
_SWEEP_TIMEOUT = timedelta(hours=1)
SEARCH_ATTRIBUTES = ("CaseState", "CaseSeverity", "CaseChannel")
POLLER_TIMEOUT = 90.0
"""Seconds after which a poller counts as gone: a live one polls again each minute, and the server
lists it for five.
"""
_CONNECT_TRIES = 8
_CONNECT_TIMEOUT = 5.0
"""Seconds for one try: a server may accept the connection and never answer."""
_KEEP_ALIVE = KeepAliveConfig(interval_millis=15_000, timeout_millis=5_000)
"""Detects a broken connection after 20 s. Temporal disconnects a client that pings more often than
every ten.
"""

_log = structlog.get_logger(__name__)


def data_converter(keys: KeyRing | None) -> DataConverter:
    """Return the data converter of every process that uses Temporal.

    Args:
        keys: where they encrypt, failures' messages and stack traces are encrypted too, and
            Temporal only sees the words "Encoded failure" and the error's type.
    """
    converter = replace(plain_converter, payload_codec=EncryptionCodec(keys))
    if keys is None or not keys.encrypts:
        return converter
    return replace(converter, failure_converter_class=DefaultFailureConverterWithEncodedAttributes)


async def temporal_client(
    *,
    retry_config: RetryConfig | None = None,
    tries: int = _CONNECT_TRIES,
    stop: asyncio.Event | None = None,
    runtime: Runtime | None = None,
) -> Client:
    """Connect by `TEMPORAL_ADDRESS`, `TEMPORAL_NAMESPACE`, `TEMPORAL_API_KEY`, `TEMPORAL_TLS_*` or
    a profile.

    Args:
        stop: ends the attempts.
        runtime: Temporal's core; None for the default one.

    Raises:
        Permanent: no server answers within half a minute, or before `stop`.
    """
    # Half a minute is longer than the usual grace period before a process is killed.
    client = await until_stopped(stop or asyncio.Event(), _connect(retry_config, tries, runtime))
    if client is None:
        raise Permanent("Stopped before Temporal answered.")
    return client


async def _connect(
    retry_config: RetryConfig | None, tries: int, runtime: Runtime | None
) -> Client:
    given = ClientConfig.load_client_connect_config()
    config: dict[str, Any] = {
        "target_host": "localhost:7233",
        "keep_alive_config": _KEEP_ALIVE,
        **given,
    }
    converter = data_converter(PayloadSettings.load().payload_keys)
    for attempt in range(1, tries + 1):
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT):
                return await Client.connect(
                    **config, data_converter=converter, retry_config=retry_config, runtime=runtime
                )
        except (RuntimeError, RPCError, TimeoutError) as error:
            if attempt == tries:
                where = f"Temporal does not answer at {config['target_host']}"
                raise Permanent(f"{where}: start it, or set TEMPORAL_ADDRESS ({error})") from error
            await asyncio.sleep(min(0.1 * 2**attempt, 2.0))
    raise AssertionError("unreachable")


async def namespace_id(client: Client) -> str:
    """Return the id that Temporal gave to the namespace at its creation; empty where Temporal does
    not return it.
    """
    # RuntimeError comes from a lazily connecting client without a server
    try:
        found = await client.workflow_service.describe_namespace(
            DescribeNamespaceRequest(namespace=client.namespace)
        )
    except (RPCError, RuntimeError) as error:
        _log.warning("namespace_not_described", reason=str(error))
        return ""
    return found.namespace_info.id


async def check_search_attributes(client: Client) -> str:
    """Check that the namespace has the search attributes of the workflows.

    Raises:
        Permanent: one is missing, so that every workflow task would fail for ever.
    """
    place = f"namespace {client.namespace!r}"
    request = ListSearchAttributesRequest(namespace=client.namespace)
    try:
        known = await client.operator_service.list_search_attributes(request)
    except RPCError as error:
        raise Permanent(
            f"Temporal refuses the {place} (TEMPORAL_NAMESPACE): {error.message}"
        ) from error
    keyword = IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD
    if missing := [
        name for name in SEARCH_ATTRIBUTES if known.custom_attributes.get(name) != keyword
    ]:
        create = " ".join(f"--name {name} --type Keyword" for name in missing)
        raise Permanent(
            f"Temporal's {place} lacks the search attributes {', '.join(missing)}: "
            f"run `temporal operator search-attribute create {create}`."
        )
    return f"{place} is reachable and has its search attributes"


async def live_pollers(
    client: Client, queue: str, kind: "TaskQueueType.ValueType"
) -> tuple[DescribeTaskQueueResponse, list[PollerInfo]]:
    """Return Temporal's description of a queue, and its live pollers."""
    request = DescribeTaskQueueRequest(
        namespace=client.namespace, task_queue=TaskQueue(name=queue), task_queue_type=kind
    )
    found = await client.workflow_service.describe_task_queue(request)
    alive = time.time() - POLLER_TIMEOUT
    return found, [poller for poller in found.pollers if poller.last_access_time.seconds > alive]


class _ContextFreeRunner(SandboxedWorkflowRunner):
    """The sandbox, for converters that ignore the context. To provide it, the SDK would enter the
    sandbox several times for each payload, which takes a tenth of the core worker's CPU.
    """

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        run = super().create_instance(det)
        stored_by = run.get_external_store_context(None)
        # The SDK has no option for either.
        run.get_serialization_context = lambda command_info: None  # type: ignore[method-assign]
        run.get_external_store_context = (  # type: ignore[method-assign]
            lambda command_info: stored_by
        )
        return run


def workflow_runner() -> SandboxedWorkflowRunner:
    """Return the sandbox, without loading `SHARED_MODULES` again for each run."""
    return _ContextFreeRunner(
        restrictions=SandboxRestrictions.default.with_passthrough_modules(*SHARED_MODULES)
    )


def replayer(runtime: Runtime | None = None) -> Replayer:
    """Return a replayer of histories against the current workflows."""
    # The caller reads the failures, so their messages are not encrypted.
    converter = replace(
        data_converter(PayloadSettings.load().payload_keys),
        failure_converter_class=DefaultFailureConverter,
    )
    return Replayer(
        workflows=WORKFLOWS,
        data_converter=converter,
        workflow_runner=workflow_runner(),
        runtime=runtime,
    )


async def ensure_schedule(client: Client, interval: float, sweeps: Sequence[str]) -> None:
    """Create or update the schedule by the settings, and start a sweep and a pass. Without the
    right to do so, only logs the error, so that the worker still does everything else.

    Args:
        interval: seconds.
        sweeps: their names.
    """
    schedule = Schedule(
        action=ScheduleActionStartWorkflow(
            SWEEP_WORKFLOW,
            SweepRequest(list(sweeps)),
            id=SWEEP_ID,
            task_queue=CORE_QUEUE,
            # a sweep delays the next one, and the pass that the next one starts
            run_timeout=_SWEEP_TIMEOUT,
        ),
        spec=ScheduleSpec(intervals=[ScheduleIntervalSpec(every=timedelta(seconds=interval))]),
        policy=SchedulePolicy(
            overlap=ScheduleOverlapPolicy.SKIP, catchup_window=timedelta(seconds=interval)
        ),
    )

    def renewed(known: ScheduleUpdateInput) -> ScheduleUpdate:
        schedule.state = known.description.schedule.state  # an admin may have paused it
        return ScheduleUpdate(schedule)

    try:
        try:
            await client.create_schedule(CATCH_UP_ID, schedule, trigger_immediately=True)
        except ScheduleAlreadyRunningError:
            handle = client.get_schedule_handle(CATCH_UP_ID)
            await handle.update(renewed)
            await handle.trigger()
    except RPCError as error:
        _log.error(
            "schedule_failed", reason=str(error), hint="Run `threadline doctor` to check it."
        )
