"""Temporal for workflow tests: a dev server for each test process, and the worker as the product
builds it.
"""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest
import temporalio.workflow
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.service import RPCError
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Interceptor, Worker, _workflow, _workflow_instance
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner

from tests.replay.recorder import Recorder, recorder
from tests.support.patience import patient
from threadline.threads.activity import ErrorInterceptor
from threadline.threads.activity_options import options_by_name
from threadline.threads.model import CORE_QUEUE, IncomingMessage
from threadline.wiring.temporal import CONTRACTS, SEARCH_ATTRIBUTES, workflow_runner
from threadline.wiring.workers import HEARTBEATS_EVERY
from threadline_devstack import tether

GRACE = timedelta(seconds=2)
"""Time for running work when a worker stops. The product's is longer; a post that is broken off
waits out its claim.
"""
LEAVES = patient(20)
"""Seconds for a worker to end."""


BATCHED = "jobs as one batch"


@pytest.fixture(params=["jobs by kind", BATCHED])
def activation_order(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the test twice: in the order in which the SDK activates a workflow, and in that of a
    later SDK.

    With the flag, a Cancel reaches every waiting coroutine together with the other events of the
    same task.
    """
    if request.param == BATCHED:
        if request.config.getoption("--record"):
            pytest.skip("histories are recorded as today's SDK orders them")
        flag = (
            _workflow_instance._WorkflowLogicFlag.PROCESS_WORKFLOW_ACTIVATION_JOBS_AS_SINGLE_BATCH
        )
        monkeypatch.setattr(_workflow, "_DEFAULT_ENABLED_WORKFLOW_LOGIC_FLAGS", frozenset({flag}))


def binary(name: str) -> str:
    """Return the path of a program that was installed beside the interpreter."""
    return str(Path(sys.executable).with_name(name))


@asynccontextmanager
async def skipping_time() -> AsyncIterator[WorkflowEnvironment]:
    """A server whose clock jumps while workflows wait, for tests of hours; each test has its own,
    since an open child stops the clock.
    """
    async with await WorkflowEnvironment.start_time_skipping(
        test_server_existing_path=binary("temporal-test-server"),
        data_converter=pydantic_data_converter,
        interceptors=_recorders(),
    ) as environment:
        kind = IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD
        await environment.client.operator_service.add_search_attributes(
            AddSearchAttributesRequest(
                namespace=environment.client.namespace,
                search_attributes=dict.fromkeys(SEARCH_ATTRIBUTES, kind),
            )
        )
        yield environment
        await _keep(environment.client)


STRIDE = timedelta(hours=6)
"""The longest skip in one request: the server has 30 s to let all timers of that time run."""


async def skip(environment: WorkflowEnvironment, duration: timedelta) -> None:
    """Let this much time pass on a server that skips time."""
    left = duration
    while left > timedelta(0):
        stride = min(left, STRIDE)
        await environment.sleep(stride)
        left -= stride


@asynccontextmanager
async def real_time() -> AsyncIterator[WorkflowEnvironment]:
    """Temporal's dev server, one for the test process; each block has a namespace of its own."""
    client = await connect(interceptors=_recorders())
    yield WorkflowEnvironment.from_client(client)
    await _keep(client)


@asynccontextmanager
async def with_schedules() -> AsyncIterator[WorkflowEnvironment]:
    """The same, on a server that runs Temporal's schedules."""
    client = await connect(_SCHEDULES, interceptors=_recorders())
    yield WorkflowEnvironment.from_client(client)
    await _keep(client)


@asynccontextmanager
async def continuing_soon() -> AsyncIterator[WorkflowEnvironment]:
    """The same, on a server that suggests to continue as new after 30 events."""
    few = "limit.historyCount.suggestContinueAsNew=30"
    client = await connect(few, interceptors=_recorders())
    yield WorkflowEnvironment.from_client(client)
    await _keep(client)


def _recorders() -> list[Recorder]:
    return [each] if (each := recorder()) else []


async def _keep(client: Client) -> None:
    if each := recorder():
        await each.keep(client)


async def connect(*options: str, **changes: Any) -> Client:
    """Return a client of an unused namespace on the dev server of this process with these
    options, each a dynamic setting of the server as `name=value`.
    """
    server = _servers.get(options)
    if server is None or not server.namespaces:
        server = _servers[options] = _start(options)
    namespace = server.namespaces.pop(0)  # in the order in which the server makes them
    given: dict[str, Any] = {"data_converter": pydantic_data_converter} | changes
    async with asyncio.timeout(patient(30)):
        while True:
            try:
                client = await Client.connect(server.address, namespace=namespace, **given)
                await client.count_workflows()
            except (RuntimeError, RPCError):  # it starts, or does not know the namespace yet
                await asyncio.sleep(0.05)
            else:
                return client


@dataclass
class _Server:
    address: str
    process: "subprocess.Popen[bytes]"
    namespaces: list[str]


_servers: dict[tuple[str, ...], _Server] = {}
_started: list[_Server] = []
_NAMESPACES = 400
_SCHEDULES = "worker.perNamespaceWorkerCount=1"
_NO_SCHEDULES = "worker.perNamespaceWorkerCount=0"
"""The server runs schedules in a worker of each namespace. Such workers keep a fifth of a core
busy for 400 namespaces without work, so most tests use a server without them.
"""
_NAMESPACES_WITH_SCHEDULES = 40


def _start(options: tuple[str, ...]) -> _Server:
    schedules = _SCHEDULES in options
    count = _NAMESPACES_WITH_SCHEDULES if schedules else _NAMESPACES
    namespaces = [f"test-{number}" for number in range(count)]
    port = _free_port()
    command = [
        binary("temporal"),
        "server",
        "start-dev",
        "--headless",
        "--ip",
        "127.0.0.1",
        "--port",
        str(port),
    ]
    command += ["--log-level", "never"]
    # By default the server fires a timer up to a second late.
    settings = ['history.timerProcessorMaxTimeShift="20ms"', *options]
    for setting in settings if schedules else [*settings, _NO_SCHEDULES]:
        command += ["--dynamic-config-value", setting]
    for name in SEARCH_ATTRIBUTES:
        command += ["--search-attribute", f"{name}=Keyword"]
    for namespace in namespaces:
        command += ["--namespace", namespace]
    # A killed test process takes its server along.
    command = [sys.executable, "-I", "-S", tether.__file__, str(os.getpid()), "-", "--", *command]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=_environment()
    )
    server = _Server(f"127.0.0.1:{port}", process, namespaces)
    _started.append(server)
    return server


def _environment() -> dict[str, str]:
    return {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def end_servers() -> None:
    """End the dev servers of this process."""
    for server in _started:
        server.process.kill()
        server.process.wait()
    _started.clear()
    _servers.clear()


class PreparedOnce(SandboxedWorkflowRunner):
    """Tries each workflow in the sandbox once in a process, not once for each worker as a worker
    does when it starts.
    """

    _prepared: ClassVar[set[type]] = set()

    def prepare_workflow(self, defn: temporalio.workflow._Definition) -> None:
        if defn.cls not in self._prepared:
            super().prepare_workflow(defn)
            self._prepared.add(defn.cls)


def sandbox_runner() -> PreparedOnce:
    return PreparedOnce(restrictions=workflow_runner().restrictions)


@asynccontextmanager
async def worker(
    environment: WorkflowEnvironment,
    workflows: Sequence[type],
    activities: Sequence[Callable[..., Any]],
    queue: str = CORE_QUEUE,
    interceptors: Sequence[Interceptor] = (),
) -> AsyncIterator[None]:
    made = Worker(
        environment.client,
        task_queue=queue,
        workflows=workflows,
        activities=activities,
        interceptors=[ErrorInterceptor(options_by_name(*CONTRACTS)), *interceptors],
        workflow_runner=sandbox_runner(),
        graceful_shutdown_timeout=GRACE,
        max_heartbeat_throttle_interval=HEARTBEATS_EVERY,
    )
    async with running(made):
        yield


@asynccontextmanager
async def running(worker: Worker) -> AsyncIterator[None]:
    """Run a worker for as long as the block lasts; it must end when it is stopped."""
    await worker.__aenter__()
    try:
        yield
    finally:
        leaving = asyncio.create_task(worker.__aexit__(None, None, None))
        done, _ = await asyncio.wait({leaving}, timeout=LEAVES)
        if not done:
            leaving.cancel()
            await asyncio.wait({leaving}, timeout=LEAVES)
        assert done, f"the worker did not end within {LEAVES} s of its stop"
        leaving.result()


async def deliver(
    client: Client,
    workflow: str,
    state: object,
    workflow_id: str,
    signal: str,
    message: IncomingMessage,
) -> None:
    """Deliver it as the gateway does."""
    await client.start_workflow(
        workflow,
        state,
        id=workflow_id,
        task_queue=CORE_QUEUE,
        start_signal=signal,
        start_signal_args=[message],
    )


async def until(condition: Callable[[], Awaitable[bool]], what: str, seconds: float = 20) -> None:
    """Wait for a condition, in real time."""
    try:
        async with asyncio.timeout(patient(seconds)):
            while not await condition():  # noqa: ASYNC110 - the other side is other processes
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"it did not happen: {what}") from None
