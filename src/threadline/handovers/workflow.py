"""A thread waits for a person, who takes it by a button, and for them to close it; both are done once."""

from collections.abc import Sequence
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.workflow import ChildWorkflowCancellationType, ParentClosePolicy

with workflow.unsafe.imports_passed_through():
    from threadline.conversations.contract import SpeakingActivities, TalkTurn, Word
    from threadline.conversations.model.conversation import WordKind
    from threadline.conversations.operator_contract import Begun
    from threadline.handovers.contract import HandoverActivities, HandoverState, HandoverWhisper, PressRequest, Reminder
    from threadline.handovers.model import MOST_REMINDERS, Handing, HandoverClick, HandoverRef
    from threadline.slack.model import Thread
    from threadline.threads import addressing
    from threadline.threads.display import format_utc

from threadline.threads import buttons as clicks
from threadline.threads.calls import BackgroundTasks, attempt, attempt_despite_cancel, call_until_done
from threadline.threads.run_loop import Timer


async def hand_over(thread: Thread, turn: int) -> None:
    """Have a person take a turn over; nothing happens where that is waited for already."""
    ref = HandoverRef(thread, turn)
    try:
        await workflow.start_child_workflow(
            addressing.HANDOVER_WORKFLOW,
            Handing(ref),
            id=addressing.handover_workflow_id(thread, turn),
            parent_close_policy=ParentClosePolicy.ABANDON,
            cancellation_type=ChildWorkflowCancellationType.ABANDON,
            static_summary=f"Handover of turn {turn} to a person",
        )
    except WorkflowAlreadyStartedError:
        return


async def relay(turn: TalkTurn, begun: Begun, *, left: bool) -> None:
    """Show what was said in a turn to the person who has the thread, or may take it over.

    Args:
        left: nobody else answers it. Then whoever wrote it is told when nobody is shown it: where that fails for good,
            and where the person had closed it before.
    """
    if not begun.relays:
        return
    unshown: list[bool] = []
    showing = attempt(
        HandoverActivities.relay_to_person, turn, summary="relay the turn to the person", on_result=unshown.append
    )
    if (await showing or any(unshown)) and left:
        word = Word(turn.thread, WordKind.NOT_SHOWN, about=str(turn.turn))
        await attempt(SpeakingActivities.post_word, word, summary="tell the author that nobody saw it")


@workflow.defn(name=addressing.HANDOVER_WORKFLOW)
class HandoverWorkflow:
    """One for each turn that a person is to take over. It ends when they have closed it; a later click starts another
    run, which answers it from the record."""

    @workflow.init
    def __init__(self, handing: Handing) -> None:
        self._handing = handing
        self._state = HandoverState(open=True)
        self._timer = Timer()
        self._whispers = BackgroundTasks()
        self._buttons = clicks.Buttons(HandoverClick, handing.take, {"handover": handing.ref.key})

    @workflow.signal(dynamic=True, description="button_pressed: somebody clicked a button of this handover.")
    def take(self, name: str, args: Sequence[RawValue]) -> None:
        """Dynamic, so that what the SDK cannot decode arrives as well: it is counted, and shown."""
        self._buttons.press(name, args)

    @workflow.query(description="The turn, who has taken it, the number of reminders, and the pending clicks.")
    def state(self) -> dict[str, Any]:
        return {
            "turn": self._handing.ref.key,
            "open": self._state.open,
            "taken_by": self._state.taken_by,
            "reminded": self._handing.reminded,
            "pending": len(self._handing.clicks),
            "unreadable": self._buttons.unreadable,
        }

    @workflow.run
    async def run(self, handing: Handing) -> str:
        """Answer clicks in order until somebody has closed it; returns who had taken it."""
        workflow.upsert_memo({"correlation_id": handing.ref.key})
        self._enter(
            await call_until_done(HandoverActivities.open_handover, handing.ref, summary="post the handover card")
        )
        while True:
            while handing.clicks:
                await self._answer(handing.clicks[0])
                del handing.clicks[0]
            if self._timer.fired:
                await self._remind()
                continue
            if self._over:
                return self._state.taken_by
            if self._full:
                workflow.continue_as_new(handing)
            await self._buttons.until(self._awake)

    # Nothing between the last look at the clicks and the end awaits: a click that comes in between would be lost.

    @property
    def _over(self) -> bool:
        return not self._state.open and not self._handing.clicks and self._whispers.idle

    @property
    def _full(self) -> bool:
        return clicks.long() and self._whispers.idle

    def _awake(self) -> bool:
        return bool(self._handing.clicks) or self._timer.fired or self._over or self._full

    async def _answer(self, click: HandoverClick) -> None:
        word = "close" if click.close else "take"
        request = PressRequest(self._handing.ref, click)
        state: HandoverState = await call_until_done(
            HandoverActivities.press_handover, request, summary=f"{click.user_id}: {word}"
        )
        self._enter(state)
        await attempt_despite_cancel(
            HandoverActivities.show_handover, self._handing.ref, summary="update the card, tell both threads"
        )
        if state.words:
            whisper = HandoverWhisper(click, state.words)
            self._whispers.start(HandoverActivities.whisper_handover, whisper, summary=f"tell {click.user_id}")

    async def _remind(self) -> None:
        self._timer.clear()
        self._handing.reminded += 1
        reminder = Reminder(self._handing.ref, self._handing.reminded)
        words = f"reminder {reminder.number}"
        failed = await attempt_despite_cancel(
            HandoverActivities.remind_handover, reminder, summary=words, on_result=self._enter
        )
        if failed:
            self._enter(self._state)

    def _enter(self, state: HandoverState) -> None:
        self._state = state
        self._handing.reminded = max(self._handing.reminded, state.reminded)
        waits = state.open and not state.taken_by and self._handing.reminded < MOST_REMINDERS
        if not waits:
            self._timer.clear()
        elif not self._timer.is_set:
            until = workflow.now().timestamp() + state.remind_every
            self._timer.set(until, f"reminder at {format_utc(until)}")
        details = "Waiting for a person." if not state.taken_by else f"Taken by {state.taken_by}."
        workflow.set_current_details(details if state.open else "Closed.")
