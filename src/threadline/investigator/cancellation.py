"""Awaits what must not be left half done, however often the caller is cancelled."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """Await `work` to its end. A cancellation of the caller meanwhile is raised afterwards, in place of the result.

    A lost claim and Temporal may each cancel one attempt: a wait that survives a single cancellation would give up a
    lock, or leave a process, while the work still goes on.
    """
    task = asyncio.create_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as again:
            cancelled = again
    if cancelled:
        raise cancelled from task.exception()
    return task.result()
