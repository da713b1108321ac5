"""The speed of replaying a long history, by a worker whose cache has lost the thread, or by a
check before a deploy.
"""

import time
from collections.abc import AsyncGenerator, Sequence

from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer

from bench.figures import Row, pair
from bench.ground import Ground
from bench.ground import ground as another_ground
from bench.parts.least import QUEUE, EmptyLoop
from bench.path import burst, product
from bench.scale import by_turns
from threadline.threads.payload_converter import data_converter
from threadline.wiring.temporal import replayer, workflow_runner
from threadline_devstack import temporal

LENGTH = 5000
FLOOR = "the SDK's replay of a loop with one activity, as long"
_ENDLESS = {"limit.historyCount.suggestContinueAsNew": 40_000}
"""The product continues as new long before 5,000 events, when the server suggests it; here the
server suggests it later.
"""
_EVENTS_OF_A_TURN = 6
_BURST = 5


async def measure(ground: Ground) -> AsyncGenerator[Row, None]:
    length = ground.scale.of(LENGTH, least=150)
    unlimited = {**temporal.UNHURRIED, **_ENDLESS}
    async with another_ground(ground.scale, ground.folder / "endless", unlimited) as endless:
        ours, floor = await _recorded(endless, length)
    least = Replayer(
        workflows=[EmptyLoop], data_converter=data_converter, workflow_runner=workflow_runner()
    )
    rates = await by_turns(
        ground.scale.rounds, lambda: _replay(replayer(), ours), lambda: _replay(least, floor)
    )
    figures = pair(*rates, "events/s")
    yield Row("replay", f"replay of a history of {len(ours.events)} events", *figures, FLOOR)


async def _recorded(ground: Ground, length: int) -> Sequence[WorkflowHistory]:
    """Return the histories of a thread with bursts of messages, and of a loop, each with about
    this many events.
    """
    async with ground.part("least_worker", ground.temporal_address), product(ground) as ours:
        (thread,) = await ours.open(1)
        case = ground.client.get_workflow_handle(thread)
        while (await case.describe()).history_length < length:
            await burst(ours, [thread], _BURST)
        loop = await ground.client.start_workflow(
            EmptyLoop.run, length // _EVENTS_OF_A_TURN, id="loop", task_queue=QUEUE
        )
        await loop.result()
        return await case.fetch_history(), await loop.fetch_history()


async def _replay(by: Replayer, history: WorkflowHistory) -> float:
    began = time.perf_counter()
    await by.replay_workflow(history)
    return len(history.events) / (time.perf_counter() - began)
