"""Calls of tools through the whole runner, with a ledger in memory."""

import itertools
import json
from typing import Any

from tests.support.tool_fakes import Clock, MemoryLedger, context
from threadline.models.model import ToolCall
from threadline.tools.access import allowed
from threadline.tools.context import Ports
from threadline.tools.model import ToolResult
from threadline.tools.registry import Registry
from threadline.tools.runner import ToolRunner


class Caller:
    """`where`: fields of every call's context."""

    def __init__(
        self,
        registry: Registry,
        ports: Ports,
        *,
        read_only: bool = False,
        most: int = 100,
    ) -> None:
        self.clock = Clock()
        self.ports, self._registry = ports, registry
        self._allowed = allowed(registry, ports, read_only=read_only, because="the shelf is locked")
        self._ids = (f"call_{number}" for number in itertools.count(1))
        self.use(MemoryLedger(most))

    def use(self, ledger: MemoryLedger) -> None:
        self.ledger = ledger
        self.run = ToolRunner(self._registry, self._allowed, ledger).run

    async def call(
        self, name: str, /, call_id: str = "", retries_left: int = 0, at: dict[str, Any] | None = None, **given: Any
    ) -> ToolResult:
        """`at`: other fields of the call's context."""
        id_ = call_id or next(self._ids)
        where = {"ports": self.ports, "clock": self.clock, "call_id": id_, "retries_left": retries_left} | (at or {})
        return await self.run(ToolCall(id_, name, json.dumps(given)), context(**where))
