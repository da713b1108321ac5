"""The stack of the chaos with the product's own limits, a database that counts statements, and swift stand-ins."""

import asyncio
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import psycopg

from bench.talk import SwiftModel
from tests.chaos.scripted import FaultRates
from tests.chaos.stack import CORES, LIMITS, ROOT, ChaosStack
from threadline_devstack.models.request import ModelRequest
from threadline_devstack.models.script import ScriptAnswer, ScriptReply
from threadline_devstack.processes import HOST, ChildCommand, FreePorts, ready_on_event

WORKERS = (*CORES, "agents")
LONGEST_TURN = 0.2
"""Seconds that a turn of the scripted agent takes at most."""
START = 600.0
"""Seconds within which a process must be ready."""
_LOUD = ("THREADLINE_ONCALL", "THREADLINE_LOG_LEVEL")
"""Of the limits of the chaos, those that shorten nothing."""
_WORD = re.compile(r"\bt\d\d[mr]\d*\b")


class ReadingModel(SwiftModel):
    """A model that names at once what was said since its last answer, as the oracle wants it."""

    async def answer(self, conversation: ModelRequest) -> ScriptAnswer:
        if conversation.schema_name:
            return await super().answer(conversation)
        words: list[str] = []
        for message in conversation.messages:
            if message.get("role") == "assistant":
                words.clear()
            elif message.get("role") == "user":
                words += _WORD.findall(str(message["content"]))
        return ScriptReply(f"I have read {', '.join(dict.fromkeys(words)) or 'nothing'}.")


def _addresses() -> dict[str, str]:
    ports = FreePorts(usual=False)
    return {name: f"{HOST}:{ports.take(0)}" for name in WORKERS}


@dataclass
class ScaleStack(ChaosStack):
    """Args: `metrics`, the addresses at which workers serve Temporal's metrics, by the worker's name."""

    metrics: dict[str, str] = field(default_factory=_addresses)
    _prepared: bool = False

    @classmethod
    @asynccontextmanager
    async def serving(cls, folder: Path, **settings: str) -> AsyncIterator[Self]:
        """Start everything. `settings`: of the product, where they are not its own defaults."""
        async with ReadingModel.running() as model, cls.running(folder) as stack:
            given = {name: value for name, value in stack.settings.items() if name not in LIMITS or name in _LOUD}
            stack.settings = given | model.settings | settings
            stack.set_rates(FaultRates(longest=LONGEST_TURN))
            await stack._count_statements()
            stack._prepared = True
            await asyncio.gather(stack.use(real=False, http=False), *(stack._start(name) for name in CORES))
            yield stack

    async def _count_statements(self) -> None:
        """Restart Postgres as it is set up for people, with its statistics of statements."""
        async with await psycopg.AsyncConnection.connect(self.settings["DATABASE_URL"], autocommit=True) as owner:
            for change in (
                "RESET fsync",
                "RESET full_page_writes",
                "SET shared_preload_libraries = pg_stat_statements",
                "SET track_io_timing = on",
            ):
                await owner.execute(f"ALTER SYSTEM {change}".encode())
        await self.stop("postgres")
        async with await psycopg.AsyncConnection.connect(self.settings["DATABASE_URL"], autocommit=True) as owner:
            for extension in ("pg_stat_statements", "pgstattuple"):
                await owner.execute(f"CREATE EXTENSION IF NOT EXISTS {extension}".encode())

    async def _start(self, name: str) -> None:
        """Start a process, but none with the limits of the chaos, and give it time on a busy machine."""
        if self._prepared:
            ready = ready_on_event("gateway_ready" if name == "gateway" else "worker_ready")
            command = (sys.executable, "-m", *self._arguments(name))
            await self.family.start(ChildCommand(name, command, self._environment(name), ready, START, folder=ROOT))

    def _arguments(self, name: str) -> tuple[str, ...]:
        if name not in WORKERS:
            return super()._arguments(name)
        return ("tests.scale.worker", "core" if name in CORES else "agents", self.metrics[name])
