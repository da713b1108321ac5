"""Messages through the whole path, from the signal to the post: the product's, and a floor's."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import aiohttp
from sqlalchemy import text

from bench.ground import Ground
from bench.parts.least import QUEUE, OnePerMessage
from threadline.devstack.slack_sandbox import identity
from threadline.domain import addressing, messages
from threadline.domain.addressing import Thread
from threadline.domain.messages import IncomingMessage
from threadline.gateway.dispatch import NotAccepted
from threadline.gateway.events import Message

AT_ONCE = 64
"""Signals that are under way at the same time: more would only wait in the client."""
PATIENCE = 240.0
"""Seconds after which a load that does not come to rest is a failure."""

_RESTING = text("""
SELECT coalesce(sum(stored), 0) AS stored, count(*) FILTER (WHERE status <> 'pending_verification') AS at_work,
       (SELECT count(*) FROM bug_conversations m JOIN cases c USING (bug_id)
        WHERE m.sender_type <> 'bot' AND (m.turn IS NULL OR m.turn > c.turn)) AS unused
FROM cases
""")
_POLL = 0.05


class Clock:
    """Slack's timestamps: each is later than the one before."""

    def __init__(self) -> None:
        self._last = 0

    def next(self) -> str:
        self._last = max(self._last + 1, time.time_ns() // 1000)
        return f"{self._last // 10**6}.{self._last % 10**6:06d}"


class Path(Protocol):
    """A way of messages: `pids` are the processes whose CPU it costs."""

    @property
    def ground(self) -> Ground: ...

    @property
    def pids(self) -> tuple[int, ...]: ...

    async def open(self, count: int) -> list[str]:
        """Threads in which nothing is going on any more, ready for messages; returns their workflows' ids."""
        ...

    async def send(self, workflow_id: str) -> None:
        """One message, accepted when this returns."""
        ...

    async def rest(self) -> float:
        """Wait until every message was dealt with; returns when the last post was made, in seconds since 1970."""
        ...

    @property
    def pause(self) -> float:
        """Seconds to wait after `rest` until what nobody waits for is done as well."""
        ...


@dataclass
class Product:
    """The real workflow and core worker, with an agent that answers at once, and a Slack that takes everything."""

    ground: Ground
    pids: tuple[int, ...]
    clock: Clock = field(default_factory=Clock)
    sent: int = 0
    pause: float = 0.5
    _threads: dict[str, Thread] = field(default_factory=dict)

    async def open(self, count: int) -> list[str]:
        threads = [Thread(identity.TEAM, identity.REPORTS, self.clock.next()) for _ in range(count)]
        await _together([self._say(thread, messages.REPORT) for thread in threads])
        await self.rest()
        opened = {addressing.bug_workflow_id(thread): thread for thread in threads}
        self._threads |= opened
        return list(opened)

    async def report(self) -> str:
        """A new case; returns its workflow's id once Temporal has accepted the report."""
        thread = Thread(identity.TEAM, identity.REPORTS, self.clock.next())
        await self._say(thread, messages.REPORT)
        return addressing.bug_workflow_id(thread)

    async def send(self, workflow_id: str) -> None:
        await self._say(self._threads[workflow_id], messages.MESSAGE)

    async def rest(self) -> float:
        async with asyncio.timeout(PATIENCE):
            while not await self._rests():  # noqa: ASYNC110 - the other side is other processes
                await asyncio.sleep(_POLL)
        return float((await _told(self.ground))["last"])

    async def _rests(self) -> bool:
        async with self.ground.database.begin() as work:
            row = (await work.connection.execute(_RESTING)).one()
        return row.stored == self.sent and not row.at_work and not row.unused

    async def _say(self, thread: Thread, kind: str) -> None:
        self.sent += 1
        message = said(thread, thread.ts if kind == messages.REPORT else self.clock.next(), kind)
        while True:
            try:
                await self.ground.dispatcher.dispatch(Message(thread, message))
            except NotAccepted:  # as Slack does
                await asyncio.sleep(0.1)
            else:
                return


@dataclass
class OneActivityPerMessage:
    """The floor: a workflow that has each message stored by an activity of its own, and nothing else to care for."""

    ground: Ground
    pids: tuple[int, ...]
    clock: Clock = field(default_factory=Clock)
    sent: int = 0
    pause: float = 0.2
    before: int = 0
    """Messages that were handled when it began."""

    async def open(self, count: int) -> list[str]:
        opened = [f"least:{self.clock.next()}" for _ in range(count)]
        await _together([self.send(workflow_id) for workflow_id in opened])
        await self.rest()
        return opened

    async def send(self, workflow_id: str) -> None:
        self.sent += 1
        thread = Thread(identity.TEAM, identity.REPORTS, workflow_id)
        await self.ground.client.start_workflow(
            OnePerMessage.run,
            id=workflow_id,
            task_queue=QUEUE,
            start_signal="message",
            start_signal_args=[asdict(said(thread, self.clock.next(), messages.MESSAGE))],
        )

    async def rest(self) -> float:
        async with asyncio.timeout(PATIENCE):
            while (told := await _told(self.ground))["handled"] - self.before < self.sent:  # noqa: ASYNC110 - as above
                await asyncio.sleep(_POLL)
        return float(told["last"])


def said(thread: Thread, ts: str, kind: str) -> IncomingMessage:
    """A message of the reporter, of an ordinary length."""
    words = "The total in the cart is still wrong when I use the code SAVE10 for more than three of the same thing."
    return IncomingMessage(
        id=addressing.message_id(thread.team, thread.channel, ts),
        kind=kind,
        sender_type=messages.REPORTER,
        sender_id=identity.REPORTER,
        text=words,
        channel=thread.channel,
        ts=ts,
    )


@asynccontextmanager
async def paths(ground: Ground) -> AsyncIterator[tuple[Product, OneActivityPerMessage]]:
    """Both ways, with all their processes up."""
    async with AsyncExitStack() as opened:
        given = (ground.temporal_address, ground.databases.owner, ground.slack_url)
        await opened.enter_async_context(ground.product("core", "worker", "--queue", "core"))
        await opened.enter_async_context(ground.part("agent", ground.temporal_address, ground.databases.agent))
        await opened.enter_async_context(ground.part("least_worker", *given))
        servers = (ground.pid("temporal"), ground.pid("postgres"))
        ours = Product(ground, (ground.pid("core"), ground.pid("agent"), *servers))
        ours.sent = await _stored(ground)
        handled = int((await _told(ground))["handled"])
        floor = OneActivityPerMessage(ground, (ground.pid("least_worker"), *servers), before=handled)
        yield ours, floor


async def burst(path: Path, threads: Sequence[str], each: int) -> float:
    """Say `each` messages in every thread, as fast as they are taken; returns the seconds until the last post."""
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
    async with aiohttp.ClientSession() as session, session.get(f"{ground.slack_url}/posts") as answer:
        return dict(await answer.json())


async def _stored(ground: Ground) -> int:
    async with ground.database.begin() as work:
        return int((await work.connection.execute(_RESTING)).one().stored)
