"""The end of a process: after Ctrl-C or SIGTERM a command shuts down cleanly; a second signal changes nothing."""

import asyncio
import functools
import gc
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, ParamSpec

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Parameters = ParamSpec("Parameters")

SHUTDOWN_LIMIT = 40.0
"""Seconds for a service to come to its end: a worker gives its activities 30, compose.yaml kills after 45. Stopped amid
many activities, Temporal's core sometimes waits for ever (temporalio 1.35)."""
GC_THRESHOLDS = (10_000, 20, 5)
"""When the collector of garbage looks: after so many objects more, at what is left of them after so many looks, and at
all after so many of those: after a million, which are some hundreds of evicted workflows."""


def run_async(command: Callable[Parameters, Coroutine[Any, Any, None]]) -> Callable[Parameters, None]:
    """A command that awaits, as the plain function that typer takes."""

    @functools.wraps(command)
    def run(*args: Parameters.args, **kwargs: Parameters.kwargs) -> None:
        asyncio.run(command(*args, **kwargs))

    return run


def run_service(service: Callable[[asyncio.Event], Awaitable[None]], *, fast: bool = True) -> None:
    """Run a service that drains and returns once its event is set. `fast`: on uvloop, where there is one. A service
    that starts and kills child processes stays on asyncio's loop, on which the ways of their end were tried."""

    async def served() -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()

        def end() -> None:
            if not stop.is_set():
                stop.set()
                loop.call_later(SHUTDOWN_LIMIT, exit_late)

        def exit_late() -> None:
            """Nothing is lost by it: what was under way is tried again, as after a kill."""
            limit = f"{SHUTDOWN_LIMIT:.0f} s"
            sys.stderr.write(f"The process did not stop within {limit} of the signal, so it exits now.\n")
            sys.stderr.flush()
            os._exit(1)

        for signal_number in _STOP_SIGNALS:
            loop.add_signal_handler(signal_number, end)
        await service(stop)

    # What was imported stays, and most of what a worker holds of its workflows does for long: looking through it all
    # again and again stopped everything for a tenth of a second.
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    if fast:
        with suppress(ImportError):  # there is none for Windows
            from uvloop import new_event_loop as loop_factory
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(served())


def run_interactive(coroutine: Coroutine[Any, Any, int]) -> int | None:
    """Run to the end and return the exit code; None when somebody asked to stop before, and everything is put away."""

    async def played() -> int | None:
        task = asyncio.create_task(coroutine)

        def cancel() -> None:
            if not task.cancelling():
                task.cancel()

        for signal_number in _STOP_SIGNALS:
            asyncio.get_running_loop().add_signal_handler(signal_number, cancel)
        try:
            return await task
        except asyncio.CancelledError:
            return None

    return asyncio.run(played())
