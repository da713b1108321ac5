"""The scene of the limits: Temporal's dev server, Postgres, the Slack sandbox, and workers that
come and go.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import aiohttp
from sqlalchemy import text
from temporalio.api.enums.v1 import EventType, WorkflowTaskFailedCause
from temporalio.client import Client, WorkflowHandle
from temporalio.common import SearchAttributeKey
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker, WorkerDeploymentConfig

from tests.support.case_scene import Agent, core_activities
from tests.support.faulty_sandboxes import FaultySlack
from tests.support.temporal import GRACE, binary, running
from threadline.cases.activities import LiveCaseActivities
from threadline.cases.model import CaseLimits, bug_workflow_id
from threadline.db.engine import Database
from threadline.gateway.router import TEMPORAL_RETRIES, EventRouter, NotAccepted, ThreadLookup
from threadline.gateway.routes import Route, RouteTarget, RoutingConfig
from threadline.investigator.store import AgentStore
from threadline.slack.client import SlackClient, make_web_client
from threadline.slack.model import Thread
from threadline.threads.activity import ErrorInterceptor
from threadline.threads.activity_options import activities_of, options_by_name
from threadline.threads.model import (
    AGENTS_QUEUE,
    CORE_QUEUE,
    IncomingMessage,
    MessageKind,
    SenderType,
    message_id,
)
from threadline.wiring.temporal import CONTRACTS, SEARCH_ATTRIBUTES, WORKFLOWS, workflow_runner
from threadline.wiring.workers import WORKFLOW_TASKS
from threadline_devstack.slack import identity

_STORED = text("SELECT message_id FROM bug_conversations WHERE sender_type <> 'bot'")
_UNUSED = text("SELECT count(*) FROM bug_conversations WHERE wants_turn AND turn IS NULL")
_EXPECTED_TASK_FAILURES = ("UNHANDLED_COMMAND", "FORCE_CLOSE_COMMAND")
"""The server's causes of a failed task for a signal that came as a run was ending, or for too many
signals at once.
"""


@dataclass
class LoadScene:
    client: Client
    database: Database
    slack: FaultySlack
    agent: Agent
    web: SlackClient
    sent: dict[str, IncomingMessage] = field(default_factory=dict)
    """All that Temporal has accepted, by id."""
    refused: list[NotAccepted] = field(default_factory=list)

    def thread(self, words: str = "The cart total is wrong") -> Thread:
        """The thread of a report that is not delivered yet."""
        root = self.slack.workspace.post(identity.REPORTS, identity.REPORTER, words)
        return Thread(identity.TEAM, identity.REPORTS, root.ts)

    def report(self, thread: Thread) -> IncomingMessage:
        return self._said(thread, thread.ts, MessageKind.REPORT, "The cart total is wrong")

    def message(
        self, thread: Thread, number: int, words: str = "", kind: MessageKind = MessageKind.MESSAGE
    ) -> IncomingMessage:
        """A message of the reporter's, `number` milliseconds after the report."""
        return self._said(
            thread,
            f"{Decimal(thread.ts) + Decimal(number) / 1000:.6f}",
            kind,
            words or f"no. {number}",
        )

    def _said(self, thread: Thread, ts: str, kind: MessageKind, words: str) -> IncomingMessage:
        given = message_id(thread.team, thread.channel, ts)
        return IncomingMessage(
            given, kind, SenderType.REPORTER, identity.REPORTER, words, thread.channel, ts
        )

    def router(self, client: Client | None = None) -> EventRouter:
        """A gateway's way to Temporal."""
        return EventRouter(RoutingConfig(), client or self.client, ThreadLookup(self.database))

    async def deliver(self, thread: Thread, message: IncomingMessage, tries: int = 100) -> None:
        """As Slack does: repeated, each time later, until it is accepted."""
        route = Route(RouteTarget.CASE, thread, message)
        for attempt in range(tries):
            try:
                await self.router().deliver(route)
            except NotAccepted as refusal:
                self.refused.append(refusal)
                await asyncio.sleep(min(0.05 * 2**attempt, 2.0))
            else:
                self.sent[message.id] = message
                return
        raise AssertionError(f"{message.id} was refused {tries} times")

    async def deliver_all(
        self, said: Sequence[tuple[Thread, IncomingMessage]], at_once: int
    ) -> None:
        """Deliver in order, with this many senders at once."""
        waiting = iter(said)

        async def send() -> None:
            for thread, message in waiting:
                await self.deliver(thread, message)

        await asyncio.gather(*(send() for _ in range(at_once)))

    def handle(self, thread: Thread) -> WorkflowHandle[Any, Any]:
        return self.client.get_workflow_handle(bug_workflow_id(thread))

    @asynccontextmanager
    async def working(
        self,
        limits: CaseLimits | None = None,
        *,
        client: Client | None = None,
        workflows: Sequence[type] = WORKFLOWS,
        deployment: WorkerDeploymentConfig | None = None,
        reactions: bool = True,
        agents: bool = True,
    ) -> AsyncIterator[None]:
        """A core worker and an agent worker, as the product builds them.

        Args:
            reactions: without them a flood takes half the time, which goes to emoji.
            agents: whether an agent worker takes the turns.
        """
        served = client or self.client
        activities = core_activities(self.database, served, self.web, limits=limits)
        for each in activities if not reactions else ():
            if isinstance(live := each.__self__, LiveCaseActivities):  # type: ignore[attr-defined]  # bound methods
                live.posts.outbox.add_reactions = lambda *_: None  # type: ignore[method-assign]  # of this one outbox
        core = Worker(
            served,
            task_queue=CORE_QUEUE,
            workflows=workflows,
            activities=activities,
            interceptors=[ErrorInterceptor(options_by_name(*CONTRACTS))],
            workflow_runner=workflow_runner(),
            max_concurrent_workflow_tasks=WORKFLOW_TASKS,
            deployment_config=deployment,
            graceful_shutdown_timeout=GRACE,
        )
        async with AsyncExitStack() as opened:
            await opened.enter_async_context(running(core))
            if agents:
                played = activities_of(self.agent)
                agent = Worker(
                    served,
                    task_queue=AGENTS_QUEUE,
                    activities=played,
                    graceful_shutdown_timeout=GRACE,
                )
                await opened.enter_async_context(running(agent))
            yield

    # -- results

    async def until(
        self,
        condition: Callable[[], Awaitable[bool]],
        what: str,
        seconds: float = 30,
        every: float = 0.05,
    ) -> None:
        """Wait for a condition that is checked again and again."""
        try:
            async with asyncio.timeout(seconds):
                while not await condition():  # noqa: ASYNC110 - the other side is other processes
                    await asyncio.sleep(every)
        except TimeoutError:
            raise AssertionError(f"it did not happen in {seconds:.0f} s: {what}") from None

    async def until_stored(self, seconds: float = 30) -> None:
        """Wait until all accepted messages are stored, and all of them that need a turn were
        used.
        """

        async def all_used() -> bool:
            async with self.database.begin() as tx:
                stored = {row.message_id for row in await tx.execute(_STORED)}
                return self.sent.keys() <= stored and not await tx.scalar(_UNUSED)

        await self.until(all_used, f"{len(self.sent)} messages are stored and used", seconds)

    async def lost(self) -> list[str]:
        """Messages that were not stored exactly once."""
        async with self.database.begin() as tx:
            times = Counter(row.message_id for row in await tx.execute(_STORED))
        return [
            f"{identity} was stored {times[identity]} times"
            for identity in self.sent
            if times[identity] != 1
        ]

    async def faults(self) -> list[str]:
        """Messages that were lost or stored twice, tasks that failed, runs that broke off."""
        found = await self.lost()
        found += [
            f"a task failed: {cause}"
            for cause in await self.task_failures()
            if cause not in _EXPECTED_TASK_FAILURES
        ]
        odd = "ExecutionStatus IN ('Failed', 'Terminated', 'TimedOut', 'Canceled')"
        return found + [
            f"{run.id} is {run.status}" async for run in self.client.list_workflows(odd)
        ]

    async def task_failures(self) -> Counter[str]:
        """The number of failed tasks of cases, by cause."""
        causes = Counter[str]()
        async for run in self.client.list_workflows():
            handle = self.client.get_workflow_handle(run.id, run_id=run.run_id)
            async for event in handle.fetch_history_events():
                if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED:
                    cause = WorkflowTaskFailedCause.Name(
                        event.workflow_task_failed_event_attributes.cause
                    )
                    causes[cause.removeprefix("WORKFLOW_TASK_FAILED_CAUSE_")] += 1
        return causes

    async def runs(self, status: str) -> int:
        return (await self.client.count_workflows(f"ExecutionStatus = '{status}'")).count


async def connected(address: str) -> Client:
    """A client as a gateway has it."""
    return await Client.connect(
        address, data_converter=pydantic_data_converter, retry_config=TEMPORAL_RETRIES
    )


@asynccontextmanager
async def laid_out(
    database: Database, agent_database: Database, *server: str
) -> AsyncIterator[LoadScene]:
    """All but the workers.

    Args:
        server: dynamic configuration of Temporal's server, each as `name=value`.
    """
    async with (
        await WorkflowEnvironment.start_local(
            dev_server_existing_path=binary("temporal"),
            data_converter=pydantic_data_converter,
            search_attributes=[SearchAttributeKey.for_keyword(name) for name in SEARCH_ATTRIBUTES],
            dev_server_log_level="never",
            dev_server_extra_args=[
                word for value in server for word in ("--dynamic-config-value", value)
            ],
        ) as environment,
        FaultySlack.running() as slack,
        aiohttp.ClientSession() as session,
    ):
        address = environment.client.service_client.config.target_host
        client = await connected(address)
        web = SlackClient(make_web_client(identity.BOT_TOKEN, slack.api_url, session))
        yield LoadScene(client, database, slack, Agent(AgentStore(agent_database)), web)
