"""Real parts for the gateway's tests: a Temporal dev server, ways in which it can be away, and a free port."""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.testing import WorkflowEnvironment

from threadline.domain.addressing import Thread
from threadline.gateway.dispatch import CASE_CHANNEL, RETRIES, ThreadLookup


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def temporal() -> AsyncIterator[Client]:
    """A client of a dev server; no worker runs, since accepting a message needs none."""
    async with await WorkflowEnvironment.start_local(
        dev_server_existing_path=str(Path(sys.executable).with_name("temporal")),
        data_converter=pydantic_data_converter,
        retry_config=RETRIES,
        search_attributes=[CASE_CHANNEL],
    ) as environment:
        yield environment.client


@pytest_asyncio.fixture(loop_scope="session", params=["refuses", "stalls"])
async def absent_temporal(request: pytest.FixtureRequest, unused_tcp_port: int) -> AsyncIterator[Client]:
    """A client of a Temporal that is away: nothing listens, or what listens never answers."""
    connections: list[asyncio.StreamWriter] = []
    server = None
    if request.param == "stalls":
        server = await asyncio.start_server(lambda _, writer: connections.append(writer), "127.0.0.1", unused_tcp_port)
    yield await Client.connect(
        f"127.0.0.1:{unused_tcp_port}", lazy=True, data_converter=pydantic_data_converter, retry_config=RETRIES
    )
    for writer in connections:
        writer.close()
    if server:
        server.close()


class KnownThreads(ThreadLookup):
    """The cases of developers' threads by the thread's `ts`; can be told to fail or to take its time."""

    def __init__(self) -> None:
        self.cases: dict[str, Thread] = {}
        self.fails = False
        self.hangs = False

    async def find(self, team: str, channel: str, thread_ts: str) -> Thread | None:
        if self.fails:
            raise ConnectionRefusedError("the database is away")
        if self.hangs:
            await asyncio.Event().wait()
        return self.cases.get(thread_ts)


@pytest.fixture
def threads() -> KnownThreads:
    return KnownThreads()
