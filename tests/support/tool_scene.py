"""A user who calls tools as a turn does: through the whole runner, on real adapters and the real
Postgres.
"""

import itertools
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.support.tool_fakes import Clock, LossyLedger, context, unheld
from threadline.cases.model import CaseReaders
from threadline.db.engine import Database
from threadline.db.rate_limits import Rate
from threadline.models.model import ToolCall
from threadline.slack.model import User
from threadline.slack.users import UserDirectory
from threadline.tools.context import Services, ToolContext
from threadline.tools.model import ToolResult
from threadline.tools.registry import Tool, ToolRegistry, allowed_tools
from threadline.tools.runner import Invocation, ToolRunner

SUMMARIES = "CSUMMARIES"
_WHERE = ("team", "channel", "thread_ts", "user_id", "actor", "co_requesters")
_calls = itertools.count(1)
"""Scenes share the ledger of a database, so each call has an id of its own."""


def members(guests: Sequence[str] = ()) -> UserDirectory:
    """Return a workspace whose people are full members, except for these guests."""

    async def find(user_id: str) -> User:
        return User("T1", guest=user_id in guests, other_teams=frozenset({"T2", "T3"}))

    return UserDirectory(find)


class ToolScene:
    """`ledger` remembers calls; with `ledger.lost` set, the next result is lost, as in a crash.

    Everybody but the `guests` is a full member of the workspace, unless `services` bring a
    directory of users.
    """

    readers = CaseReaders({SUMMARIES}, "https://example.slack.com/")

    def __init__(
        self,
        database: Database,
        tools: Sequence[Tool],
        rate: Rate | None = None,
        services: Services | None = None,
        guests: Sequence[str] = (),
    ) -> None:
        self.clock = Clock()
        self.ledger = LossyLedger(database, rate)
        self._registry = ToolRegistry(tools)
        users = (services or Services()).get(UserDirectory) or members(guests)
        self._services = (
            unheld(services)
            .with_service(Database, database)
            .with_service(UserDirectory, users)
            .with_service(CaseReaders, self.readers)
        )
        self._runner = ToolRunner(
            self._registry,
            allowed_tools(self._registry, self._services, operator=True, read_only=False),
            self.ledger,
        )

    def names(self, *, read_only: bool = False) -> frozenset[str]:
        """The names of the offered tools."""
        return allowed_tools(
            self._registry, self._services, operator=True, read_only=read_only
        ).names

    async def ask(
        self, tool: str, call_id: str = "", retries_left: int = 0, **arguments: Any
    ) -> ToolResult:
        """Make one call. `team`, `user_id`, `others` and the like belong to the context, all other
        arguments to the tool.
        """
        where = {name: arguments.pop(name) for name in _WHERE if name in arguments}
        called = call_id or f"call_{next(_calls)}"
        at = context(
            **where,
            clock=self.clock,
            services=self._services,
            call_id=called,
            retries_left=retries_left,
        )
        return await self._runner.run(ToolCall(called, tool, json.dumps(arguments)), at)

    def context(self, **given: Any) -> ToolContext:
        """Return the context of a call, with these fields."""
        return context(clock=self.clock, services=self._services, **given)

    async def run_at(self, at: ToolContext, tool: str, **arguments: Any) -> ToolResult:
        """Make one call in a context."""
        return await self._runner.run(ToolCall(at.call_id, tool, json.dumps(arguments)), at)

    async def intend(self, tool: str, call_id: str, seconds: float, **arguments: Any) -> None:
        """Record a call, so many seconds ago, as an attempt does whose worker dies then."""
        at = context(clock=self.clock, services=self._services, call_id=call_id)
        call = ToolCall(call_id, tool, json.dumps(arguments))
        parsed = await self._runner.check(call, at)
        assert isinstance(parsed, Invocation), parsed.error
        logged = self._runner._logged(call, at, parsed.arguments)
        async with self.ledger.transaction() as tx:
            await self.ledger.begin(tx, replace(logged, now=logged.now - seconds))

    async def done(self, tool: str, **arguments: Any) -> Any:
        """Return the data of a call that must succeed."""
        result = await self.ask(tool, **arguments)
        assert result.success, result.error
        return result.data

    async def refused(self, tool: str, **arguments: Any) -> ToolResult:
        """Return the result of a call that must not succeed."""
        result = await self.ask(tool, **arguments)
        assert not result.success, result.data
        return result
