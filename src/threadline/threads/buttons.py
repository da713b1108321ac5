"""ButtonWorkflow: the run that waits for the buttons of one card, whatever the card asks."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Generic, TypeVar

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import FailureError, is_cancelled_exception

from threadline.threads import model
from threadline.threads.calls import BackgroundTasks
from threadline.threads.contract import PrivateReply, ThreadActivities
from threadline.threads.model import BUTTON_PRESSED, ButtonPress, ButtonState
from threadline.threads.run_loop import Timer

State = TypeVar("State", bound=ButtonState)


class ButtonWorkflow(ABC, Generic[State]):
    """Answers presses one by one, and a timer, until the card is over. A feature subclasses it, with `@workflow.init`
    and `@workflow.run`, since Temporal does not inherit them. `input` is all that survives continue-as-new."""

    def __init__(self, given: State) -> None:
        self.input = given
        self.timer = Timer()
        self.background = BackgroundTasks()
        self._unreadable = 0

    @abstractmethod
    async def on_press(self, press: ButtonPress) -> str:
        """Let a press count; returns what the person who pressed is told, and nobody else, or ""."""

    @abstractmethod
    async def on_timer(self) -> None:
        """The timer has fired, and is clear."""

    def follow_up(self) -> None:
        """Start what is due once all presses are answered. Called again and again, and never waits."""

    @property
    @abstractmethod
    def is_over(self) -> bool:
        """The card waits for nobody any more: once nothing is left in the background, the run ends."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """The card, as the query shows it."""

    @workflow.signal(dynamic=True, description="button_pressed: somebody pressed a button of this card.")
    def receive(self, name: str, args: Sequence[RawValue]) -> None:
        """Keep a press. Dynamic, because the SDK drops arguments of a named signal that do not decode."""
        press: ButtonPress | None = None
        if name == BUTTON_PRESSED and len(args) == 1:
            with suppress(Exception):  # whatever a converter says of what it cannot read
                press = workflow.payload_converter().from_payload(args[0].payload, ButtonPress)
        if press is None:
            self._unreadable += 1
            about = {"workflow": workflow.info().workflow_id, "signal": name}
            workflow.logger.error("button_press_unreadable", extra=about)
        else:
            self.input.accept(press)

    @workflow.query(description="The card, the pending presses, and how many presses could not be read.")
    def state(self) -> dict[str, Any]:
        return {**self.describe(), "pending": len(self.input.presses), "unreadable": self._unreadable}

    async def serve(self) -> None:
        """Return when the card is over. The caller then ends the run without waiting for anything: a press that comes
        between the last look at the presses and the end would be lost."""
        while True:
            while self.input.presses:
                press = self.input.presses[0]
                if text := await self.on_press(press):
                    reply = PrivateReply(press.channel, press.thread_ts, press.user_id, text)
                    self.background.start(ThreadActivities.reply_privately, reply, summary=f"tell {press.user_id}")
                del self.input.presses[0]
            if self.timer.fired:
                self.timer.clear()
                await self.on_timer()
                continue
            self.follow_up()
            if self._ended:
                return
            if self._must_continue_as_new:
                workflow.continue_as_new(self.input)
            await self._wait()

    @property
    def _ended(self) -> bool:
        return self.is_over and not self.input.presses and self.background.idle

    @property
    def _must_continue_as_new(self) -> bool:
        """What is under way is finished first: the next run would not know of it."""
        info = workflow.info()
        is_long = info.is_continue_as_new_suggested() or info.get_current_history_length() > model.MAX_PRESS_EVENTS
        return is_long and self.background.idle

    def _has_work(self) -> bool:
        return bool(self.input.presses) or self.timer.fired or self._ended or self._must_continue_as_new

    async def _wait(self) -> None:
        """A Cancel in Temporal's UI ends nothing: the buttons are still in Slack, and the record waits."""
        try:
            await workflow.wait_condition(self._has_work)
        except (asyncio.CancelledError, FailureError) as error:
            if not is_cancelled_exception(error):
                raise
            workflow.logger.warning("cancellation_ignored", extra={"workflow": workflow.info().workflow_id})
