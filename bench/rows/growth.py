"""Compares the cost of a message at the end of a long thread with that at its beginning: on the
whole path, and in the database.
"""

import statistics
import time
from collections.abc import AsyncGenerator, Awaitable
from typing import TypeVar

from sqlalchemy import text

from bench.figures import Figure, Goal, Row, pair
from bench.ground import Ground
from bench.parts.agent import FOUND
from bench.path import Clock, Product, burst, product, said
from bench.scale import by_turns
from bench.usage import Meter
from threadline.cases.model import TurnEnded, session_id
from threadline.cases.store.case import CaseStore
from threadline.cases.store.messages import CaseMessageStore
from threadline.db.agent_role import agent_database
from threadline.investigator.store import AgentStore
from threadline.slack.model import Thread
from threadline.threads.model import MessageKind
from threadline_devstack.slack import identity

LENGTH = 5000
BURST = 20
"""Messages of the thread, and of one burst."""
BESIDE = 8
COMPARED = 20
"""Bursts of a round, in the long thread and in a new one; and bursts at each end for the
comparison in the database.
"""
SHORT = 1000
"""Threads of ten messages in the same tables."""
FLAT = Goal("ratio at most", 1.1)

Value = TypeVar("Value")


async def measure(ground: Ground) -> AsyncGenerator[Row, None]:
    async with product(ground) as ours:
        (thread,) = await ours.open(1)
        bursts = ground.scale.of(LENGTH // BURST, least=4)
        for _ in range(bursts):
            await burst(ours, [thread], BURST)
        costs = await by_turns(
            ground.scale.rounds, lambda: _cost(ours, [thread]), lambda: _cost_of_new(ours)
        )
    what = f"CPU a message on the whole path, at the end of a thread of {bursts * BURST}"
    yield Row("growth", what, *pair(*costs, "ms"), "the same in a new thread", FLAT)
    # Last, since cases without a workflow never come to rest.
    await _among_many_short_ones(ground)
    times = [await _database(ground) for _ in range(min(3, ground.scale.rounds))]
    first, last = zip(*(_ends(run) for run in times), strict=True)
    yield Row(
        "growth",
        (
            f"database, all four steps of a burst of {BURST}, at the end of a thread of "
            f"{len(times[0]) * BURST}"
        ),
        Figure(last, "ms"),
        Figure(first, "ms"),
        "the same at the thread's beginning",
        FLAT,
    )


async def _cost_of_new(ours: Product) -> float:
    return await _cost(ours, await ours.open(1))


async def _cost(ours: Product, thread: list[str]) -> float:
    """Return the CPU milliseconds of a message."""
    count = ours.ground.scale.of(BESIDE, least=2)
    meter = Meter(ours.pids)
    await ours.fall_silent()
    meter.start()
    for _ in range(count):
        await burst(ours, thread, BURST)
    await ours.fall_silent()
    return meter.used * 1000 / (count * BURST)


async def _among_many_short_ones(ground: Ground) -> None:
    """Give the database the statistics of one in operation, as autovacuum gathers them within a
    minute: most threads are short.
    """
    clock = Clock()
    for _ in range(ground.scale.of(SHORT)):
        thread = Thread(identity.TEAM, identity.REPORTS, clock.next())
        async with ground.database.begin() as tx:
            await CaseMessageStore(tx).flush(
                thread, [said(thread, clock.next(), MessageKind.MESSAGE) for _ in range(10)]
            )
    async with ground.database.begin() as tx:
        await tx.execute(text("ANALYZE"))


async def _database(ground: Ground) -> list[float]:
    """Return the milliseconds of each burst of a thread: the database work of a turn's activities,
    without the commits.
    """
    clock = Clock()
    thread = Thread(identity.TEAM, identity.REPORTS, clock.next())
    taken: list[float] = []

    async def timed(step: Awaitable[Value]) -> Value:
        began = time.perf_counter()
        value = await step
        taken[-1] += (time.perf_counter() - began) * 1000
        return value

    async with agent_database(ground.databases.agent, pool_size=1) as agents:
        turns = AgentStore(agents)
        for turn in range(1, ground.scale.of(LENGTH // BURST, least=4) + 1):
            taken.append(0.0)
            batch = [said(thread, clock.next(), MessageKind.MESSAGE) for _ in range(BURST)]
            async with ground.database.begin() as tx:
                marks = (await timed(CaseMessageStore(tx).flush(thread, batch))).case
            session = session_id(marks.bug_id, turn, 1)
            claim = await timed(turns.claim(marks.bug_id, turn, 1, session, lease_s=30))
            if isinstance(claim, TurnEnded):
                raise TypeError(f"turn {turn} of {marks.bug_id} was there already")
            await timed(turns.finish(claim, FOUND))
            async with ground.database.begin() as tx:
                await timed(CaseStore(tx).settle(marks.bug_id, turn))
    return taken


def _ends(taken: list[float]) -> tuple[float, float]:
    """Return the median at the beginning, without the very first burst, and at the end."""
    share = min(COMPARED, max(1, (len(taken) - 1) // 2))
    return statistics.median(taken[1 : share + 1]), statistics.median(taken[-share:])
