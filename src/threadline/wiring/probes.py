"""The probes of the processes, and a worker's own server for `/healthz` and `/readyz`."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import structlog
from aiohttp import web
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.client import Client
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from threadline import http_server
from threadline.db.engine import Database
from threadline.http_server import Probe, RareLog
from threadline.wiring.temporal import live_pollers

_log = structlog.stdlib.get_logger(__name__)


def temporal_answers(client: Client) -> Probe:
    """Return a probe for Temporal's server."""
    return client.service_client.check_health


def database_answers(database: Database) -> Probe:
    """Return a probe that executes a statement."""

    async def asked() -> bool:
        async with database.connect() as connection:
            return bool((await connection.exec_driver_sql("SELECT true")).scalar_one())

    return asked


class ActivitySlots(Interceptor):
    """Counts the activities that a worker runs. `total`: the most that it runs concurrently."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.used = 0

    def are_full(self) -> bool:
        return self.used >= self.total

    def intercept_activity(
        self,
        next: ActivityInboundInterceptor,  # noqa: A002 - Temporal's name
    ) -> ActivityInboundInterceptor:
        return _SlotUse(next, self)


class _SlotUse(ActivityInboundInterceptor):
    def __init__(
        self,
        next: ActivityInboundInterceptor,  # noqa: A002 - Temporal's name
        slots: ActivitySlots,
    ) -> None:
        super().__init__(next)
        self._slots = slots

    async def execute_activity(
        self,
        input: ExecuteActivityInput,  # noqa: A002 - Temporal's name
    ) -> Any:
        self._slots.used += 1
        try:
            return await super().execute_activity(input)
        finally:
            self._slots.used -= 1


def polls(
    client: Client, queue: str, kind: "TaskQueueType.ValueType", slots: ActivitySlots | None = None
) -> Probe:
    """Return a probe that Temporal's server sees this client's worker poll its queue.

    Args:
        slots: while all are in use the worker does not poll, and an answer from Temporal is
            enough.
    """

    async def asked() -> bool:
        _, pollers = await live_pollers(client, queue, kind)
        if slots and slots.are_full():
            return True
        return any(each.identity == client.identity for each in pollers)

    return asked


@dataclass
class WorkerHealth:
    """The state in a worker's `/readyz`. `probes` are added as their connections open; until
    `started` is set the worker is not ready, regardless of the probes.
    """

    probes: dict[str, Probe] = field(default_factory=dict)
    started: bool = False
    stop: asyncio.Event = field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def serving(self, address: tuple[str, int] | None) -> AsyncIterator[None]:
        """Serve at host and port until the block ends; without an address, do nothing.

        Raises:
            Permanent: the address is unavailable.
        """
        if address is None:
            yield
            return
        app = web.Application()
        app.add_routes(
            [web.get("/healthz", http_server.healthz), web.get("/readyz", self._readyz)]
        )
        broken = RareLog("requests_broken", "Nothing to do: only probes are served here.")
        async with http_server.listening(app, *address, broken, "--health") as port:
            _log.info("health_ready", port=port)
            yield

    async def _readyz(self, _: web.Request) -> web.Response:
        parts = await http_server.ask_probes(dict(self.probes))
        return http_server.readiness(
            {**parts, "taking_work": self.started and not self.stop.is_set()}
        )
