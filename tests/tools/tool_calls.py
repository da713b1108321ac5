"""Calls of tools through the whole runner, with a ledger in memory."""

import itertools
import json
from typing import Any

from tests.support.tool_fakes import Clock, MemoryLedger, context, unheld
from threadline.models.model import ToolCall
from threadline.tools.context import Services
from threadline.tools.model import ToolResult
from threadline.tools.registry import ToolRegistry, allowed_tools
from threadline.tools.runner import ToolRunner


class Caller:
    """Makes calls whose contexts have the fields `where`."""

    def __init__(
        self,
        registry: ToolRegistry,
        services: Services,
        *,
        read_only: bool = False,
        most: int = 100,
    ) -> None:
        self.clock = Clock()
        self.services = unheld(services)
        self._registry = registry
        self._allowed = allowed_tools(
            registry, services, read_only=read_only, reason="the shelf is locked"
        )
        self._ids = (f"call_{number}" for number in itertools.count(1))
        self.use(MemoryLedger(most))

    def use(self, ledger: MemoryLedger) -> None:
        self.ledger = ledger
        self.run = ToolRunner(self._registry, self._allowed, ledger).run

    async def call(
        self,
        name: str,
        /,
        call_id: str = "",
        retries_left: int = 0,
        at: dict[str, Any] | None = None,
        **given: Any,
    ) -> ToolResult:
        """`at`: further fields of the call's context."""
        id_ = call_id or next(self._ids)
        where = {
            "services": self.services,
            "clock": self.clock,
            "call_id": id_,
            "retries_left": retries_left,
        } | (at or {})
        return await self.run(ToolCall(id_, name, json.dumps(given)), context(**where))
