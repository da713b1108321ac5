"""Workers and the gateway check their servers at the start, and can be stopped while they wait for
them.
"""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from unittest import mock

import pytest
from temporalio.client import Client

from tests.cli.command import MACHINE, run_command
from tests.support.patience import patient
from tests.support.temporal import connect
from threadline.errors import Permanent
from threadline.wiring import temporal as wired
from threadline.wiring.gateway import run_gateway
from threadline.wiring.workers import run_worker

NEVER = "postgresql://127.0.0.1:1/none"
CORE = {
    "SLACK_BOT_TOKEN": "xoxb-none",
    "SLACK_SIGNING_SECRET": "none",
    "THREADLINE_REPORTS_CHANNEL": "C0123456789",
    "THREADLINE_SUMMARIES_CHANNEL": "C0123456790",
    "DATABASE_URL": NEVER,
}
AGENTS = {"THREADLINE_AGENT_DATABASE_URL": NEVER, "ANTHROPIC_API_KEY": "sk-none"}


def refusal(client: Client, folder: Path, **given: str) -> str:
    """Return the error of a core worker that refuses to start on this Temporal."""
    address = client.service_client.config.target_host
    at = {
        "TEMPORAL_ADDRESS": address,
        "TEMPORAL_NAMESPACE": client.namespace,
        "THREADLINE_REPO": str(folder),
    }
    done = run_command(("worker", "--queue", "core"), CORE | at | given, folder)
    assert done.returncode == 1, done.stderr
    return done.stderr


async def test_worker_without_search_attributes_names_the_command_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await connect()
    monkeypatch.setattr(wired, "SEARCH_ATTRIBUTES", (*wired.SEARCH_ATTRIBUTES, "CaseMood"))
    told = refusal(client, tmp_path)
    assert "search-attribute create --name CaseMood --type Keyword`" in told


async def test_worker_on_another_schema_names_the_upgrade(empty_url: str, tmp_path: Path) -> None:
    assert "run `threadline db upgrade`" in refusal(
        await connect(), tmp_path, DATABASE_URL=empty_url
    )


Process = Callable[[asyncio.Event], Awaitable[None]]


@pytest.mark.parametrize(
    ("process", "given"),
    [
        (lambda stop: run_worker("core", stop), CORE),
        (lambda stop: run_worker("agents", stop), AGENTS),
        (lambda stop: run_gateway(("127.0.0.1", 0), stop), CORE),
    ],
    ids=["core", "agents", "gateway"],
)
async def test_process_that_waits_for_temporal_can_be_stopped(
    process: Process, given: dict[str, str], unused_tcp_port: int, tmp_path: Path
) -> None:
    at = {"THREADLINE_REPO": str(tmp_path), "TEMPORAL_ADDRESS": f"127.0.0.1:{unused_tcp_port}"}
    stop = asyncio.Event()
    with mock.patch.dict(os.environ, MACHINE | given | at, clear=True):
        async with silent(unused_tcp_port) as sought:
            running = asyncio.ensure_future(process(stop))
            await sought.wait()
            stop.set()
            with pytest.raises(Permanent, match=r"Stopped before Temporal answered\."):
                async with asyncio.timeout(
                    10
                ):  # the connection attempts alone would go on for 40 s
                    await running


@pytest.mark.slow
async def test_process_that_waits_for_temporal_ends_on_sigterm(
    unused_tcp_port: int, tmp_path: Path
) -> None:
    at = {"THREADLINE_REPO": str(tmp_path), "TEMPORAL_ADDRESS": f"127.0.0.1:{unused_tcp_port}"}
    async with silent(unused_tcp_port) as sought:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "threadline", "gateway", "--http", "127.0.0.1:0"),
            env=MACHINE | CORE | at,
            cwd=tmp_path,
            stderr=asyncio.subprocess.PIPE,
        )
        await sought.wait()
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(patient(10)):
            _, told = await process.communicate()
    assert told.decode().splitlines()[-1] == "threadline: Stopped before Temporal answered."


@asynccontextmanager
async def silent(port: int) -> AsyncIterator[asyncio.Event]:
    """A server that accepts connections and never answers; the event is set at the first
    connection.
    """
    sought = asyncio.Event()
    writers = list[asyncio.StreamWriter]()

    def come(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        sought.set()

    async with await asyncio.start_server(come, "127.0.0.1", port):
        yield sought
        for writer in writers:
            writer.close()
            await writer.wait_closed()
