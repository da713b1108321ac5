"""The floor of a conversation: the product's own steps one after the other in one process, without
Temporal.

`python -m bench.parts.one_process`, with a core worker's settings. Each POST is a message. The
response comes after the answer is in Slack and the operator's turn is remembered, with the seconds
in the database and in each step.
"""

import asyncio
import json
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TypeVar

from aiohttp import web
from temporalio.testing import ActivityEnvironment

from threadline import telemetry
from threadline.cli import process
from threadline.conversations.activities import LiveConversationActivities
from threadline.conversations.contract import (
    ActRequest,
    BegunTurn,
    DecideRequest,
    StoreRequest,
    ThinkRequest,
)
from threadline.conversations.model.conversation import (
    ConversationInput,
    ConversationSnapshot,
    ConversationTurn,
    Execution,
    NoticeReason,
)
from threadline.conversations.model.turn_route import Agent
from threadline.conversations.turn import Turn
from threadline.db.engine import Database, Transaction
from threadline.decisions.model import NextStep
from threadline.models.model import ModelReply, ToolCall, ToolChoice
from threadline.settings import LogSettings
from threadline.slack.model import Thread
from threadline.threads.model import IncomingMessage
from threadline.threads.outbox import Outbox
from threadline.tools.context import Services
from threadline.wiring.conversations import open_conversations, with_access
from threadline.wiring.core import connect_core
from threadline.wiring.core_settings import CoreSettings
from threadline.wiring.temporal import temporal_client
from threadline_devstack.processes import HOST

Argument = TypeVar("Argument")
Value = TypeVar("Value")


class TimedDatabase(Database):
    """Adds up the seconds of its units of work, from the request for a connection to the
    commit.
    """

    taken = 0.0

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[Transaction]:
        began = time.perf_counter()
        try:
            async with super().begin() as tx:
                yield tx
        finally:
            self.taken += time.perf_counter() - began


class Steps:
    """Runs activities as functions, and adds up their seconds by name. Their calls to Temporal
    have no effect.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    async def run(
        self, activity: Callable[[Argument], Awaitable[Value]], given: Argument
    ) -> Value:
        began = time.perf_counter()
        environment = ActivityEnvironment()
        environment.info = replace(environment.info, scheduled_time=datetime.now(UTC))
        value: Value = await environment.run(activity, given)
        self.seconds[activity.__name__] += time.perf_counter() - began
        return value


class OneProcess:
    """Does the workflow's work without its history: a death of the process loses turns under
    way.
    """

    def __init__(self, talk: LiveConversationActivities, database: TimedDatabase) -> None:
        self._talk = talk
        self._database = database

    async def take(self, request: web.Request) -> web.Response:
        given = await request.json()
        before = self._database.taken
        thread = Thread(**given["thread"])
        message = IncomingMessage(**given["message"])
        steps = Steps()
        stored = await steps.run(self._talk.store_messages, StoreRequest(thread, [message]))
        turn = ConversationTurn(thread, stored.snapshot.turn + 1)
        begun = await steps.run(self._talk.begin_turn, turn)
        await OneTurn(OneThread(ConversationInput(thread)), turn, begun, self._talk, steps).take()
        return web.json_response(
            {"database": self._database.taken - before, "steps": steps.seconds}
        )


@dataclass
class OneThread:
    """A thread without requests to stop."""

    state: ConversationInput
    snapshot: ConversationSnapshot = field(default_factory=ConversationSnapshot)
    stop_requested: bool = False

    def update(self, snapshot: ConversationSnapshot) -> None:
        self.snapshot = snapshot

    def show_activity(self, what: str) -> None:
        """Do nothing: only Temporal's UI shows it."""

    def keep_summary(self, summary: str) -> None:
        """Do nothing: only Temporal's UI shows it."""

    async def post_due_answer(self) -> None:
        raise NotImplementedError("OneTurn.take posts the answer itself")

    async def tell_author(self, turn: int, reason: NoticeReason) -> None:
        raise NotImplementedError("no person takes a measured thread over")

    def show_once_mended(self, turn: int, *, left_to_person: bool) -> None:
        raise NotImplementedError("no person takes a measured thread over")


class OneTurn(Turn):
    """A turn after its route is known, until its answer is posted."""

    def __init__(
        self,
        thread: OneThread,
        turn: ConversationTurn,
        begun: BegunTurn,
        talk: LiveConversationActivities,
        steps: Steps,
    ) -> None:
        super().__init__(thread, turn, begun, begun.protocol, addressed=True)
        self._talk = talk
        self._steps = steps

    async def take(self) -> None:
        if self.route.agent is not Agent.OPERATOR:
            await self._check_decision()
        request = self.ending(await self.react())
        await self._steps.run(self._talk.finish_turn, request)
        await self._steps.run(self._talk.post_answer, self.ref)

    async def _check_decision(self) -> None:
        """Require that the decision allows an answer, as it does for each measured turn."""
        decision = await self._steps.run(
            self._talk.decide, DecideRequest(self.ref.thread, self.ref.turn)
        )
        if decision.course is not NextStep.PROCEED:
            raise RuntimeError(f"a turn that was to be answered is not: {decision.about}")

    async def think(self, choice: ToolChoice) -> ModelReply:
        self.step += 1
        request = ThinkRequest(self.ref.thread, self.ref.turn, self.step, choice, self.route.agent)
        return (await self._steps.run(self._talk.think, request)).reply

    async def run_group(self, group: Sequence[ToolCall]) -> list[Execution]:
        asked = tuple(each.reference() for each in group)
        request = ActRequest(self.ref.thread, self.ref.turn, self.step, asked, self.protocol)
        return await self._steps.run(self._talk.act, request)


async def _serve(stop: asyncio.Event) -> None:
    telemetry.configure_logging(LogSettings.load().log_level)
    settings = CoreSettings()
    temporal = await temporal_client()  # only for its namespace: turns run without Temporal
    database = TimedDatabase(settings.stored.url.get_secret_value(), pool_size=20)
    async with connect_core(settings, temporal) as connected:
        deps = replace(connected, database=database, outbox=Outbox(connected.slack, database))
        services = with_access(Services(), settings.conversations.access, deps)
        async with open_conversations(settings.conversations, deps, services) as (talk, _):
            application = web.Application()
            application.router.add_post("/", OneProcess(talk, database).take)
            runner = web.AppRunner(application, access_log=None)
            await runner.setup()
            await web.TCPSite(runner, HOST, 0).start()
            url = f"http://{HOST}:{runner.addresses[0][1]}/"
            sys.stdout.write(json.dumps({"event": "worker_ready", "url": url}) + "\n")
            sys.stdout.flush()
            await stop.wait()
            await runner.cleanup()
    await database.dispose()


if __name__ == "__main__":
    process.run_service(_serve)
