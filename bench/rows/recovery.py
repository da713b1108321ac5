"""The time from `kill -9` of a worker until its work continues, on the whole product: agents in
mid-turn, and a post.
"""

import asyncio
import os
import time
from collections.abc import AsyncGenerator
from typing import cast

from sqlalchemy import text

from bench.figures import Figure, Goal, Row
from bench.ground import Ground
from bench.talk import PLAIN
from threadline.cases.contract import AGENT_TURN
from threadline.conversations.store.turns import TurnStore
from threadline.db.engine import Database
from threadline.threads.activity_options import POST
from threadline.threads.outbox import RESEND_AFTER
from threadline_devstack import environment
from threadline_devstack.processes import poll
from threadline_devstack.slack import identity
from threadline_devstack.slack.app import SlackSandbox
from threadline_devstack.slack.faults import CallFault, CallFaultKind, SlackFaults
from threadline_devstack.stack import Stack, StackOptions
from threadline_devstack.stories.scene import Scene

TURN_WITHIN = Goal("largest at most", 15)
POST_WITHIN = Goal("largest at most", 10)
_ATTEMPTS = text(
    "SELECT bug_id, attempt, extract(epoch FROM started_at) AS at FROM agent_turns ORDER BY bug_id"
)
_HELD = tuple(f"investigating:BUG-{number}" for number in range(1, 5))
"""Holds for as many cases as an agent worker runs concurrently; the model keeps them all
waiting.
"""
_AT_ONCE = "the worker started again at once, as a supervisor does"
_NOT_SENT_AGAIN = (
    "Slack may still store what a dead worker has sent, so nobody sends again earlier; sent "
    "again 6 s after the kill, 124 to 137 of 2,000 posts would be there twice (simulated) if "
    "Slack took up to 30 s for one of ten"
)


class _KeptWaiting(SlackFaults):
    """Keeps one post waiting for a minute, on request."""

    def __init__(self) -> None:
        self.orders: list[CallFault] = []

    def next_call(self, method: str) -> CallFault | None:
        return self.orders.pop() if self.orders and method == "chat.postMessage" else None


class _Slack(SlackSandbox):
    faults: _KeptWaiting
    faults_type = _KeptWaiting


async def measure(ground: Ground) -> AsyncGenerator[Row, None]:
    """Measure on a separate devstack, with the real workers and CLI, at work on people's
    messages.
    """
    kills = 1 if ground.scale.share < 1 else 2
    wishes = StackOptions(given=environment.pick(os.environ, environment.MACHINE), slack=_Slack)
    taken: list[float] = []
    async with Stack.running(ground.folder / "stack", wishes) as stack, Scene.on(stack) as scene:
        database = Database(stack.database_url, pool_size=1)
        try:
            found = [await _post_killed(scene, database, "slow") for _ in range(kills)]
            sent = [await _post_killed(scene, database, "error_before") for _ in range(kills)]
            for hold in _HELD:
                stack.model.holds.arm(hold)
                stack.slack.say(
                    identity.REPORTER, identity.REPORTS, "The cart total is too high with SAVE10"
                )
            for attempt in range(1, kills + 1):
                taken += await _killed(stack, database, attempt)
        finally:
            await database.dispose()
    yield _row(
        "`kill -9` of the agents' worker in mid-turn until the next attempt has begun",
        taken,
        AGENT_TURN.heartbeat or 0.0,
        "the configured heartbeat timeout",
        TURN_WITHIN,
        f"{len(_HELD)} turns at a time, {_AT_ONCE}",
    )
    what = (
        "`kill -9` of the core worker in its call of Slack until the answer is on record, where "
        "Slack"
    )
    beside = "the configured heartbeat timeout"
    yield _row(f"{what} has it", found, POST.heartbeat or 0.0, beside, POST_WITHIN, _AT_ONCE)
    beside = "the seconds in which nobody sends again"
    yield _row(f"{what} does not", sent, RESEND_AFTER, beside, POST_WITHIN, _NOT_SENT_AGAIN)


def _row(what: str, taken: list[float], least: float, beside: str, goal: Goal, note: str) -> Row:
    floor = Figure((least,) * len(taken), "s")
    return Row("recovery", what, Figure(tuple(taken), "s"), floor, beside, goal, note)


async def _killed(stack: Stack, database: Database, attempt: int) -> list[float]:
    await _at_work(database, attempt)
    killed = time.time()
    await stack.processes.kill("agents")
    restarting = asyncio.create_task(stack.processes.restart("agents"))
    began = await _at_work(database, attempt + 1)
    await restarting
    return [at - killed for at in began]


async def _at_work(database: Database, attempt: int) -> list[float]:
    """Wait until every case runs its attempt of this number. Return the times of their claims."""
    async for _ in poll(90):
        async with database.begin() as tx:
            rows = list(await tx.execute(_ATTEMPTS))
        if len(rows) == len(_HELD) and all(row.attempt >= attempt for row in rows):
            return [float(row.at) for row in rows]
    raise TimeoutError(f"attempt {attempt} did not begin within 90 s")


async def _post_killed(scene: Scene, database: Database, kind: CallFaultKind) -> float:
    """Kill the core worker while Slack delays its answer. Return the seconds until the post is on
    record. Raises `AssertionError` for a second post.
    """
    processes = scene.stack.processes
    faults = cast("_KeptWaiting", scene.slack.faults)
    faults.orders.append(CallFault(kind, seconds=60.0))
    root = await scene.mention(identity.DEVELOPER, PLAIN)
    async for _ in poll(60, every=0.02):
        if not faults.orders:
            break
    killed = time.time()
    await processes.kill("core")
    restarting = asyncio.create_task(processes.restart("core"))
    posted = await _posted(scene, database, root)
    await restarting
    if len(said := scene.answers(root)) != 1:
        raise AssertionError(f"one answer was to be posted, and there are {said}")
    return posted - killed


async def _posted(scene: Scene, database: Database, root: str) -> float:
    """Wait until the first turn's answer is on record as posted. Return the time."""
    async for _ in poll(180):
        async with database.begin() as tx:
            settled = await TurnStore(tx).settled(scene.slack_thread(root), 1)
        if settled and settled.posted_at is not None:
            return time.time()
    raise TimeoutError("the answer was not posted within three minutes")
