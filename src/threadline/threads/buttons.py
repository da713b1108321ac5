"""What a run does that waits for a card's buttons, whatever the card asks: shared by approvals and hand-overs."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import FailureError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from threadline.threads import addressing

Click = TypeVar("Click")

MOST_EVENTS = 2_000
"""Of one run's history: whoever presses a button again and again does not fill it."""


class Buttons(Generic[Click]):
    """Hands on each press that can be read, and counts the others.

    For a dynamic handler: one with a name has its arguments decoded by the SDK, which drops what does not decode.
    """

    def __init__(self, form: type[Click], take: Callable[[Click], None], about: dict[str, Any]) -> None:
        self.unreadable = 0
        self._form = form
        self._take = take
        self._about = about

    def press(self, name: str, args: Sequence[RawValue]) -> None:
        click = self._read(name, args)
        if click is None:
            self.unreadable += 1
            workflow.logger.error("click_unreadable", extra={**self._about, "signal": name})
        else:
            self._take(click)

    def _read(self, name: str, args: Sequence[RawValue]) -> Click | None:
        if name != addressing.BUTTON_PRESSED or len(args) != 1:
            return None
        try:
            return workflow.payload_converter().from_payload(args[0].payload, self._form)
        except Exception:  # noqa: BLE001 - whatever a converter says of what it cannot read
            return None

    async def until(self, awake: Callable[[], bool]) -> None:
        """Wait. A Cancel in Temporal's UI ends nothing: the buttons are still in Slack, and the record waits."""
        try:
            await workflow.wait_condition(awake)
        except (asyncio.CancelledError, FailureError) as error:
            if not is_cancelled_exception(error):
                raise
            workflow.logger.warning("cancellation_ignored", extra=self._about)


def long() -> bool:
    """Whether the run's history is long enough to go on in another."""
    info = workflow.info()
    return info.is_continue_as_new_suggested() or info.get_current_history_length() > MOST_EVENTS
