"""Turn: one turn of a conversation in its workflow, from the unanswered messages to the posted
answer.

    begin -> decide -> (think -> act)* -> finish -> post

Each step is one activity. A run that begins the turn again reuses the recorded results.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Protocol

from temporalio import workflow
from temporalio.exceptions import (
    ActivityError,
    FailureError,
    WorkflowAlreadyStartedError,
    is_cancelled_exception,
)
from temporalio.workflow import ChildWorkflowCancellationType, ParentClosePolicy

from threadline.approvals.contract import APPROVAL_WORKFLOW, approval_workflow_id
from threadline.approvals.model import ApprovalRun
from threadline.conversations.contract import (
    SPEAK,
    THINKING,
    ActRequest,
    BegunTurn,
    ConversationActivities,
    DecideRequest,
    FinishedTurn,
    FinishRequest,
    PassToOperator,
    RelayActivities,
    ThinkRequest,
    ThreadNotice,
    TurnDecision,
)
from threadline.conversations.model import answers
from threadline.conversations.model.conversation import (
    ConversationInput,
    ConversationOutcome,
    ConversationSnapshot,
    ConversationTurn,
    Execution,
    NoticeReason,
    OutcomeKind,
    call_groups,
    changed_something,
    lost_call,
    speech_kind,
)
from threadline.conversations.model.handover import (
    HANDOVER_WORKFLOW,
    HandoverInput,
    handover_workflow_id,
)
from threadline.conversations.model.turn_route import Agent
from threadline.decisions.model import EscalationReason, NextStep
from threadline.models.model import ModelReply, StepFailed, ToolCall, ToolChoice, ToolKind
from threadline.operator.model.protocol import ProtocolState
from threadline.slack.text import is_blank
from threadline.threads.calls import (
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
from threadline.threads.model import FaultKind, doubled, format_utc
from threadline.tools.model import ToolStatus

MODEL_AWAY = (
    "My language model is not answering, and I have stopped waiting for it. Please ask me again "
    "later."
)
MODEL_NEEDS_ADMIN = (
    "I have no answer for you, because my language model cannot be used right now. "
    "I have told the admin. Please ask me again a little later."
)
"""Answer when only the admin can help: a refused key, no credit, a wrong name or address."""
FIRST_WAIT = 30.0
"""Seconds before the first retry of a model that is unavailable. Each later wait doubles, up to
`LONGEST_WAIT`.
"""
LONGEST_WAIT = 300.0
STOP_GRACE = 30.0
"""Seconds that a running model call has left after a stop request, since it may be about to
answer.
"""
MAX_LOST_CALLS = 2
"""Model calls of a turn that may be lost with all their workers. After one more, the turn assumes
that the call itself kills them.
"""
_ENDS = {NextStep.CLARIFY: OutcomeKind.CLARIFIED, NextStep.ESCALATE: OutcomeKind.ESCALATED}
"""Decisions that end a turn before its agent runs."""
_FAILED = (OutcomeKind.FAILED, OutcomeKind.NO_ANSWER)
_BROKEN_STATUSES = (ToolStatus.ERROR, ToolStatus.UNKNOWN)


class ThreadOfTurn(Protocol):
    """The conversation's workflow, as a turn uses it."""

    state: ConversationInput

    @property
    def snapshot(self) -> ConversationSnapshot: ...

    @property
    def stop_requested(self) -> bool: ...

    def update(self, snapshot: ConversationSnapshot) -> None: ...

    def show_activity(self, what: str) -> None: ...

    def keep_summary(self, summary: str) -> None: ...

    async def post_due_answer(self) -> None: ...

    async def tell_author(self, turn: int, reason: NoticeReason) -> None: ...

    def show_once_mended(self, turn: int, *, left_to_person: bool) -> None: ...


@dataclass
class ModelWait:
    """A turn's wait for a model that is unavailable.

    - `since`: start of the outage, in seconds since 1970; None while the model answers;
    - `waits`: retries since then;
    - `lost`: calls of this turn that were lost with all their workers;
    - `notice`: the post that tells the thread about the wait, at most one per turn.
    """

    since: float | None = None
    waits: int = 0
    lost: int = 0
    notice: asyncio.Task[str] | None = None

    def over(self) -> None:
        self.since = None
        self.waits = 0


@dataclass
class Turn:
    """One turn. The run keeps storing messages concurrently, so a stop request appears in its
    snapshot.

    - `step`: the last call of the model, counted from 1 over all agents of the turn;
    - `addressed`: a message that the turn took up was addressed to the bot, so the turn must
      answer;
    - `decided`: the decision engine decides about this turn;
    - `needs_admin`: the model refuses every call until the admin mends something; people on call
      could not;
    - `without_files`: attached files could not be fetched, and the turn continues without them;
    - `model_calls`: calls by the current agent;
    - `before_agent`: number of executions before the current agent;
    - `seen`: ids of the tool calls that were run.
    """

    thread: ThreadOfTurn
    ref: ConversationTurn
    route: BegunTurn
    protocol: ProtocolState | None = None
    step: int = 0
    addressed: bool = False
    decided: bool = False
    needs_admin: bool = False
    without_files: bool = False
    model_calls: int = 0
    executions: list[Execution] = field(default_factory=list)
    before_agent: int = 0
    seen: set[str] = field(default_factory=set)
    model_wait: ModelWait = field(default_factory=ModelWait)

    @classmethod
    def next_of(cls, thread: ThreadOfTurn) -> "Turn":
        """Return the turn after the last settled one."""
        ref = ConversationTurn(thread.state.thread, thread.snapshot.turn + 1)
        return cls(thread, ref, BegunTurn(thread.snapshot))

    async def run(self) -> None:
        await self.begin()
        outcome = await self.work()
        finished = await self.finish(outcome)
        await self.start_children(finished)
        if self.model_wait.notice:
            await self.model_wait.notice  # the notice precedes the answer
        await self.thread.post_due_answer()
        # Relay the messages that later steps took up, and those that a stop has ended.
        if self.route.ends is None:
            await self.relay(left_to_person=finished.left_to_person)
        self.thread.show_activity("")

    # -- begin, decide

    async def begin(self) -> None:
        await self.fetch_files()
        self.thread.show_activity("deciding what to do")
        self.keep_route(
            await call(ConversationActivities.begin_turn, self.ref, summary="begin the turn")
        )
        self.thread.update(self.route.snapshot)
        self.note_addressed()  # a turn that was addressed always gets an answer
        self.step = self.route.prior_steps
        await self.relay(left_to_person=self.route.ends is OutcomeKind.SILENT)

    async def fetch_files(self) -> None:
        """Fetch the texts of attached files before the turn decides about them or answers."""
        if not self.thread.snapshot.files_due or self.without_files or self.must_stop():
            return
        self.thread.show_activity("reading attached files")
        fetch = ConversationActivities.fetch_files
        summary = "fetch the attached files"
        fetching = attempt(fetch, self.ref, summary=summary, on_result=self.thread.update)
        with suppress(Interrupted):
            self.without_files = bool(await run_unless(self.must_stop, fetching))

    def keep_route(self, route: BegunTurn) -> None:
        self.route = route
        self.protocol = route.protocol
        if route.correlation_id:
            workflow.upsert_memo({"correlation_id": route.correlation_id, "route": route.about})

    async def work(self) -> ConversationOutcome:
        """Return the turn's outcome: by its route, by a decision, or by its agent."""
        if self.route.ends:
            return ConversationOutcome(self.route.ends, "")
        try:
            outcome = await self.decide() or await self.react()
            if self.falls_through(outcome):
                await self.pass_to_operator()
                outcome = await self.react()
        except Interrupted:
            outcome = ConversationOutcome(OutcomeKind.STOPPED, "", model_calls=self.step)
        if outcome.kind is not OutcomeKind.STOPPED:
            return outcome
        by_admin = self.thread.state.cancelled and not self.thread.snapshot.stop_due
        return replace(outcome, text=answers.stopped_text(self.executions, by_admin=by_admin))

    async def decide(self) -> ConversationOutcome | None:
        """Decide what to do with a message to the assistant.

        Returns:
            The outcome; None if an agent has to answer.
        """
        if (
            self.route.agent is not Agent.ASSISTANT
            or not self.addressed
            or self.thread.stop_requested
        ):
            return None
        request = DecideRequest(self.ref.thread, self.ref.turn, self.status(THINKING))
        decision = await run_unless(self.must_stop, _decision(request))
        if decision is None:
            self.needs_admin = True
            return ConversationOutcome(
                OutcomeKind.FAILED, answers.failure_text(MODEL_NEEDS_ADMIN, ())
            )
        self.decided = decision.made
        if decision.course is NextStep.OPERATOR:
            await self.pass_to_operator()
            return None
        kind = _ENDS.get(decision.course)
        return ConversationOutcome(kind, "") if kind else None

    def falls_through(self, outcome: ConversationOutcome) -> bool:
        """Whether the operator takes over: the assistant has failed, and changed nothing."""
        failed = outcome.kind in _FAILED and all(each.read_only for each in outcome.executions)
        possible = not (self.thread.stop_requested or self.needs_admin)
        return self.route.falls_through and failed and possible

    async def pass_to_operator(self) -> None:
        """Continue the turn with the operator, without an RFP."""
        passing = PassToOperator(self.ref.thread, self.ref.turn, self.step)
        summary = "hand the turn to the operator"
        self.keep_route(
            await call(ConversationActivities.pass_to_operator, passing, summary=summary)
        )

    def must_stop(self) -> bool:
        """Whether a user or the admin has requested a stop. The value may change during every
        step.
        """
        return self.thread.stop_requested

    def note_addressed(self) -> None:
        """Update `addressed`. In a turn that only overhears, messages to the bot wait for the next
        turn.
        """
        due = self.thread.snapshot.addressed_due and not self.route.not_addressed
        self.addressed = self.addressed or due

    def status(self, words: str) -> str:
        """Return the status for Slack: empty unless somebody waits for the bot."""
        return words if self.addressed else ""

    # -- think, act

    async def react(self) -> ConversationOutcome:
        """Think and act as the current agent until there is an outcome.

        A reply with text and without calls is the answer. Each call id runs once; repeated ids are
        skipped. After `max_steps` replies with calls, after a reply with only repeated calls, and
        after an empty reply, the model gets one last call without tools; if that reply is empty
        too, the answer lists the executed calls. A silent reply counts only if no message was
        addressed to the bot and no tool changed anything. The first one that does not count is
        retried, since a message to the bot may have arrived during the call.

        Returns:
            The outcome, and where the model's words are in the transcript. The text is blank only
            for `SILENT`.
        """
        self.model_calls = 0
        self.before_agent = len(self.executions)
        try:
            return await self.think_and_act() or await self.conclude()
        except StepFailed as failure:
            if self.may_be_silent():  # a turn that was not addressed fails silently
                return self.ended(OutcomeKind.SILENT)
            return self.ended(
                OutcomeKind.FAILED, answers.failure_text(str(failure), self.of_agent)
            )

    async def think_and_act(self) -> ConversationOutcome | None:
        """Think and act until there is an outcome; None if the model needs a last call without
        tools.
        """
        asked_again = False
        for _ in range(self.route.max_steps or self.thread.state.limits.max_steps):
            if self.must_stop():
                return self.stopped()
            reply = await self.ask(ToolChoice.AUTO)
            wrongly_silent = reply.silent and not reply.calls and not self.may_be_silent()
            if wrongly_silent and not asked_again:
                asked_again = True
                continue
            if not reply.calls:
                return self.answer_of(reply)
            calls = self.without_repeated(reply.calls)
            if not calls:
                return None
            if self.must_stop():
                return self.stopped()
            if ended := self.ended_by(await self.act(calls)):
                return ended
        return None

    def ended_by(self, done: Sequence[Execution]) -> ConversationOutcome | None:
        """Return the outcome of the call that ends the turn; None if none of them does."""
        for each in done:
            if kind := turn_ending(each):
                speech = each.call_id if each.kind is ToolKind.SPEAK else ""
                return replace(self.ended(kind, each.note, self.model_calls), speech=speech)
        return None

    async def conclude(self) -> ConversationOutcome:
        """Ask the model once without tools; if its reply is empty, list the executed calls."""
        if self.must_stop():
            return self.stopped()
        answer = self.answer_of(await self.ask(ToolChoice.NONE))
        if answer:
            return answer
        if self.of_agent:
            return self.ended(OutcomeKind.SUMMARISED, answers.summary_text(self.of_agent))
        if self.may_be_silent():
            return self.ended(OutcomeKind.SILENT)
        return self.ended(OutcomeKind.NO_ANSWER, answers.NOTHING_TO_SAY)

    async def ask(self, choice: ToolChoice) -> ModelReply:
        self.model_calls += 1
        return await self.think(choice)

    def answer_of(self, reply: ModelReply) -> ConversationOutcome | None:
        """Return the outcome of a reply, ignoring its calls; None if the reply is empty."""
        if reply.silent and self.may_be_silent():
            return self.ended(OutcomeKind.SILENT)
        if reply.silent or is_blank(reply.text):
            return None
        return self.ended(OutcomeKind.ANSWERED, reply.text, self.model_calls)

    def stopped(self) -> ConversationOutcome:
        return self.ended(OutcomeKind.STOPPED, answers.stopped_text(self.of_agent))

    def ended(self, kind: OutcomeKind, text: str = "", step: int = 0) -> ConversationOutcome:
        return ConversationOutcome(kind, text, step, self.model_calls, tuple(self.of_agent))

    @property
    def of_agent(self) -> list[Execution]:
        """Executions of the current agent."""
        return self.executions[self.before_agent :]

    def may_be_silent(self) -> bool:
        """Whether the turn may end without an answer: no message was addressed to the bot, and no
        tool changed anything.
        """
        return not self.addressed and not changed_something(self.of_agent)

    def without_repeated(self, calls: Sequence[ToolCall]) -> list[ToolCall]:
        """Return the calls with new ids, each once."""
        new: list[ToolCall] = []
        for each in calls:
            if each.id not in self.seen:
                self.seen.add(each.id)
                new.append(each)
        return new

    async def think(self, choice: ToolChoice) -> ModelReply:
        """Ask the model once, and retry while it is unavailable."""
        since = self.step + 1
        while True:
            await self.fetch_files()
            # also after a wait: messages that arrived meanwhile belong to this call
            self.step += 1
            self.note_addressed()
            where = (self.ref.thread, self.ref.turn, self.step)
            request = ThinkRequest(*where, choice, self.route.agent, self.status(THINKING), since)
            self.thread.show_activity(f"thinking (step {self.step})")
            thinking = call(ConversationActivities.think, request, summary=f"think {self.step}")
            try:
                thought = await run_unless(self.must_stop, thinking, grace=self.stop_grace)
            except FailureError as error:
                await self.wait_for_model(error)
                continue
            self.model_wait.over()
            self.step = thought.step or self.step
            self.thread.update(thought.snapshot)
            self.note_addressed()
            return thought.reply

    def stop_grace(self) -> float:
        """Return the seconds that a model call has left after a stop: none if the model is
        unavailable already, or an admin has cancelled the run.
        """
        at_once = self.model_wait.waits > 0 or self.thread.state.cancelled
        return 0.0 if at_once else STOP_GRACE

    async def wait_for_model(self, error: FailureError) -> None:
        """Wait until a model that is unavailable may be asked again.

        Raises:
            StepFailed: The model cannot be asked again, the patience has run out, or a message to
                the bot must not wait.
            Interrupted: A stop was requested.
        """
        wait = self.model_wait
        fault = fault_of(error)
        now = workflow.now().timestamp()
        if fault.kind is FaultKind.MENDABLE:
            self.needs_admin = True
            raise StepFailed(MODEL_NEEDS_ADMIN) from error
        if fault.kind is FaultKind.LOST:
            wait.lost += 1
        if (
            fault.kind is FaultKind.PERMANENT
            or wait.lost > MAX_LOST_CALLS
            or self.addressed_meanwhile
        ):
            raise no_reply(error) from error
        wait.since = wait.since or now
        until = wait.since + self.thread.state.limits.model_patience
        if now >= until:
            raise no_reply(error) from error
        self.note_addressed()
        self.tell_model_away(until)
        shown_since = format_utc(wait.since)
        self.thread.show_activity(
            f"waiting for the model since {shown_since}, until {format_utc(until)}"
        )
        pause_for = max(fault.retry_after, doubled(FIRST_WAIT, LONGEST_WAIT, wait.waits))
        wait.waits += 1
        delay = min(pause_for, until - now)
        await pause(delay, self.must_not_wait, "wait before the next model call")
        if self.thread.stop_requested:
            raise Interrupted from error
        if self.addressed_meanwhile:
            raise no_reply(error) from error

    def must_not_wait(self) -> bool:
        return self.thread.stop_requested or self.addressed_meanwhile

    @property
    def addressed_meanwhile(self) -> bool:
        """Whether somebody has addressed the bot while this turn only overhears. Their turn must
        not wait for the model with this one.
        """
        return self.route.not_addressed and self.thread.snapshot.addressed_due

    def tell_model_away(self, until: float) -> None:
        """Post once that the model is unavailable, if somebody waits for an answer. The next model
        call does not wait for this post.
        """
        if self.model_wait.notice or not self.addressed or self.thread.stop_requested:
            return
        word = ThreadNotice(
            self.ref.thread, NoticeReason.MODEL_AWAY, about=str(self.ref.turn), until=until
        )
        summary = "post that the model is not answering"
        telling = attempt(ConversationActivities.post_thread_notice, word, summary=summary)
        self.model_wait.notice = asyncio.create_task(telling)

    async def act(self, calls: list[ToolCall]) -> list[Execution]:
        """Run the calls of one reply: concurrently if all of them only read, otherwise in order
        until a stop. A call that speaks the turn's last words runs after the others, and ends the
        turn.
        """
        done: list[Execution] = []
        for group in call_groups(calls):
            if done and (self.thread.stop_requested or turn_ending(done[-1])):
                break
            for each in await self.run_group(group):
                if self.protocol and each.protocol:
                    self.protocol = self.protocol.merge(each.protocol)
                done.append(replace(each, step=self.step))
        self.executions += done
        return done

    async def run_group(self, group: Sequence[ToolCall]) -> list[Execution]:
        name = answers.first_and_more(group)
        self.thread.show_activity(f"running {name}")
        request = ActRequest(
            self.ref.thread,
            self.ref.turn,
            self.step,
            tuple(each.reference() for each in group),
            self.protocol,
            self.status(answers.status_text(group)),
        )
        options = SPEAK if group[0].kind is ToolKind.SPEAK else None
        try:
            return await call(
                ConversationActivities.act, request, summary=f"tool {name}", options=options
            )
        except FailureError as error:
            if len(group) == 1 or is_cancelled_exception(error):
                return [lost_call(each, public_message(error), self.protocol) for each in group]
        # Run each call alone: recorded calls return at once, and a call that kills its worker is
        # lost alone.
        done: list[Execution] = []
        for each in group:
            if self.thread.stop_requested:
                break
            done += await self.run_group([each])
        return done

    # -- finish

    async def finish(self, outcome: ConversationOutcome) -> FinishedTurn:
        request = self.ending(outcome)
        self.thread.show_activity(f"finishing turn {self.ref.turn}")
        summary = f"finish turn {self.ref.turn}: {outcome.kind}"
        finished: FinishedTurn = await call(
            ConversationActivities.finish_turn, request, summary=summary
        )
        self.thread.keep_summary(finished.summary)
        self.thread.update(finished.snapshot)
        return finished

    def ending(self, outcome: ConversationOutcome) -> FinishRequest:
        reason = None if self.thread.stop_requested else self.escalation_reason(outcome)
        if reason and outcome.kind in _FAILED:
            done = answers.progress_text(outcome.executions)
            outcome = replace(outcome, kind=OutcomeKind.ESCALATED, text=done)
        by_model = outcome.kind is OutcomeKind.ANSWERED or bool(outcome.speech)
        proposed = outcome.kind is OutcomeKind.PROPOSED
        failures = (
            answers.failed_changes_text(self.executions, proposed=proposed)
            if self.protocol
            else ""
        )
        return FinishRequest(
            self.ref.thread,
            self.ref.turn,
            outcome.kind,
            text="" if by_model else outcome.text,
            listed_calls=() if by_model else tuple(each.call_id for each in self.executions),
            answer_step=self.step if by_model else 0,
            model_calls=outcome.model_calls,
            speech=outcome.speech,
            protocol=self.protocol,
            failures=failures,
            changed_something=changed_something(outcome.executions),
            escalate=reason,
            status_shown=self.addressed,
        )

    def escalation_reason(self, outcome: ConversationOutcome) -> EscalationReason | None:
        """Return why a person takes over a turn that went wrong, so that no request is lost."""
        if not self.decided or self.needs_admin:
            return None
        if outcome.kind in _FAILED:
            return EscalationReason.RESPONSE_ERROR
        # A critical tool has failed, and did not work when the model called it again in a later
        # reply.
        broken: dict[str, int] = {}
        for each in outcome.executions:
            if each.critical and each.status in _BROKEN_STATUSES:
                broken[each.tool] = each.step
            elif each.critical and broken.get(each.tool, each.step) < each.step:
                del broken[each.tool]
        return EscalationReason.TOOL_FAILURE if broken else None

    async def start_children(self, finished: FinishedTurn) -> None:
        """Start the handover and the approvals before the answer is posted, so that they do not
        wait for Slack.
        """
        number = self.ref.turn
        if finished.handover:
            identity = handover_workflow_id(self.ref.thread, number)
            summary = f"Handover of turn {number} to a person"
            await _start_child(HANDOVER_WORKFLOW, HandoverInput(self.ref), identity, summary)
        for action_id in finished.approvals:
            team = self.ref.thread.team
            identity = approval_workflow_id(team, action_id)
            summary = f"Decision on {action_id}, proposed by turn {number}"
            await _start_child(APPROVAL_WORKFLOW, ApprovalRun(team, action_id), identity, summary)

    async def relay(self, *, left_to_person: bool) -> None:
        """Show the turn's messages to the person who has the thread, or may take it over. If Slack
        refuses them until the admin mends something, retry in the background. If the turn is left
        to the person, its author gets a notice when the messages are delayed, when they fail for
        good, and when the person had closed the handover before.
        """
        if not self.route.relays_to_person:
            return
        number = self.ref.turn
        if left_to_person and self.thread.state.turns_to_forward:  # earlier messages come first
            self.thread.show_once_mended(number, left_to_person=left_to_person)
            return
        unshown = list[bool]()
        relay = RelayActivities.relay_to_person
        summary = "relay the turn to the person"
        try:
            failed = await attempt_unless_mendable(
                relay, self.ref, summary=summary, on_result=unshown.append
            )
        except NotMended:
            self.thread.show_once_mended(number, left_to_person=left_to_person)
            return
        if (failed or any(unshown)) and left_to_person:
            await self.thread.tell_author(number, NoticeReason.NOT_FORWARDED)


def turn_ending(execution: Execution) -> OutcomeKind | None:
    """Return the outcome kind of a call that ends its turn; None if the turn continues."""
    if execution.protocol is None or not execution.protocol.over:
        return None
    if execution.protocol.proposed:
        return OutcomeKind.PROPOSED
    return speech_kind(execution.tool)


def no_reply(error: FailureError) -> StepFailed:
    """Return the failure that ends a turn when the model is not retried."""
    return StepFailed(
        MODEL_AWAY if fault_of(error).kind is FaultKind.TRANSIENT else public_message(error)
    )


async def _start_child(
    name: str, given: HandoverInput | ApprovalRun, identity: str, summary: str
) -> None:
    """Start a workflow that outlives this one, unless it is running: a button may have started it
    already.
    """
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
    """Decide about a turn, by rule if the model cannot be asked.

    Returns:
        The decision; None if only the admin can restore the model. A sensitive turn must not be
        answered without a decision, and a person must not be called for every turn.
    """
    try:
        return await call(ConversationActivities.decide, request, summary="decide what to do")
    except ActivityError as error:
        if is_cancelled_exception(error):
            raise
        fault = fault_of(error)
        workflow.logger.warning("decision_failed", extra={"reason": fault.message})
        if fault.kind is FaultKind.MENDABLE:
            return None
        return await call(
            ConversationActivities.decide_without_model,
            request,
            summary="decide without the model",
        )
