"""Ctrl-C and SIGTERM: asked once, a command comes to its end in good order; asking again does not break that off."""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

_ASKS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def serve(service: Callable[[asyncio.Event], Awaitable[None]], *, fast: bool = True) -> None:
    """Run a service that drains and returns once its event is set.

    Args:
        fast: on uvloop, where there is one. A service that starts and kills child processes stays on asyncio's loop,
            on which the ways of their end were tried.
    """

    async def served() -> None:
        stop = asyncio.Event()
        for ask in _ASKS:
            asyncio.get_running_loop().add_signal_handler(ask, stop.set)
        await service(stop)

    with asyncio.Runner(loop_factory=_uvloop() if fast else None) as runner:
        runner.run(served())


def _uvloop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:  # there is none for Windows
        return None
    return uvloop.new_event_loop


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
