"""ButtonWorkflow: the run that waits for the button presses of one card, for all kinds of
cards.
"""

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
    """Handles presses one by one, and a timer, until the card is over. A feature subclasses it,
    with its own `@workflow.init` and `@workflow.run`, since Temporal does not inherit them. Only
    `input` survives continue-as-new.
    """

    def __init__(self, given: State) -> None:
        self.input = given
        self.timer = Timer()
        self.background = BackgroundTasks()
        self._unreadable = 0

    @abstractmethod
    async def on_press(self, press: ButtonPress) -> str:
        """Handle a press. Returns the private reply to the person who pressed, or ""."""

    @abstractmethod
    async def on_timer(self) -> None:
        """Handle the timer, which has fired and is clear."""

    def follow_up(self) -> None:
        """Start the work that is due once all presses are handled. Called repeatedly, and must not
        wait.
        """

    @property
    @abstractmethod
    def is_over(self) -> bool:
        """Whether the card accepts no further presses; the run then ends once no background task
        is left.
        """

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return the card as the query shows it."""

    @workflow.signal(
        dynamic=True, description="button_pressed: somebody pressed a button of this card."
    )
    def receive(self, name: str, args: Sequence[RawValue]) -> None:
        """Keep a press. The handler is dynamic, because the SDK drops arguments of a named signal
        that do not decode.
        """
        press: ButtonPress | None = None
        if name == BUTTON_PRESSED and len(args) == 1:
            with suppress(Exception):  # a converter may raise anything for unreadable bytes
                press = workflow.payload_converter().from_payload(args[0].payload, ButtonPress)
        if press is None:
            self._unreadable += 1
            about = {"workflow": workflow.info().workflow_id, "signal": name}
            workflow.logger.error("button_press_unreadable", extra=about)
        else:
            self.input.accept(press)

    @workflow.query(
        description="The card, the pending presses, and how many presses could not be read."
    )
    def state(self) -> dict[str, Any]:
        return {
            **self.describe(),
            "pending": len(self.input.presses),
            "unreadable": self._unreadable,
        }

    async def serve(self) -> None:
        """Return when the card is over. The caller must then end the run without awaiting
        anything: a press that arrives between the last check for presses and the end would be
        lost.
        """
        while True:
            while self.input.presses:
                press = self.input.presses[0]
                if text := await self.on_press(press):
                    reply = PrivateReply(press.channel, press.thread_ts, press.user_id, text)
                    self.background.start(
                        ThreadActivities.reply_privately, reply, summary=f"tell {press.user_id}"
                    )
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
        """Whether the history is long and no background task is left: the next run would not know
        of them.
        """
        info = workflow.info()
        is_long = (
            info.is_continue_as_new_suggested()
            or info.get_current_history_length() > model.MAX_PRESS_EVENTS
        )
        return is_long and self.background.idle

    def _has_work(self) -> bool:
        return (
            bool(self.input.presses)
            or self.timer.fired
            or self._ended
            or self._must_continue_as_new
        )

    async def _wait(self) -> None:
        """Wait for work. A Cancel in Temporal's UI ends nothing: the buttons are still in Slack,
        and the record waits.
        """
        try:
            await workflow.wait_condition(self._has_work)
        except (asyncio.CancelledError, FailureError) as error:
            if not is_cancelled_exception(error):
                raise
            workflow.logger.warning(
                "cancellation_ignored", extra={"workflow": workflow.info().workflow_id}
            )
