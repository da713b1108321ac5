"""The workflow of a thread in which the bot was spoken to: what is due in it, in the run that `ThreadRun` leads."""

import asyncio
from collections.abc import Sequence
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue

with workflow.unsafe.imports_passed_through():
    from threadline.conversations.contract import (
        ConversationActivities,
        Marker,
        Refusal,
        SpeakingActivities,
        Stored,
        StoreRequest,
        TalkTurn,
        Word,
    )
    from threadline.conversations.model.conversation import CONVERSATION_WORKFLOW, ConversationState, Talk, WordKind
    from threadline.handovers.contract import HandoverActivities
    from threadline.threads.display import format_utc
    from threadline.threads.model import IncomingMessage, MessageKind

from threadline.conversations.conversation_run import Conversation
from threadline.conversations.turn import Turn
from threadline.threads.calls import attempt, call
from threadline.threads.inbox import Inbox
from threadline.threads.run_loop import Step, ThreadHandler, ThreadRun

TAKEN_IN = "eyes"
NOTHING_TO_STOP = "ok_hand"
REFUSED = {Refusal.DUPLICATE: "repeat", Refusal.THROTTLED: "hourglass", Refusal.THROTTLED_FIRST: "hourglass"}
"""What each message gets when it is stored: :eyes:, or for one that gets no answer :repeat: or :hourglass:.

A word to stop that finds nothing to stop gets :ok_hand:; another one is answered by the turn that it ends.
"""


@workflow.defn(name=CONVERSATION_WORKFLOW)
class ConversationWorkflow(ThreadHandler):
    """One run of a conversation; it ends after a long silence, and the next message starts another, which goes on."""

    state: Talk

    @workflow.init
    def __init__(self, state: Talk) -> None:
        self.state = state
        self.inbox = Inbox(state.pending, state.seen)
        self._conversation = Conversation(state, self._enter)
        self.background = self._conversation.background
        self.thread_run = ThreadRun(self)
        self._seen: dict[str, list[tuple[str, str]]] = {}
        self._dismissed = False

    @workflow.signal(dynamic=True, description="incoming_message: somebody wrote in the thread, or said to stop.")
    def receive(self, name: str, args: Sequence[RawValue]) -> None:
        """Dynamic, so that what the SDK cannot decode arrives as well."""
        self.inbox.receive(name, args)

    @workflow.query(name="state", description="State, activity, pending messages, last turn, open question, cost.")
    def query_state(self) -> dict[str, Any]:
        marks = self._conversation.marks
        return {
            "thread": self.state.thread.key,
            "state": self._state.value,
            "doing": self._conversation.doing,
            "pending": len(self.inbox),
            "turn": marks.turn,
            "question": marks.question,
            "cost_usd": marks.cost_usd,
            "ends": format_utc(self._silence_ends),
        }

    @workflow.run
    async def run(self, state: Talk) -> str:
        """Store messages, let one step at a time act on them, and end: "quiet", "ignored" or "cancelled"."""
        return await self.thread_run.run()

    # -- ThreadHandler -----------------------------------------------------------------------------------------------

    @property
    def ended(self) -> bool:
        if self._unsaid or self._turn_due:
            return False
        silent = self._silence_ends <= workflow.now().timestamp()
        return self.state.cancelled or not self._conversation.marks.opened or silent

    def result(self) -> str:
        if not self.state.cancelled:
            return "quiet" if self._conversation.marks.opened else "ignored"
        if self._conversation.marks.turn_due:
            self.continue_as_new()
        return "cancelled"

    def continue_as_new(self) -> None:
        if self._dismissed and (self._conversation.marks.turn_due or self.inbox):
            self.state.cancelled = False  # it was said after the last word of the run that was cancelled
        workflow.continue_as_new(self.state)

    async def open(self) -> None:
        untold, reworded = list(self.state.untold), list(self.state.reworded)
        await self._store(first=True)
        for ts in untold:
            self._tell_throttled(ts)
        for turn in reworded:
            self._show_again(turn)

    async def store_messages(self) -> None:
        await self._store(first=False)

    async def _store(self, *, first: bool) -> None:
        """Store the oldest batch; the first one of a run, which may be empty, is told what is known of the thread."""
        batch = self.inbox.batch()
        request = StoreRequest(self.state.thread, batch, first)
        stored = await call(ConversationActivities.store_messages, request, summary=f"store {len(batch)} messages")
        self.inbox.stored(len(batch))
        self.state.limits = stored.limits or self.state.limits
        self._conversation.merge(stored.marks)
        self._acknowledge(batch, stored)
        for turn in stored.reworded:
            self.state.reworded.append(turn)
            self._show_again(turn)

    def next_step(self) -> Step | None:
        """What is to be done now; decided from the marks alone, so that a new run decides the same."""
        if turn := self._unsaid:
            return self._conversation.say(turn)
        if self._turn_due:
            self._dismissed = self.state.cancelled
            return Turn(self._conversation).take()
        self._count_silence()
        return None

    @property
    def _unsaid(self) -> int:
        """The first turn whose answer is still to be posted and may be; 0 for none."""
        marks, unsayable = self._conversation.marks, self._conversation.unsayable
        return next((turn for turn in (marks.unsaid, *marks.unsaid_then) if turn not in unsayable), 0)

    @property
    def _turn_due(self) -> bool:
        """In a run that was cancelled one turn more, which says that it stops; later messages are for the next run."""
        return self._conversation.marks.turn_due and not self._dismissed

    def _acknowledge(self, batch: Sequence[IncomingMessage], stored: Stored) -> None:
        """Show each writer what became of the message; a burst is marked at once.

        What is refused may be from an earlier batch, whose storing was broken off before anybody was told.
        """
        marks = {(each.channel, each.ts): REFUSED[each.why] for each in stored.refused}
        for message in batch:
            if name := _sign(message, stored):
                marks.setdefault((message.channel, message.ts), name)
        for place, name in marks.items():
            self._seen.setdefault(name, []).append(place)
        if not self.inbox:
            seen, self._seen = self._seen, {}
            for name, items in seen.items():
                marker, summary = Marker(name, tuple(items)), f"{name} on {len(items)} messages"
                self.background.start(SpeakingActivities.mark_messages, marker, summary=summary)
        for each in stored.refused:
            if each.why is Refusal.THROTTLED_FIRST and each.ts not in self.state.untold:
                self.state.untold.append(each.ts)
                self._tell_throttled(each.ts)

    def _tell_throttled(self, ts: str) -> None:
        word = Word(self.state.thread, WordKind.THROTTLED, about=ts)

        async def tell() -> None:
            await attempt(SpeakingActivities.post_word, word, summary="post that the author is rate-limited")
            self.state.untold.remove(ts)

        self.background.add(asyncio.create_task(tell()))

    def _show_again(self, turn: int) -> None:
        """Have a person see what was said in a turn as it reads now."""
        asked = TalkTurn(self.state.thread, turn)

        async def show() -> None:
            await attempt(HandoverActivities.relay_to_person, asked, summary=f"relay the edits of turn {turn}")
            self.state.reworded.remove(turn)

        self.background.add(asyncio.create_task(show()))

    # -- the end by silence ------------------------------------------------------------------------------------------

    @property
    def _silence_ends(self) -> float:
        return self._conversation.heard + self.state.limits.quiet

    def _count_silence(self) -> None:
        """Keep the timer set. What is heard and wants no turn does not move it: once it fired, it is set anew."""
        timer = self.thread_run.timer
        if timer.fired:
            timer.clear()
        if not (timer.is_set or self.inbox or self.ended):
            timer.set(self._silence_ends, f"quiet until {format_utc(self._silence_ends)}")

    # -- what Temporal's UI shows ------------------------------------------------------------------------------------

    @property
    def _state(self) -> ConversationState:
        if self._conversation.doing:
            return ConversationState.WORKING
        return ConversationState.AWAITING_PERSON if self._conversation.marks.question else ConversationState.IDLE

    def _enter(self) -> None:
        """The one place that says where the workflow is: the sentence in the UI."""
        conversation = self._conversation
        since, until = format_utc(conversation.heard), format_utc(self._silence_ends)
        workflow.set_current_details(
            {
                ConversationState.WORKING: f"Working: {conversation.doing}",
                ConversationState.AWAITING_PERSON: f"Waiting for a person: {conversation.marks.question}",
                ConversationState.IDLE: f"Idle since {since}; ends at {until}",
            }[self._state]
            + (f"\n\nLast: {self.state.last}" if self.state.last else "")
        )


def _sign(message: IncomingMessage, stored: Stored) -> str:
    passed_on = message.id in stored.passed_on
    if message.kind == MessageKind.STOP and not passed_on:
        return NOTHING_TO_STOP if message.addressed and not stored.marks.stop_due else ""
    if not (message.kind == MessageKind.MESSAGE or passed_on) or message.id in stored.overheard:
        return ""
    return TAKEN_IN if stored.marks.opened else ""
