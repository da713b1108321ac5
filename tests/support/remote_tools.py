"""The toolsets of remote services behind all policies, on the product's clients, against the stand-ins on loopback."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import aiohttp
from pydantic import SecretStr

from tests.support.tool_fakes import Clock, MemoryLedger, context
from threadline.ci.tools import CI
from threadline.errors import Transient
from threadline.forge.actions import Actions
from threadline.models.model import ToolCall
from threadline.tools.access import allowed
from threadline.tools.context import Ports, ToolContext
from threadline.tools.model import ToolResult
from threadline.tools.registry import Registry
from threadline.tools.runner import ToolRunner
from threadline.trackers.jira import JiraClient
from threadline.trackers.tools import JIRA
from threadline.wiring.integrations import REMOTE
from threadline_devstack.trackers import Services
from threadline_devstack.trackers import github as github_api
from threadline_devstack.trackers import jira as jira_api
from threadline_devstack.trackers.github_records import SLUG

REGISTRY = Registry(REMOTE)
ATTEMPTS = 3


class Office:
    """Calls tools as a turn does; `ledger` is the record of executions."""

    def __init__(self, services: Services, jira: JiraClient, actions: Actions) -> None:
        self.services, self.jira, self.actions = services, jira, actions
        self.ledger, self.clock = MemoryLedger(), Clock()
        self.others: tuple[str, ...] = ()
        self.ports = Ports().having(JIRA, jira).having(CI, actions)
        self._run = self._runner(REGISTRY)

    def _runner(self, registry: Registry) -> Callable[[ToolCall, ToolContext], Awaitable[ToolResult]]:
        return ToolRunner(registry, allowed(registry, self.ports, read_only=False), self.ledger).run

    def limit_calls(self, seconds: float) -> None:
        """Give every tool this time limit."""
        self._run = self._runner(Registry([replace(tool, timeout=seconds) for tool in REMOTE]))

    async def call(self, name: str, *, call_id: str = "c1", retries_left: int = 0, **given: Any) -> ToolResult:
        where = context(
            ports=self.ports,
            retries_left=retries_left,
            call_id=call_id,
            actor="Rina",
            clock=self.clock,
            others=self.others,
        )
        return await self._run(ToolCall(call_id, name, json.dumps(given)), where)

    async def persist(self, name: str, **given: Any) -> ToolResult:
        """The same call until it has a result, as an activity is tried again."""
        for left in reversed(range(ATTEMPTS)):
            try:
                return await self.call(name, retries_left=left, **given)
            except Transient as fault:
                if not left:
                    raise
                self.clock.advance(fault.retry_after or 1)
        raise AssertionError


@asynccontextmanager
async def opened(patience: int = 10) -> AsyncIterator[Office]:
    """`patience`: seconds that the clients wait for an answer."""
    async with Services.running() as services, aiohttp.ClientSession() as session:
        jira = JiraClient(session, f"{services.url}/jira", jira_api.EMAIL, SecretStr(jira_api.TOKEN), timeout=patience)
        actions = Actions(SLUG, SecretStr(github_api.TOKEN), f"{services.url}/github", timeout=patience)
        yield Office(services, jira, actions)
