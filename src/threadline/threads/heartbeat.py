"""A heartbeat by a timer, beside work that has nothing to tell: a lost worker costs seconds, and no long timeout."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from temporalio import activity

BEAT = 5.0


@asynccontextmanager
async def beating(every: float = BEAT) -> AsyncIterator[None]:
    """Heartbeat at once and then every so many seconds until the block ends; a cancellation reaches the block by it."""

    async def beat() -> None:
        while True:
            activity.heartbeat()
            await asyncio.sleep(every)

    task = asyncio.create_task(beat())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
