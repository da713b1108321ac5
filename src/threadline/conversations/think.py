"""One call of the model: asked about the whole transcript, its reply kept before anybody acts on it."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import structlog

from threadline.conversations import blocks, intent, replies
from threadline.conversations import context_window as context
from threadline.conversations import decision_note as evidence
from threadline.conversations.context_window import Budget, Past
from threadline.conversations.contract import TalkTurn, ThinkRequest, Thought
from threadline.conversations.intent import IntentType
from threadline.conversations.model.conversation import ConversationSnapshot
from threadline.conversations.prompt import INSTRUCTIONS, NO_REPLY
from threadline.conversations.prompt_building import Question, TakingUp, has_words
from threadline.conversations.store.conversation import ConversationStore
from threadline.conversations.store.messages import TurnMessage
from threadline.conversations.store.transcript import TranscriptStore
from threadline.conversations.summary import Summaries
from threadline.conversations.turn_note import Briefing
from threadline.db.engine import Database
from threadline.errors import Permanent
from threadline.models.errors import ContextTooLong
from threadline.models.model import ChatModel, Completion, Message, ModelReply, Prompt
from threadline.operator import prompt as prompts
from threadline.operator.model.routing import Agent
from threadline.operator.prompt import BOT_NAME, JobTypeInfo, OperatorProfile, TurnInfo
from threadline.slack.model import Thread
from threadline.slack.users import UserDirectory
from threadline.threads.alerts import FailureAlerts
from threadline.threads.model import turn_id
from threadline.tools.context import Services
from threadline.tools.registry import AllowedTools, ToolRegistry, allowed_tools

_NO_WAY = "This turn has no route yet, so the operator agent cannot answer it."
_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Mind:
    """What a conversation thinks with; without a `model`, every turn that needs one says so. `clock`: since 1970.

    `sensitive_words`: beside those of `decisions.model.sensitive_topics`.
    """

    model: ChatModel | None
    registry: ToolRegistry
    services: Services
    budget: Budget = field(default_factory=Budget)
    clock: Callable[[], float] = time.time
    bot_name: str = BOT_NAME
    job_types: Sequence[JobTypeInfo] = ()
    sensitive_words: Sequence[str] = ()

    @cached_property
    def house(self) -> OperatorProfile:
        """What the operator is told of the house, with the tools that are its own."""
        names = allowed_tools(self.registry, self.services, operator=True, read_only=False).names
        return OperatorProfile(
            [each for each in self.registry.all() if each.name in names], self.job_types, self.bot_name
        )

    def allowed(self, briefing: Briefing, agent: Agent = Agent.COPILOT) -> AllowedTools:
        """The tools of a turn, the same at each of its steps."""
        reason = briefing.because or "nothing may be changed"
        return allowed_tools(
            self.registry,
            self.services,
            operator=agent is Agent.OPERATOR,
            read_only=briefing.read_only,
            reason=reason,
        )


class Thinking:
    def __init__(self, database: Database, mind: Mind, users: UserDirectory, alerts: FailureAlerts) -> None:
        self._database = database
        self._mind = mind
        self._alerts = alerts
        self._summaries = Summaries(database, mind.model, mind.budget)
        self._taking_up = TakingUp(database, users, mind.budget, mind.clock, mind.sensitive_words)

    async def summarise(self, turn: TalkTurn) -> None:
        """See `Summaries.make`."""
        await self._summaries.make(turn)

    async def think(self, request: ThinkRequest, attempt: int) -> Thought:
        """See `ConversationActivities.think`; `attempt` counts from 1."""
        question = await self._taking_up.question(request)
        if question.kept:
            return Thought(replies.told(question.kept), question.marks, question.step)
        request = replace(request, step=question.step)
        if text := self._without_model(request, question):
            return await self._keep(request, ModelReply(text))
        begun = time.monotonic()
        answer = await self._ask(request, question, attempt)
        took = round((time.monotonic() - begun) * 1000)
        reply = replies.clear(answer, addressed=question.briefing is None or question.briefing.addressed)
        return await self._keep(request, reply, answer, took)

    async def remember(self, thread: Thread, turn: int, words: str) -> None:
        """See `TakingUp.remember`."""
        await self._taking_up.remember(thread, turn, words)

    def _without_model(self, request: ThinkRequest, question: Question) -> str:
        """What is said where there is nothing for a model to understand; empty where there is.

        A correction of an earlier message asks for nothing.
        """
        if request.step > 1 or question.briefing is None:
            return ""
        there = [each for each in question.taken if has_words(each) and not each.edit_of]
        if not there:
            return blocks.DELETED if question.briefing.addressed else NO_REPLY
        if question.briefing.addressed or request.agent is Agent.OPERATOR:
            return ""
        return "" if any(_is_remark(each, question.marks) for each in there) else NO_REPLY

    async def _ask(self, request: ThinkRequest, question: Question, attempt: int) -> Completion:
        if self._mind.model is None:
            raise Permanent(blocks.NO_MODEL)
        try:
            try:
                return await self._mind.model.ask(self._prompt(request, question), attempt=attempt)
            except ContextTooLong:
                return await self._mind.model.ask(self._tighter(request, question), attempt=attempt)
        except ContextTooLong as error:
            raise Permanent(blocks.TOO_LONG) from error
        except Permanent as error:
            await self._alerts.record("model")
            raise Permanent(blocks.no_answer_text(str(error))) from error

    def _prompt(self, request: ThinkRequest, question: Question, *, tight: bool = False) -> Prompt:
        if question.briefing is None:
            raise LookupError("the question has no briefing")
        offered = (self._mind.registry, self._mind.allowed(question.briefing, request.agent))
        found = evidence.note(question.decided)
        briefed, *rest = question.current
        return context.prompt_of(
            request.thread,
            question.past,
            [briefed, *([found] if found else []), *rest],
            offered,
            request.choice,
            tight=tight,
            instructions=self._instructions(request, question),
        )

    def _instructions(self, request: ThinkRequest, question: Question) -> str:
        """What the model is told first: the same at every step of a turn."""
        if request.agent is Agent.COPILOT:
            return INSTRUCTIONS
        plan, thread = question.plan, request.thread
        if plan is None or question.briefing is None:
            raise Permanent(_NO_WAY)
        runtime = TurnInfo(thread, question.briefing.user_id, turn_id(thread, request.turn), plan.route.scope.rfp_id)
        told = {"patterns": plan.patterns, "analysis": plan.analysis, "context": plan.context}
        return prompts.build_system_prompt(self._mind.house, runtime, **told)

    def _tighter(self, request: ThinkRequest, question: Question) -> Prompt:
        """The same question with half of the past at most; for a summary of what goes there is no time now."""
        _log.warning("context_too_long", slack_thread=request.thread.key, turn=request.turn, step=request.step)
        halved = context.cut(question.past, question.current, self._mind.budget.halved())
        past = Past(question.past.summary, halved.kept)
        return self._prompt(request, replace(question, past=past), tight=True)

    async def _keep(
        self, request: ThinkRequest, reply: ModelReply, answer: Completion | None = None, took: int = 0
    ) -> Thought:
        """Of two attempts at the same call the first reply stands, and both return it; both were paid for.

        One that comes when its step is over, say after a word to stop, is nothing that anybody has read.
        """
        thread, turn, step = request.thread, request.turn, request.step
        message: Message = replies.message(reply, self._mind.registry)
        async with self._database.begin() as tx:
            is_open = await ConversationStore(tx).current_step(thread, turn, step) == step
            if is_open:
                await TranscriptStore(tx).append(thread, turn, step, [(f"a:{turn}:{step}", message)])
            kept = await TranscriptStore(tx).get(thread, f"a:{turn}:{step}") or message
            if is_open and (note := replies.left_out(reply)) and kept == message:
                await TranscriptStore(tx).append(thread, turn, step, [(f"n:{turn}:{step}", note)])
            if answer:
                await ConversationStore(tx).add_usage(thread, turn, step, "think", answer.usage, took)
            return Thought(replies.told(kept), await ConversationStore(tx).snapshot(thread), step)


def _is_remark(said: TurnMessage, marks: ConversationSnapshot) -> bool:
    """Whether people have said something to each other that may be meant for the bot.

    An emoji may be the answer to what it has asked; a cry for help is for whoever was asked.
    """
    wanted = intent.extract(said.text)
    if wanted:
        return bool(said.files) or wanted.type is not IntentType.HELP
    return bool(said.files or (marks.open_question and said.text.strip()))
