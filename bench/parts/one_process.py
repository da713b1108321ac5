"""The floor of a conversation: the product's own steps one after the other in one process, and no Temporal.

`python -m bench.parts.one_process`, with a core worker's settings. Each POST is a message; it is answered as soon as
the conversation's answer is in Slack, and the operator's turn remembered, with the seconds that were spent in the
database and in each step.
"""

import asyncio
import json
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TypeVar

from aiohttp import web
from temporalio.testing import ActivityEnvironment

from threadline import telemetry
from threadline.cli import process
from threadline.conversations.activities import LiveConversationActivities
from threadline.conversations.contract import (
    ActRequest,
    BeginRequest,
    BegunTurn,
    FinishedTurn,
    FinishRequest,
    StoreRequest,
    ThinkRequest,
)
from threadline.conversations.model.conversation import ConversationOutcome, ConversationTurn, Execution, OutcomeKind
from threadline.conversations.workflow import DEFAULT_MAX_STEPS, ReactLoop, turn_ending
from threadline.db.engine import Database, Transaction
from threadline.decisions.model import NextStep
from threadline.models.model import ModelReply, ToolCall, ToolChoice, ToolKind
from threadline.operator.model.routing import Agent
from threadline.settings import LogSettings
from threadline.slack.model import Thread
from threadline.threads.model import IncomingMessage
from threadline.threads.outbox import Outbox
from threadline.tools.context import Services
from threadline.wiring.temporal import temporal_client
from threadline.wiring.workers import CoreSettings, connect_core, open_conversations, with_access
from threadline_devstack.processes import HOST

Argument = TypeVar("Argument")
Value = TypeVar("Value")


class TimedDatabase(Database):
    """Adds up the seconds that its units of work take, from the wish for a connection to the commit."""

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
    """Runs activities as functions, and adds up their seconds by name; what they ask of Temporal comes to nothing."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    async def run(self, activity: Callable[[Argument], Awaitable[Value]], given: Argument) -> Value:
        began = time.perf_counter()
        value: Value = await ActivityEnvironment().run(activity, given)
        self.seconds[activity.__name__] += time.perf_counter() - began
        return value


class OneProcess:
    """What the workflow does, without its history: what was begun when the process dies is lost."""

    def __init__(self, talk: LiveConversationActivities, database: TimedDatabase) -> None:
        self._talk, self._database = talk, database

    async def take(self, request: web.Request) -> web.Response:
        given, before = await request.json(), self._database.taken
        thread, message = Thread(**given["thread"]), IncomingMessage(**given["message"])
        steps = Steps()
        stored = await steps.run(self._talk.store_messages, StoreRequest(thread, [message]))
        turn = ConversationTurn(thread, stored.snapshot.turn + 1)
        begun = await steps.run(self._talk.begin_turn, BeginRequest(turn.thread, turn.turn, decide=True))
        await OneTurn(self._talk, steps, turn, begun).take()
        return web.json_response({"database": self._database.taken - before, "steps": steps.seconds})


class OneTurn:
    """A turn from the way that it was found to go until it is said and remembered."""

    def __init__(
        self, talk: LiveConversationActivities, steps: Steps, turn: ConversationTurn, begun: BegunTurn
    ) -> None:
        self._talk, self._steps, self._turn, self._begun = talk, steps, turn, begun
        self._protocol = begun.protocol
        self._step = 0

    async def take(self) -> None:
        if self._begun.agent is not Agent.OPERATOR:
            self._check_decision()
        most = self._begun.max_steps or DEFAULT_MAX_STEPS
        outcome = await ReactLoop(self._think, self._act, max_steps=most, ends_turn=turn_ending).run()
        if outcome.kind is not OutcomeKind.POSTED_BY_TOOL:  # else its last call has ended the turn
            await self._finish(outcome)

    def _check_decision(self) -> None:
        """Each of the measured turns can be answered at once."""
        decision = self._begun.decision
        if decision is None or decision.course is not NextStep.PROCEED:
            raise RuntimeError(f"a turn that was to be answered is not: {decision and decision.about}")

    async def _think(self, choice: ToolChoice) -> ModelReply:
        self._step += 1
        request = ThinkRequest(self._turn.thread, self._turn.turn, self._step, choice, self._begun.agent)
        return (await self._steps.run(self._talk.think, request)).reply

    async def _act(self, calls: list[ToolCall]) -> list[Execution]:
        return [await self._execute(each.reference()) for each in calls]

    async def _execute(self, asked: ToolCall) -> Execution:
        if asked.kind is ToolKind.SPEAK:
            finished = await self._finish(
                ConversationOutcome(OutcomeKind.POSTED_BY_TOOL, "", model_calls=self._step), asked
            )
            if finished.final is None:
                raise RuntimeError("the final call was not run")
            return finished.final
        request = ActRequest(self._turn.thread, self._turn.turn, self._step, (asked,), self._protocol)
        (done,) = await self._steps.run(self._talk.act, request)
        if self._protocol and done.protocol:
            self._protocol = self._protocol.merge(done.protocol)
        return done

    async def _finish(self, outcome: ConversationOutcome, final: ToolCall | None = None) -> FinishedTurn:
        answered = outcome.kind is OutcomeKind.ANSWERED or final is not None
        request = FinishRequest(
            self._turn.thread,
            self._turn.turn,
            outcome.kind,
            text="" if answered else outcome.text,
            answer_step=self._step if answered else 0,
            model_calls=outcome.model_calls,
            final=final,
            protocol=self._protocol,
        )
        finished: FinishedTurn = await self._steps.run(self._talk.finish_turn, request)
        return finished


async def _serve(stop: asyncio.Event) -> None:
    telemetry.configure_logging(LogSettings.load().log_level)
    settings = CoreSettings()
    temporal = await temporal_client()  # asked for its namespace only: turns run without it
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
