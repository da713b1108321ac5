"""`/healthz` and `/readyz` of a worker that runs as a process, and the format of its logs."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from aiohttp import ClientSession
from sqlalchemy import make_url
from temporalio import activity, workflow
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.worker import Worker

from tests.support.postgres import Postgres
from tests.support.temporal import connect, until
from threadline.errors import Permanent
from threadline.wiring.probes import ActivitySlots, WorkerHealth, polls
from threadline.wiring.temporal import live_pollers
from threadline_devstack import environment

pytestmark = pytest.mark.asyncio(loop_scope="session")

Json = dict[str, Any]


class Cable:
    """A TCP proxy that can be cut."""

    def __init__(self, address: str) -> None:
        self._host, _, self._port = address.rpartition(":")
        self._writers = list[asyncio.StreamWriter]()
        self.whole = True

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.whole:
            writer.close()
            return
        far_reader, far_writer = await asyncio.open_connection(self._host, int(self._port))
        self._writers += [writer, far_writer]
        await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))

    def cut(self) -> None:
        self.whole = False
        for writer in self._writers:
            writer.close()
        self._writers.clear()

    @asynccontextmanager
    async def laid(self) -> AsyncIterator[str]:
        async with await asyncio.start_server(self.connected, "127.0.0.1", 0) as server:
            yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
            self.cut()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except (ConnectionError, RuntimeError):  # the other end is closed
        pass
    writer.close()


class RunningWorker:
    """The agents' worker as a process. `log`: its lines."""

    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        self.process = process
        self.log = list[str]()
        self._url = f"http://127.0.0.1:{port}"
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.process.stdout
        async for line in self.process.stdout:
            self.log.append(line.decode())

    async def ask(self, path: str) -> tuple[int, Json]:
        async with ClientSession() as http, http.get(self._url + path) as answer:
            return answer.status, await answer.json()

    async def until_ready(self, parts: Json) -> None:
        """Wait until `/readyz` returns these checks."""

        async def tells() -> bool:
            try:
                status, told = await self.ask("/readyz")
            except OSError:
                return False
            return told == parts and status == (200 if all(parts.values()) else 503)

        await until(tells, "`/readyz` tells it", seconds=60)

    async def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        code = await self.process.wait()
        await self._reading
        return code


@asynccontextmanager
async def running(
    agent_url: str, temporal: str, namespace: str, folder: Path, port: int
) -> AsyncIterator[RunningWorker]:
    given = {
        "THREADLINE_AGENT_DATABASE_URL": agent_url,
        "ANTHROPIC_API_KEY": "sk-none",
        "THREADLINE_REPO": str(folder),
        "THREADLINE_HOME": str(folder / "home"),
        "TEMPORAL_ADDRESS": temporal,
        "TEMPORAL_NAMESPACE": namespace,
    }
    process = await asyncio.create_subprocess_exec(
        *(
            sys.executable,
            "-m",
            "threadline",
            "worker",
            "--queue",
            "agents",
            "--health",
            f"127.0.0.1:{port}",
        ),
        env=environment.pick(os.environ, environment.MACHINE) | given,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    worker = RunningWorker(process, port)
    try:
        yield worker
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def allow_connections(postgres: Postgres, url: str, *, allowed: bool) -> None:
    name = make_url(url).database
    with psycopg.connect(postgres.url_of("postgres"), autocommit=True) as owner:
        owner.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS {allowed}'.encode())
        if not allowed:
            owner.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s",
                (name,),
            )


READY = {"agents_database": True, "agents_polls": True, "taking_work": True}


async def test_worker_reports_missing_connections_and_logs_only_json(
    postgres: Postgres, agent_url: str, tmp_path: Path, unused_tcp_port: int
) -> None:
    client = await connect()
    cable = Cable(client.service_client.config.target_host)
    async with (
        cable.laid() as temporal,
        running(agent_url, temporal, client.namespace, tmp_path, unused_tcp_port) as worker,
    ):
        await worker.until_ready(READY)
        assert await worker.ask("/healthz") == (200, {"alive": True})

        allow_connections(postgres, agent_url, allowed=False)
        try:
            await worker.until_ready(READY | {"agents_database": False})
        finally:
            allow_connections(postgres, agent_url, allowed=True)
        await worker.until_ready(READY)

        cable.cut()
        await worker.until_ready(READY | {"agents_polls": False})
        assert (await worker.ask("/healthz"))[0] == 200

        async def core_has_logged() -> bool:
            return any("temporalio.core" in line for line in worker.log)

        await until(core_has_logged, "Temporal's core logs", seconds=60)
        cable.whole = True
        await worker.until_ready(READY)
        assert await worker.end() == 0, worker.log

    entries = [json.loads(line) for line in worker.log]
    core = [entry for entry in entries if entry["logger"] == "temporalio.core"]
    assert core
    for entry in core:
        assert entry["level"] in ("warning", "error")
        assert entry["target"].startswith("temporalio")
        assert entry["timestamp"]
        assert "temporal_log" not in entry


async def test_worker_that_stops_is_alive_and_not_ready(unused_tcp_port: int) -> None:
    health = WorkerHealth()
    async with health.serving(("127.0.0.1", unused_tcp_port)), ClientSession() as http:

        async def ready() -> tuple[int, Json]:
            async with http.get(f"http://127.0.0.1:{unused_tcp_port}/readyz") as answer:
                return answer.status, await answer.json()

        assert await ready() == (503, {"taking_work": False})
        health.started = True
        assert await ready() == (200, {"taking_work": True})
        health.stop.set()
        assert await ready() == (503, {"taking_work": False})
        async with http.get(f"http://127.0.0.1:{unused_tcp_port}/healthz") as answer:
            assert answer.status == 200


async def test_probe_that_hangs_or_fails_counts_as_no(
    unused_tcp_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("threadline.http_server.PROBE_TIMEOUT", 0.1)

    async def hangs() -> bool:
        await asyncio.sleep(60)
        return True

    async def fails() -> bool:
        raise RuntimeError("the pool is closed")

    health = WorkerHealth({"hangs": hangs, "fails": fails}, started=True)
    async with (
        health.serving(("127.0.0.1", unused_tcp_port)),
        ClientSession() as http,
        http.get(f"http://127.0.0.1:{unused_tcp_port}/readyz") as answer,
    ):
        assert (answer.status, await answer.json()) == (
            503,
            {"hangs": False, "fails": False, "taking_work": True},
        )


async def test_health_address_that_is_taken_is_named(unused_tcp_port: int) -> None:
    async with WorkerHealth().serving(("127.0.0.1", unused_tcp_port)):
        with pytest.raises(Permanent, match="--health: cannot listen"):
            async with WorkerHealth().serving(("127.0.0.1", unused_tcp_port)):
                pass


@workflow.defn(name="HoldsASlot", sandboxed=False)
class HoldsASlot:
    @workflow.run
    async def run(self) -> None:
        await workflow.execute_activity("hold", start_to_close_timeout=timedelta(minutes=5))


async def test_worker_whose_slots_are_all_in_use_is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("threadline.wiring.temporal.POLLER_TIMEOUT", 1.0)
    client = await connect()
    queue = "busy-agents"
    began = asyncio.Event()
    free = asyncio.Event()
    slots = ActivitySlots(1)
    kind = TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY

    @activity.defn(name="hold")
    async def hold() -> None:
        began.set()
        await free.wait()

    async def no_poll_is_seen() -> bool:
        return not (await live_pollers(client, queue, kind))[1]

    async with (
        Worker(client, task_queue=queue, workflows=[HoldsASlot]),
        Worker(
            client,
            task_queue=queue,
            activities=[hold],
            max_concurrent_activities=1,
            interceptors=[slots],
        ),
    ):
        ready = polls(client, queue, kind, slots)
        holding = await client.start_workflow("HoldsASlot", id="holds-a-slot", task_queue=queue)
        await began.wait()
        await until(no_poll_is_seen, "Temporal lists no poller", seconds=60)
        assert slots.are_full()
        assert await ready()
        assert not await polls(client, queue, kind)(), (
            "a worker with a free slot would not be ready"
        )
        free.set()
        await holding.result()
        assert not slots.are_full()
