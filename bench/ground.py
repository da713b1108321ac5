"""The servers for all rows: Temporal's dev server, Postgres and a quiet Slack, and the product's
own processes.
"""

import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from temporalio.api.history.v1 import WorkflowExecutionStartedEventAttributes
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from bench.scale import Scale
from threadline.db.engine import Database
from threadline.gateway.router import TEMPORAL_RETRIES, EventRouter, ThreadLookup
from threadline.gateway.routes import RoutingConfig
from threadline_devstack import environment, postgres, temporal
from threadline_devstack.postgres import Databases
from threadline_devstack.processes import (
    HOST,
    ChildCommand,
    FreePorts,
    ProcessGroup,
    ReadyFields,
    ready_on_event,
)
from threadline_devstack.sample_repository import make_sample_repository
from threadline_devstack.slack import identity

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Ground:
    """The running servers. `settings` are for the product's processes; `family` has every process
    by its name.
    """

    scale: Scale
    folder: Path
    family: ProcessGroup
    ports: FreePorts
    settings: Mapping[str, str]
    databases: Databases
    database: Database
    client: Client
    slack_url: str

    @property
    def temporal_address(self) -> str:
        return self.settings["TEMPORAL_ADDRESS"]

    @property
    def router(self) -> EventRouter:
        """A router that hands events over as the gateway does."""
        return EventRouter(RoutingConfig(), self.client, ThreadLookup(self.database))

    async def first_event(
        self, workflow_id: str, run_id: str
    ) -> WorkflowExecutionStartedEventAttributes:
        """Return the first event of a run."""
        handle = self.client.get_workflow_handle(workflow_id, run_id=run_id)
        async for event in handle.fetch_history_events(page_size=1):
            return event.workflow_execution_started_event_attributes
        raise AssertionError(f"{workflow_id} has no history")

    @asynccontextmanager
    async def product(
        self, name: str, *arguments: str, module: str = "threadline", **settings: str
    ) -> AsyncIterator[ReadyFields]:
        """Run one of the product's processes, by its command: `gateway`, or `worker --queue …`.

        Args:
            module: the module to run, if it is not the product's own command.

        Yields:
            The fields of its log line about being ready; its process is `pid(name)`.
        """
        event = "gateway_ready" if name == "gateway" else "worker_ready"
        allowed = {"gateway": environment.GATEWAY, "agents": environment.AGENTS}.get(
            name, environment.CORE
        )
        given = environment.pick({**self.settings, **settings}, allowed)
        async with self._running(name, ("-m", module, *arguments), given, event) as facts:
            yield facts

    @asynccontextmanager
    async def part(
        self, module: str, *arguments: str, name: str = ""
    ) -> AsyncIterator[ReadyFields]:
        """Run a process of the benchmark, `bench.parts.<module>`, which logs `<module>_ready`."""
        command = ("-m", f"bench.parts.{module}", *arguments)
        async with self._running(name or module, command, {}, f"{module}_ready") as facts:
            yield facts

    @asynccontextmanager
    async def _running(
        self, name: str, arguments: tuple[str, ...], settings: Mapping[str, str], event: str
    ) -> AsyncIterator[ReadyFields]:
        command = ChildCommand(
            name,
            (sys.executable, *arguments),
            {**machine_environment(), **settings},
            ready_on_event(event),
            within=60,
            folder=ROOT,
        )
        try:
            yield await self.family.start(command)
        finally:
            await self.family.stop(name)

    def pid(self, name: str) -> int:
        return self.family.pid(name)


def machine_environment() -> dict[str, str]:
    """Return the environment of every process that is started here."""
    return environment.pick(os.environ, environment.MACHINE) | {"PYTHONUNBUFFERED": "1"}


@asynccontextmanager
async def ground(
    scale: Scale, folder: Path, limits: Mapping[str, Any] | None = None
) -> AsyncIterator[Ground]:
    """Start empty servers.

    Args:
        folder: for data and logs.
        limits: the dev server's dynamic configuration; None for the devstack's own.
    """
    logs = folder / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    family = ProcessGroup(logs)
    ports = FreePorts(usual=False)
    try:
        machine = machine_environment()
        chosen = temporal.UNHURRIED if limits is None else limits
        server = await temporal.start(family, folder, ports, machine, chosen)
        databases = await postgres.start(family, folder, ports, machine)
        slack = await family.start(
            ChildCommand(
                "quiet_slack",
                (sys.executable, "-m", "bench.parts.quiet_slack"),
                machine,
                ready_on_event("quiet_slack_ready"),
                folder=ROOT,
            )
        )
        repository = folder / "sample-shop.git"
        make_sample_repository(repository)
        settings = {
            "TEMPORAL_ADDRESS": server.address,
            "TEMPORAL_CONFIG_FILE": os.devnull,
            "DATABASE_URL": databases.owner,
            "THREADLINE_AGENT_DATABASE_URL": databases.agent,
            "THREADLINE_REPO": str(repository),
            "THREADLINE_HOME": str(folder / "home"),
            **slack_settings(f"{slack['url']}/api/"),
        }
        database = Database(databases.owner, pool_size=8, application="threadline-bench")
        client = await Client.connect(
            server.address, data_converter=pydantic_data_converter, retry_config=TEMPORAL_RETRIES
        )
        try:
            yield Ground(
                scale,
                folder,
                family,
                ports,
                settings,
                databases,
                database,
                client,
                str(slack["url"]),
            )
        finally:
            await database.dispose()
    finally:
        await family.stop_all([])


def slack_settings(api_url: str) -> dict[str, str]:
    """Return the product's settings for a simulated Slack; without an app token the gateway
    listens for HTTP.
    """
    return {
        "SLACK_API_URL": api_url,
        "SLACK_BOT_TOKEN": identity.BOT_TOKEN,
        "SLACK_SIGNING_SECRET": identity.SIGNING_SECRET,
        "THREADLINE_REPORTS_CHANNEL": identity.REPORTS,
        "THREADLINE_SUMMARIES_CHANNEL": identity.SUMMARIES,
        "THREADLINE_ESCALATION_CHANNEL": identity.ESCALATIONS,
        # a catch-up would find that this Slack keeps no messages
        "THREADLINE_CATCH_UP_INTERVAL": "365d",
    }


def free_address(ports: FreePorts) -> str:
    return f"{HOST}:{ports.take(0)}"
