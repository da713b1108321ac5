"""The run and the end of a process: after Ctrl-C or SIGTERM a command shuts down cleanly; a second
signal changes nothing.
"""

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
"""Seconds for a service to stop: a worker gives its activities 30, compose.yaml kills after 45.
Stopped during many activities, Temporal's core sometimes waits for ever (temporalio 1.35).
"""
GC_THRESHOLDS = (10_000, 20, 5)
"""Thresholds of the garbage collector: it examines new objects after this many allocations,
survivors after this many of those runs, and everything after this many of these: after a million
allocations, which are some hundreds of evicted workflows.
"""


def run_async(
    command: Callable[Parameters, Coroutine[Any, Any, None]],
) -> Callable[Parameters, None]:
    """Return an async command as the plain function that typer takes."""

    @functools.wraps(command)
    def run(*args: Parameters.args, **kwargs: Parameters.kwargs) -> None:
        asyncio.run(command(*args, **kwargs))

    return run


def run_service(service: Callable[[asyncio.Event], Awaitable[None]], *, fast: bool = True) -> None:
    """Run a service that drains and returns once its event is set.

    `fast`: on uvloop, where available. A service that starts and kills child processes stays on
    asyncio's loop, on which the endings of child processes were tested.
    """

    async def served() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()

        def end() -> None:
            if not stop.is_set():
                stop.set()
                loop.call_later(SHUTDOWN_LIMIT, exit_late)

        def exit_late() -> None:
            """Exit without cleanup. No work is lost: Temporal retries activities under way, as
            after a kill.
            """
            limit = f"{SHUTDOWN_LIMIT:.0f} s"
            sys.stderr.write(
                f"The process did not stop within {limit} of the signal, so it exits now.\n"
            )
            sys.stderr.flush()
            os._exit(1)

        for signal_number in _STOP_SIGNALS:
            loop.add_signal_handler(signal_number, end)
        await service(stop)

    # Imports stay for good, and most objects of cached workflows for long: repeated collections of
    # all of them stopped everything for a tenth of a second.
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    if fast:
        with suppress(ImportError):  # uvloop does not exist for Windows
            from uvloop import new_event_loop as loop_factory
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(served())


def run_interactive(coroutine: Coroutine[Any, Any, int]) -> int | None:
    """Run to the end and return the exit code; None if a signal stopped it, after its cleanup."""

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
