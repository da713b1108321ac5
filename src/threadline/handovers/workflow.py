"""HandoverWorkflow: a turn waits for a person to take it over, and to close it."""

from typing import Any

from temporalio import workflow

from threadline.handovers.contract import HandoverActivities, HandoverState, Reminder
from threadline.handovers.model import CLOSE, HANDOVER_WORKFLOW, LOOK_EVERY, MAX_REMINDERS, HandoverInput
from threadline.threads.buttons import ButtonWorkflow
from threadline.threads.calls import attempt_despite_cancel, call_until_done
from threadline.threads.model import ButtonPress, format_utc


@workflow.defn(name=HANDOVER_WORKFLOW)
class HandoverWorkflow(ButtonWorkflow[HandoverInput]):
    """One for each turn that a person is to take over. It ends when they have closed it, or when it is deleted with its
    conversation; a later press starts another run, which answers it from the record."""

    @workflow.init
    def __init__(self, given: HandoverInput) -> None:
        super().__init__(given)
        self._state = HandoverState(open=True)
        self._reminds = False

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
        summary = f"{press.user_id}: {'close' if press.action_id == CLOSE else 'take'}"
        state: HandoverState = await call_until_done(HandoverActivities.press_handover, press, summary=summary)
        self._enter(state)
        summary = "update the card, tell both threads"
        await attempt_despite_cancel(HandoverActivities.show_handover, self.input.ref, summary=summary)
        return state.reply

    async def on_timer(self) -> None:
        """Remind people, or look at the record. The next timer is set also when this fails."""
        if self._reminds:
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

    @property
    def is_over(self) -> bool:
        return not self._state.open

    def _enter(self, state: HandoverState) -> None:
        self._state = state
        self.input.reminded = max(self.input.reminded, state.reminded)
        reminds = not state.taken_by and self.input.reminded < MAX_REMINDERS
        if reminds is not self._reminds or not state.open:
            self.timer.clear()
        self._reminds = reminds
        if state.open and not self.timer.is_set:
            until = workflow.now().timestamp() + (state.remind_every if reminds else LOOK_EVERY)
            self.timer.set(until, f"{'reminder' if reminds else 'look at the record'} at {format_utc(until)}")
        details = "Waiting for a person." if not state.taken_by else f"Taken by {state.taken_by}."
        workflow.set_current_details(details if state.open else "Closed.")
