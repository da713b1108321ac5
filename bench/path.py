"""Messages through the whole path, from the signal to the post: the product's, and a floor's."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from sqlalchemy import text

from bench.ground import Ground, ground
from threadline.cases.model import bug_workflow_id
from threadline.gateway.router import NotAccepted
from threadline.gateway.routes import Route, RouteTarget
from threadline.slack.model import Thread
from threadline.threads.model import IncomingMessage, MessageKind, SenderType, message_id
from threadline_devstack.slack import identity

AT_ONCE = 64
"""Concurrent signals: more would only wait in the client."""
PATIENCE = 600.0
"""Seconds after which a load that does not come to rest is a failure."""

_RESTING = text("""
SELECT coalesce(sum(message_count), 0) AS stored,
       count(*) FILTER (WHERE status <> 'pending_verification') AS at_work,
       (SELECT count(*) FROM bug_conversations m JOIN cases c USING (bug_id)
        WHERE m.sender_type <> 'bot' AND (m.turn IS NULL OR m.turn > c.turn)) AS unused
FROM cases
""")
_POLL = 0.05
_SILENCE = 0.4
"""Seconds without a call to Slack after which no further one is expected."""


class Clock:
    """Slack's timestamps: each is later than the one before."""

    def __init__(self) -> None:
        self._last = 0

    def next(self) -> str:
        self._last = max(self._last + 1, time.time_ns() // 1000)
        return f"{self._last // 10**6}.{self._last % 10**6:06d}"


@dataclass
class Product:
    """The real workflow and core worker, with an agent that answers at once, and a Slack that
    accepts every call.

    `pids` are the processes whose CPU counts.
    """

    ground: Ground
    pids: tuple[int, ...]
    clock: Clock = field(default_factory=Clock)
    sent: int = 0
    _threads: dict[str, Thread] = field(default_factory=dict)

    async def open(self, count: int) -> list[str]:
        """Open threads and wait until they are idle. Return their workflows' ids."""
        threads = [
            Thread(identity.TEAM, identity.REPORTS, self.clock.next()) for _ in range(count)
        ]
        await _together([self.say(thread, MessageKind.REPORT) for thread in threads])
        await self.rest()
        opened = {bug_workflow_id(thread): thread for thread in threads}
        self._threads |= opened
        return list(opened)

    async def report(self) -> str:
        """Open a new case. Return its workflow's id once Temporal has accepted the report."""
        thread = Thread(identity.TEAM, identity.REPORTS, self.clock.next())
        await self.say(thread, MessageKind.REPORT)
        return bug_workflow_id(thread)

    async def send(self, workflow_id: str) -> None:
        """Send one message; Temporal has accepted it on return."""
        await self.say(self._threads[workflow_id], MessageKind.MESSAGE)

    async def rest(self) -> float:
        """Wait until every message was handled. Return the time of the last post, in seconds since
        1970.
        """
        async with asyncio.timeout(PATIENCE):
            while not await self._rests():  # noqa: ASYNC110 - the other side is other processes
                await asyncio.sleep(_POLL)
        return float((await _told(self.ground))["last"])

    async def fall_silent(self) -> None:
        """Wait until background work, such as reactions, is done as well; otherwise it would count
        as the next measurement's cost.
        """
        before = -1
        now = 0
        while now != before:
            await asyncio.sleep(_SILENCE)
            before = now
            now = (await _told(self.ground))["calls"]

    async def _rests(self) -> bool:
        async with self.ground.database.begin() as tx:
            row = (await tx.execute(_RESTING)).one()
        return row.stored == self.sent and not row.at_work and not row.unused

    async def say(self, thread: Thread, kind: MessageKind) -> None:
        """Write a message of this kind; Temporal has accepted it on return."""
        self.sent += 1
        message = said(
            thread, thread.ts if kind == MessageKind.REPORT else self.clock.next(), kind
        )
        while True:
            try:
                await self.ground.router.deliver(Route(RouteTarget.CASE, thread, message))
            except NotAccepted:  # Slack retries as well
                await asyncio.sleep(0.1)
            else:
                return


def said(thread: Thread, ts: str, kind: MessageKind) -> IncomingMessage:
    """Return a message of the reporter, of an ordinary length."""
    words = (
        "The total in the cart is still wrong when I use the code SAVE10 for more than three of "
        "the same thing."
    )
    return IncomingMessage(
        id=message_id(thread.team, thread.channel, ts),
        kind=kind,
        sender_type=SenderType.REPORTER,
        sender_id=identity.REPORTER,
        text=words,
        channel=thread.channel,
        ts=ts,
    )


@asynccontextmanager
async def product(ground: Ground, *, one_by_one: bool = False) -> AsyncIterator[Product]:
    """Run the whole path; `one_by_one`: store each message by a separate activity."""
    worker = {"module": "bench.parts.one_by_one_worker"} if one_by_one else {}
    async with (
        ground.product("core", *(() if one_by_one else ("worker", "--queue", "core")), **worker),
        ground.part("agent", ground.temporal_address, ground.databases.agent),
    ):
        pids = tuple(ground.pid(name) for name in ("core", "agent", "temporal", "postgres"))
        yield Product(ground, pids, sent=await _stored(ground))


@asynccontextmanager
async def paths(here: Ground) -> AsyncIterator[tuple[Product, Product]]:
    """Run the product and, on separate servers, the same with a separate activity to store each
    message.
    """
    async with (
        ground(here.scale, here.folder / "one-by-one") as beside,
        product(here) as ours,
        product(beside, one_by_one=True) as floor,
    ):
        yield ours, floor


async def burst(path: Product, threads: Sequence[str], each: int) -> float:
    """Send `each` messages in every thread, as fast as they are accepted. Return the seconds until
    the last post.
    """
    began = time.time()
    await _together([path.send(thread) for _ in range(each) for thread in threads])
    return await path.rest() - began


async def _together(work: Sequence[Any]) -> None:
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(coroutine: Any) -> None:
        async with gate:
            await coroutine

    await asyncio.gather(*(one(coroutine) for coroutine in work))


async def _told(ground: Ground) -> dict[str, Any]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{ground.slack_url}/posts") as answer,
    ):
        return dict(await answer.json())


async def _stored(ground: Ground) -> int:
    async with ground.database.begin() as tx:
        return int((await tx.execute(_RESTING)).one().stored)
