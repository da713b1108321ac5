"""ConversationWorkflow: one run of a thread's conversation with the bot.

    store messages -> begin turn -> decide -> (think -> act)* -> finish turn: settle, post

An activity goes on to what follows: a turn is begun and decided by one, and the one that asks the model runs the first
tools of its reply, or ends the turn with it.

`ThreadRun` owns the run: it stores the inbox, and starts at most one step at a time, the one that `next_step` names.
The conversation is in Postgres. Activities return snapshots of it; the one with the highest `rev` counts.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ActivityError, FailureError, WorkflowAlreadyStartedError, is_cancelled_exception
from temporalio.workflow import ChildWorkflowCancellationType, ParentClosePolicy

from threadline.approvals.contract import APPROVAL_WORKFLOW, approval_workflow_id
from threadline.approvals.model import ApprovalRun
from threadline.conversations.contract import (
    THINKING,
    ActRequest,
    BeginRequest,
    BegunTurn,
    ConversationActivities,
    DecideRequest,
    FinishedTurn,
    FinishRequest,
    PassToOperator,
    StoreRequest,
    ThinkRequest,
    ThreadNotice,
    TurnDecision,
)
from threadline.conversations.model import answers
from threadline.conversations.model.conversation import (
    CONVERSATION_WORKFLOW,
    ConversationInput,
    ConversationOutcome,
    ConversationSnapshot,
    ConversationState,
    ConversationTurn,
    Execution,
    ExecutionStatus,
    NoticeReason,
    OutcomeKind,
    Refusal,
    call_groups,
    changed_something,
    lost_call,
    speech_kind,
)
from threadline.decisions.model import EscalationReason, NextStep
from threadline.handovers.contract import HandoverActivities
from threadline.handovers.model import HANDOVER_WORKFLOW, HandoverInput, handover_workflow_id
from threadline.models.model import ModelReply, StepFailed, ToolCall, ToolChoice, ToolKind
from threadline.operator.model.protocol import ProtocolState
from threadline.operator.model.routing import Agent
from threadline.slack.text import is_blank
from threadline.threads.calls import (
    BackgroundTasks,
    Interrupted,
    NotMended,
    attempt,
    attempt_unless_mendable,
    call,
    fault_of,
    pause,
    public_message,
    run_unless,
)
from threadline.threads.inbox import Inbox
from threadline.threads.model import FaultKind, format_utc, mending_delay
from threadline.threads.run_loop import Step, ThreadHandler, ThreadRun

DEFAULT_MAX_STEPS = 5
"""Model calls of a turn that may ask for tools; beyond it the model is asked once more, and only for words."""
MODEL_AWAY = "My language model is not answering, and I have stopped waiting for it. Please ask me again later."
MODEL_NEEDS_ADMIN = (
    "I have no answer for you, because my language model cannot be used right now. "
    "The admin has been told. Please ask me again a little later."
)
"""Said where only the admin can help: a refused key, no credit, a wrong name or address."""
FIRST_WAIT, LONGEST_WAIT = 30.0, 300.0
"""Seconds between two tries of a model that is away; each wait is twice the one before."""
STOP_GRACE = 30.0
"""Seconds that a call of the model has left once somebody has said to stop: it may be about to answer."""
MAX_LOST_CALLS = 2
"""Calls of the model that a turn may lose with all their workers; one more, and it is taken for what kills them."""
_ENDS = {NextStep.CLARIFY: OutcomeKind.CLARIFIED, NextStep.ESCALATE: OutcomeKind.ESCALATED}
"""Decisions that end a turn before its agent is asked."""
_FAILED = (OutcomeKind.FAILED, OutcomeKind.NO_ANSWER)
_BROKEN_STATUSES = (ExecutionStatus.ERROR, ExecutionStatus.UNKNOWN)


@workflow.defn(name=CONVERSATION_WORKFLOW)
class ConversationWorkflow(ThreadHandler):
    """One run of a conversation; it ends after a long silence, and the next message starts another, which goes on."""

    state: ConversationInput

    @workflow.init
    def __init__(self, state: ConversationInput) -> None:
        self.state = state
        self.inbox = Inbox(state.pending, state.seen)
        self.background = BackgroundTasks()
        self.thread_run = ThreadRun(self)
        self.activity_shown = ""
        """What the step under way does, in words."""
        self._last_update = workflow.now().timestamp()
        """When the database last answered: silence counts from then."""
        self._unpostable: list[int] = []
        """Turns whose answer Slack does not take; tried again once it took another, and by the next run."""
        self._post_again_at = 0.0
        """When an answer is tried again that Slack refuses until the admin mends something."""
        self._refusals = 0
        self._last_turn_begun = False
        """The last turn of a cancelled run has begun."""

    @workflow.signal(dynamic=True, description="incoming_message: somebody wrote in the thread, or said to stop.")
    def receive(self, name: str, args: Sequence[RawValue]) -> None:
        """Dynamic, so that what the SDK cannot decode arrives as well."""
        self.inbox.receive(name, args)

    @workflow.query(name="state", description="State, activity, pending messages, last turn, open question, cost.")
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
        """Store messages, let one step at a time act on them, and end: "idle", "ignored" or "cancelled"."""
        return await self.thread_run.run()

    # -- ThreadHandler -----------------------------------------------------------------------------------------------

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
            self.state.cancelled = False  # it was said after the last word of the run that was cancelled
        workflow.continue_as_new(self.state)

    async def open(self) -> None:
        throttled, edited = list(self.state.throttle_notices_due), list(self.state.turns_to_show_again)
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
        """Store the oldest batch; the first one of a run, which may be empty, is told what is known of the thread."""
        batch = self.inbox.batch()
        request = StoreRequest(self.state.thread, batch, first)
        stored = await call(ConversationActivities.store_messages, request, summary=f"store {len(batch)} messages")
        self.inbox.stored(len(batch))
        self.state.limits = stored.limits or self.state.limits
        self.update(stored.snapshot)
        for each in stored.refused:
            if each.why is Refusal.THROTTLED_FIRST and each.ts not in self.state.throttle_notices_due:
                self.state.throttle_notices_due.append(each.ts)
                self._tell_throttled(each.ts)
        for turn in stored.turns_to_show_again:
            self.state.turns_to_show_again.append(turn)
            self._show_again(turn)

    def next_step(self) -> Step | None:
        """What is to be done now; decided from the snapshot alone, so that a new run decides the same."""
        turn = self.unposted_turn
        if turn and self._post_again_at <= workflow.now().timestamp():
            return self.post_answer(turn)
        if self._turn_due:
            self._last_turn_begun = self.state.cancelled
            return Turn(self).run()
        # What is heard and wants no turn does not move the timer of silence: once it fired, it is set anew.
        timer = self.thread_run.timer
        if timer.fired:
            timer.clear()
        if not (timer.is_set or self.inbox or self.ended):
            if turn:
                timer.set(self._post_again_at, "until Slack may take the answer")
            else:
                timer.set(self._silence_ends, f"quiet until {format_utc(self._silence_ends)}")
        return None

    @property
    def unposted_turn(self) -> int:
        """The first turn whose answer is still to be posted and may be; 0 for none."""
        snapshot, unpostable = self.snapshot, self._unpostable
        return next((turn for turn in snapshot.unposted_turns if turn not in unpostable), 0)

    @property
    def _turn_due(self) -> bool:
        """In a run that was cancelled one turn more, which says that it stops; later messages are for the next run."""
        return self.snapshot.turn_due and not self._last_turn_begun

    def _tell_throttled(self, ts: str) -> None:
        word = ThreadNotice(self.state.thread, NoticeReason.THROTTLED, about=ts)
        summary = "post that the author is rate-limited"
        telling = attempt(ConversationActivities.post_thread_notice, word, summary=summary)
        self._in_background(telling, lambda: self.state.throttle_notices_due.remove(ts))

    def _show_again(self, turn: int) -> None:
        """Have a person see what was said in a turn as it reads now."""
        asked, summary = ConversationTurn(self.state.thread, turn), f"relay the edits of turn {turn}"
        showing = attempt(HandoverActivities.relay_until_mended, asked, summary=summary)
        self._in_background(showing, lambda: self.state.turns_to_show_again.remove(turn))

    def show_once_mended(self, turn: int, *, left_to_person: bool) -> None:
        """Have a person see what was said in a turn, once Slack takes it; the next run goes on with it."""
        if left_to_person:
            if turn not in self.state.turns_to_forward:
                self.state.turns_to_forward.append(turn)
                self._forward(turn)
        elif turn not in self.state.turns_to_show_again:
            self.state.turns_to_show_again.append(turn)
            self._show_again(turn)

    def _forward(self, turn: int) -> None:
        self._in_background(self._forward_until_mended(turn), lambda: self.state.turns_to_forward.remove(turn))

    async def _forward_until_mended(self, turn: int) -> str:
        """Show a person a turn that was left to them, after those before it. Its author is told first that this takes a
        while, and in the end where nobody was shown it."""
        asked, unshown = ConversationTurn(self.state.thread, turn), list[bool]()
        await self.tell_author(turn, NoticeReason.FORWARDED_LATER)
        await workflow.wait_condition(lambda: self.state.turns_to_forward[0] == turn)
        relay, summary = HandoverActivities.relay_until_mended, f"relay turn {turn} once Slack takes it"
        failed = await attempt(relay, asked, summary=summary, on_result=unshown.append)
        if failed or any(unshown):
            await self.tell_author(turn, NoticeReason.NOT_FORWARDED)
        return failed

    async def tell_author(self, turn: int, reason: NoticeReason) -> None:
        """Say what became of a turn that was left to a person."""
        notice = ThreadNotice(self.state.thread, reason, about=str(turn))
        await attempt(ConversationActivities.post_thread_notice, notice, summary=f"tell the author: {reason}")

    def _in_background(self, work: Awaitable[str], done: Callable[[], None]) -> None:
        async def run() -> None:
            await work
            done()

        self.background.add(asyncio.create_task(run()))

    # -- what the steps share ----------------------------------------------------------------------------------------

    @property
    def snapshot(self) -> ConversationSnapshot:
        return self.state.snapshot

    def update(self, snapshot: ConversationSnapshot) -> None:
        """Take over what the database says, unless newer is known: results arrive in another order than commits."""
        self._last_update = workflow.now().timestamp()
        if snapshot.rev >= self.snapshot.rev:
            self.state.snapshot = snapshot
        self._show()

    def show_activity(self, what: str) -> None:
        self.activity_shown = what
        self._show()

    @property
    def stop_requested(self) -> bool:
        """The turn under way is to end: a person said so, or the admin."""
        return self.snapshot.stop_due or self.state.cancelled

    def turn_finished(self, turn: int, finished: FinishedTurn) -> None:
        """Take over what became of a turn."""
        self.state.last = finished.summary or self.state.last
        if finished.waits_until_mended:
            self._wait_until_mended()
        elif finished.post_error:
            self._unpostable.append(turn)
        elif finished.posted:
            self._unpostable = []
        self.update(finished.snapshot)

    async def post_answer(self, turn: int) -> None:
        """Post a settled turn's answer that is not posted yet. Refused until the admin mends something, it is tried
        again for as long as it takes, and later answers wait for it; messages are answered meanwhile."""
        self.show_activity(f"posting the answer of turn {turn}")
        asked, words = ConversationTurn(self.state.thread, turn), f"answer turn {turn}"
        try:
            post = ConversationActivities.post_answer
            refused = await attempt_unless_mendable(post, asked, summary=words, on_result=self.update)
        except NotMended:
            self._wait_until_mended()
        else:
            self._post_again_at = 0.0
            self._refusals = 0
            self._unpostable = [*self._unpostable, turn] if refused else []
        self.show_activity("")

    def _wait_until_mended(self) -> None:
        self._refusals += 1
        self._post_again_at = workflow.now().timestamp() + mending_delay(self._refusals)

    @property
    def _silence_ends(self) -> float:
        return self._last_update + self.state.limits.idle_timeout

    # -- what Temporal's UI shows ------------------------------------------------------------------------------------

    @property
    def _state(self) -> ConversationState:
        if self.activity_shown:
            return ConversationState.WORKING
        return ConversationState.AWAITING_PERSON if self.snapshot.open_question else ConversationState.IDLE

    def _show(self) -> None:
        """The one place that says where the workflow is: the sentence in the UI."""
        since, until = format_utc(self._last_update), format_utc(self._silence_ends)
        workflow.set_current_details(
            {
                ConversationState.WORKING: f"Working: {self.activity_shown}",
                ConversationState.AWAITING_PERSON: f"Waiting for a person: {self.snapshot.open_question}",
                ConversationState.IDLE: f"Idle since {since}; ends at {until}",
            }[self._state]
            + (f"\n\nLast: {self.state.last}" if self.state.last else "")
        )


class Turn:
    """One turn, from what is unanswered to what is said about it. A new run begins it again, and finds on record what
    was done. Meanwhile the run goes on storing messages: a word to stop is seen in the snapshot."""

    def __init__(self, conversation: ConversationWorkflow) -> None:
        self._conversation = conversation
        self._thread = conversation.state.thread
        self._number = conversation.snapshot.turn + 1
        self._step = 0
        self._addressed = False
        self._executions: list[Execution] = []
        self._away_since: float | None = None
        self._waits = 0
        self._lost = 0
        self._away_notice: asyncio.Task[str] | None = None
        self._turn = ConversationTurn(self._thread, self._number)
        self._begun = BegunTurn(conversation.snapshot)
        """The way of the turn, once it is known; until then the conversational agent's."""
        self._protocol: ProtocolState | None = None
        self._decided = False
        """The decision engine has a say in this turn."""
        self._needs_admin = False
        """The model refuses every call until the admin mends something; people on call could not."""
        self._model_calls = 0
        """Of the agent whose turn it is."""
        self._before_loop = 0
        """Executions of the agent that had the turn before it."""
        self._ran: dict[str, Execution] = {}
        """Calls of the last reply that were run with it, by their ids, until they are taken up."""
        self._just_ran = ""
        """What the last reply has had run, for Temporal's UI."""
        self._finished: FinishedTurn | None = None
        self._posts_later = False
        """The answer is posted once something that comes before it is there."""

    async def run(self) -> None:
        outcome = await self._work()
        finished = self._finished or await self._finish(outcome)
        if finished.handover:  # nobody who is asked for waits for Slack to take the answer
            identity, summary = handover_workflow_id(self._thread, self._number), f"Handover of turn {self._number}"
            await _start_child(HANDOVER_WORKFLOW, HandoverInput(self._turn), identity, f"{summary} to a person")
        for action_id in finished.approvals:
            team, summary = self._thread.team, f"Decision about {action_id}, which turn {self._number} has proposed"
            identity = approval_workflow_id(team, action_id)
            await _start_child(APPROVAL_WORKFLOW, ApprovalRun(team, action_id), identity, summary)
        if self._away_notice:
            await self._away_notice
        if self._posts_later and self._conversation.unposted_turn in (0, self._number):
            await self._conversation.post_answer(self._number)  # else an earlier answer comes first
        if self._begun.ends is None:  # what later steps took up, and what a stop has ended
            await self._relay(self._begun, left_to_person=finished.left_to_person)
        self._conversation.show_activity("")

    async def _finish(self, outcome: ConversationOutcome, final: ToolCall | None = None) -> FinishedTurn:
        """End the turn; one whose final call, which has the turn's last words, is refused has not ended."""
        request = self._ending(outcome, final)
        self._conversation.show_activity(f"finishing turn {self._number}")
        summary = f"finish turn {self._number}: {outcome.kind}"
        finished = await call(ConversationActivities.finish_turn, request, summary=summary)
        self._take_over(finished, request)
        return finished

    def _ending(self, outcome: ConversationOutcome, final: ToolCall | None = None) -> FinishRequest:
        reason = None if self._conversation.stop_requested else self._escalation_reason(outcome)
        if reason and outcome.kind in _FAILED:
            done = answers.progress_text(outcome.executions)
            outcome = replace(outcome, kind=OutcomeKind.ESCALATED, text=done)
        answered = outcome.kind is OutcomeKind.ANSWERED or final is not None
        proposed = outcome.kind is OutcomeKind.PROPOSED
        return FinishRequest(
            self._thread,
            self._number,
            outcome.kind,
            text="" if answered else outcome.text,
            told=() if answered else tuple(each.call_id for each in self._executions),
            answer_step=self._step if answered else 0,
            model_calls=outcome.model_calls,
            final=final,
            protocol=self._protocol,
            failures=answers.failed_changes_text(self._executions, proposed=proposed) if self._protocol else "",
            changed_something=changed_something(outcome.executions),
            escalate=reason,
            status_shown=self._addressed,
            # An earlier answer, and that the model is away, is posted before this answer.
            post=(self._away_notice is None or self._away_notice.done()) and not self._conversation.unposted_turn,
        )

    def _take_over(self, finished: FinishedTurn, request: FinishRequest) -> None:
        if finished.snapshot.turn < self._number:  # its final call was refused
            self._conversation.update(finished.snapshot)
            return
        self._finished, self._posts_later = finished, finished.handover or not request.post
        self._conversation.turn_finished(self._number, finished)

    async def _work(self) -> ConversationOutcome:
        conversation = self._conversation
        try:
            self._keep_route(await self._begin())
            begun = self._begun
            conversation.update(begun.snapshot)
            self._note_addressed()  # who was routed as somebody who asks is answered, whoever writes meanwhile
            self._step = begun.behind
            await self._relay(begun, left_to_person=begun.ends is OutcomeKind.SILENT)
            if begun.ends:
                return ConversationOutcome(begun.ends, "")
            if decided := await self._decide():
                return decided
            outcome = await self._loop()
            # The operator goes on behind these steps where the conversational agent has failed and changed nothing.
            failed = outcome.kind in _FAILED and all(each.read_only for each in outcome.executions)
            if self._begun.falls_through and failed and not (conversation.stop_requested or self._needs_admin):
                await self._pass_to_operator()
                outcome = await self._loop()
        except Interrupted:
            outcome = ConversationOutcome(OutcomeKind.STOPPED, "", model_calls=self._step)
        if outcome.kind is not OutcomeKind.STOPPED:
            return outcome
        by_admin = conversation.state.cancelled and not conversation.snapshot.stop_due
        return replace(outcome, text=answers.stopped_text(self._executions, by_admin=by_admin))

    async def _relay(self, begun: BegunTurn, *, left_to_person: bool) -> None:
        """Show what was said in the turn to the person who has the thread, or may take it over; later, where Slack
        refuses it until the admin mends something. Where it is left to them, its author is told when it is shown later,
        when that fails for good, and when the person had closed it before."""
        if not begun.relays_to_person:
            return
        if left_to_person and self._conversation.state.turns_to_forward:  # what was said before comes first
            self._conversation.show_once_mended(self._number, left_to_person=left_to_person)
            return
        unshown = list[bool]()
        relay, summary = HandoverActivities.relay_to_person, "relay the turn to the person"
        try:
            failed = await attempt_unless_mendable(relay, self._turn, summary=summary, on_result=unshown.append)
        except NotMended:
            self._conversation.show_once_mended(self._number, left_to_person=left_to_person)
            return
        if (failed or any(unshown)) and left_to_person:
            await self._conversation.tell_author(self._number, NoticeReason.NOT_FORWARDED)

    def _keep_route(self, begun: BegunTurn) -> None:
        self._begun, self._protocol = begun, begun.protocol
        if begun.correlation_id:
            workflow.upsert_memo({"correlation_id": begun.correlation_id, "way": begun.about})

    async def _pass_to_operator(self) -> None:
        """The operator goes on with the turn, without an RFP."""
        passing, summary = PassToOperator(self._thread, self._number, self._step), "hand the turn to the operator"
        self._keep_route(await call(ConversationActivities.pass_to_operator, passing, summary=summary))

    async def _begin(self) -> BegunTurn:
        """Begin the turn, and decide with the same activity what to do, as long as nobody says to stop."""
        conversation, request = self._conversation, BeginRequest(self._thread, self._number)
        conversation.show_activity("deciding what to do")
        if not conversation.stop_requested:
            with suppress(Interrupted):
                begin = call(ConversationActivities.begin_turn, replace(request, decide=True), summary="begin the turn")
                return await run_unless(lambda: conversation.stop_requested, begin)
        return await call(ConversationActivities.begin_turn, request, summary="begin the stopped turn")

    async def _decide(self) -> ConversationOutcome | None:
        """Decide what to do with a message to the conversational agent. None: the agent whose turn it then is
        answers."""
        conversation = self._conversation
        if self._begun.agent is not Agent.COPILOT or not self._addressed or conversation.stop_requested:
            return None
        decision = self._begun.decision
        if decision is None:
            request = DecideRequest(self._thread, self._number, self._status(THINKING))
            decision = await run_unless(lambda: conversation.stop_requested, _decision(request))
        if decision is None:
            self._needs_admin = True
            return ConversationOutcome(OutcomeKind.FAILED, answers.failure_text(MODEL_NEEDS_ADMIN, ()))
        self._decided = decision.made
        if decision.course is NextStep.OPERATOR:
            await self._pass_to_operator()
            return None
        kind = _ENDS.get(decision.course)
        return ConversationOutcome(kind, "") if kind else None

    def _escalation_reason(self, outcome: ConversationOutcome) -> EscalationReason | None:
        """Why a person takes over a turn that has gone wrong: nothing of it is lost."""
        if not self._decided or self._needs_admin:
            return None
        if outcome.kind in _FAILED:
            return EscalationReason.RESPONSE_ERROR
        # A tool that matters has failed, and not worked when the model asked for it again; another call of the same
        # reply mends nothing.
        broken: dict[str, int] = {}
        for each in outcome.executions:
            if each.critical and each.status in _BROKEN_STATUSES:
                broken[each.tool] = each.step
            elif each.critical and broken.get(each.tool, each.step) < each.step:
                del broken[each.tool]
        return EscalationReason.TOOL_FAILURE if broken else None

    async def _loop(self) -> ConversationOutcome:
        """Think and act as the agent whose turn it is."""
        conversation = self._conversation
        self._model_calls, self._before_loop = 0, len(self._executions)
        loop = ReactLoop(
            self._think,
            self._act,
            max_steps=self._begun.max_steps or conversation.state.limits.max_steps,
            stop_requested=lambda: conversation.stop_requested and not self._ran,
            may_be_silent=lambda: not self._addressed,
            ends_turn=turn_ending,
        )
        return await loop.run()

    def _note_addressed(self) -> None:
        """Once anything that the turn took up was addressed to the bot, it may not be silent any more. What is
        addressed to it while it only overhears waits for a turn of its own."""
        self._addressed = self._addressed or (
            self._conversation.snapshot.addressed_due and not self._begun.not_addressed
        )

    def _status(self, words: str) -> str:
        """What the bot does is shown to people who wait for it: not under what was only overheard."""
        return words if self._addressed else ""

    # -- think ---------------------------------------------------------------------------------------------------

    async def _think(self, choice: ToolChoice) -> ModelReply:
        conversation, since = self._conversation, self._step + 1
        self._model_calls += 1
        self._ran = {}
        while True:
            self._step += 1  # after a wait as well: what people said meanwhile belongs to this call
            self._note_addressed()
            where, status = (self._thread, self._number, self._step), self._status(THINKING)
            ran = tuple(self._executions[self._before_loop :])
            ending = self._ending(ConversationOutcome(OutcomeKind.ANSWERED, "", self._step, self._model_calls, ran))
            finish = None if ending.escalate else ending  # a person who is asked for may be called off meanwhile
            act = choice is ToolChoice.AUTO
            request = ThinkRequest(*where, choice, self._begun.agent, status, since, act, self._protocol, finish)
            conversation.show_activity(f"thinking and acting (step {self._step})")
            try:
                # A stop breaks it off: at once when the model is away already, or an operator wants the run to end.
                thought = await run_unless(
                    lambda: conversation.stop_requested,
                    call(ConversationActivities.think, request, summary=f"think {self._step}{self._just_ran}"),
                    grace=lambda: 0.0 if self._waits or conversation.state.cancelled else STOP_GRACE,
                )
            except FailureError as error:
                await self._wait_for_model(error)
            else:
                self._waits, self._away_since = 0, None
                self._step = thought.step or self._step
                conversation.update(thought.snapshot)
                self._note_addressed()
                self._ran = {each.call_id: each for each in thought.ran}
                if thought.finished:
                    self._take_over(thought.finished, ending)
                    if thought.reply.calls:
                        final = _final_of(thought.finished)
                        self._ran = {final.call_id: final}
                return thought.reply

    async def _wait_for_model(self, error: FailureError) -> None:
        """Wait for a model that is away, until it may be asked again. Raises StepFailed where it cannot be, or the
        patience is at its end, and Interrupted where somebody said to stop."""
        conversation, fault, now = self._conversation, fault_of(error), workflow.now().timestamp()
        self._lost += fault.kind is FaultKind.LOST
        if fault.kind is FaultKind.MENDABLE:
            self._needs_admin = True
            raise StepFailed(MODEL_NEEDS_ADMIN) from error
        if fault.kind is FaultKind.PERMANENT or self._lost > MAX_LOST_CALLS or self._addressed_meanwhile:
            raise no_reply(error) from error
        since = self._away_since = self._away_since or now
        until = since + conversation.state.limits.model_patience
        if now >= until:
            raise no_reply(error) from error
        self._note_addressed()
        self._tell_model_away(until)
        conversation.show_activity(f"waiting for the model since {format_utc(since)}, until {format_utc(until)}")
        self._waits += 1
        delay = max(fault.retry_after, min(FIRST_WAIT * 2.0 ** (self._waits - 1), LONGEST_WAIT))
        await pause(
            min(delay, until - now),
            lambda: conversation.stop_requested or self._addressed_meanwhile,
            "wait before the next model call",
        )
        if conversation.stop_requested:
            raise Interrupted from error
        if self._addressed_meanwhile:
            raise no_reply(error) from error

    @property
    def _addressed_meanwhile(self) -> bool:
        """Somebody speaks to the bot while it only overhears: their turn is not to wait for the model with this one."""
        return self._begun.not_addressed and self._conversation.snapshot.addressed_due

    def _tell_model_away(self, until: float) -> None:
        """Say once that the model is away, to who waits for it; nobody waits for Slack before it is asked again."""
        if self._away_notice is None and self._addressed and not self._conversation.stop_requested:
            word = ThreadNotice(self._thread, NoticeReason.MODEL_AWAY, about=str(self._number), until=until)
            summary = "post that the model is not answering"
            telling = attempt(ConversationActivities.post_thread_notice, word, summary=summary)
            self._away_notice = asyncio.create_task(telling)

    # -- act -----------------------------------------------------------------------------------------------------

    async def _act(self, calls: list[ToolCall]) -> list[Execution]:
        """Run the calls of one reply: side by side when all of them only read, else in order until somebody stops. A
        call that has the turn's last words comes behind the others, and those behind it are not run."""
        self._just_ran = f", after {answers.first_and_more(calls)}"
        done: list[Execution] = []
        for group in call_groups(calls):
            if done and (self._finished or self._conversation.stop_requested):
                break
            ran = await self._execute(group)
            for each in ran:
                if self._protocol and each.protocol:
                    self._protocol = self._protocol.merge(each.protocol)
            ran = [replace(each, step=self._step) for each in ran]
            done += ran
            self._executions += ran
        return done

    async def _execute(self, group: Sequence[ToolCall]) -> list[Execution]:
        """Raises Interrupted where the turn has ended without the call that has its last words."""
        if all(each.id in self._ran for each in group):
            return [self._ran.pop(each.id) for each in group]
        name = answers.first_and_more(group)
        self._conversation.show_activity(f"running {name}")
        if group[0].kind is ToolKind.SPEAK:
            ran = tuple(self._executions[self._before_loop :])
            end = ConversationOutcome(speech_kind(group[0].name), "", self._step, self._model_calls, ran)
            return [_final_of(await self._finish(end, group[0].reference()))]
        asked, status = tuple(each.reference() for each in group), self._status(answers.status_text(group))
        request = ActRequest(self._thread, self._number, self._step, asked, self._protocol, status)
        try:
            return await call(ConversationActivities.act, request, summary=f"tool {name}")
        except FailureError as error:
            if len(group) == 1 or is_cancelled_exception(error):
                return [lost_call(each, public_message(error), self._protocol) for each in group]
        # Each by itself: those that are on record return at once, and one that takes its worker down is lost alone.
        done: list[Execution] = []
        for each in group:
            if self._conversation.stop_requested:
                break
            done += await self._execute([each])
        return done


Think = Callable[[ToolChoice], Awaitable[ModelReply]]
"""Ask the model once, about the transcript as it is now, and append its reply; raises `StepFailed` when there is no
reply to be had. Other errors, a cancellation say, end the loop as they are."""
Act = Callable[[list[ToolCall]], Awaitable[list[Execution]]]
"""Run the calls of one reply and append their results; what goes wrong with a call is an `Execution` like any other."""


@dataclass
class ReactLoop:
    """Think and act until there is an answer to what the transcript ends with.

    A text without calls is the answer. Calls are run, save those whose id an earlier reply or call of this turn had. A
    reply that holds neither, or only such calls, or `max_steps` replies with calls, are followed by one call of the
    model without tools; should that say nothing, what was executed is told by rule. Silence where it is not allowed is
    no reply: the first time the model is asked again as before, since what was addressed to it may have come meanwhile.

    It awaits nothing but the two steps, and keeps nothing but what they return.

    Args:
        max_steps: the model is called at most once more often than this.
        stop_requested: asked before every step; once true, no step is begun any more.
        may_be_silent: asked when the model has nothing to say, or cannot be had: whether the message may be left to
            others. It may not once a call has changed something, or may have.
        ends_turn: asked of each call that was run: the end that it is, when it has the turn's last words.
    """

    think: Think
    act: Act
    max_steps: int = DEFAULT_MAX_STEPS
    stop_requested: Callable[[], bool] = lambda: False
    may_be_silent: Callable[[], bool] = lambda: False
    ends_turn: Callable[[Execution], OutcomeKind | None] = lambda _: None
    model_calls: int = 0
    executions: list[Execution] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    """Ids of calls that were run, or given to be run."""
    asked_again: bool = False

    async def run(self) -> ConversationOutcome:
        """The end, whose text is not blank unless its kind is `SILENT`."""
        try:
            return await self._work() or await self._conclude()
        except StepFailed as failure:  # a turn that nobody asked for fails silently
            if self._may_be_silent():
                return self.ended(OutcomeKind.SILENT, "")
            return self.ended(OutcomeKind.FAILED, answers.failure_text(str(failure), self.executions))

    async def _work(self) -> ConversationOutcome | None:
        """Think and act until there is an answer; None when there is to be one more call, without tools."""
        for _ in range(self.max_steps):
            if self.stop_requested():
                return self._stopped()
            reply = await self._ask(ToolChoice.AUTO)
            wrongly_silent = reply.silent and not reply.calls and not self._may_be_silent()
            if wrongly_silent and not self.asked_again:
                self.asked_again = True
                continue
            if not reply.calls:
                return self._answer(reply)
            calls = self._new(reply.calls)
            if not calls:
                return None
            if self.stop_requested():
                return self._stopped()
            done = await self.act(calls)
            self.executions += done
            ends = [self.ended(kind, each.note, self.model_calls) for each in done if (kind := self.ends_turn(each))]
            if ends:  # calls behind the first one were refused, or not run
                return ends[0]
        return None

    async def _conclude(self) -> ConversationOutcome:
        """Ask for words alone, and find some where the model has none."""
        if self.stop_requested():
            return self._stopped()
        answer = self._answer(await self._ask(ToolChoice.NONE))
        if answer:
            return answer
        if self.executions:
            return self.ended(OutcomeKind.SUMMARISED, answers.summary_text(self.executions))
        if self.may_be_silent():
            return self.ended(OutcomeKind.SILENT, "")
        return self.ended(OutcomeKind.NO_ANSWER, answers.NOTHING_TO_SAY)

    def ended(self, kind: OutcomeKind, text: str, step: int = 0) -> ConversationOutcome:
        return ConversationOutcome(kind, text, step, self.model_calls, tuple(self.executions))

    async def _ask(self, choice: ToolChoice) -> ModelReply:
        self.model_calls += 1
        return await self.think(choice)

    def _answer(self, reply: ModelReply) -> ConversationOutcome | None:
        """The end that a reply is, whatever calls are in it; None when it says nothing."""
        if reply.silent and self._may_be_silent():
            return self.ended(OutcomeKind.SILENT, "")
        if reply.silent or is_blank(reply.text):
            return None
        return self.ended(OutcomeKind.ANSWERED, reply.text, self.model_calls)

    def _stopped(self) -> ConversationOutcome:
        return self.ended(OutcomeKind.STOPPED, answers.stopped_text(self.executions))

    def _may_be_silent(self) -> bool:
        return self.may_be_silent() and not changed_something(self.executions)

    def _new(self, calls: Sequence[ToolCall]) -> list[ToolCall]:
        """The calls that were not run before, by their ids, and none twice."""
        new: list[ToolCall] = []
        for each in calls:
            if each.id not in self.seen:
                self.seen.add(each.id)
                new.append(each)
        return new


def turn_ending(execution: Execution) -> OutcomeKind | None:
    """The end of a turn that a call is; None when the turn goes on behind it."""
    if execution.protocol is None or not execution.protocol.over:
        return None
    if execution.protocol.proposed:
        return OutcomeKind.PROPOSED
    return speech_kind(execution.tool)


def _final_of(finished: FinishedTurn) -> Execution:
    """What the call with the turn's last words came to. Raises Interrupted where the turn has ended without it."""
    if finished.final is None:
        raise Interrupted
    return finished.final


def no_reply(error: FailureError) -> StepFailed:
    """The end of a turn whose model is not asked any more."""
    return StepFailed(MODEL_AWAY if fault_of(error).kind is FaultKind.TRANSIENT else public_message(error))


async def _start_child(name: str, given: HandoverInput | ApprovalRun, identity: str, summary: str) -> None:
    """Start a workflow that goes on without this one, unless it runs: somebody may have pressed a button already."""
    with suppress(WorkflowAlreadyStartedError):
        await workflow.start_child_workflow(
            name,
            given,
            id=identity,
            parent_close_policy=ParentClosePolicy.ABANDON,
            cancellation_type=ChildWorkflowCancellationType.ABANDON,
            static_summary=summary,
        )


async def _decision(request: DecideRequest) -> TurnDecision | None:
    """Decide about a turn, by rule where the model cannot be asked. Returns None when only the admin can mend that:
    a turn about something sensitive is not to be answered undecided, and no person is called for each turn."""
    try:
        return await call(ConversationActivities.decide, request, summary="decide what to do")
    except ActivityError as error:
        if is_cancelled_exception(error):
            raise
        fault = fault_of(error)
        workflow.logger.warning("decision_failed", extra={"reason": fault.message})
        if fault.kind is FaultKind.MENDABLE:
            return None
        return await call(ConversationActivities.decide_without_model, request, summary="decide without the model")
