"""Slack's wait for the gateway's acknowledgement, and its longest wait while Temporal is
stopped.
"""

import asyncio
import os
import signal
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import aiohttp

from bench.figures import Figure, Goal, Row, pair, percentile
from bench.ground import Ground, free_address, slack_settings
from bench.parts import quiet_slack
from bench.parts.quiet_slack import Json, QuietSlack
from bench.path import Clock
from bench.scale import by_turns
from threadline_devstack.slack import events, identity

AT_ONCE = (1, 16, 64)
FLOOR = "a bare Bolt app that verifies and sends one signal"
P50 = Goal("ratio at most", 1.3)
P99 = Goal("ratio at most", 1.5)
SLACKS_PATIENCE = Goal("largest at most", 3000)
STALL = 2.0
"""Seconds for which Temporal is stopped."""
THREADS = 64
"""Threads that take messages in turn: a workflow accepts at most 10,000 signals."""

Send = Callable[[Json], Awaitable[None]]


async def measure(ground: Ground) -> AsyncGenerator[Row, None]:
    for way, opened in (("HTTP", _by_http), ("socket", _by_socket)):
        async with opened(ground) as (ours, floor):
            said = _Said()
            # the first events open connections, and start the threads' workflows
            for send in (ours, floor):
                await _acknowledgements(send, said, THREADS, 16)
            for at_once in ground.scale.some(*AT_ONCE):
                count = ground.scale.of(400, least=20) + at_once
                runs = await by_turns(
                    ground.scale.rounds,
                    lambda: _acknowledgements(ours, said, count, at_once),  # noqa: B023 - awaited
                    lambda: _acknowledgements(floor, said, count, at_once),  # noqa: B023 - awaited
                )
                for row in _rows(f"{way}, {at_once} at once", *runs):
                    yield row
            yield await _stalled(ground, ours, said, way)


def _rows(how: str, ours: list[list[float]], floor: list[list[float]]) -> list[Row]:
    rows = []
    for name, share, goal in (("p50", 0.5, P50), ("p99", 0.99, P99)):
        mine, bare = ([percentile(run, share) * 1000 for run in runs] for runs in (ours, floor))
        rows.append(
            Row(
                "gateway",
                f"acknowledgement by {how}, {name}",
                *pair(mine, bare, "ms"),
                FLOOR,
                goal,
            )
        )
    return rows


async def _stalled(ground: Ground, send: Send, said: "_Said", way: str) -> Row:
    """Stop Temporal's process for a while, while events come in."""
    slowest = []
    for _ in range(min(2, ground.scale.rounds)):
        os.kill(ground.pid("temporal"), signal.SIGSTOP)
        loop = asyncio.get_running_loop()
        loop.call_later(STALL, os.kill, ground.pid("temporal"), signal.SIGCONT)
        slowest.append(max(await _acknowledgements(send, said, 16, 16)) * 1000)
        await asyncio.sleep(0.5)
    return Row(
        "gateway",
        f"slowest answer by {way} with Temporal stopped for {STALL:g} s, 16 at once",
        Figure(tuple(slowest), "ms"),
        goal=SLACKS_PATIENCE,
        note="Slack's own limit",
    )


async def _acknowledgements(send: Send, said: "_Said", count: int, at_once: int) -> list[float]:
    """Return the seconds for each of `count` events, `at_once` of them under way at any time."""
    taken: list[float] = []
    left = iter(range(count))

    async def one_after_another() -> None:
        for _ in left:
            event = said.next()
            began = time.perf_counter()
            await send(event)
            taken.append(time.perf_counter() - began)

    await asyncio.gather(*(one_after_another() for _ in range(at_once)))
    return taken


@dataclass
class _Said:
    """Replies of reporters in their threads, as Slack's JSON."""

    clock: Clock = field(default_factory=Clock)
    number: int = 0
    roots: list[str] = field(default_factory=list)

    def next(self) -> Json:
        self.number += 1
        if len(self.roots) < THREADS:
            self.roots.append(self.clock.next())
        root = self.roots[self.number % len(self.roots)]
        ts = self.clock.next()
        said = {
            "type": "message",
            "channel": identity.REPORTS,
            "channel_type": "channel",
            "user": identity.REPORTER,
            "parent_user_id": identity.REPORTER,
            "team": identity.TEAM,
            "text": (
                "It still happens with three of the same thing in the cart, and with the code "
                "SAVE10."
            ),
            "ts": ts,
            "event_ts": ts,
            "thread_ts": root,
        }
        return events.callback(said, f"Ev{self.number:08d}", int(time.time()))


@asynccontextmanager
async def _by_http(ground: Ground) -> AsyncIterator[tuple[Send, Send]]:
    address = free_address(ground.ports)
    bare = free_address(ground.ports)
    async with AsyncExitStack() as opened:
        session = await opened.enter_async_context(
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        )
        await opened.enter_async_context(ground.product("gateway", "gateway", "--http", address))
        given = (ground.temporal_address, f"{ground.slack_url}/api/", bare)
        await opened.enter_async_context(ground.part("bare_gateway", *given))

        def sender(where: str) -> Send:
            async def send(event: Json) -> None:
                await quiet_slack.by_http(session, f"http://{where}/slack/events", event)

            return send

        yield sender(address), sender(bare)


@asynccontextmanager
async def _by_socket(ground: Ground) -> AsyncIterator[tuple[Send, Send]]:
    """Run both, each with its own Slack, so that each event reaches the intended one."""
    async with AsyncExitStack() as opened:
        slack = await opened.enter_async_context(quiet_slack.serving())
        other = await opened.enter_async_context(quiet_slack.serving())
        settings = slack_settings(slack.api_url) | {"SLACK_APP_TOKEN": identity.APP_TOKEN}
        await opened.enter_async_context(ground.product("gateway", "gateway", **settings))
        await opened.enter_async_context(
            ground.part("bare_gateway", ground.temporal_address, other.api_url, "socket")
        )
        async with asyncio.timeout(20):
            await slack.connected.wait()
            await other.connected.wait()
        yield _until_taken(slack), _until_taken(other)


def _until_taken(slack: QuietSlack) -> Send:
    """Return a sender that gives up after Slack's three seconds: on a socket, a refused event is
    never acknowledged.
    """

    async def send(event: Json) -> None:
        try:
            async with asyncio.timeout(3.5):
                await slack.by_socket(event)
        except TimeoutError:
            return

    return send
