"""The conversation in the database, its model and its tools, as its workflow asks for them."""

from collections.abc import Awaitable, Sequence
from dataclasses import replace
from typing import TypeVar

import structlog
from temporalio import activity

from threadline.conversations import decide, posting
from threadline.conversations.act import act
from threadline.conversations.contract import (
    ActRequest,
    BegunTurn,
    ConversationActivities,
    ConversationReactions,
    ConversationTurn,
    DecideRequest,
    FinishedTurn,
    FinishRequest,
    PassToOperator,
    Refusal,
    StoredMessages,
    StoreRequest,
    ThinkRequest,
    Thought,
    ThreadNotice,
    TurnDecision,
)
from threadline.conversations.conversation_store import ConversationStore
from threadline.conversations.deps import ConversationDeps
from threadline.conversations.finish import finish_turn
from threadline.conversations.message_intake import ConversationBatch
from threadline.conversations.model.conversation import ConversationMarks, Execution
from threadline.conversations.routing import begin_turn, pass_to_operator
from threadline.conversations.status import showing_status
from threadline.conversations.think import think
from threadline.db.engine import Transaction
from threadline.db.rate_limit_rules import Verdict
from threadline.db.rate_limits import Limits
from threadline.slack.model import Thread
from threadline.threads.activity import heartbeating
from threadline.threads.message_table import log_quarantined, redact_message
from threadline.threads.model import IncomingMessage
from threadline.threads.outbox import add_reactions

_REFUSALS = {
    Verdict.OK: None,
    Verdict.THROTTLED: Refusal.THROTTLED,
    Verdict.THROTTLED_FIRST: Refusal.THROTTLED_FIRST,
}
_log = structlog.get_logger(__name__)
Verdicts = TypeVar("Verdicts")


class LiveConversationActivities(ConversationActivities):
    def __init__(self, deps: ConversationDeps) -> None:
        self.deps = deps

    @activity.defn
    async def store_messages(self, request: StoreRequest) -> StoredMessages:
        thread, batch = request.thread, [redact_message(each) for each in request.messages]
        async with self.deps.database.begin() as tx:
            stored = await ConversationStore(tx).store(thread, batch)
            told = await self._judge(tx, thread, batch, stored) if stored.marks.opened else StoredMessages(stored.marks)
        log_quarantined(thread, stored.quarantined)
        return replace(told, limits=self.deps.limits) if request.first else told

    async def _judge(
        self, tx: Transaction, thread: Thread, batch: Sequence[IncomingMessage], stored: ConversationBatch
    ) -> StoredMessages:
        """Have the guards judge what no guard has judged before. They spare the model: what no model is asked about,
        they let pass."""
        told = [each.id for each in batch] + [each.message_id for each in stored.unjudged]
        overheard = await ConversationStore(tx).overheard(thread, told) if told else frozenset[str]()
        verdicts: dict[str, Refusal | None] = {each.message_id: None for each in stored.unjudged}
        asking = [each for each in stored.unjudged if each.message_id not in overheard and not stored.with_person]
        again = frozenset[str]()
        if asking and not stored.question_open:  # an answer to a question may be the same twice
            duplicates = ConversationStore(tx).duplicates(thread, [each.message_id for each in asking])
            again = await _fail_open(tx, "duplicate", duplicates) or again
            verdicts |= dict.fromkeys(again, Refusal.DUPLICATE)
        # In one order of people in each transaction: two that wait for each other's locks would never end.
        for each in sorted(asking, key=lambda said: said.user_id):
            if each.message_id not in again:
                said = Limits(tx).of_user(thread.team, each.user_id, each.message_id, float(each.said_at))
                verdict = await _fail_open(tx, "user", said)
                verdicts[each.message_id] = _REFUSALS[verdict] if verdict else None
        marks = (
            await ConversationStore(tx).judged(thread, verdicts, answers=stored.question_open)
            if verdicts
            else stored.marks
        )
        # Also what an earlier attempt judged, whose answer was lost: nobody has told its writer.
        refused = await ConversationStore(tx).refused(thread, told) if told else ()
        heard = tuple(each.id for each in batch if each.id in overheard)
        return StoredMessages(marks, refused, heard, stored.passed_on, stored.reworded)

    @activity.defn
    async def begin_turn(self, turn: ConversationTurn) -> BegunTurn:
        return await begin_turn(self.deps, turn)

    @activity.defn
    async def pass_to_operator(self, request: PassToOperator) -> BegunTurn:
        return await pass_to_operator(self.deps, request)

    @activity.defn
    async def decide(self, request: DecideRequest) -> TurnDecision:
        async with heartbeating(), showing_status(self.deps.slack, request.thread, request.status):
            return await decide.decide(self.deps, request, activity.info().attempt)

    @activity.defn
    async def decide_without_model(self, request: DecideRequest) -> TurnDecision:
        return await decide.decide_without_model(self.deps, request)

    @activity.defn
    async def think(self, request: ThinkRequest) -> Thought:
        async with heartbeating(), showing_status(self.deps.slack, request.thread, request.status):
            return await think(self.deps, request, activity.info().attempt)

    @activity.defn
    async def act(self, request: ActRequest) -> list[Execution]:
        async with heartbeating(), showing_status(self.deps.slack, request.thread, request.status):
            return await act(self.deps, request, activity.info().attempt)

    @activity.defn
    async def finish_turn(self, request: FinishRequest) -> FinishedTurn:
        async with heartbeating():
            return await finish_turn(self.deps, request, activity.info().attempt)

    @activity.defn
    async def post_answer(self, turn: ConversationTurn) -> ConversationMarks:
        return await posting.post_answer(self.deps, turn)

    @activity.defn
    async def post_thread_notice(self, word: ThreadNotice) -> None:
        await posting.post_thread_notice(self.deps, word)

    @activity.defn
    async def add_message_reactions(self, marker: ConversationReactions) -> None:
        await add_reactions(self.deps.slack, marker.name, marker.items)


async def _fail_open(tx: Transaction, guard: str, question: Awaitable[Verdicts]) -> Verdicts | None:
    """What a guard says; None where it cannot say: it then lets everything pass, and is counted."""
    try:
        async with tx.begin_nested():
            return await question
    except Exception as error:  # noqa: BLE001 - a message must not wait for whatever a guard runs into
        _log.error("guard_failed_open", guard=guard, reason=str(error))
        activity.metric_meter().create_counter("threadline_guard_open").add(1, {"guard": guard})
        return None
