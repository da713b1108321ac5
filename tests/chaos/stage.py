"""The devstack's real processes under the harness, each of which may be killed, stopped and started again.

Slack's sandbox lives in the harness, so that the oracle sees what people see and nothing it ordered gets lost.
"""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Self

import psycopg
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from tests.chaos.hurry import INTERVAL
from threadline.db.engine import Database
from threadline.errors import Permanent
from threadline_devstack import environment, postgres, sandboxes, temporal
from threadline_devstack.clients import ModelControl
from threadline_devstack.ports import HOST, Ports
from threadline_devstack.processes import Command, Family, logged
from threadline_devstack.sample_repository import make_sample_repository
from threadline_devstack.slack import SlackSandbox, identity
from threadline_devstack.state_folder import Home

ROOT = Path(__file__).parents[2]
CORES = ("core-1", "core-2")
SERVERS = ("temporal", "postgres")

RETRIES = (0.0, 0.3, 0.6, *(1.0,) * 120)
"""Seconds before each delivery of an event that was not acknowledged.

Slack itself gives up after six minutes; where it is to give up, the sandbox drops the event at once.
"""
LIMITS = {
    "THREADLINE_REPORTER_TIMEOUT": "2s",
    "THREADLINE_DEVELOPER_TIMEOUT": "2s",
    "THREADLINE_ONCALL": identity.ON_CALL,
    "THREADLINE_LOG_LEVEL": "INFO",
    "THREADLINE_CATCH_UP_INTERVAL": INTERVAL,
    "THREADLINE_CONVERSATION_QUIET": "2s",
    "THREADLINE_CONVERSATION_CHANNELS": identity.GENERAL,
    "THREADLINE_MUTATIONS_PER_MINUTE": "1000",
}
"""Silence ends waits, and the cases themselves, amid the run."""


class Clock:
    """Slack's; when it is `coarse`, what is written in different channels has equal timestamps to the microsecond."""

    def __init__(self) -> None:
        self.coarse = False

    def __call__(self) -> float:
        now = time.time()
        return float(int(now)) if self.coarse else now


@dataclass
class Stage:
    """Everything that runs. `log` tells what was done to it, by the second since 1970."""

    home: Home
    family: Family
    clock: Clock
    slack: SlackSandbox
    settings: dict[str, str]
    client: Client
    database: Database
    http_port: int
    restarts: int = 0
    log: list[tuple[float, str]] = field(default_factory=list)
    real: bool | None = None
    http: bool | None = None
    _busy: dict[str, asyncio.Lock] = field(default_factory=dict)

    @classmethod
    @asynccontextmanager
    async def running(cls, folder: Path) -> AsyncIterator[Self]:
        """The servers and the core workers are up for as long as the block runs; `play` brings the rest."""
        home = Home(folder)
        async with AsyncExitStack() as opened:
            opened.enter_context(home.held())
            family, ports = Family(home.logs), Ports(usual=False)
            opened.push_async_callback(family.stop_all, [["gateway", "agents", *CORES]])
            machine = environment.pick(os.environ, environment.MACHINE) | {"PYTHONUNBUFFERED": "1"}
            clock = Clock()
            slack = await opened.enter_async_context(
                SlackSandbox.running(clock=clock, retry_delays=RETRIES, ack_timeout=3.0)
            )
            server, databases, model = await asyncio.gather(
                temporal.start(family, home.root, ports, machine),
                postgres.start(family, home.root, ports, machine),
                sandboxes.start_model(family, ports, machine, 0.0),
            )
            _without_fsync(databases.owner)
            make_sample_repository(home.repository)
            settings = machine | model | LIMITS | _slack(slack) | _places(home, server, databases)
            client = await Client.connect(server.address, data_converter=pydantic_data_converter)
            database = Database(databases.owner, pool_size=4, application="oracle")
            opened.push_async_callback(database.dispose)
            stage = cls(home, family, clock, slack, settings, client, database, ports.take(0))
            stage.suffer({})
            await asyncio.gather(*(stage._start(name) for name in CORES))
            keeping = asyncio.create_task(stage._keep())
            opened.push_async_callback(_ended, keeping)
            yield stage

    async def set_for(self, *, real: bool, http: bool) -> None:
        """Have the gateway and the agent worker that a run wants."""
        todo = []
        if http != self.http:
            self.http = http
            self.slack.deliveries.request_url = f"http://{HOST}:{self.http_port}/slack/events" if http else ""
            todo.append("gateway")
        if real != self.real:
            self.real = real
            todo.append("agents")
        await asyncio.gather(*(self._replace(name) for name in todo))

    def suffer(self, what: Mapping[str, Mapping[str, Any]]) -> None:
        """What the workers are to suffer from now on; see `product` and `scripted`."""
        new = self.home.root / "chaos.json.new"
        new.write_text(json.dumps(what))
        new.replace(self.home.root / "chaos.json")

    def say(self, words: str) -> None:
        self.log.append((time.time(), words))

    def told(self, name: str, since: datetime, *events: str) -> Iterator[dict[str, Any]]:
        """What a process has logged since then under one of these names."""
        for line in (self.home.logs / f"{name}.log").read_text(encoding="utf-8", errors="replace").splitlines():
            if any(f'"{event}"' in line for event in events):
                told = json.loads(line)
                if datetime.fromisoformat(told["timestamp"]) >= since:
                    yield told

    async def kill(self, name: str) -> None:
        """SIGKILL for this process alone, and another one in its place; what it had started is left to itself."""
        async with self._hold(name):
            self.say(f"kill -9 {name}")
            os.kill(self.family.pid(name), signal.SIGKILL)
            await self._again(name)

    async def stop(self, name: str) -> None:
        """Ask it to end as a deploy does, and start it again."""
        async with self._hold(name):
            self.say(f"stop {name}")
            await self.family.stop(name)
            await self._again(name)

    @property
    def model(self) -> ModelControl:
        return ModelControl(self.settings["ANTHROPIC_BASE_URL"])

    @property
    def workspaces(self) -> Path:
        return self.home.root / "workspaces"

    async def _again(self, name: str) -> None:
        self.restarts += 1
        deadline = time.monotonic() + 60
        while True:
            try:
                await self.family.restart(name)
            except Permanent:
                # Postgres waits until the last of its children has noticed; a worker until its servers are back.
                if time.monotonic() > deadline:
                    raise
            else:
                self.say(f"{name} is back")
                return

    async def _keep(self) -> None:
        """Start what has ended by itself, as a machine's supervisor does."""
        while True:
            name = (await self.family.until_one_ends()).command.name
            if self._hold(name).locked():
                await asyncio.sleep(0.1)
                continue
            async with self._hold(name):
                self.say(f"{name} has ended by itself")
                await self._again(name)

    def _hold(self, name: str) -> asyncio.Lock:
        return self._busy.setdefault(name, asyncio.Lock())

    async def _replace(self, name: str) -> None:
        async with self._hold(name):
            if name in self._known():
                await self.family.stop(name)
            await self._start(name)

    def _known(self) -> set[str]:
        return set(self.family.names())

    async def _start(self, name: str) -> None:
        gateway = name == "gateway"
        ready = logged("gateway_ready" if gateway else "worker_ready")
        command = (sys.executable, "-m", *self._arguments(name))
        await self.family.start(Command(name, command, self._environment(name), ready, within=60, folder=ROOT))

    def _arguments(self, name: str) -> tuple[str, ...]:
        if name == "gateway":
            return ("threadline", "gateway", *(("--http", f"{HOST}:{self.http_port}") if self.http else ()))
        part = "core" if name in CORES else "agents" if self.real else "scripted"
        return ("tests.chaos.product", part)

    def _environment(self, name: str) -> dict[str, str]:
        allowed = {"gateway": environment.GATEWAY, "agents": environment.AGENTS}.get(name, environment.CORE)
        chosen = environment.pick(self.settings, environment.MACHINE, allowed) | {"PYTHONUNBUFFERED": "1"}
        if name == "gateway" and self.http:
            chosen.pop("SLACK_APP_TOKEN")
        slots = "3" if self.real else "16"
        return chosen | ({"THREADLINE_AGENT_SLOTS": slots} if name == "agents" else {})


def _slack(slack: SlackSandbox) -> dict[str, str]:
    return {
        "SLACK_API_URL": slack.api_url,
        "SLACK_BOT_TOKEN": identity.BOT_TOKEN,
        "SLACK_APP_TOKEN": identity.APP_TOKEN,
        "SLACK_SIGNING_SECRET": identity.SIGNING_SECRET,
        "THREADLINE_REPORTS_CHANNEL": identity.REPORTS,
        "THREADLINE_SUMMARIES_CHANNEL": identity.SUMMARIES,
        "THREADLINE_ESCALATION_CHANNEL": identity.ESCALATIONS,
    }


def _places(home: Home, server: temporal.TemporalServer, databases: postgres.Databases) -> dict[str, str]:
    return {
        "TEMPORAL_ADDRESS": server.address,
        "TEMPORAL_CONFIG_FILE": os.devnull,
        "DATABASE_URL": databases.owner,
        "THREADLINE_AGENT_DATABASE_URL": databases.agent,
        "THREADLINE_HOME": str(home.root),
        "THREADLINE_REPO": str(home.repository),
    }


def _without_fsync(url: str) -> None:
    """Killed processes lose nothing that the operating system has; only the machine's own end would need it."""
    with psycopg.connect(url, autocommit=True) as connection:
        for setting in ("fsync", "full_page_writes"):
            connection.execute(f"ALTER SYSTEM SET {setting} = off".encode())
        connection.execute("SELECT pg_reload_conf()")


async def _ended(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
