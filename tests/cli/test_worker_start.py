"""A core worker looks at what it works on before it works: on the wrong thing every case would fail, one by one."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from temporalio.client import Client
from temporalio.common import SearchAttributeKey
from temporalio.testing import WorkflowEnvironment

from threadline.wiring.temporal import SEARCH_ATTRIBUTES
from threadline_devstack import environment

GIVEN = {
    **environment.pick(os.environ, environment.MACHINE),
    "SLACK_BOT_TOKEN": "xoxb-none",
    "THREADLINE_REPORTS_CHANNEL": "C0123456789",
    "THREADLINE_SUMMARIES_CHANNEL": "C0123456790",
}


def _start(folder: Path, **given: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "threadline", "worker", "--queue", "core"],
        env={**GIVEN, "THREADLINE_REPO": str(folder), **given},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
async def temporal(request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    """A namespace with the search attributes of these names."""
    async with await WorkflowEnvironment.start_local(
        dev_server_existing_path=str(Path(sys.executable).with_name("temporal")),
        search_attributes=[SearchAttributeKey.for_keyword(name) for name in request.param],
    ) as server:
        yield server.client


@pytest.mark.parametrize("temporal", [SEARCH_ATTRIBUTES[1:]], indirect=True)
async def test_without_its_search_attributes_it_refuses_and_says_how_to_make_them(
    temporal: Client, tmp_path: Path
) -> None:
    address = temporal.service_client.config.target_host
    never = "postgresql://127.0.0.1:1/none"
    done = await asyncio.to_thread(_start, tmp_path, TEMPORAL_ADDRESS=address, DATABASE_URL=never)
    assert done.returncode == 1, done.stderr
    assert f"search-attribute create --name {SEARCH_ATTRIBUTES[0]} --type Keyword" in done.stderr


@pytest.mark.parametrize("temporal", [SEARCH_ATTRIBUTES], indirect=True)
async def test_on_a_database_of_another_schema_it_refuses_and_says_what_to_run(
    temporal: Client, empty_url: str, tmp_path: Path
) -> None:
    address = temporal.service_client.config.target_host
    done = await asyncio.to_thread(_start, tmp_path, TEMPORAL_ADDRESS=address, DATABASE_URL=empty_url)
    assert done.returncode == 1, done.stderr
    assert "run `threadline db upgrade`" in done.stderr


@pytest.mark.parametrize("command", ["worker --queue core", "worker --queue agents", "gateway --http 127.0.0.1:0"])
async def test_a_process_that_seeks_temporal_ends_when_it_is_asked_to(
    command: str, unused_tcp_port: int, tmp_path: Path
) -> None:
    sought: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()
    never = "postgresql://127.0.0.1:1/none"
    agents = {"THREADLINE_AGENT_DATABASE_URL": never, "ANTHROPIC_API_KEY": "sk-none"}
    given = {**GIVEN, "DATABASE_URL": never, "SLACK_SIGNING_SECRET": "none"}
    if "agents" in command:
        given = environment.pick(os.environ, environment.MACHINE) | agents
    async with await asyncio.start_server(lambda _, writer: sought.put_nowait(writer), "127.0.0.1", unused_tcp_port):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "threadline", *command.split()),
            env={**given, "THREADLINE_REPO": str(tmp_path), "TEMPORAL_ADDRESS": f"127.0.0.1:{unused_tcp_port}"},
            cwd=tmp_path,
            stderr=asyncio.subprocess.PIPE,
        )
        connections = [await sought.get()]
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(10):  # the tries themselves go on for 40 s
            _, told = await process.communicate()
        while not sought.empty():
            connections.append(sought.get_nowait())
        for connection in connections:
            connection.close()
            await connection.wait_closed()
    assert told.decode().splitlines()[-1] == "threadline: Stopped before Temporal answered."
