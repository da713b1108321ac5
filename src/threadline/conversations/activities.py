"""The conversation in the database, its model and its tools, as its workflow asks for them."""

import asyncio
from collections.abc import Awaitable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import structlog
from temporalio import activity

from threadline.conversations import decide, posting
from threadline.conversations.act import act
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
    RefusedMessage,
    StoredMessages,
    StoreRequest,
    ThinkRequest,
    Thought,
    ThreadNotice,
    TurnDecision,
)
from threadline.conversations.deps import ConversationDeps
from threadline.conversations.finish import finish_turn
from threadline.conversations.model.answers import status_text
from threadline.conversations.model.conversation import (
    ConversationSnapshot,
    ConversationTurn,
    Execution,
    Refusal,
    call_groups,
    speech_kind,
)
from threadline.conversations.routing import begin_turn, pass_to_operator
from threadline.conversations.status import showing_status
from threadline.conversations.store.messages import ConversationBatch, MessageStore
from threadline.conversations.think import think
from threadline.db.engine import Transaction, savepoint
from threadline.db.rate_limits import RateLimits
from threadline.models.model import ToolKind
from threadline.slack.model import Thread
from threadline.threads.message_table import log_quarantined, redact_message
from threadline.threads.model import IncomingMessage, MessageKind

_log = structlog.get_logger(__name__)
Done = TypeVar("Done")
Verdicts = TypeVar("Verdicts")

RECEIVED_REACTION = "eyes"
NOTHING_TO_STOP_REACTION = "ok_hand"
REFUSAL_REACTIONS = {Refusal.DUPLICATE: "repeat", Refusal.THROTTLED: "hourglass", Refusal.THROTTLED_FIRST: "hourglass"}
"""What each message gets when it is stored: :eyes:, or for one that gets no answer :repeat: or :hourglass:. A word to
stop that finds nothing to stop gets :ok_hand:; another one is answered by the turn that it ends."""


class LiveConversationActivities(ConversationActivities):
    def __init__(self, deps: ConversationDeps) -> None:
        self.deps = deps

    async def store_messages(self, request: StoreRequest) -> StoredMessages:
        thread, batch = request.thread, [redact_message(each) for each in request.messages]
        async with self.deps.database.begin() as tx:
            stored = await MessageStore(tx).store(thread, batch)
            verdicts = await _judge(tx, thread, stored)
            if verdicts:
                snapshot = await MessageStore(tx).judge(thread, verdicts, answers=stored.question_open)
            else:
                snapshot = stored.snapshot
        log_quarantined(thread, stored.quarantined)
        # Also what an earlier attempt judged, whose answer was lost: nobody has told its writer.
        judged = [(each, verdicts.get(each.message_id) or _refusal(each.verdict)) for each in stored.messages]
        refused = tuple(RefusedMessage(each.channel, each.ts, why) for each, why in judged if why)
        self._add_reactions(batch, stored, snapshot, refused)
        return StoredMessages(
            snapshot, refused, stored.turns_to_show_again, limits=self.deps.limits if request.first else None
        )

    def _add_reactions(
        self,
        batch: Sequence[IncomingMessage],
        stored: ConversationBatch,
        snapshot: ConversationSnapshot,
        refused: Sequence[RefusedMessage],
    ) -> None:
        """Show each writer what became of the message. What is refused may be from an earlier batch."""
        not_addressed = {each.message_id for each in stored.messages if each.not_addressed}
        reactions = {(each.channel, each.ts): REFUSAL_REACTIONS[each.why] for each in refused}
        for message in batch:
            is_message = message.kind == MessageKind.MESSAGE or message.id in stored.stops_as_messages
            if message.kind == MessageKind.STOP and not is_message:
                name = NOTHING_TO_STOP_REACTION if message.addressed and not snapshot.stop_due else ""
            else:
                heard = is_message and message.id not in not_addressed
                name = RECEIVED_REACTION if heard and snapshot.exists else ""
            if name:
                reactions.setdefault((message.channel, message.ts), name)
        for name in dict.fromkeys(reactions.values()):
            self.deps.outbox.add_reactions(name, [place for place, each in reactions.items() if each == name])

    async def begin_turn(self, request: BeginRequest) -> BegunTurn:
        model, attempt, deciding = self.deps.decision.model, activity.info().attempt, None
        async with self.deps.database.begin() as tx:
            begun = await begin_turn(self.deps, tx, request)
            # Once only: whatever is wrong with a decision, the turn begins.
            if model and request.decide and attempt == 1 and begun.can_be_decided:
                deciding = await decide.read_situation(self.deps, tx, request)
        if not (model and deciding):
            return begun
        try:
            async with showing_status(self.deps.slack, request.thread, THINKING):
                return replace(begun, decision=await deciding.run(model, attempt))
        except Exception as error:  # noqa: BLE001 - the turn has begun, and is decided by an activity of its own
            _log.warning("decision_failed", slack_thread=request.thread.key, turn=request.turn, reason=str(error))
            return begun

    async def pass_to_operator(self, request: PassToOperator) -> BegunTurn:
        return await pass_to_operator(self.deps, request)

    async def decide(self, request: DecideRequest) -> TurnDecision:
        async with showing_status(self.deps.slack, request.thread, request.status):
            return await decide.decide(self.deps, request, activity.info().attempt)

    async def decide_without_model(self, request: DecideRequest) -> TurnDecision:
        return await decide.decide_without_model(self.deps, request)

    async def think(self, request: ThinkRequest) -> Thought:
        attempt = activity.info().attempt
        async with showing_status(self.deps.slack, request.thread, request.status):
            thought = await think(self.deps, request, attempt)
        if attempt > 1 or not thought.step or thought.snapshot.turn >= request.turn:
            return thought
        try:
            return await _despite_cancel(self._go_on(request, thought))
        except Exception as error:  # noqa: BLE001 - the reply is on record, and the workflow's next step repeats the rest
            _log.warning("reply_not_acted_on", slack_thread=request.thread.key, turn=request.turn, reason=str(error))
            return thought

    async def _go_on(self, request: ThinkRequest, thought: Thought) -> Thought:
        """Do what the reply asks for: say the answer, or run the first of its calls."""
        calls, finish = thought.reply.calls, request.finish and replace(request.finish, answer_step=thought.step)
        group = tuple(each.reference() for each in call_groups(calls)[0]) if request.act and calls else ()
        if group and group[0].kind is not ToolKind.SPEAK:
            status, where = status_text(group) if request.status else "", (request.thread, request.turn, thought.step)
            asked = ActRequest(*where, group, request.protocol, status, unless_stopped=True)
            return replace(thought, ran=tuple(await self.act(asked)))
        if finish and group:
            finish = replace(finish, kind=speech_kind(group[0].name), final=group[0])
        elif calls or not thought.reply.text or (finish and finish.protocol):  # the operator speaks by a tool
            finish = None
        return replace(thought, finished=await self.finish_turn(finish)) if finish else thought

    async def act(self, request: ActRequest) -> list[Execution]:
        async with showing_status(self.deps.slack, request.thread, request.status):
            return await act(self.deps, request, activity.info().attempt)

    async def finish_turn(self, request: FinishRequest) -> FinishedTurn:
        return await finish_turn(self.deps, request, activity.info().attempt)

    async def post_answer(self, turn: ConversationTurn) -> ConversationSnapshot:
        return await posting.post_answer(self.deps, turn)

    async def post_thread_notice(self, word: ThreadNotice) -> None:
        await posting.post_thread_notice(self.deps, word)


async def _despite_cancel(work: Coroutine[Any, Any, Done]) -> Done:
    """Do what was begun, and tell of it, where the workflow does not want it any more. A worker that is to stop breaks
    it off, unless the workflow has done so before: then the process ends without it."""
    task = asyncio.create_task(work)
    try:
        await asyncio.wait({task})
    except asyncio.CancelledError:
        why = activity.cancellation_details()
        if why is None or not why.cancel_requested:
            task.cancel()
    return await task


async def _judge(tx: Transaction, thread: Thread, stored: ConversationBatch) -> dict[str, Refusal | None]:
    """Ask the guards about what no guard has judged before, by id. What no model is asked about, they let pass."""
    verdicts: dict[str, Refusal | None] = {each.message_id: None for each in stored.unjudged}
    asking = [] if stored.with_person else [each for each in stored.unjudged if not each.not_addressed]
    again = frozenset[str]()
    if asking and not stored.question_open:  # an answer to a question may be the same twice
        duplicates = MessageStore(tx).find_duplicates(thread, [each.message_id for each in asking])
        again = await _fail_open(tx, "duplicate", duplicates) or again
        verdicts |= dict.fromkeys(again, Refusal.DUPLICATE)
    # In one order of people in each transaction: two that wait for each other's locks would never end.
    for each in sorted(asking, key=lambda said: said.user_id):
        if each.message_id not in again:
            said = RateLimits(tx).count_request(thread.team, each.user_id, each.message_id, each.said_at)
            verdicts[each.message_id] = _refusal(await _fail_open(tx, "user", said))
    return verdicts


def _refusal(verdict: str | None) -> Refusal | None:
    return Refusal(verdict) if verdict in set(Refusal) else None


async def _fail_open(tx: Transaction, guard: str, question: Awaitable[Verdicts]) -> Verdicts | None:
    """What a guard says; None where it cannot say: it then lets everything pass, and is counted."""
    try:
        async with savepoint(tx):
            return await question
    except Exception as error:  # noqa: BLE001 - a message must not wait for whatever a guard runs into
        _log.error("guard_failed_open", guard=guard, reason=str(error))
        activity.metric_meter().create_counter("threadline_guard_open").add(1, {"guard": guard})
        return None
