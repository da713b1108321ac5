"""ThreadRun: the life of a workflow run that serves one Slack thread. docs/adr/0002 explains its
shape.

It stores incoming messages, and lets one supervised step at a time act on them. A workflow
provides its part as a `ThreadHandler`.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from typing import Any

from temporalio import workflow
from temporalio.exceptions import FailureError, is_cancelled_exception

from threadline.threads.calls import BackgroundTasks
from threadline.threads.inbox import Inbox

Step = Coroutine[Any, Any, None]

MAX_BURST = 5
"""Batches of a burst that are stored before a step starts on them."""


class ThreadHandler(ABC):
    """The part of a run that differs by kind of thread. A workflow subclasses it, and sets the
    attributes in `__init__`. Only `state` survives continue-as-new, `cancelled` and `limits` among
    it. Properties and plain methods never wait and call no activity.
    """

    state: Any
    inbox: Inbox
    background: BackgroundTasks

    @abstractmethod
    async def open(self) -> None:
        """Load the thread's record. A run does this first, and again when a Cancel has interrupted
        it.
        """

    @abstractmethod
    async def store_messages(self) -> None:
        """Store the oldest batch of the inbox, and only then remove it from the inbox."""

    @abstractmethod
    def next_step(self) -> Step | None:
        """Return the step to take now, decided from the snapshot alone, so that a new run decides
        the same.
        """

    @property
    @abstractmethod
    def ended(self) -> bool:
        """Whether only background tasks are left."""

    @abstractmethod
    def result(self) -> str:
        """Return the result of a run that has ended. May continue as new instead."""

    @property
    def collects_burst(self) -> bool:
        """Whether a burst that is still arriving is stored before the next step."""
        return True

    @property
    def blocks_continue_as_new(self) -> bool:
        """Whether continue-as-new would drop work that is under way."""
        return False

    @property
    def idle(self) -> bool:
        """Whether no background task is under way."""
        return self.background.idle

    def on_cancel(self) -> None:
        """Handle a Cancel from Temporal's UI or API."""
        self.state.cancelled = True

    def continue_as_new(self) -> None:
        workflow.continue_as_new(self.state)


class Timer:
    """The one timer of a wait. Its time is absolute, so that continue-as-new keeps it."""

    def __init__(self) -> None:
        self._sleep: asyncio.Task[None] | None = None

    @property
    def is_set(self) -> bool:
        return self._sleep is not None

    @property
    def fired(self) -> bool:
        return self._sleep is not None and self._sleep.done()

    def set(self, at: float, summary: str) -> None:
        """Start the timer; it fires at a time in seconds since 1970."""
        sleep = workflow.sleep(max(0.0, at - workflow.now().timestamp()), summary=summary)
        self._sleep = asyncio.create_task(sleep)

    def clear(self) -> None:
        if self._sleep:
            self._sleep.cancel()
            self._sleep = None


class ThreadRun:
    """One run, from its start to its end or to continue-as-new."""

    def __init__(self, handler: ThreadHandler) -> None:
        self.timer = Timer()
        self._handler = handler
        self._opened = False
        self._cancelled = False
        self._step: asyncio.Task[None] | None = None
        self._collected = 0

    @property
    def busy(self) -> bool:
        """Whether a step is under way."""
        return self._step is not None

    async def run(self) -> str:
        """Store messages and decide about the run's end. All other work is one step, whose result
        is always checked.
        """
        while True:
            try:
                if not self._opened:
                    await self._handler.open()
                    self._opened = True
                if self._step and self._step.done():
                    finished = self._step
                    self._step = None
                    finished.result()
                if self._handler.inbox:
                    await self._handler.store_messages()
                if (result := self._proceed()) is not None:
                    return result
                await workflow.wait_condition(self._has_work)
            except (asyncio.CancelledError, FailureError) as error:
                if not is_cancelled_exception(error) or self._cancelled:
                    # Failing the run would take accepted messages with it; a failed task waits for
                    # a fixed worker.
                    raise RuntimeError(
                        "a step failed with an error that it does not handle"
                    ) from error
                # For this run only: the run that continues a cancelled one may be cancelled again.
                self._cancelled = True
                self._handler.on_cancel()

    def _proceed(self) -> str | None:
        """Start the next step, continue as new, or return the result that ends the run. Nothing in
        here awaits: a signal between the last check of the inbox and the end would be lost.
        """
        inbox = self._handler.inbox
        if self._step:
            return None
        if self._must_continue_as_new():
            if inbox.fits_one_batch() or inbox.fits_next_run():
                self._handler.continue_as_new()
            # In a flood, further steps would keep the run until the server refuses its signals.
            return None
        if self._collects_burst():
            return None
        if step := self._handler.next_step():
            self.timer.clear()
            self._step = asyncio.create_task(step)
        elif self._handler.ended and not inbox and self._handler.idle:
            return self._handler.result()
        return None

    def _collects_burst(self) -> bool:
        """Return whether to store the messages that have arrived meanwhile before a step starts: a
        burst is one turn, not two. After `MAX_BURST` batches the step starts in any case, because
        a storm keeps arriving.
        """
        self._collected = (
            self._collected + 1 if self._handler.inbox and self._handler.collects_burst else 0
        )
        return 0 < self._collected <= MAX_BURST

    def _must_continue_as_new(self) -> bool:
        allowed = self._handler.state.limits.max_history_events
        info = workflow.info()
        full = (
            info.is_continue_as_new_suggested() or 0 < allowed < info.get_current_history_length()
        )
        # Background tasks would be dropped with the run; at the end they may be all that is left.
        ending = self._handler.ended and not self._handler.idle
        return full and not (ending or self._handler.blocks_continue_as_new)

    def _has_work(self) -> bool:
        if self._handler.inbox:
            return True
        if self._step:
            return self._step.done()
        return self.timer.fired or (self._handler.ended and self._handler.idle)
