"""The toolsets of remote services with all policies, on the product's clients, against the
sandboxes on loopback.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import aiohttp
from pydantic import SecretStr

from tests.support.faulty_sandboxes import FaultyTrackers
from tests.support.tool_fakes import Clock, MemoryLedger, context, unheld
from threadline.errors import Transient
from threadline.forge.actions import Actions
from threadline.models.model import ToolCall
from threadline.tools.context import ToolContext
from threadline.tools.model import ToolResult
from threadline.tools.registry import ToolRegistry, allowed_tools
from threadline.tools.runner import ToolRunner
from threadline.trackers.jira import JiraClient
from threadline.wiring.toolsets import REMOTE
from threadline_devstack.trackers import github as github_api
from threadline_devstack.trackers import jira as jira_api
from threadline_devstack.trackers.github import SLUG

REGISTRY = ToolRegistry(REMOTE)
ATTEMPTS = 3


class Office:
    """Calls tools as a turn does; `ledger` is the record of executions."""

    def __init__(self, sandbox: FaultyTrackers, jira: JiraClient, actions: Actions) -> None:
        self.sandbox = sandbox
        self.jira = jira
        self.actions = actions
        self.ledger = MemoryLedger()
        self.clock = Clock()
        self.others: dict[str, str] = {}
        self.services = unheld().with_service(JiraClient, jira).with_service(Actions, actions)
        self._run = self._runner(REGISTRY)

    def _runner(
        self, registry: ToolRegistry
    ) -> Callable[[ToolCall, ToolContext], Awaitable[ToolResult]]:
        return ToolRunner(
            registry, allowed_tools(registry, self.services, read_only=False), self.ledger
        ).run

    def limit_calls(self, seconds: float) -> None:
        """Give every tool this time limit."""
        self._run = self._runner(ToolRegistry([replace(tool, timeout=seconds) for tool in REMOTE]))

    async def call(
        self, name: str, *, call_id: str = "c1", retries_left: int = 0, **given: Any
    ) -> ToolResult:
        where = context(
            services=self.services,
            retries_left=retries_left,
            call_id=call_id,
            actor="Rina",
            clock=self.clock,
            co_requesters=self.others,
        )
        return await self._run(ToolCall(call_id, name, json.dumps(given)), where)

    async def persist(self, name: str, **given: Any) -> ToolResult:
        """Repeat the same call until it has a result, as Temporal retries an activity."""
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
    async with FaultyTrackers.running() as sandbox, aiohttp.ClientSession() as session:
        jira = JiraClient(
            session,
            f"{sandbox.url}/jira",
            jira_api.EMAIL,
            SecretStr(jira_api.TOKEN),
            timeout=patience,
        )
        actions = Actions(
            SLUG, SecretStr(github_api.TOKEN), f"{sandbox.url}/github", timeout=patience
        )
        yield Office(sandbox, jira, actions)
