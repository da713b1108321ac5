"""One call of the model: asked about the whole transcript, its reply kept before anybody acts on it."""

import time
from dataclasses import replace

import structlog

from threadline.conversations import blocks
from threadline.conversations.call_input import ModelCallInput, prepare_call
from threadline.conversations.contract import ThinkRequest, Thought
from threadline.conversations.deps import ConversationDeps
from threadline.conversations.model.answers import NO_REPLY
from threadline.conversations.model.conversation import ConversationSnapshot
from threadline.conversations.operator_context import gather_context
from threadline.conversations.prompt import INSTRUCTIONS, build_prompt, decision_note
from threadline.conversations.replies import (
    IntentType,
    clean_reply,
    extract_intent,
    reply_for_workflow,
    reply_to_message,
    skipped_calls_note,
)
from threadline.conversations.routing import has_content
from threadline.conversations.store.conversation import ConversationStore
from threadline.conversations.store.messages import TurnMessage
from threadline.conversations.store.transcript import TranscriptStore
from threadline.conversations.turn_window import fit_turn, halved
from threadline.errors import Mendable, Permanent
from threadline.models.errors import MODEL_FAULT, ContextTooLong
from threadline.models.model import Completion, Message, ModelReply, Prompt
from threadline.operator import prompt as prompts
from threadline.operator.model.routing import Agent
from threadline.operator.prompt import TurnInfo
from threadline.threads.model import turn_id

_NO_WAY = "This turn has no route yet, so the operator agent cannot answer it."
_log = structlog.get_logger(__name__)


async def think(deps: ConversationDeps, request: ThinkRequest, attempt: int) -> Thought:
    """See `ConversationActivities.think`; `attempt` counts from 1."""
    question = await prepare_call(deps, request, attempt)
    request = replace(request, step=question.step)
    if question.plan and question.asked and not (question.snapshot.stop_due or _without_model(request, question)):
        plan, snapshot = await gather_context(deps, request.turn, question.plan, question.asked, attempt)
        if snapshot is None:  # something may have been deleted meanwhile: its words are not asked about
            question = await prepare_call(deps, request, attempt)
            snapshot = question.snapshot
        question = replace(question, plan=plan, snapshot=snapshot)
    if question.kept:
        return Thought(reply_for_workflow(question.kept), question.snapshot, question.step)
    if question.snapshot.stop_due:  # somebody said so while the question was prepared
        return Thought(ModelReply(), question.snapshot, question.step)
    if text := _without_model(request, question):
        return await _keep(deps, request, ModelReply(text))
    begun = time.monotonic()
    answer = await _ask(deps, request, question, attempt)
    took = round((time.monotonic() - begun) * 1000)
    reply = clean_reply(answer, addressed=question.briefing is None or question.briefing.addressed)
    return await _keep(deps, request, reply, answer, took)


def _without_model(request: ThinkRequest, question: ModelCallInput) -> str:
    """What is said where there is nothing for a model to understand; empty where there is.

    A correction of an earlier message asks for nothing.
    """
    if request.step > 1 or question.briefing is None:
        return ""
    there = [each for each in question.taken if has_content(each) and not each.edit_of]
    if not there:
        return blocks.DELETED if question.briefing.addressed else NO_REPLY
    if question.briefing.addressed or request.agent is Agent.OPERATOR:
        return ""
    return "" if any(_is_remark(each, question.snapshot) for each in there) else NO_REPLY


async def _ask(deps: ConversationDeps, request: ThinkRequest, question: ModelCallInput, attempt: int) -> Completion:
    if deps.model is None:
        raise Permanent(blocks.NO_MODEL)
    try:
        try:
            answer = await deps.model.ask(_prompt(deps, request, question), attempt=attempt)
        except ContextTooLong:
            answer = await deps.model.ask(_shorter_prompt(deps, request, question), attempt=attempt)
    except ContextTooLong as error:
        raise Permanent(blocks.TOO_LONG) from error
    except Mendable:
        raise  # the admin is told, and the asker that only the admin can help
    except Permanent as error:
        await deps.alerts.record("model")
        raise Permanent(blocks.no_answer_text(str(error))) from error
    await deps.outbox.recovery.works(MODEL_FAULT)
    return answer


def _prompt(deps: ConversationDeps, request: ThinkRequest, question: ModelCallInput, *, tight: bool = False) -> Prompt:
    if question.briefing is None:
        raise LookupError("the question has no briefing")
    offered = (deps.registry, deps.allowed_tools(question.briefing, request.agent))
    found = decision_note(question.decided)
    briefed, *rest = question.current
    asked = [briefed, *([found] if found else []), *rest]
    fit = halved if tight else fit_turn
    past, current = fit(question.past, asked, deps.budget)
    return build_prompt(
        request.thread,
        past,
        current,
        offered,
        request.choice,
        tight=tight,
        instructions=_instructions(deps, request, question),
    )


def _instructions(deps: ConversationDeps, request: ThinkRequest, question: ModelCallInput) -> str:
    """What the model is told first: the same at every step of a turn."""
    if request.agent is Agent.COPILOT:
        return INSTRUCTIONS
    plan, thread = question.plan, request.thread
    if plan is None or question.briefing is None:
        raise Permanent(_NO_WAY)
    runtime = TurnInfo(thread, question.briefing.user_id, turn_id(thread, request.turn), plan.route.scope.rfp_id)
    told = {"patterns": plan.patterns, "analysis": plan.analysis, "context": plan.context}
    return prompts.build_system_prompt(deps.operator_profile, runtime, **told)


def _shorter_prompt(deps: ConversationDeps, request: ThinkRequest, question: ModelCallInput) -> Prompt:
    """The same question with half of the past at most; for a summary of what goes there is no time now."""
    _log.warning("context_too_long", slack_thread=request.thread.key, turn=request.turn, step=request.step)
    return _prompt(deps, request, question, tight=True)


async def _keep(
    deps: ConversationDeps, request: ThinkRequest, reply: ModelReply, answer: Completion | None = None, took: int = 0
) -> Thought:
    """Of two attempts at the same call the first reply stands, and both return it; both were paid for.

    One that comes when its step is over, say after a word to stop, is nothing that anybody has read.
    """
    thread, turn, step = request.thread, request.turn, request.step
    message: Message = reply_to_message(reply, deps.registry)
    async with deps.database.begin() as tx:
        conversations, transcript = ConversationStore(tx), TranscriptStore(tx)
        if answer:
            await conversations.add_usage(thread, turn, step, "think", answer.usage, took)
        is_open = await conversations.current_step(thread, turn, step) == step
        added, snapshot = await transcript.append_last(
            thread, turn, step, [(f"a:{turn}:{step}", message)] if is_open else []
        )
        kept = message if added else await transcript.get(thread, f"a:{turn}:{step}")
        if added and (note := skipped_calls_note(reply)):
            await transcript.append(thread, turn, step, [(f"n:{turn}:{step}", note)])
    return Thought(reply_for_workflow(kept or message), snapshot, step if kept else 0)


def _is_remark(said: TurnMessage, snapshot: ConversationSnapshot) -> bool:
    """Whether people have said something to each other that may be meant for the bot.

    An emoji may be the answer to what it has asked; a cry for help is for whoever was asked.
    """
    wanted = extract_intent(said.text)
    if wanted:
        return bool(said.files or said.forwarded) or wanted.type is not IntentType.HELP
    return bool(said.files or said.forwarded or (snapshot.open_question and said.text.strip()))
