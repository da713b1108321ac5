"""The floor of a conversation: the product's own steps one after the other in one process, and no Temporal.

`python -m bench.parts.one_process`, with a core worker's settings. Each POST is a message; it is answered as soon as
the conversation's answer is in Slack, with the seconds that were spent in the database.
"""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from aiohttp import web
from temporalio.testing import ActivityEnvironment

from threadline import telemetry
from threadline.activities.alerts import Alerts
from threadline.activities.case_cards import Readers
from threadline.bootstrap.conversations import Conversing, Host, TalkSettings, conversing
from threadline.bootstrap.gateway import slack_client
from threadline.cli import stopping
from threadline.contracts.conversation import ActRequest, SettleRequest, StoreRequest, TalkTurn, ThinkRequest
from threadline.db.engine import Database
from threadline.db.post_ledger import PostLedger
from threadline.db.work import Work
from threadline.devstack.ports import HOST
from threadline.domain.addressing import Thread
from threadline.domain.conversation import ConversationMarks
from threadline.domain.dialogue import Execution, ModelReply, ToolCall, ToolChoice
from threadline.domain.messages import IncomingMessage
from threadline.settings import ChannelSettings, DatabaseSettings, LogSettings, SlackSettings
from threadline.slack.client import Slack
from threadline.slack.posts import Claim, Posts
from threadline.workflows.react_loop import react

Value = TypeVar("Value")


class TimedDatabase(Database):
    """Adds up the seconds that its units of work take, from the wish for a connection to the commit."""

    taken = 0.0

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[Work]:
        began = time.perf_counter()
        try:
            async with super().begin() as work:
                yield work
        finally:
            self.taken += time.perf_counter() - began


class OneProcess:
    """What the workflow does, without its history: what was begun when the process dies is lost."""

    def __init__(self, talk: Conversing, database: TimedDatabase) -> None:
        self._thinking, self._speaking, self._operator = talk.thinking, talk.speaking, talk.operator
        self._database = database

    async def take(self, request: web.Request) -> web.Response:
        given, before = await request.json(), self._database.taken
        thread, message = Thread(**given["thread"]), IncomingMessage(**given["message"])
        stored = await _run(self._thinking.store_messages, StoreRequest(thread, [message]))
        await self._answer(thread, stored.marks)
        return web.json_response({"database": self._database.taken - before})

    async def _answer(self, thread: Thread, marks: ConversationMarks) -> None:
        turn, step = marks.turn + 1, 0

        async def think(choice: ToolChoice) -> ModelReply:
            nonlocal step
            step += 1
            return (await _run(self._thinking.think, ThinkRequest(thread, turn, step, choice))).reply

        async def act(calls: list[ToolCall]) -> list[Execution]:
            asked = [ActRequest(thread, turn, step, each.reference()) for each in calls]
            return [await _run(self._thinking.act, each) for each in asked]

        await _run(self._operator.begin_turn, TalkTurn(thread, turn))
        if marks.crowded:
            await _run(self._thinking.summarise, TalkTurn(thread, turn))
        outcome = await react(think, act)
        ended = SettleRequest(
            thread, turn, outcome.kind, outcome.text, answered_at=outcome.step, model_calls=outcome.model_calls
        )
        await _run(self._thinking.settle_turn, ended)
        await _run(self._speaking.post_answer, TalkTurn(thread, turn))


async def _run(activity: Callable[..., Awaitable[Value]], given: Any) -> Value:
    """An activity as a function: what it asks of Temporal comes to nothing."""
    value: Value = await ActivityEnvironment().run(activity, given)
    return value


async def _serve(stop: asyncio.Event) -> None:
    telemetry.set_up(LogSettings.read().level)
    database = TimedDatabase(DatabaseSettings.read().url.get_secret_value(), pool_size=20)
    operators = ChannelSettings.read().escalation
    async with slack_client(SlackSettings.read()) as web_client:
        slack = Slack(web_client)
        posts = Posts(slack, PostLedger(database, Claim))
        host = Host(Alerts(posts, operators), Readers(frozenset(), ""))
        async with conversing(TalkSettings(), database, slack, posts, host) as talk:
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
    stopping.serve(_serve)
