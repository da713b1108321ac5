"""ConversationWorkflow: one run of a thread's conversation with the bot.

    store messages -> turn (`conversations/turn.py`) -> post what is still due

`ThreadRun` owns the run: it stores the inbox, and starts at most one step at a time, the one that
`next_step` names. The conversation is in Postgres. Activities return snapshots of it; the one with
the highest `rev` counts.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue

from threadline.conversations.contract import (
    ConversationActivities,
    RelayActivities,
    StoreRequest,
    ThreadNotice,
)
from threadline.conversations.model.conversation import (
    CONVERSATION_WORKFLOW,
    ConversationInput,
    ConversationSnapshot,
    ConversationState,
    ConversationTurn,
    NoticeReason,
    Refusal,
)
from threadline.conversations.turn import Turn
from threadline.threads.calls import (
    BackgroundTasks,
    NotMended,
    attempt,
    attempt_unless_mendable,
    call,
)
from threadline.threads.inbox import Inbox
from threadline.threads.model import format_utc, mending_delay
from threadline.threads.run_loop import Step, ThreadHandler, ThreadRun


@workflow.defn(name=CONVERSATION_WORKFLOW)
class ConversationWorkflow(ThreadHandler):
    """One run of a conversation. It ends after a long silence; the next message starts a new run,
    which continues the conversation.
    """

    state: ConversationInput

    @workflow.init
    def __init__(self, state: ConversationInput) -> None:
        self.state = state
        self.inbox = Inbox(state.pending, state.seen)
        self.background = BackgroundTasks()
        self.thread_run = ThreadRun(self)
        self.activity_shown = ""
        """Description of the running step."""
        self._last_update = workflow.now().timestamp()
        """Time of the database's last answer, in seconds since 1970. The silence counts from then.
        """
        self._unpostable: list[int] = []
        """Turns whose answer Slack refuses. They are retried after Slack took another answer, and
        by the next run.
        """
        self._refused_turn = 0
        """The turn whose answer Slack refuses until the admin mends something; 0 for none."""
        self._post_again_at = 0.0
        """Time of the next attempt at that answer, in seconds since 1970."""
        self._refusals = 0
        self._last_turn_begun = False
        """Whether the last turn of a cancelled run has begun."""

    @workflow.signal(
        dynamic=True,
        description="incoming_message: somebody wrote in the thread, or asked the bot to stop.",
    )
    def receive(self, name: str, args: Sequence[RawValue]) -> None:
        """Receive any signal. The handler is dynamic, so that payloads which the SDK cannot decode
        arrive as well.
        """
        self.inbox.receive(name, args)

    @workflow.query(
        name="state",
        description="State, activity, pending messages, last turn, open question, cost.",
    )
    def query_state(self) -> dict[str, Any]:
        snapshot = self.snapshot
        return {
            "thread": self.state.thread.key,
            "state": self._state.value,
            "doing": self.activity_shown,
            "pending": len(self.inbox),
            "turn": snapshot.turn,
            "question": snapshot.open_question,
            "cost_usd": snapshot.cost_usd,
            "ends": format_utc(self._silence_ends),
        }

    @workflow.run
    async def run(self, state: ConversationInput) -> str:
        """Store messages, run one step at a time, and return "idle", "ignored" or "cancelled"."""
        return await self.thread_run.run()

    # -- ThreadHandler

    @property
    def ended(self) -> bool:
        if self.unposted_turn or self._turn_due:
            return False
        silent = self._silence_ends <= workflow.now().timestamp()
        return self.state.cancelled or not self.snapshot.exists or silent

    def result(self) -> str:
        if not self.state.cancelled:
            return "idle" if self.snapshot.exists else "ignored"
        if self.snapshot.turn_due:
            self.continue_as_new()
        return "cancelled"

    def continue_as_new(self) -> None:
        if self._last_turn_begun and (self.snapshot.turn_due or self.inbox):
            # These messages came after the last answer of the cancelled run.
            self.state.cancelled = False
        workflow.continue_as_new(self.state)

    async def open(self) -> None:
        throttled = list(self.state.throttle_notices_due)
        edited = list(self.state.turns_to_show_again)
        await self._store(first=True)
        for ts in throttled:
            self._tell_throttled(ts)
        for turn in edited:
            self._show_again(turn)
        for turn in list(self.state.turns_to_forward):
            self._forward(turn)

    async def store_messages(self) -> None:
        await self._store(first=False)

    async def _store(self, *, first: bool) -> None:
        """Store the oldest batch. The first request of a run may be empty; its result also has the
        limits.
        """
        batch = self.inbox.batch()
        request = StoreRequest(self.state.thread, batch, first)
        stored = await call(
            ConversationActivities.store_messages, request, summary=f"store {len(batch)} messages"
        )
        self.inbox.stored(len(batch))
        self.state.limits = stored.limits or self.state.limits
        self.update(stored.snapshot)
        for each in stored.refused:
            if (
                each.why is Refusal.THROTTLED_FIRST
                and each.ts not in self.state.throttle_notices_due
            ):
                self.state.throttle_notices_due.append(each.ts)
                self._tell_throttled(each.ts)
        for turn in stored.turns_to_show_again:
            self.state.turns_to_show_again.append(turn)
            self._show_again(turn)

    def next_step(self) -> Step | None:
        """Return the step to take now, decided from the snapshot alone, so that a new run decides
        the same.
        """
        turn = self.unposted_turn
        if self._may_post(turn):
            return self.post_answer(turn)
        if self._turn_due:
            self._last_turn_begun = self.state.cancelled
            return Turn.next_of(self).run()
        # Messages that need no turn do not move the silence timer; it is set again after it fired.
        timer = self.thread_run.timer
        if timer.fired:
            timer.clear()
        if not (timer.is_set or self.inbox or self.ended):
            if turn:
                timer.set(self._post_again_at, "until Slack may accept the answer")
            else:
                timer.set(self._silence_ends, f"quiet until {format_utc(self._silence_ends)}")
        return None

    @property
    def unposted_turn(self) -> int:
        """The first turn with an unposted answer that may be posted now; 0 for none."""
        snapshot = self.snapshot
        unpostable = self._unpostable
        return next((turn for turn in snapshot.unposted_turns if turn not in unpostable), 0)

    @property
    def _turn_due(self) -> bool:
        """Whether a turn has to run. A cancelled run has one last turn, which says that it stops;
        later messages are left to the next run.
        """
        return self.snapshot.turn_due and not self._last_turn_begun

    def _tell_throttled(self, ts: str) -> None:
        word = ThreadNotice(self.state.thread, NoticeReason.THROTTLED, about=ts)
        summary = "post that the author is rate-limited"
        telling = attempt(ConversationActivities.post_thread_notice, word, summary=summary)
        self._in_background(telling, lambda: self.state.throttle_notices_due.remove(ts))

    def _show_again(self, turn: int) -> None:
        """Show the person the current text of a turn's messages."""
        asked = ConversationTurn(self.state.thread, turn)
        summary = f"relay the edits of turn {turn}"
        showing = attempt(RelayActivities.relay_until_mended, asked, summary=summary)
        self._in_background(showing, lambda: self.state.turns_to_show_again.remove(turn))

    def show_once_mended(self, turn: int, *, left_to_person: bool) -> None:
        """Show a turn's messages to the person once Slack accepts them. The next run continues
        this.
        """
        if left_to_person:
            if turn not in self.state.turns_to_forward:
                self.state.turns_to_forward.append(turn)
                self._forward(turn)
        elif turn not in self.state.turns_to_show_again:
            self.state.turns_to_show_again.append(turn)
            self._show_again(turn)

    def _forward(self, turn: int) -> None:
        self._in_background(
            self._forward_until_mended(turn), lambda: self.state.turns_to_forward.remove(turn)
        )

    async def _forward_until_mended(self, turn: int) -> str:
        """Show a person a turn that was left to them, after the earlier ones. Its author gets a
        notice of the delay first, and another one in the end if no person saw the turn.
        """
        asked = ConversationTurn(self.state.thread, turn)
        unshown = list[bool]()
        await self.tell_author(turn, NoticeReason.FORWARDED_LATER)
        await workflow.wait_condition(lambda: self.state.turns_to_forward[0] == turn)
        relay = RelayActivities.relay_until_mended
        summary = f"relay turn {turn} once Slack accepts it"
        failed = await attempt(relay, asked, summary=summary, on_result=unshown.append)
        if failed or any(unshown):
            await self.tell_author(turn, NoticeReason.NOT_FORWARDED)
        return failed

    async def tell_author(self, turn: int, reason: NoticeReason) -> None:
        """Notify the author of a turn that was left to a person."""
        notice = ThreadNotice(self.state.thread, reason, about=str(turn))
        await attempt(
            ConversationActivities.post_thread_notice, notice, summary=f"tell the author: {reason}"
        )

    def _in_background(self, work: Awaitable[str], done: Callable[[], None]) -> None:
        async def run() -> None:
            await work
            done()

        self.background.add(asyncio.create_task(run()))

    # -- shared by the steps

    @property
    def snapshot(self) -> ConversationSnapshot:
        return self.state.snapshot

    def update(self, snapshot: ConversationSnapshot) -> None:
        """Take over a snapshot from the database, unless a newer one is known: results arrive in
        another order than commits.
        """
        self._last_update = workflow.now().timestamp()
        if snapshot.rev >= self.snapshot.rev:
            self.state.snapshot = snapshot
        self._show()

    def show_activity(self, what: str) -> None:
        self.activity_shown = what
        self._show()

    @property
    def stop_requested(self) -> bool:
        """Whether the running turn has to end, because a user or the admin requested it."""
        return self.snapshot.stop_due or self.state.cancelled

    def keep_summary(self, summary: str) -> None:
        """Keep the figures of the last turn for Temporal's UI."""
        self.state.last = summary or self.state.last

    async def post_due_answer(self) -> None:
        """Post the first due answer. Later ones follow in order, each as a separate step."""
        turn = self.unposted_turn
        if self._may_post(turn):
            await self.post_answer(turn)

    def _may_post(self, turn: int) -> bool:
        waits = turn == self._refused_turn and self._post_again_at > workflow.now().timestamp()
        return turn > 0 and not waits

    async def post_answer(self, turn: int) -> None:
        """Post the unposted answer of a settled turn. If Slack refuses it until the admin mends
        something, it is retried for as long as that takes, and later answers wait for it; messages
        are still answered meanwhile.
        """
        self.show_activity(f"posting the answer of turn {turn}")
        asked = ConversationTurn(self.state.thread, turn)
        words = f"answer turn {turn}"
        try:
            post = ConversationActivities.post_answer
            refused = await attempt_unless_mendable(
                post, asked, summary=words, on_result=self.update
            )
        except NotMended:
            self._refusals += 1
            self._refused_turn = turn
            self._post_again_at = workflow.now().timestamp() + mending_delay(self._refusals)
        else:
            self._refusals = 0
            self._refused_turn = 0
            self._unpostable = [*self._unpostable, turn] if refused else []
        self.show_activity("")

    @property
    def _silence_ends(self) -> float:
        return self._last_update + self.state.limits.idle_timeout

    # -- shown in Temporal's UI

    @property
    def _state(self) -> ConversationState:
        if self.activity_shown:
            return ConversationState.WORKING
        return (
            ConversationState.AWAITING_PERSON
            if self.snapshot.open_question
            else ConversationState.IDLE
        )

    def _show(self) -> None:
        """Set the sentence in Temporal's UI that shows the workflow's state. Only this method sets
        it.
        """
        since = format_utc(self._last_update)
        until = format_utc(self._silence_ends)
        workflow.set_current_details(
            {
                ConversationState.WORKING: f"Working: {self.activity_shown}",
                ConversationState.AWAITING_PERSON: (
                    f"Waiting for a person: {self.snapshot.open_question}"
                ),
                ConversationState.IDLE: f"Idle since {since}; ends at {until}",
            }[self._state]
            + (f"\n\nLast: {self.state.last}" if self.state.last else "")
        )
