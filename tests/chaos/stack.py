"""The devstack's real processes, each of which may be killed, stopped and started again.

The sandboxes of Slack and of the models run in the harness itself, so that the oracle sees the
same as people.
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
from typing import Any, ClassVar, Self

import psycopg
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from tests.chaos.scripted import FaultRates
from tests.support.faulty_sandboxes import FaultySlack
from threadline.db.engine import Database
from threadline.errors import Permanent
from threadline_devstack import environment, postgres, temporal
from threadline_devstack.models.sandbox import ModelSandbox
from threadline_devstack.processes import (
    HOST,
    ChildCommand,
    FreePorts,
    ProcessGroup,
    ready_on_event,
)
from threadline_devstack.sample_repository import make_sample_repository
from threadline_devstack.slack import identity
from threadline_devstack.slack.model import SandboxMessage
from threadline_devstack.state_folder import StateFolder

ROOT = Path(__file__).parents[2]
CORES = ("core-1", "core-2")

RETRIES = (0.0, 0.3, 0.6, *(1.0,) * 120)
"""Seconds before each delivery of an event that was not acknowledged.

Slack gives up after six minutes. To give up here, the sandbox drops the event at once.
"""
LIMITS = {
    "THREADLINE_REPORTER_TIMEOUT": "2s",
    "THREADLINE_DEVELOPER_TIMEOUT": "2s",
    "THREADLINE_ONCALL": identity.ON_CALL,
    "THREADLINE_LOG_LEVEL": "INFO",
    "THREADLINE_CATCH_UP_INTERVAL": "4s",
    "THREADLINE_CONVERSATION_IDLE_TIMEOUT": "2s",
    "THREADLINE_CONVERSATION_CHANNELS": identity.GENERAL,
    "THREADLINE_MUTATIONS_PER_MINUTE": "1000",
    "THREADLINE_WORKER_PATIENCE": "4s",
}
"""Short enough for silence to end waits, and the cases themselves, during the run."""


SHORT_POLLS: Mapping[str, object] = {"matching.longPollExpirationInterval": '"4s"'}
"""A running worker asks Temporal for work every 4 s, so that Temporal soon notices an absent one.
"""


class Clock:
    """Slack's clock. When `coarse`, messages of different channels have equal timestamps to the
    microsecond.
    """

    def __init__(self) -> None:
        self.coarse = False

    def __call__(self) -> float:
        now = time.time()
        return float(int(now)) if self.coarse else now


@dataclass
class ChaosStack:
    """All processes of the product and its servers. `log` records each intervention, by the second
    since 1970.
    """

    limits: ClassVar[dict[str, str]] = LIMITS
    model_class: ClassVar[type[ModelSandbox]] = ModelSandbox
    server_options: ClassVar[Mapping[str, object]] = {**temporal.UNHURRIED, **SHORT_POLLS}
    ready_within: ClassVar[float] = 60.0
    """Seconds within which a process must be ready."""

    home: StateFolder
    family: ProcessGroup
    clock: Clock
    slack: FaultySlack
    model: ModelSandbox
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
    async def running(cls, folder: Path, **given: str) -> AsyncIterator[Self]:
        """Start the servers and the core workers, and stop all at the end. `use` starts the rest.

        Args:
            given: settings of the product beyond those of the stack.
        """
        home = StateFolder(folder)
        async with AsyncExitStack() as opened:
            opened.enter_context(home.locked())
            family = ProcessGroup(home.logs)
            ports = FreePorts(usual=False)
            opened.push_async_callback(family.stop_all, [["gateway", "agents", *CORES]])
            machine = environment.pick(os.environ, environment.MACHINE) | {"PYTHONUNBUFFERED": "1"}
            clock = Clock()
            slack = await opened.enter_async_context(
                FaultySlack.running(clock=clock, retry_delays=RETRIES, ack_timeout=3.0)
            )
            model = await opened.enter_async_context(cls.model_class.running())
            server, databases = await asyncio.gather(
                temporal.start(family, home.root, ports, machine, cls.server_options),
                postgres.start(family, home.root, ports, machine),
            )
            make_sample_repository(home.repository)
            settings = (
                machine
                | model.settings
                | cls.limits
                | _settings(home, slack, server, databases)
                | given
            )
            client = await Client.connect(server.address, data_converter=pydantic_data_converter)
            database = Database(databases.owner, pool_size=4, application="oracle")
            opened.push_async_callback(database.dispose)
            stack = cls(
                home, family, clock, slack, model, settings, client, database, ports.take(0)
            )
            stack.set_rates(FaultRates())
            await stack._set_up_postgres()
            await asyncio.gather(*(stack._start(name) for name in CORES))
            supervisor = asyncio.create_task(stack._supervise())
            opened.push_async_callback(_cancelled, supervisor)
            yield stack

    async def use(self, *, real: bool, http: bool) -> None:
        """Run the gateway and the agent worker that a plan requires."""
        todo = []
        if http != self.http:
            self.http = http
            self.slack.deliveries.request_url = (
                f"http://{HOST}:{self.http_port}/slack/events" if http else ""
            )
            todo.append("gateway")
        if real != self.real:
            self.real = real
            todo.append("agents")
        await asyncio.gather(*(self._replace(name) for name in todo))

    def set_rates(self, rates: FaultRates) -> None:
        rates.write(self.home.root)

    def note(self, words: str) -> None:
        self.log.append((time.time(), words))

    def core_logs(self, since: datetime, *events: str) -> Iterator[dict[str, Any]]:
        """Yield the core workers' log entries since then under one of these names."""
        for name in CORES:
            for line in (
                (self.home.logs / f"{name}.log")
                .read_text(encoding="utf-8", errors="replace")
                .splitlines()
            ):
                if any(f'"{event}"' in line for event in events):
                    entry = json.loads(line)
                    if datetime.fromisoformat(entry["timestamp"]) >= since:
                        yield entry

    def bot_posts(self) -> list[SandboxMessage]:
        places = self.slack.workspace.channels.values()
        return [
            message for place in places for message in place.messages.values() if message.metadata
        ]

    async def kill(self, name: str) -> None:
        """Kill only this process with SIGKILL, leave its children alone, and start it again."""
        async with self._hold(name):
            self.note(f"kill -9 {name}")
            os.kill(self.family.pid(name), signal.SIGKILL)
            await self._restart(name)

    async def stop(self, name: str) -> None:
        """Stop the process as a deploy does, and start it again."""
        async with self._hold(name):
            self.note(f"stop {name}")
            await self.family.stop(name)
            await self._restart(name)

    async def send_away(self, name: str, seconds: float) -> None:
        """Stop the process, and start it again only after a while."""
        async with self._hold(name):
            self.note(f"{name} is away for {seconds:.0f} s")
            await self.family.stop(name)
            await asyncio.sleep(seconds)
            await self._restart(name)

    @property
    def workspaces(self) -> Path:
        return self.home.root / "workspaces"

    async def _set_up_postgres(self) -> None:
        """Switch fsync off: without it, the files of a killed process are still safe."""
        await self._execute(
            "ALTER SYSTEM SET fsync = off", "ALTER SYSTEM SET full_page_writes = off"
        )
        await self._execute("SELECT pg_reload_conf()")

    async def _execute(self, *statements: str) -> None:
        async with await psycopg.AsyncConnection.connect(
            self.settings["DATABASE_URL"], autocommit=True
        ) as owner:
            for statement in statements:
                await owner.execute(statement.encode())

    async def _restart(self, name: str) -> None:
        self.restarts += 1
        deadline = time.monotonic() + 60
        while True:
            try:
                await self.family.restart(name)
            except Permanent:
                # Postgres waits for the end of its last child, and a worker for its servers.
                if time.monotonic() > deadline:
                    raise
            else:
                self.note(f"{name} is back")
                return

    async def _supervise(self) -> None:
        """Restart each process that ends by itself."""
        while True:
            name = (await self.family.until_one_ends()).command.name
            if self._hold(name).locked():
                await asyncio.sleep(0.1)
                continue
            async with self._hold(name):
                self.note(f"{name} has ended by itself")
                await self._restart(name)

    def _hold(self, name: str) -> asyncio.Lock:
        return self._busy.setdefault(name, asyncio.Lock())

    async def _replace(self, name: str) -> None:
        async with self._hold(name):
            if name in self.family.names():
                await self.family.stop(name)
            await self._start(name)

    async def _start(self, name: str) -> None:
        gateway = name == "gateway"
        ready = ready_on_event("gateway_ready" if gateway else "worker_ready")
        command = (sys.executable, "-m", *self._arguments(name))
        await self.family.start(
            ChildCommand(
                name, command, self._environment(name), ready, self.ready_within, folder=ROOT
            )
        )

    def _arguments(self, name: str) -> tuple[str, ...]:
        if name == "gateway":
            return (
                "threadline",
                "gateway",
                *(("--http", f"{HOST}:{self.http_port}") if self.http else ()),
            )
        agent = "agents" if self.real else "scripted"
        return ("tests.chaos.worker", "core" if name in CORES else agent)

    def _environment(self, name: str) -> dict[str, str]:
        allowed = {"gateway": environment.GATEWAY, "agents": environment.AGENTS}.get(
            name, environment.CORE
        )
        chosen = environment.pick(self.settings, environment.MACHINE, allowed) | {
            "PYTHONUNBUFFERED": "1"
        }
        if name == "gateway" and self.http:
            chosen.pop("SLACK_APP_TOKEN")
        slots = "3" if self.real else "16"
        return chosen | ({"THREADLINE_AGENT_SLOTS": slots} if name == "agents" else {})


def key_of(post: SandboxMessage) -> str:
    """Return the key of a post of the bot; empty for messages of people."""
    return str(post.metadata["event_payload"]["key"]) if post.metadata else ""


def _settings(
    home: StateFolder,
    slack: FaultySlack,
    server: temporal.TemporalServer,
    databases: postgres.Databases,
) -> dict[str, str]:
    return {
        "SLACK_API_URL": slack.api_url,
        "SLACK_BOT_TOKEN": identity.BOT_TOKEN,
        "SLACK_APP_TOKEN": identity.APP_TOKEN,
        "SLACK_SIGNING_SECRET": identity.SIGNING_SECRET,
        "THREADLINE_REPORTS_CHANNEL": identity.REPORTS,
        "THREADLINE_SUMMARIES_CHANNEL": identity.SUMMARIES,
        "THREADLINE_ESCALATION_CHANNEL": identity.ESCALATIONS,
        "TEMPORAL_ADDRESS": server.address,
        "TEMPORAL_CONFIG_FILE": os.devnull,
        "DATABASE_URL": databases.owner,
        "THREADLINE_AGENT_DATABASE_URL": databases.agent,
        "THREADLINE_HOME": str(home.root),
        "THREADLINE_REPO": str(home.repository),
    }


async def _cancelled(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
