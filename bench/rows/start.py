"""The time until a worker is ready, and its memory while idle."""

import asyncio
import sys
import time
from collections.abc import AsyncGenerator

from bench.figures import Row, pair
from bench.ground import Ground, machine_environment
from bench.scale import by_turns
from bench.usage import resident_mib

FLOOR = "a process that imports temporalio's client and worker, and nothing else"
_IMPORT = (
    "import temporalio.client, temporalio.worker, sys; print('ready', flush=True); "
    "sys.stdin.read()"
)
REST = 1.0
"""Seconds after which the memory of a started process is read."""

Started = tuple[float, float]


async def measure(ground: Ground) -> AsyncGenerator[Row, None]:
    for queue in ("core", "agents"):
        ours, floor = await by_turns(
            ground.scale.rounds,
            lambda: _worker(ground, queue),  # noqa: B023 - awaited in this turn
            _imported,
        )
        seconds = pair((run[0] for run in ours), (run[0] for run in floor), "s")
        memory = pair((run[1] for run in ours), (run[1] for run in floor), "MiB")
        yield Row("start", f"`worker --queue {queue}` until it is ready", *seconds, FLOOR)
        yield Row("start", f"`worker --queue {queue}`, memory at rest", *memory, FLOOR)


async def _worker(ground: Ground, queue: str) -> Started:
    began = time.perf_counter()
    more = (
        {"ANTHROPIC_API_KEY": "none", "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}
        if queue == "agents"
        else {}
    )
    async with ground.product(queue, "worker", "--queue", queue, **more):
        took = time.perf_counter() - began
        await asyncio.sleep(REST)
        return took, resident_mib(ground.pid(queue))


async def _imported() -> Started:
    began = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        _IMPORT,
        env=machine_environment(),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        if process.stdout:
            await process.stdout.readline()
        took = time.perf_counter() - began
        await asyncio.sleep(REST)
        return took, resident_mib(process.pid)
    finally:
        process.kill()
        await process.wait()
