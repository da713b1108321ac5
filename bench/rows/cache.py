"""The memory of a workflow in a worker's cache, and the CPU of each of its tasks, without
activities.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from dataclasses import asdict

from bench.figures import Goal, Row, pair
from bench.ground import Ground
from bench.parts.least import QUEUE, EmptyQueue
from bench.path import Clock, Product, said
from bench.scale import by_turns
from bench.usage import Meter, resident_mib
from threadline.slack.model import Thread
from threadline.threads.model import MessageKind
from threadline_devstack.slack import identity

FLOOR = "an empty workflow with a queue, in a worker of the same kind"
SMALL = Goal("largest at most", 200)
MESSAGES = 3
"""Messages in each thread, the first one included."""

Cost = tuple[float, float]
"""KiB for each workflow, and CPU milliseconds for each of its tasks."""


async def measure(ground: Ground) -> AsyncGenerator[Row, None]:
    count = ground.scale.of(300, least=50)
    clock = Clock()
    rounds = min(3, ground.scale.rounds)
    given = (ground.temporal_address, ground.databases.owner, f"{ground.slack_url}/api/")
    async with AsyncExitStack() as opened:
        await opened.enter_async_context(ground.part("activity_worker", *given))
        await opened.enter_async_context(
            ground.part("agent", ground.temporal_address, ground.databases.agent)
        )
        product = Product(ground, ())
        ours, floor = await by_turns(
            rounds, lambda: _ours(ground, product, count), lambda: _floor(ground, clock, count)
        )
    note = (
        f"{count} workflows with {MESSAGES} messages each; memory as the process grows, divided "
        "by their number"
    )
    rows = (("memory of a cached workflow", "KiB", SMALL), ("CPU of a workflow task", "ms", None))
    for number, (name, unit, goal) in enumerate(rows):
        figures = pair((run[number] for run in ours), (run[number] for run in floor), unit)
        yield Row("cache", name, *figures, FLOOR, goal, note=note)


async def _ours(ground: Ground, product: Product, count: int) -> Cost:
    async with ground.part("workflow_worker", ground.temporal_address, "ours"):
        pid = ground.pid("workflow_worker")
        await product.open(1)  # the first one loads modules once for all
        before = resident_mib(pid)
        meter = Meter((pid,))
        meter.start()
        threads = await product.open(count)
        for _ in range(MESSAGES - 1):
            for thread in threads:
                await product.send(thread)
            await product.rest()
        await asyncio.sleep(0.5)
        return await _cost(ground, pid, before, meter, threads)


async def _floor(ground: Ground, clock: Clock, count: int) -> Cost:
    async with ground.part("workflow_worker", ground.temporal_address, "floor"):
        pid = ground.pid("workflow_worker")
        await _tell(ground, [f"queue:{clock.next()}"], clock)
        before = resident_mib(pid)
        meter = Meter((pid,))
        meter.start()
        threads = [f"queue:{clock.next()}" for _ in range(count)]
        for _ in range(MESSAGES):
            await _tell(ground, threads, clock)
        return await _cost(ground, pid, before, meter, threads)


async def _tell(ground: Ground, threads: list[str], clock: Clock) -> None:
    """Send one message to each. On return the workflows have taken them in: a query is answered
    after all tasks.
    """
    for workflow_id in threads:
        thread = Thread(identity.TEAM, identity.REPORTS, workflow_id)
        handle = await ground.client.start_workflow(
            EmptyQueue.run,
            id=workflow_id,
            task_queue=QUEUE,
            start_signal="message",
            start_signal_args=[asdict(said(thread, clock.next(), MessageKind.MESSAGE))],
        )
    await handle.query("__temporal_workflow_metadata")


async def _cost(ground: Ground, pid: int, before: float, meter: Meter, threads: list[str]) -> Cost:
    used = meter.used
    grown = resident_mib(pid) - before
    tasks = 0
    for workflow_id in threads:
        history = await ground.client.get_workflow_handle(workflow_id).fetch_history()
        tasks += sum(
            event.HasField("workflow_task_completed_event_attributes") for event in history.events
        )
    return grown * 1024 / len(threads), used * 1000 / tasks
