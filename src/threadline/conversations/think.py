"""One call of the model about the whole transcript. Its reply is stored before anything acts on
it.
"""

import time
from dataclasses import replace

import structlog

from threadline.conversations import blocks
from threadline.conversations.call_input import ModelCallInput, prepare_call
from threadline.conversations.contract import ThinkRequest, Thought
from threadline.conversations.deps import ConversationDeps
from threadline.conversations.failed_calls import failures_kept
from threadline.conversations.model.conversation import ConversationSnapshot
from threadline.conversations.model.turn_route import Agent
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
from threadline.db.engine import Transaction
from threadline.errors import Mendable, Permanent
from threadline.models.errors import MODEL_FAULT, ContextTooLong
from threadline.models.model import NO_REPLY, Completion, Message, ModelReply, Prompt
from threadline.operator import prompt as prompts
from threadline.operator.prompt import TurnInfo
from threadline.threads.model import turn_id

_NO_WAY = "This turn has no route yet, so I cannot answer it. Please ask me again."
_log = structlog.get_logger(__name__)


async def think(deps: ConversationDeps, request: ThinkRequest, attempt: int) -> Thought:
    """See `ConversationActivities.think`; `attempt` counts from 1."""
    question = await prepare_call(deps, request, attempt)
    request = replace(request, step=question.step)
    if (
        question.plan
        and question.asked
        and not (question.snapshot.stop_due or fixed_reply(request, question))
    ):
        plan, snapshot = await gather_context(
            deps, request.turn, question.plan, question.asked, attempt
        )
        # A message may have been deleted meanwhile; its words must not reach the model.
        if snapshot is None:
            question = await prepare_call(deps, request, attempt)
            snapshot = question.snapshot
        question = replace(question, plan=plan, snapshot=snapshot)
    if question.kept:
        return Thought(reply_for_workflow(question.kept), question.snapshot, question.step)
    if question.snapshot.stop_due:  # requested while the call was prepared
        return Thought(ModelReply(), question.snapshot, question.step)
    if text := fixed_reply(request, question):
        return await _keep(deps, request, ModelReply(text))
    begun = time.monotonic()
    answer = await _ask(deps, request, question, attempt)
    took = round((time.monotonic() - begun) * 1000)
    reply = cleaned(answer, question)
    return await _keep(deps, request, reply, answer, took)


def fixed_reply(request: ThinkRequest, question: ModelCallInput) -> str:
    """Return the fixed reply to messages that need no model; empty if they need one.

    A correction of an earlier message is no request.
    """
    if request.step > 1 or question.briefing is None:
        return ""
    there = [each for each in question.taken if has_content(each) and not each.edit_of]
    if not there:
        return blocks.DELETED if question.briefing.addressed else NO_REPLY
    if question.briefing.addressed or request.agent is Agent.OPERATOR:
        return ""
    return "" if any(_is_remark(each, question.snapshot) for each in there) else NO_REPLY


async def _ask(
    deps: ConversationDeps, request: ThinkRequest, question: ModelCallInput, attempt: int
) -> Completion:
    if deps.model is None:
        raise Permanent(blocks.NO_MODEL)
    call = (deps.database, request.thread, request.turn, request.step, "think")
    try:
        try:
            async with failures_kept(*call):
                answer = await deps.model.ask(prompt_of(deps, request, question), attempt=attempt)
        except ContextTooLong:
            async with failures_kept(*call):
                answer = await deps.model.ask(
                    _shorter_prompt(deps, request, question), attempt=attempt
                )
    except ContextTooLong as error:
        raise Permanent(blocks.TOO_LONG) from error
    except Mendable:
        raise  # the report goes to the admin, and the answer says that only they can help
    except Permanent as error:
        await deps.alerts.record("model")
        raise Permanent(blocks.no_answer_text(str(error))) from error
    await deps.outbox.recovery.works(MODEL_FAULT)
    return answer


def prompt_of(
    deps: ConversationDeps, request: ThinkRequest, question: ModelCallInput, *, tight: bool = False
) -> Prompt:
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
    """Return the system prompt: the same at every step of a turn."""
    if request.agent is Agent.ASSISTANT:
        return INSTRUCTIONS
    plan = question.plan
    thread = request.thread
    if plan is None or question.briefing is None:
        raise Permanent(_NO_WAY)
    runtime = TurnInfo(
        thread, question.briefing.user_id, turn_id(thread, request.turn), plan.route.scope.rfp_id
    )
    told = {"patterns": plan.patterns, "analysis": plan.analysis, "context": plan.context}
    return prompts.build_system_prompt(deps.operator_profile, runtime, **told)


def _shorter_prompt(
    deps: ConversationDeps, request: ThinkRequest, question: ModelCallInput
) -> Prompt:
    """Return the same prompt with at most half of the past. There is no time to summarise the
    rest.
    """
    _log.warning(
        "context_too_long", slack_thread=request.thread.key, turn=request.turn, step=request.step
    )
    return prompt_of(deps, request, question, tight=True)


def cleaned(answer: Completion, question: ModelCallInput) -> ModelReply:
    """Return the reply as people may read it."""
    return clean_reply(answer, addressed=question.briefing is None or question.briefing.addressed)


async def _keep(
    deps: ConversationDeps,
    request: ThinkRequest,
    reply: ModelReply,
    answer: Completion | None = None,
    took: int = 0,
) -> Thought:
    """Store a reply, and return it for the workflow: the stored one of two attempts."""
    async with deps.database.begin() as tx:
        kept = await record_reply(deps, tx, request, reply, answer, took)
        snapshot = await ConversationStore(tx).snapshot(request.thread)
    own = reply_to_message(reply, deps.registry)
    return Thought(reply_for_workflow(kept or own), snapshot, request.step if kept else 0)


async def record_reply(
    deps: ConversationDeps,
    tx: Transaction,
    request: ThinkRequest,
    reply: ModelReply,
    answer: Completion | None,
    took: int,
) -> Message | None:
    """Store a reply and the cost of its call. First write wins: two attempts at the same call
    have the same reply, and both are paid for.

    Args:
        answer: The model's answer with its usage; None if the model was not asked.
        took: Milliseconds.

    Returns:
        The stored reply. None if the step has ended, for example after a stop, without one.
    """
    thread = request.thread
    turn = request.turn
    step = request.step
    conversations = ConversationStore(tx)
    transcript = TranscriptStore(tx)
    if answer:
        await conversations.add_usage(thread, turn, step, "think", answer.usage, took)
    is_open = await conversations.current_step(thread, turn, step) == step
    key = f"a:{turn}:{step}"
    message = reply_to_message(reply, deps.registry)
    if not (is_open and await transcript.append(thread, turn, step, [(key, message)])):
        return await transcript.get(thread, key)
    if note := skipped_calls_note(reply):
        await transcript.append(thread, turn, step, [(f"n:{turn}:{step}", note)])
    return message


def _is_remark(said: TurnMessage, snapshot: ConversationSnapshot) -> bool:
    """Whether a message between people may be meant for the bot.

    An emoji may answer the bot's open question; a cry for help is meant for the person who was
    asked.
    """
    wanted = extract_intent(said.text)
    if wanted:
        return bool(said.files or said.forwarded) or wanted.type is not IntentType.HELP
    return bool(said.files or said.forwarded or (snapshot.open_question and said.text.strip()))
