"""From `kill -9` of an agent worker in the middle of turns until each turn is tried again: on the whole product."""

import asyncio
import os
import time
from collections.abc import AsyncGenerator

from sqlalchemy import text

from bench.figures import Figure, Goal, Row
from bench.ground import Ground
from threadline.cases.contract import AGENT_TURN
from threadline.db.engine import Database
from threadline_devstack import environment
from threadline_devstack.processes import poll
from threadline_devstack.slack import identity
from threadline_devstack.stack import Stack, StackOptions

HEARTBEAT = AGENT_TURN.heartbeat or 0.0
WITHIN = Goal("largest at most", HEARTBEAT + 5)
_ATTEMPTS = text("SELECT bug_id, attempt, extract(epoch FROM started_at) AS at FROM agent_turns ORDER BY bug_id")
_HELD = tuple(f"investigating:BUG-{number}" for number in range(1, 5))
"""As many cases as an agent worker runs at once; the model keeps them all waiting."""


async def measure(ground: Ground) -> AsyncGenerator[Row, None]:
    """It has a devstack of its own: the real agents' worker and CLI, at work on cases that people reported."""
    kills = 1 if ground.scale.share < 1 else 2
    wishes = StackOptions(given=environment.pick(os.environ, environment.MACHINE))
    taken: list[float] = []
    async with Stack.running(ground.folder / "stack", wishes) as stack:
        database = Database(stack.database_url, pool_size=1)
        try:
            for hold in _HELD:
                stack.model.holds.arm(hold)
                stack.slack.say(identity.REPORTER, identity.REPORTS, "The cart total is too high with SAVE10")
            for attempt in range(1, kills + 1):
                taken += await _killed(stack, database, attempt)
        finally:
            await database.dispose()
    yield Row(
        "recovery",
        "`kill -9` of the agents' worker in mid-turn until the next attempt has begun",
        Figure(tuple(taken), "s"),
        Figure((HEARTBEAT,) * len(taken), "s"),
        "the configured heartbeat timeout",
        WITHIN,
        f"{len(_HELD)} turns at a time, the worker started again at once, as a supervisor does",
    )


async def _killed(stack: Stack, database: Database, attempt: int) -> list[float]:
    await _at_work(database, attempt)
    killed = time.time()
    await stack.processes.kill("agents")
    restarting = asyncio.create_task(stack.processes.restart("agents"))
    began = await _at_work(database, attempt + 1)
    await restarting
    return [at - killed for at in began]


async def _at_work(database: Database, attempt: int) -> list[float]:
    """Wait until every case runs its attempt of this number; returns when each was claimed."""
    async for _ in poll(90):
        async with database.begin() as tx:
            rows = list(await tx.execute(_ATTEMPTS))
        if len(rows) == len(_HELD) and all(row.attempt >= attempt for row in rows):
            return [float(row.at) for row in rows]
    raise TimeoutError(f"attempt {attempt} did not begin within 90 s")
