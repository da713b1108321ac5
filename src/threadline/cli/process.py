"""Ctrl-C and SIGTERM: asked once, a command comes to its end in good order; asking again does not break that off."""

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

_ASKS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

LEAVES = 40.0
"""Seconds for a service to come to its end: a worker gives its activities 30, compose.yaml kills after 45.

Stopped amid many activities, Temporal's core sometimes waits for ever (temporalio 1.35).
"""

SELDOM = (10_000, 20, 5)
"""When the collector of garbage looks: after so many objects more, at what is left of them after so many looks, and at
all after so many of those: after a million, which are some hundreds of evicted workflows.
"""


def serve(service: Callable[[asyncio.Event], Awaitable[None]], *, fast: bool = True) -> None:
    """Run a service that drains and returns once its event is set.

    Args:
        fast: on uvloop, where there is one. A service that starts and kills child processes stays on asyncio's loop,
            on which the ways of their end were tried.
    """

    async def served() -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()

        def end() -> None:
            if not stop.is_set():
                stop.set()
                loop.call_later(LEAVES, _leave)

        for ask in _ASKS:
            loop.add_signal_handler(ask, end)
        await service(stop)

    # What was imported stays, and most of what a worker holds of its workflows does for long: looking through it all
    # again and again stopped everything for a tenth of a second.
    gc.freeze()
    gc.set_threshold(*SELDOM)
    with asyncio.Runner(loop_factory=_uvloop() if fast else None) as runner:
        runner.run(served())


def _uvloop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:  # there is none for Windows
        return None
    return uvloop.new_event_loop


def _leave() -> None:
    """Nothing is lost by it: what was under way is tried again, as after a kill."""
    sys.stderr.write(f"The process did not stop within {LEAVES:.0f} s of the signal, so it exits now.\n")
    sys.stderr.flush()
    os._exit(1)


def play(coroutine: Coroutine[Any, Any, int]) -> int | None:
    """Run to the end and return the exit code; None when somebody asked to stop before, and everything is put away."""

    async def played() -> int | None:
        task = asyncio.create_task(coroutine)
        for ask in _ASKS:
            asyncio.get_running_loop().add_signal_handler(ask, _cancel_once(task))
        try:
            return await task
        except asyncio.CancelledError:
            return None

    return asyncio.run(played())


def _cancel_once(task: asyncio.Task[int]) -> Callable[[], None]:
    def cancel() -> None:
        if not task.cancelling():
            task.cancel()

    return cancel
