"""HandoverWorkflow: a turn waits for a person to take it over, and to close it."""

from dataclasses import replace
from enum import Enum
from typing import Any

from temporalio import workflow

from threadline.handovers.contract import HandoverActivities, HandoverState, Reminder
from threadline.handovers.model import (
    CLOSE,
    HANDOVER_WORKFLOW,
    LOOK_EVERY,
    MAX_REMINDERS,
    REPLY,
    SEND_AGAIN,
    TAKE,
    UNDO,
    WRITTEN,
    HandoverInput,
)
from threadline.threads.buttons import ButtonWorkflow
from threadline.threads.calls import attempt_despite_cancel, call_until_done
from threadline.threads.model import ButtonPress, format_utc

_VERBS = {CLOSE: "close", TAKE: "take", REPLY: "reply", UNDO: "undo", WRITTEN: "write under the card"}
"""For Temporal's UI, by the button."""


class Due(Enum):
    """The next step that the timer is set for."""

    SEND = "post held replies"
    REMIND = "reminder"
    LOOK = "look at the record"


@workflow.defn(name=HANDOVER_WORKFLOW)
class HandoverWorkflow(ButtonWorkflow[HandoverInput]):
    """One for each turn that a person is to take over. It ends when somebody has closed it and no reply is held, or
    when it is deleted with its conversation; a later press starts another run, which answers it from the record."""

    @workflow.init
    def __init__(self, given: HandoverInput) -> None:
        super().__init__(given)
        self._state = HandoverState(open=True)
        self._due, self._until = Due.LOOK, 0.0
        self._reminds = False
        self._look_at = 0.0
        """When to remind people, or to look at the record, in seconds since 1970."""

    @workflow.run
    async def run(self, given: HandoverInput) -> str:
        """Wait until somebody has closed it; returns who had taken it."""
        workflow.upsert_memo({"correlation_id": given.ref.key})
        opened = await call_until_done(HandoverActivities.open_handover, given.ref, summary="post the handover card")
        self._enter(opened)
        await self.serve()
        return self._state.taken_by

    def describe(self) -> dict[str, Any]:
        return {
            "turn": self.input.ref.key,
            "open": self._state.open,
            "taken_by": self._state.taken_by,
            "reminded": self.input.reminded,
        }

    async def on_press(self, press: ButtonPress) -> str:
        taken_by, button = self._state.taken_by, press.action_id
        summary = f"{press.user_id}: {_VERBS.get(button, button)}"
        state: HandoverState = await call_until_done(HandoverActivities.press_handover, press, summary=summary)
        self._enter(state)
        if button == CLOSE:
            await self._send_replies("post held replies before the end")
        if button in (TAKE, CLOSE) or state.taken_by != taken_by:
            summary = "update the card, tell both threads"
            await attempt_despite_cancel(HandoverActivities.show_handover, self.input.ref, summary=summary)
        if button in (REPLY, UNDO, WRITTEN):
            await attempt_despite_cancel(
                HandoverActivities.show_reply, press, summary="show the reply under the card", on_result=self._enter
            )
        return state.reply

    async def on_timer(self) -> None:
        """Post what was held, remind people, or look at the record. The next timer is set also when this fails."""
        if self._due is Due.SEND:
            await self._send_replies("post held replies")
            return
        self._look_at = 0.0
        if self._due is Due.REMIND:
            self.input.reminded += 1
            reminder, summary = Reminder(self.input.ref, self.input.reminded), f"reminder {self.input.reminded}"
            failed = await attempt_despite_cancel(
                HandoverActivities.remind_handover, reminder, summary=summary, on_result=self._enter
            )
        else:
            failed = await attempt_despite_cancel(
                HandoverActivities.open_handover, self.input.ref, summary="look at the record", on_result=self._enter
            )
        if failed:
            self._enter(self._state)

    async def _send_replies(self, summary: str) -> None:
        failed = await attempt_despite_cancel(
            HandoverActivities.send_replies, self.input.ref, summary=summary, on_result=self._enter
        )
        if failed and self._state.send_in is not None:
            self._enter(replace(self._state, send_in=SEND_AGAIN))

    @property
    def is_over(self) -> bool:
        return not self._state.open and self._state.send_in is None

    def _enter(self, state: HandoverState) -> None:
        """Take a state over and set the timer for what is due next."""
        self._state = state
        self.input.reminded = max(self.input.reminded, state.reminded)
        now = workflow.now().timestamp()
        reminds = not state.taken_by and self.input.reminded < MAX_REMINDERS
        if reminds is not self._reminds or self._look_at <= now:
            self._look_at = now + (state.remind_every if reminds else LOOK_EVERY)
        self._reminds = reminds
        self._set_timer(state, now)
        details = "Waiting for a person." if not state.taken_by else f"Taken by {state.taken_by}."
        workflow.set_current_details(details if state.open else "Closed.")

    def _set_timer(self, state: HandoverState, now: float) -> None:
        due, until = Due.LOOK, self._look_at
        if self._reminds:
            due = Due.REMIND
        if state.send_in is not None:
            due, until = Due.SEND, now + state.send_in
        if (due, until) == (self._due, self._until) and self.timer.is_set and state.open:
            return
        self.timer.clear()
        self._due, self._until = due, until
        if state.open or due is Due.SEND:
            self.timer.set(until, f"{due.value} at {format_utc(until)}")
