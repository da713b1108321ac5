"""Whether a message costs the same at the end of a long thread as at its beginning: on the path, in the database."""

import statistics
import time
from collections.abc import AsyncGenerator, Awaitable
from typing import TypeVar

from sqlalchemy import text

from bench.figures import Figure, Goal, Row
from bench.ground import Ground
from bench.parts.agent import FOUND
from bench.path import Clock, burst, product, said
from bench.usage import Meter
from threadline.cases.model import TurnEnded, session_id
from threadline.cases.store.case import CaseStore
from threadline.cases.store.messages import CaseMessageStore
from threadline.db.agent_role import agent_database
from threadline.investigator.store import AgentStore
from threadline.slack.model import Thread
from threadline.threads.model import MessageKind
from threadline_devstack.slack import identity

LENGTH, BURST, COMPARED = 5000, 20, 20
"""Messages of the thread, of one burst, and how many bursts at each end are compared."""
SHORT = 1000
"""Threads of ten messages that lie in the same tables."""
FLAT = Goal("ratio at most", 1.1)
STEPS = ("flush", "claim", "finish", "settle")

Value = TypeVar("Value")


async def measure(ground: Ground) -> AsyncGenerator[Row, None]:
    async with product(ground) as ours:
        meter = Meter(ours.pids)
        (thread,) = await ours.open(1)
        bursts = ground.scale.of(LENGTH // BURST, least=4)
        costs = []
        for _ in range(bursts):
            meter.start()
            await burst(ours, [thread], BURST)
            costs.append(meter.used * 1000 / BURST)
    # Of halves of each end, so that there is a spread: CPU is counted in hundredths of a second.
    share = max(1, min(2 * COMPARED, bursts // 2) // 2)
    ends = [costs[:share], costs[share : 2 * share], costs[-2 * share : -share], costs[-share:]]
    first_a, first_b, last_a, last_b = (statistics.mean(end or costs) for end in ends)
    yield Row(
        "growth",
        f"CPU a message on the whole path, at the end of a thread of {bursts * BURST}",
        Figure((last_a, last_b), "ms"),
        Figure((first_a, first_b), "ms"),
        "the same at the thread's beginning",
        FLAT,
    )
    # Last: cases that no workflow looks after would never come to rest.
    await _among_many_short_ones(ground)
    times = [await _database(ground) for _ in range(min(3, ground.scale.rounds))]
    whole = {"all four": [[sum(burst) for burst in zip(*run.values(), strict=True)] for run in times]}
    for name, runs in ({step: [run[step] for run in times] for step in STEPS} | whole).items():
        first, last = zip(*(_ends(run) for run in runs), strict=True)
        yield Row(
            "growth",
            f"database, {name} for a burst of {BURST}, at the end of a thread of {len(runs[0]) * BURST}",
            Figure(last, "ms"),
            Figure(first, "ms"),
            "the same at the thread's beginning",
            FLAT if name == "all four" else None,
        )


async def _among_many_short_ones(ground: Ground) -> None:
    """The statistics of a database in operation, as autovacuum gathers them within a minute: most threads are short."""
    clock = Clock()
    for _ in range(ground.scale.of(SHORT)):
        thread = Thread(identity.TEAM, identity.REPORTS, clock.next())
        async with ground.database.begin() as tx:
            await CaseMessageStore(tx).flush(
                thread, [said(thread, clock.next(), MessageKind.MESSAGE) for _ in range(10)]
            )
    async with ground.database.begin() as tx:
        await tx.execute(text("ANALYZE"))


async def _database(ground: Ground) -> dict[str, list[float]]:
    """Milliseconds of each step for each burst of a thread: what the activities of a turn do in the database."""
    clock = Clock()
    thread = Thread(identity.TEAM, identity.REPORTS, clock.next())
    taken: dict[str, list[float]] = {step: [] for step in STEPS}

    async def timed(step: str, tx: Awaitable[Value]) -> Value:
        began = time.perf_counter()
        value = await tx
        taken[step].append((time.perf_counter() - began) * 1000)
        return value

    async with agent_database(ground.databases.agent, pool_size=1) as agents:
        turns = AgentStore(agents)
        for turn in range(1, ground.scale.of(LENGTH // BURST, least=4) + 1):
            batch = [said(thread, clock.next(), MessageKind.MESSAGE) for _ in range(BURST)]
            async with ground.database.begin() as tx:
                marks = (await timed("flush", CaseMessageStore(tx).flush(thread, batch))).case
            session = session_id(marks.bug_id, turn, 1)
            claim = await timed("claim", turns.claim(marks.bug_id, turn, 1, session, lease_s=30))
            if isinstance(claim, TurnEnded):
                raise TypeError(f"turn {turn} of {marks.bug_id} was there already")
            await timed("finish", turns.finish(claim, FOUND))
            async with ground.database.begin() as tx:
                await timed("settle", CaseStore(tx).settle(marks.bug_id, turn))
    return taken


def _ends(taken: list[float]) -> tuple[float, float]:
    """The median at the beginning, without the very first burst, and at the end."""
    share = min(COMPARED, max(1, (len(taken) - 1) // 2))
    return statistics.median(taken[1 : share + 1]), statistics.median(taken[-share:])
