"""The probes of the processes: what each needs, and a worker's own server for `/healthz` and `/readyz`."""

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
    """Whether Temporal's server is there."""
    return client.service_client.check_health


def database_answers(database: Database) -> Probe:
    """Whether a statement is answered."""

    async def asked() -> bool:
        async with database.connect() as connection:
            return bool((await connection.exec_driver_sql("SELECT true")).scalar_one())

    return asked


class ActivitySlots(Interceptor):
    """Counts the activities that a worker runs. `total`: how many it runs at once."""

    def __init__(self, total: int) -> None:
        self.total, self.used = total, 0

    def are_full(self) -> bool:
        return self.used >= self.total

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002 - Temporal's name
        return _SlotUse(next, self)


class _SlotUse(ActivityInboundInterceptor):
    def __init__(self, next: ActivityInboundInterceptor, slots: ActivitySlots) -> None:  # noqa: A002 - Temporal's name
        super().__init__(next)
        self._slots = slots

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002 - Temporal's name
        self._slots.used += 1
        try:
            return await super().execute_activity(input)
        finally:
            self._slots.used -= 1


def polls(client: Client, queue: str, kind: "TaskQueueType.ValueType", slots: ActivitySlots | None = None) -> Probe:
    """Whether Temporal's server sees this client's worker ask for work on its queue. `slots`: while they are all in use
    the worker asks for none, and it is enough that Temporal answers."""

    async def asked() -> bool:
        _, pollers = await live_pollers(client, queue, kind)
        if slots and slots.are_full():
            return True
        return any(each.identity == client.identity for each in pollers)

    return asked


@dataclass
class WorkerHealth:
    """What a worker's `/readyz` tells. `probes` are added as their things are opened; until `started` is set the worker
    is not ready, whatever they say."""

    probes: dict[str, Probe] = field(default_factory=dict)
    started: bool = False
    stop: asyncio.Event = field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def serving(self, address: tuple[str, int] | None) -> AsyncIterator[None]:
        """Serve at host and port until the block ends; nothing without an address. Raises `Permanent` when the address
        cannot be taken."""
        if address is None:
            yield
            return
        app = web.Application()
        app.add_routes([web.get("/healthz", http_server.healthz), web.get("/readyz", self._readyz)])
        broken = RareLog("requests_broken", "Nothing: only probes are served here.")
        async with http_server.listening(app, *address, broken, "--health") as port:
            _log.info("health_ready", port=port)
            yield

    async def _readyz(self, _: web.Request) -> web.Response:
        parts = await http_server.ask_probes(dict(self.probes))
        return http_server.readiness({**parts, "taking_work": self.started and not self.stop.is_set()})
