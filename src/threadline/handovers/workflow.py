"""HandoverWorkflow: a turn waits for a person to take it over, and to close it."""

from dataclasses import replace
from enum import Enum
from typing import Any

from temporalio import workflow

from threadline.conversations.model.handover import HANDOVER_WORKFLOW, HandoverInput
from threadline.handovers.contract import HandoverActivities, HandoverState, Reminder
from threadline.handovers.model import (
    CLOSE,
    LOOK_EVERY,
    MAX_REMINDERS,
    REPLY,
    SEND_AGAIN,
    TAKE,
    UNDO,
    WRITTEN,
)
from threadline.threads.buttons import ButtonWorkflow
from threadline.threads.calls import NotMended, attempt_despite_cancel, call_until_done
from threadline.threads.model import ButtonPress, format_utc, mending_delay

_VERBS = {
    CLOSE: "close",
    TAKE: "take",
    REPLY: "reply",
    UNDO: "undo",
    WRITTEN: "write under the card",
}
"""Verbs for Temporal's UI, by button."""


class Due(Enum):
    """The next step of the timer."""

    SEND = "post held replies"
    REMIND = "reminder"
    AGAIN = "retry refused posts"
    LOOK = "check the record"


@workflow.defn(name=HANDOVER_WORKFLOW)
class HandoverWorkflow(ButtonWorkflow[HandoverInput]):
    """One run for each turn that a person should take over. It ends when the handover is closed
    and no reply is held, or when it is deleted with its conversation; a later press starts another
    run, which answers it from the record.
    """

    @workflow.init
    def __init__(self, given: HandoverInput) -> None:
        super().__init__(given)
        self._state = HandoverState(open=True)
        self._due = Due.LOOK
        self._until = 0.0
        self._reminds = False
        self._look_at = 0.0
        """Time of the next reminder or check of the record, in seconds since 1970."""
        self._send_at: float | None = None
        """Time at which the next reply is due; None while none is held."""
        self._unsent = False
        """Slack refused a reply until the admin mends the cause."""
        self._again_at = 0.0
        """Time of the next try of the refused posts; 0 while there are none."""
        self._refusals = 0

    @workflow.run
    async def run(self, given: HandoverInput) -> str:
        """Wait until a person has closed it, and return the user who had taken it."""
        workflow.upsert_memo({"correlation_id": given.ref.key})
        opened = await call_until_done(
            HandoverActivities.open_handover, given.ref, summary="post the handover card"
        )
        self._enter(opened)
        if opened.asked_with_files:
            show = HandoverActivities.show_question_files
            summary = "show the question's files"
            self.background.start(show, given.ref, summary=summary)
        if self._owes_posts:  # Slack refused them in an earlier run
            self._wait_until_mended()
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
        taken_by = self._state.taken_by
        button = press.action_id
        summary = f"{press.user_id}: {_VERBS.get(button, button)}"
        state: HandoverState = await call_until_done(
            HandoverActivities.press_handover, press, summary=summary
        )
        self._enter(state)
        if button == CLOSE:
            await self._send_all_replies()
        if button in (TAKE, CLOSE) or state.taken_by != taken_by:
            await self._show_handover()
        if button in (REPLY, UNDO, WRITTEN):
            await self._show_reply(press)
        return state.reply

    async def on_timer(self) -> None:
        """Run the due step: post held replies, remind people, or check the record. The next timer
        is set even if this fails.
        """
        match self._due:
            case Due.SEND:
                await self._send_replies("post held replies")
            case Due.AGAIN:
                await self._post_again()
            case Due.REMIND:
                await self._remind()
            case Due.LOOK:
                await self._look()

    async def _remind(self) -> None:
        """Remind people. A refused reminder does not count, and is retried."""
        self._look_at = 0.0
        self.input.reminded += 1
        number = self.input.reminded
        remind = HandoverActivities.remind_handover
        reminder = Reminder(self.input.ref, number)
        try:
            failed = await attempt_despite_cancel(
                remind, reminder, summary=f"reminder {number}", on_result=self._enter
            )
        except NotMended:
            self.input.reminded -= 1
            self._refusals += 1
            self._look_at = workflow.now().timestamp() + mending_delay(self._refusals)
            self._enter(self._state)
            return
        if failed:
            self._enter(self._state)

    async def _look(self) -> None:
        self._look_at = 0.0
        look = HandoverActivities.open_handover
        if await attempt_despite_cancel(
            look, self.input.ref, summary="check the record", on_result=self._enter
        ):
            self._enter(self._state)

    async def _show_handover(self) -> None:
        """Show the handover's state on the card and in the asker's thread, now or once Slack
        accepts it.
        """
        show = HandoverActivities.show_handover
        summary = "update the card, tell both threads"
        try:
            await attempt_despite_cancel(show, self.input.ref, summary=summary)
        except NotMended:
            self.input.unshown = True
            self._wait_until_mended()
        else:
            self.input.unshown = False

    async def _show_reply(self, press: ButtonPress) -> None:
        """Show a reply's state under the card, now or once Slack accepts it."""
        show = HandoverActivities.show_reply
        summary = "show the reply under the card"
        unanswered = self.input.unanswered
        try:
            await attempt_despite_cancel(show, press, summary=summary, on_result=self._enter)
        except NotMended:
            if press not in unanswered:
                unanswered.append(press)
            self._wait_until_mended()
        else:
            self.input.unanswered = [each for each in unanswered if each != press]

    async def _send_replies(self, summary: str) -> None:
        """Post the due replies, now or once Slack accepts them."""
        send = HandoverActivities.send_replies
        try:
            failed = await attempt_despite_cancel(
                send, self.input.ref, summary=summary, on_result=self._enter
            )
        except NotMended:
            self._unsent = True
            self._wait_until_mended()
            return
        self._unsent = False
        if failed and self._state.send_in is not None:
            self._enter(replace(self._state, send_in=SEND_AGAIN))

    async def _send_all_replies(self) -> None:
        """Post all due replies before the asker's thread shows the end."""
        while True:
            await self._send_replies("post held replies before the end")
            if self._unsent or self._state.send_in != 0:
                return

    # -- posts that Slack refuses until the admin mends the cause

    @property
    def _owes_posts(self) -> bool:
        return self._unsent or self.input.unshown or bool(self.input.unanswered)

    def _wait_until_mended(self) -> None:
        """Set the time of the next try. Presses continue meanwhile, and do not postpone it."""
        now = workflow.now().timestamp()
        if self._again_at <= now:
            self._refusals += 1
            self._again_at = now + mending_delay(self._refusals)
        self._set_timer()

    async def _post_again(self) -> None:
        """Retry the refused posts, each kind in order."""
        self._again_at = 0.0
        if self._unsent:
            await self._send_replies("post refused replies")
        if self.input.unshown:
            await self._show_handover()
        for press in list(self.input.unanswered):
            await self._show_reply(press)
        if not self._owes_posts:
            self._refusals = 0
            self._again_at = 0.0
        self._set_timer()

    @property
    def is_over(self) -> bool:
        return not (self._state.open or self._owes_posts or self._state.send_in is not None)

    def _enter(self, state: HandoverState) -> None:
        """Apply a new state and set the timer for the next due step."""
        self._state = state
        self.input.reminded = max(self.input.reminded, state.reminded)
        now = workflow.now().timestamp()
        reminds = not state.taken_by and self.input.reminded < MAX_REMINDERS
        if reminds is not self._reminds or self._look_at <= now:
            self._look_at = now + (state.remind_every if reminds else LOOK_EVERY)
        self._reminds = reminds
        self._send_at = None if state.send_in is None else now + state.send_in
        self._set_timer()
        details = "Waiting for a person." if not state.taken_by else f"Taken by {state.taken_by}."
        workflow.set_current_details(details if state.open else "Closed.")

    def _set_timer(self) -> None:
        is_open = self._state.open
        due = Due.LOOK
        until = self._look_at
        if self._reminds:
            due = Due.REMIND
        if self._send_at is not None and not self._unsent:
            due = Due.SEND
            until = self._send_at
        waits_for_nothing_else = not is_open and due is not Due.SEND
        if self._again_at and (self._again_at <= until or waits_for_nothing_else):
            due = Due.AGAIN
            until = self._again_at
        if (due, until) == (self._due, self._until) and self.timer.is_set and is_open:
            return
        self.timer.clear()
        self._due = due
        self._until = until
        if is_open or due in (Due.SEND, Due.AGAIN):
            self.timer.set(until, f"{due.value} at {format_utc(until)}")
