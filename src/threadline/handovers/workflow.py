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
from threadline.threads.calls import NotMended, attempt_despite_cancel, call_until_done
from threadline.threads.model import ButtonPress, format_utc, mending_delay

_VERBS = {CLOSE: "close", TAKE: "take", REPLY: "reply", UNDO: "undo", WRITTEN: "write under the card"}
"""For Temporal's UI, by the button."""


class Due(Enum):
    """The next step that the timer is set for."""

    SEND = "post held replies"
    REMIND = "reminder"
    AGAIN = "post what Slack refused"
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
        self._send_at: float | None = None
        """When the next reply is due; None while none is held."""
        self._unsent = False
        """Slack refused a reply until the admin mends something."""
        self._again_at = 0.0
        """When the refused posts are tried again; 0 while none was refused."""
        self._refusals = 0

    @workflow.run
    async def run(self, given: HandoverInput) -> str:
        """Wait until somebody has closed it; returns who had taken it."""
        workflow.upsert_memo({"correlation_id": given.ref.key})
        opened = await call_until_done(HandoverActivities.open_handover, given.ref, summary="post the handover card")
        self._enter(opened)
        if self._owes_posts:  # an earlier run was refused them
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
        taken_by, button = self._state.taken_by, press.action_id
        summary = f"{press.user_id}: {_VERBS.get(button, button)}"
        state: HandoverState = await call_until_done(HandoverActivities.press_handover, press, summary=summary)
        self._enter(state)
        if button == CLOSE:
            await self._send_all_replies()
        if button in (TAKE, CLOSE) or state.taken_by != taken_by:
            await self._show_handover()
        if button in (REPLY, UNDO, WRITTEN):
            await self._show_reply(press)
        return state.reply

    async def on_timer(self) -> None:
        """Post what was held, remind people, or look at the record. The next timer is set also when this fails."""
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
        """Remind people. A reminder that is refused does not count, and is tried again."""
        self._look_at = 0.0
        self.input.reminded += 1
        number, remind = self.input.reminded, HandoverActivities.remind_handover
        reminder = Reminder(self.input.ref, number)
        try:
            failed = await attempt_despite_cancel(remind, reminder, summary=f"reminder {number}", on_result=self._enter)
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
        if await attempt_despite_cancel(look, self.input.ref, summary="look at the record", on_result=self._enter):
            self._enter(self._state)

    async def _show_handover(self) -> None:
        """Show on the card and in the asker's thread how the handover stands, now or once Slack takes it."""
        show, summary = HandoverActivities.show_handover, "update the card, tell both threads"
        try:
            await attempt_despite_cancel(show, self.input.ref, summary=summary)
        except NotMended:
            self.input.unshown = True
            self._wait_until_mended()
        else:
            self.input.unshown = False

    async def _show_reply(self, press: ButtonPress) -> None:
        """Show under the card how a reply stands, now or once Slack takes it."""
        show, summary = HandoverActivities.show_reply, "show the reply under the card"
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
        """Post the replies that are due, now or once Slack takes them."""
        send = HandoverActivities.send_replies
        try:
            failed = await attempt_despite_cancel(send, self.input.ref, summary=summary, on_result=self._enter)
        except NotMended:
            self._unsent = True
            self._wait_until_mended()
            return
        self._unsent = False
        if failed and self._state.send_in is not None:
            self._enter(replace(self._state, send_in=SEND_AGAIN))

    async def _send_all_replies(self) -> None:
        """Post all replies that are due, before the asker is told of the end."""
        while True:
            await self._send_replies("post held replies before the end")
            if self._unsent or self._state.send_in != 0:
                return

    # -- posts that Slack refuses until the admin mends something ----------------------------------------------------

    @property
    def _owes_posts(self) -> bool:
        return self._unsent or self.input.unshown or bool(self.input.unanswered)

    def _wait_until_mended(self) -> None:
        """Set the time of the next try. Presses go on meanwhile, and do not put it off."""
        now = workflow.now().timestamp()
        if self._again_at <= now:
            self._refusals += 1
            self._again_at = now + mending_delay(self._refusals)
        self._set_timer()

    async def _post_again(self) -> None:
        """Try the refused posts again, each kind in its order."""
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
        """Take a state over and set the timer for what is due next."""
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
        due, until = Due.LOOK, self._look_at
        if self._reminds:
            due = Due.REMIND
        if self._send_at is not None and not self._unsent:
            due, until = Due.SEND, self._send_at
        waits_for_nothing_else = not is_open and due is not Due.SEND
        if self._again_at and (self._again_at <= until or waits_for_nothing_else):
            due, until = Due.AGAIN, self._again_at
        if (due, until) == (self._due, self._until) and self.timer.is_set and is_open:
            return
        self.timer.clear()
        self._due, self._until = due, until
        if is_open or due in (Due.SEND, Due.AGAIN):
            self.timer.set(until, f"{due.value} at {format_utc(until)}")
