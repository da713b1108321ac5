"""The life of a run that serves one Slack thread: it stores what arrives, and lets one supervised step at a time act.

Shared by the workflows that do this (composition: each has its own `@workflow.run`). Why it has this shape, and what
other shapes lost, is told in docs/adr/0002.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from temporalio import workflow
from temporalio.exceptions import FailureError, is_cancelled_exception

from threadline.threads.inbox import Inbox

Step = Coroutine[Any, Any, None]

GATHERS = 5
"""Batches that are stored one after the other before a turn starts on them."""


class Duties(Protocol):
    """What a kind of thread brings to its run. Properties and plain methods never wait and ask nobody."""

    @property
    def inbox(self) -> Inbox: ...

    @property
    def history_events(self) -> int:
        """Continue as new beyond this many events; 0: when Temporal suggests it."""

    @property
    def gathers(self) -> bool:
        """Whether a burst that is still coming in is stored before the next step."""

    @property
    def ended(self) -> bool:
        """Nothing is left to do, save what is cosmetic."""

    @property
    def idle(self) -> bool:
        """Nothing cosmetic is under way."""

    @property
    def must_wait(self) -> bool:
        """Something is under way that a run which continues as new would drop."""

    async def open(self) -> None:
        """Learn what is known of the thread: the first that a run does, and tried again when a Cancel broke it off."""

    async def flush(self) -> None:
        """Store the inbox's oldest batch, and only then let go of it."""

    def due(self) -> Step | None:
        """The step that is to be taken now, by the marks alone, so that a new run decides the same."""

    def outcome(self) -> str:
        """How a run that has ended ends."""

    def cancelled(self) -> None:
        """Whoever runs the house wants the run to end."""

    def continue_as_new(self) -> None:
        """Call `workflow.continue_as_new` with all that must survive."""


class Alarm:
    """The one timer of a wait; what it is set to is absolute, so that continue-as-new keeps it."""

    def __init__(self) -> None:
        self._pause: asyncio.Task[None] | None = None

    @property
    def is_set(self) -> bool:
        return self._pause is not None

    @property
    def rang(self) -> bool:
        return self._pause is not None and self._pause.done()

    def set(self, at: float, summary: str) -> None:
        """Ring at a time, in seconds since 1970."""
        pause = workflow.sleep(max(0.0, at - workflow.now().timestamp()), summary=summary)
        self._pause = asyncio.create_task(pause)

    def clear(self) -> None:
        if self._pause:
            self._pause.cancel()
            self._pause = None


class ThreadRun:
    """One run, from its start to its end, or to the run that continues it.

    Args:
        unwanted: whether what the step under way waits for is to be broken off; asked whenever something has changed.
        interrupt: does so.
    """

    def __init__(
        self,
        duties: Duties,
        *,
        unwanted: Callable[[], bool] = lambda: False,
        interrupt: Callable[[], None] = lambda: None,
    ) -> None:
        self.alarm = Alarm()
        self._duties = duties
        self._unwanted = unwanted
        self._interrupt = interrupt
        self._opened = False
        self._cancelled = False
        self._step: asyncio.Task[None] | None = None
        self._gathered = 0

    @property
    def at_work(self) -> bool:
        """A step is under way."""
        return self._step is not None

    async def to_its_end(self) -> str:
        """Store messages and own the run's life; everything else is one step whose result is always looked at."""
        while True:
            try:
                await self._take_in()
                if (outcome := self._proceed()) is not None:
                    return outcome
                await workflow.wait_condition(self._awake)
            except (asyncio.CancelledError, FailureError) as error:
                if not is_cancelled_exception(error) or self._cancelled:
                    # Failing the run would take accepted messages with it; a failed task waits for a mended worker.
                    raise RuntimeError("a step failed with an error that it does not handle") from error
                # Of this run alone: one that continues a run which was cancelled may be cancelled once more.
                self._cancelled = True
                self._duties.cancelled()

    async def _take_in(self) -> None:
        """Know the thread, hear how the step ended, and store what has arrived."""
        if not self._opened:
            await self._duties.open()
            self._opened = True
        if self._step and self._step.done():
            finished, self._step = self._step, None
            finished.result()
        if self._duties.inbox:
            await self._duties.flush()

    def _proceed(self) -> str | None:
        """Start what is due, continue as new, or end with the outcome.

        Nothing in here awaits: a signal between the last look at the inbox and the end would be lost.
        """
        inbox = self._duties.inbox
        if self._step:
            self._interrupt()
            return None
        if self._must_continue_as_new():
            if inbox.fits_one_batch() or inbox.fits_next_run():
                self._duties.continue_as_new()
            return None  # in a flood, step after step would keep the run until the server refuses its signals
        if self._gathers():
            return None
        if due := self._duties.due():
            self.alarm.clear()
            self._step = asyncio.create_task(due)
        elif self._duties.ended and not inbox and self._duties.idle:
            return self._duties.outcome()
        return None

    def _gathers(self) -> bool:
        """Whether to store what has come meanwhile before a turn starts: a burst is one turn, not two.

        A few times, and then the turn starts in any case: in a storm there is always something more.
        """
        self._gathered = self._gathered + 1 if self._duties.inbox and self._duties.gathers else 0
        return 0 < self._gathered <= GATHERS

    def _must_continue_as_new(self) -> bool:
        allowed, info = self._duties.history_events, workflow.info()
        due = info.is_continue_as_new_suggested() or 0 < allowed < info.get_current_history_length()
        # What is cosmetic would be dropped with the run; at the end that may be all that is left.
        leaving = self._duties.ended and not self._duties.idle
        return due and not (leaving or self._duties.must_wait)

    def _awake(self) -> bool:
        if self._duties.inbox:
            return True
        if self._step:
            return self._step.done() or self._unwanted()
        return self.alarm.rang or (self._duties.ended and self._duties.idle)
