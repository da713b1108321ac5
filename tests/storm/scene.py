"""A storm on real parts: Temporal's dev server, Postgres, the Slack sandbox, core workers in processes of their own."""

import asyncio
import os
import re
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import asyncpg
from sqlalchemy import make_url, text
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.client import Client
from temporalio.common import SearchAttributeKey
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.testing import WorkflowEnvironment

from tests.storm.agent import StormAgent
from tests.storm.core_worker import Place
from tests.storm.plan import Burst, CasePlan, case_plan, dice
from tests.workflows.environment import activities_of, binary, worker
from threadline.bootstrap.gateway import CaseThreads
from threadline.bootstrap.temporal import SEARCH_ATTRIBUTES
from threadline.contracts.bug import AgentActivities
from threadline.db.agent_turns import AgentTurns
from threadline.db.engine import Database
from threadline.devstack.processes import Command, Family, logged
from threadline.devstack.slack_sandbox import SlackSandbox, identity
from threadline.devstack.slack_sandbox.records import Message as SlackMessage
from threadline.domain import messages
from threadline.domain.addressing import AGENTS_QUEUE, Thread
from threadline.domain.messages import IncomingMessage
from threadline.gateway.dispatch import RETRIES, Dispatcher, NotAccepted
from threadline.gateway.events import Close, Message

_ROOT = Path(__file__).parents[2]
_WITH_PEOPLE = text("""
SELECT bug_id, team, channel, thread_ts FROM cases
WHERE escalated AND status IN ('escalated', 'pending_verification') ORDER BY id
""")
"""Cases that silence never resolves."""
_BACKS_OFF = re.compile(r"The agent is at work \(turn \d+\)\. \S")
"""A case whose last attempt at a turn failed for now says why behind its state."""


@dataclass(frozen=True)
class Post:
    channel: str
    message: SlackMessage
    key: str


@dataclass
class Storm:
    client: Client
    database: Database
    slack: SlackSandbox
    family: Family
    dispatcher: Dispatcher
    workers: Sequence[str]
    sent: dict[str, IncomingMessage] = field(default_factory=dict)
    """All that Temporal has accepted, by id."""

    def report(self, count: int, random: Random) -> CasePlan:
        """Put a report in the channel, and plan what is said about it in `count` messages."""
        root = self.slack.workspace.post(identity.REPORTS, identity.REPORTER, "The cart total is wrong")
        return case_plan(Thread(identity.TEAM, identity.REPORTS, root.ts), count, random)

    async def play(self, plan: CasePlan) -> None:
        for burst in plan.bursts:
            await asyncio.sleep(burst.after)
            await self._burst(plan.thread, burst)

    async def _burst(self, thread: Thread, burst: Burst) -> None:
        await asyncio.gather(*(self.deliver(thread, message) for message in burst.messages))

    async def deliver(self, thread: Thread, message: IncomingMessage) -> None:
        """As Slack does: again and again, until it is accepted."""
        route = Close(thread, message) if message.kind == messages.CLOSE else Message(thread, message)
        while True:
            try:
                await self.dispatcher.dispatch(route)
            except NotAccepted:
                await asyncio.sleep(0.1)
            else:
                self.sent[message.id] = message
                return

    def posts(self) -> list[Post]:
        """What the bot has posted, each with its channel and its key."""
        places = self.slack.workspace.channels.items()
        return [
            Post(channel, message, str(message.metadata["event_payload"]["key"]))
            for channel, place in places
            for message in place.messages.values()
            if message.metadata
        ]

    async def kill_and_replace(self, name: str) -> None:
        await self.family.kill(name)
        await self.family.restart(name)

    async def until_calm(self, seconds: float, longest: float) -> None:
        """Wait until no workflow runs, whether by silence or, where silence may not, by an operator's word.

        Args:
            seconds: for every case but those that say that they wait for the next attempt at a turn.
            longest: for those: the product waits 10, 20 and 40 s after a transient fault.
        """
        began = time.monotonic()
        while running := await self._running():
            waited = time.monotonic() - began
            told = {case: await self._details(case) for case in running} if waited > seconds else {}
            ended = set(told) - set(await self._running()) if told else set()
            told = {case: words for case, words in told.items() if case not in ended}
            waiting = any(_BACKS_OFF.search(words) for words in told.values())
            stuck = [f"{case}: {words}" for case, words in told.items() if not _BACKS_OFF.search(words)]
            if waiting:  # the clock of such a case runs with it
                stuck = [words for words in stuck if not words.startswith("sla:")]
            if stuck or waited > longest:
                raise AssertionError(f"no end after {waited:.0f} s of: {'; '.join(stuck or map(str, told.items()))}")
            await self._resolve_what_is_with_people()
            await asyncio.sleep(0.5)

    async def _details(self, workflow_id: str) -> str:
        """What Temporal's UI shows of a workflow; for one that has just ended, what it showed last."""
        handle = self.client.get_workflow_handle(workflow_id)
        answer = await handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)
        return str(answer.current_details)

    async def _running(self) -> list[str]:
        return [found.id async for found in self.client.list_workflows("ExecutionStatus = 'Running'")]

    async def _resolve_what_is_with_people(self) -> None:
        async with self.database.begin() as work:
            rows = list(await work.connection.execute(_WITH_PEOPLE))
        for row in rows:
            now = f"{time.time():.6f}"
            close = IncomingMessage(
                f"ops:{row.bug_id}:{now}", messages.CLOSE, messages.OPERATOR, "ops", "done", row.channel, now
            )
            await self.deliver(Thread(row.team, row.channel, row.thread_ts), close)


@asynccontextmanager
async def storm(
    database: Database, database_url: str, agent_pool: asyncpg.Pool, folder: Path, seed: int, *, workers: int = 2
) -> AsyncIterator[Storm]:
    """The parts, ready, with nothing said yet."""
    async with AsyncExitStack() as opened:
        environment = await opened.enter_async_context(
            await WorkflowEnvironment.start_local(
                dev_server_existing_path=binary("temporal"),
                data_converter=pydantic_data_converter,
                search_attributes=[SearchAttributeKey.for_keyword(name) for name in SEARCH_ATTRIBUTES],
                dev_server_log_level="error",
            )
        )
        slack = await opened.enter_async_context(SlackSandbox.running())
        address = environment.client.service_client.config.target_host
        family = Family(folder)
        opened.push_async_callback(family.stop_all, [])
        names = [f"core-{number}" for number in range(1, workers + 1)]
        url = make_url(database_url).render_as_string(hide_password=False)
        for name in names:
            await family.start(_core_worker(name, Place(address, url, slack.api_url, f"{seed}:{name}")))
        agent = activities_of(StormAgent(AgentTurns(agent_pool), dice(str(seed))), AgentActivities)
        await opened.enter_async_context(worker(environment, [], agent, AGENTS_QUEUE))
        gateway = await Client.connect(address, data_converter=pydantic_data_converter, retry_config=RETRIES)
        dispatcher = Dispatcher(gateway, CaseThreads(database))
        yield Storm(environment.client, database, slack, family, dispatcher, names)


def _core_worker(name: str, place: Place) -> Command:
    return Command(
        name,
        (sys.executable, "-m", "tests.storm.core_worker", place.argument()),
        {"PATH": os.defpath, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        logged("ready"),
        folder=_ROOT,
    )
