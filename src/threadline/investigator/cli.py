"""Runs one process of the agent's CLI for one turn, and ends it however the turn ends."""

import asyncio
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, MirrorErrorMessage, ResultMessage

from threadline.errors import Permanent, Transient
from threadline.investigator.sandbox import Sandbox
from threadline.investigator.stream import TurnMonitor, classify
from threadline.threads.activity import run_to_end

INTERRUPT_GRACE = 0.4
"""Seconds that an interrupted CLI has to report its costs, and again to exit, before it is killed.
"""
FLUSH_GRACE = 20.0
"""Seconds that a CLI has, after its answer, to deliver the rest of its transcript."""

T = TypeVar("T")


class CliSession:
    """One client and its process.

    The task that talks to the client is never cancelled from outside: a cancellation inside the
    SDK takes five seconds, and a second one leaves the process running.
    """

    def __init__(
        self, options: ClaudeAgentOptions, sandbox: Sandbox, monitor: TurnMonitor
    ) -> None:
        self._client = ClaudeSDKClient(options)
        self._sandbox = sandbox
        self._monitor = monitor
        self._connected = False

    async def connect(self) -> None:
        """Start the process. Raises `Permanent`, `Transient` or `SessionNotFound`."""
        with self._classified():
            await self._client.connect()
        self._connected = True

    async def ask(self, prompt: str) -> ResultMessage:
        """Send one prompt and follow the stream to its result, which may be a failure.

        Raises `Permanent`, `Transient` or `SessionNotFound` when there is no result.
        """
        with self._classified():
            await self._client.query(prompt)
            async for message in self._client.receive_response():
                self._monitor.observe(message)
                if isinstance(message, ResultMessage):
                    return message
                if isinstance(message, MirrorErrorMessage):
                    raise Transient(
                        "The agent's transcript could not be stored: the turn is tried again."
                    )
        raise Transient("The agent's process gave no result: the turn is tried again.")

    @contextmanager
    def _classified(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            failure = classify(error, self._monitor)
            if failure is None:
                raise
            raise failure from error

    async def run(self, talk: Coroutine[Any, Any, T], *, timeout: float, stale_after: float) -> T:
        """Await `talk`, which calls `connect` and `ask`, and always end the process.

        A cancellation takes less than a second.

        Raises:
            Permanent: It took longer than `timeout` seconds.
            Transient: No message came for `stale_after` seconds.
        """
        talking = asyncio.create_task(talk)
        try:
            await self._until_done(talking, timeout, stale_after)
        finally:
            # The interrupted CLI reports the cost of a late or cancelled turn.
            await run_to_end(self._end(talking))
        return talking.result()

    async def _until_done(
        self, talking: asyncio.Task[T], timeout: float, stale_after: float
    ) -> None:
        deadline = time.monotonic() + timeout
        while not talking.done():
            stale = self._monitor.last_sign + stale_after
            now = time.monotonic()
            if now >= deadline:
                raise Permanent(
                    f"The turn took longer than {timeout:.0f} s: look at the case yourself."
                )
            if now >= stale:
                raise Transient(
                    f"The agent was silent for {stale_after:.0f} s: the turn is tried again."
                )
            await asyncio.wait({talking}, timeout=min(deadline, stale) - now)

    async def _end(self, talking: asyncio.Task[Any]) -> None:
        if not talking.done():
            await self._interrupt(talking)
        answered = not talking.cancelled() and talking.exception() is None
        closing = asyncio.create_task(self._client.disconnect())
        await asyncio.wait({closing}, timeout=FLUSH_GRACE if answered else INTERRUPT_GRACE)
        await self._kill_until_done(closing)

    async def _interrupt(self, talking: asyncio.Task[Any]) -> None:
        if self._connected:
            with suppress(Exception):  # a process that does not stop is killed
                async with asyncio.timeout(INTERRUPT_GRACE):
                    await self._client.interrupt()
                    await asyncio.wait({talking})
        talking.cancel()
        await self._kill_until_done(talking)

    async def _kill_until_done(self, task: asyncio.Task[Any]) -> None:
        """Kill the process until the task that waits for it ends.

        A task that still hangs then hangs on something else, and is cancelled.
        """
        patience = time.monotonic() + FLUSH_GRACE
        while not task.done() and time.monotonic() < patience:
            self._sandbox.kill()
            await asyncio.wait({task}, timeout=0.05)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
