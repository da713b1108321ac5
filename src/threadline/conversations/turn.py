"""The main step of a conversation: one turn, until it is settled and said.

It runs supervised beside the workflow's main coroutine, which goes on storing what arrives. Whoever says to stop is
seen in the marks that both share.
"""

import asyncio
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from temporalio import workflow
from temporalio.exceptions import ActivityError, FailureError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from threadline.conversations.contract import (
        ActRequest,
        ConversationActivities,
        DecideRequest,
        FinishRequest,
        SpeakingActivities,
        TalkTurn,
        ThinkRequest,
        Thought,
        TurnDecision,
        Word,
    )
    from threadline.conversations.model import answers
    from threadline.conversations.model.conversation import (
        Execution,
        ExecutionStatus,
        Outcome,
        OutcomeKind,
        WordKind,
        touched,
    )
    from threadline.conversations.operator_contract import Begun
    from threadline.decisions.model import EscalationReason, NextStep
    from threadline.models.model import ModelReply, ToolCall, ToolChoice
    from threadline.operator.model.routing import Agent
    from threadline.threads.display import format_utc
    from threadline.threads.retrying import Fault, FaultKind

from threadline.conversations.conversation_run import Conversation
from threadline.conversations.react_loop import react
from threadline.conversations.step_failures import broken_off, no_reply
from threadline.conversations.turn_route import Way, closing
from threadline.handovers.workflow import hand_over, relay
from threadline.threads.calls import Interrupted, attempt, call, call_unless, fault_of, pause, run_unless

FIRST_WAIT, LONGEST_WAIT = 30.0, 300.0
"""Seconds between two tries of a model that is away; each wait is twice the one before."""
LAST_WORD = 30.0
"""Seconds that a call of the model has left once somebody has said to stop: it may be about to answer."""
LOST_THINKS = 2
"""Calls of the model that a turn may lose with all their workers; one more, and it is taken for what kills them."""
AT_ONCE = 10
"""Calls of one reply that run side by side, when all of them only read."""
_ENDS = {NextStep.CLARIFY: OutcomeKind.CLARIFIED, NextStep.ESCALATE: OutcomeKind.ESCALATED}
"""Decisions that end a turn before its agent is asked."""
_FAILED = (OutcomeKind.FAILED, OutcomeKind.SPEECHLESS)
_BROKEN = (ExecutionStatus.ERROR, ExecutionStatus.UNKNOWN)
_SHOWN = 60
"""Characters of a tool's name in Temporal's UI: the server refuses a summary beyond 400 bytes, and with it the task."""


class Turn:
    """One turn, from what is unanswered to what is said about it. A new run begins it anew and finds what was done."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self._thread = conversation.state.thread
        self._number = conversation.marks.turn + 1
        self._step = 0
        self._addressed = False
        self._executions: list[Execution] = []
        self._away_since: float | None = None
        self._waits = 0
        self._lost = 0
        self._told: asyncio.Task[str] | None = None
        self._turn = TalkTurn(self._thread, self._number)
        self._way = Way(self._turn)
        self._decided = False
        """The decision engine has a say in this turn."""

    async def take(self) -> None:
        outcome = await self._work()
        reason = None if self._conversation.stopping else self._why_a_person(outcome)
        if reason and outcome.kind in _FAILED:
            done = answers.until_then(outcome.executions)
            outcome = replace(outcome, kind=OutcomeKind.ESCALATED, text=done)
        answered = outcome.kind is OutcomeKind.ANSWERED or bool(outcome.spoken_by)
        request = FinishRequest(
            self._thread,
            self._number,
            outcome.kind,
            text="" if answered else outcome.text,
            answered_at=self._step if answered else 0,
            model_calls=outcome.model_calls,
            spoken_by=outcome.spoken_by,
            protocol=self._way.protocol,
            failures=self._failures(outcome) if self._way.protocol else "",
            touched=touched(outcome.executions),
            escalate=reason,
            status_shown=self._addressed,
        )
        if self._told:
            await self._told  # that the model is away is said before what came after that
        self._conversation.does(f"finishing turn {self._number}")
        summary = f"finish turn {self._number}: {outcome.kind}"
        finished = await call(ConversationActivities.finish_turn, request, summary=summary)
        self._conversation.finished(self._number, finished)
        if finished.handover:  # nobody who is asked for waits for Slack to take the answer
            await hand_over(self._thread, self._number)
            await self._conversation.say(self._number)
        if self._way.begun and self._way.begun.ends is None:  # what later steps took up, and what a stop has ended
            await relay(self._turn, self._way.begun, left=finished.left_to_person)
        self._conversation.does("")

    def _failures(self, outcome: Outcome) -> str:
        return answers.failures(self._executions, proposed=outcome.kind is OutcomeKind.PROPOSED)

    async def _work(self) -> Outcome:
        conversation = self._conversation
        try:
            begun = await self._begin()
            await relay(self._turn, begun, left=begun.ends is OutcomeKind.SILENT)
            if begun.ends:
                return Outcome(begun.ends, "")
            await self._make_room()
            if decided := await self._decide():
                return decided
            outcome = await self._loop()
            if self._way.falls_through(outcome) and not conversation.stopping:
                await self._way.pass_on(self._step)
                outcome = await self._loop()
        except Interrupted:
            outcome = Outcome(OutcomeKind.STOPPED, "", model_calls=self._step)
        if outcome.kind is not OutcomeKind.STOPPED:
            return outcome
        words = answers.stopped(self._executions, by_operator=conversation.stopped_by_operator)
        return replace(outcome, text=words)

    async def _begin(self) -> Begun:
        begun = await self._way.find()
        self._conversation.merge(begun.marks)
        self._hear()  # who was routed as somebody who asks is answered, whoever writes meanwhile
        self._step = begun.behind
        return begun

    async def _decide(self) -> Outcome | None:
        """Decide what to do with what somebody has said to the conversational agent; None to have it answer."""
        conversation = self._conversation
        if self._way.agent is not Agent.COPILOT or not self._addressed or conversation.stopping:
            return None
        conversation.does("deciding what to do")
        request = DecideRequest(self._thread, self._number, self._status("thinking"))
        with suppress(Interrupted):
            decision = await run_unless(lambda: conversation.stopping, _decision(request))
            self._decided = decision.made
            if kind := _ENDS.get(decision.course):
                return Outcome(kind, "")
        return None

    def _why_a_person(self, outcome: Outcome) -> EscalationReason | None:
        """Why a person takes over a turn that has gone wrong: nothing of it is lost."""
        if not self._decided:
            return None
        if outcome.kind in _FAILED:
            return EscalationReason.RESPONSE_ERROR
        return EscalationReason.TOOL_FAILURE if _critical_failure(outcome.executions) else None

    async def _loop(self) -> Outcome:
        """Think and act as the agent whose turn it is."""
        conversation, way = self._conversation, self._way
        if way.agent is Agent.OPERATOR and not conversation.stopping:
            conversation.does("gathering the operator's context")
            with suppress(Interrupted, FailureError):
                await run_unless(lambda: conversation.stopping, way.prepare())
        return await react(
            self._think,
            self._act,
            max_turns=(way.begun and way.begun.max_turns) or conversation.state.limits.max_turns,
            stopping=lambda: conversation.stopping,
            may_be_silent=lambda: not self._addressed,
            closing=closing,
        )

    def _hear(self) -> None:
        """Once anything that the turn took up was addressed to the bot, it may not be silent any more.

        What is addressed to it while it only overhears waits for a turn of its own."""
        self._addressed = self._addressed or (self._conversation.marks.addressed_due and not self._way.overhears)

    def _status(self, words: str) -> str:
        """What the bot does is shown to people who wait for it: not under what was only overheard."""
        return words if self._addressed else ""

    # -- think ---------------------------------------------------------------------------------------------------

    async def _make_room(self) -> None:
        """Have the older part of a crowded transcript summarised; without that, the model reads less of it."""
        conversation = self._conversation
        if not conversation.marks.crowded or conversation.stopping:
            return
        conversation.does("summarising the earlier conversation")
        self._hear()
        words = f"summarise before turn {self._number}"
        summarising = attempt(ConversationActivities.summarise, self._turn, summary=words, on_result=conversation.merge)
        with suppress(Interrupted, FailureError):
            await run_unless(lambda: conversation.stopping, summarising)

    async def _think(self, choice: ToolChoice) -> ModelReply:
        while True:
            self._step += 1  # after a wait as well: what people said meanwhile belongs to this call
            self._hear()
            where = (self._thread, self._number, self._step)
            request = ThinkRequest(*where, choice, self._way.agent, self._status("thinking"))
            self._conversation.does(f"thinking (step {self._step})")
            try:
                thought = await self._ask(request)
            except FailureError as error:
                await self._bear(error)
            else:
                self._waits, self._away_since = 0, None
                self._step = thought.step or self._step
                self._conversation.merge(thought.marks)
                self._hear()
                return thought.reply

    async def _ask(self, request: ThinkRequest) -> Thought:
        """Ask the model; a stop breaks it off, at once when it is away already, or an operator wants the run to end."""
        conversation = self._conversation
        return await call_unless(
            lambda: conversation.stopping,
            ConversationActivities.think,
            request,
            summary=f"think {request.step}",
            grace=lambda: 0.0 if self._waits or conversation.state.cancelled else LAST_WORD,
        )

    async def _bear(self, error: FailureError) -> None:
        """Wait for a model that is away, until it may be asked again.

        Raises:
            StepFailed: it cannot be asked, or the patience is at its end.
            Interrupted: somebody said to stop.
        """
        conversation, fault, now = self._conversation, fault_of(error), workflow.now().timestamp()
        self._lost += fault.kind is FaultKind.LOST
        if fault.kind is FaultKind.PERMANENT or self._lost > LOST_THINKS or self._called:
            raise no_reply(error) from error
        since = self._away_since = self._away_since or now
        until = since + conversation.state.limits.model_patience
        if now >= until:
            raise no_reply(error) from error
        self._hear()
        self._tell(until)
        conversation.does(f"waiting for the model since {format_utc(since)}, until {format_utc(until)}")
        delay = min(self._delay(fault), until - now)
        await pause(delay, lambda: conversation.stopping or self._called, "wait before the next model call")
        if conversation.stopping:
            raise Interrupted from error
        if self._called:
            raise no_reply(error) from error

    @property
    def _called(self) -> bool:
        """Somebody speaks to the bot while it only overhears: their turn is not to wait for the model with this one."""
        return self._way.overhears and self._conversation.marks.addressed_due

    def _delay(self, fault: Fault) -> float:
        self._waits += 1
        return max(fault.retry_after, min(FIRST_WAIT * 2.0 ** (self._waits - 1), LONGEST_WAIT))

    def _tell(self, until: float) -> None:
        """Say once that the model is away, to who waits for it; nobody waits for Slack before it is asked again."""
        if self._told is None and self._addressed and not self._conversation.stopping:
            word = Word(self._thread, WordKind.MODEL_AWAY, about=str(self._number), until=until)
            telling = attempt(SpeakingActivities.post_word, word, summary="post that the model is not answering")
            self._told = asyncio.create_task(telling)

    # -- act -----------------------------------------------------------------------------------------------------

    async def _act(self, calls: list[ToolCall]) -> list[Execution]:
        """Run the calls of one reply: side by side when all of them only read, else in order until somebody stops."""
        width = AT_ONCE if all(each.read_only and not each.binds_record for each in calls) else 1
        done: list[Execution] = []
        for start in range(0, len(calls), width):
            if start and self._conversation.stopping:
                break
            group = calls[start : start + width]
            more = f" and {len(group) - 1} more" if len(group) > 1 else ""
            self._conversation.does(f"running {group[0].name[:_SHOWN]}{more}")
            # One status for the group: the first call shows it.
            shown = [self._status(f"using {_in_words(group[0].name)}{more}"), *[""] * len(group)]
            ran = await asyncio.gather(*map(self._execute, group, shown))
            self._way.learn(ran)
            done += (replace(each, step=self._step) for each in ran)
        self._executions += done
        return done

    async def _execute(self, asked: ToolCall, status: str) -> Execution:
        request = ActRequest(self._thread, self._number, self._step, asked.reference(), self._way.protocol, status)
        try:
            return await call(ConversationActivities.act, request, summary=f"tool {asked.name[:_SHOWN]}")
        except FailureError as error:
            return self._way.lost(asked, broken_off(asked, error))


def _in_words(tool: str) -> str:
    """A tool's name as people would put it: `estimates.getProjectDetails` → `get project details`."""
    name = tool[:_SHOWN].rpartition(".")[2]
    return " ".join(re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_", " ", name).lower().split()) or "a tool"


async def _decision(request: DecideRequest) -> TurnDecision:
    """What is decided about a turn: by rule where the model cannot be asked."""
    try:
        return await call(ConversationActivities.decide, request, summary="decide what to do")
    except ActivityError as error:
        if is_cancelled_exception(error):
            raise
        workflow.logger.warning("decision_failed", extra={"reason": fault_of(error).message})
        return await call(ConversationActivities.decide_without_model, request, summary="decide without the model")


def _critical_failure(executions: Sequence[Execution]) -> bool:
    """Whether a tool that matters has failed, and not worked when the model asked for it again. Another call of the
    same reply mends nothing."""
    broken: dict[str, int] = {}
    for each in executions:
        if each.critical and each.status in _BROKEN:
            broken[each.tool] = each.step
        elif each.critical and broken.get(each.tool, each.step) < each.step:
            del broken[each.tool]
    return bool(broken)
