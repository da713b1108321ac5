"""The conversation in the database, its model and its tools, as its workflow asks for them."""

from collections.abc import Awaitable, Sequence
from dataclasses import replace
from typing import TypeVar

import structlog
from temporalio import activity

from threadline.conversations.act import Acting
from threadline.conversations.contract import (
    ActRequest,
    ConversationActivities,
    DecideRequest,
    FinishedTurn,
    FinishRequest,
    Refusal,
    Stored,
    StoreRequest,
    ThinkRequest,
    Thought,
    TurnDecision,
)
from threadline.conversations.conversation_store import ConversationStore
from threadline.conversations.decide import Deciding
from threadline.conversations.finish import Finishing
from threadline.conversations.message_intake import ConversationBatch
from threadline.conversations.model.conversation import ConversationLimits, Execution
from threadline.conversations.status import showing_status
from threadline.conversations.think import Thinking
from threadline.db.engine import Database, Transaction
from threadline.db.rate_limit_rules import Verdict
from threadline.db.rate_limits import Limits
from threadline.slack.client import Slack
from threadline.slack.model import Thread
from threadline.threads.activity import heartbeating
from threadline.threads.message_table import log_quarantined, redact_message
from threadline.threads.model import IncomingMessage

_REFUSALS = {
    Verdict.OK: None,
    Verdict.THROTTLED: Refusal.THROTTLED,
    Verdict.THROTTLED_FIRST: Refusal.THROTTLED_FIRST,
}
_log = structlog.get_logger(__name__)
Verdicts = TypeVar("Verdicts")


class LiveConversationActivities(ConversationActivities):
    """Args: `limits` bound every conversation; `deciding` to `finishing` are the steps of a turn; `slack`
    shows what they do."""

    def __init__(
        self,
        database: Database,
        limits: ConversationLimits,
        deciding: Deciding,
        thinking: Thinking,
        acting: Acting,
        finishing: Finishing,
        slack: Slack,
    ) -> None:
        self._database = database
        self._slack = slack
        self._limits = limits
        self._thinking = thinking
        self._deciding = deciding
        self._finishing = finishing
        self._acting = acting

    @activity.defn
    async def store_messages(self, request: StoreRequest) -> Stored:
        thread, batch = request.thread, [redact_message(each) for each in request.messages]
        async with self._database.begin() as tx:
            stored = await ConversationStore(tx).store(thread, batch)
            told = await self._judge(tx, thread, batch, stored) if stored.marks.opened else Stored(stored.marks)
        log_quarantined(thread, stored.quarantined)
        return replace(told, limits=self._limits) if request.first else told

    async def _judge(
        self, tx: Transaction, thread: Thread, batch: Sequence[IncomingMessage], stored: ConversationBatch
    ) -> Stored:
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
        return Stored(marks, refused, heard, stored.passed_on, stored.reworded)

    @activity.defn
    async def decide(self, request: DecideRequest) -> TurnDecision:
        async with heartbeating(), showing_status(self._slack, request.thread, request.status):
            return await self._deciding.decide(request, activity.info().attempt)

    @activity.defn
    async def decide_without_model(self, request: DecideRequest) -> TurnDecision:
        return await self._deciding.decide_without_model(request)

    @activity.defn
    async def think(self, request: ThinkRequest) -> Thought:
        async with heartbeating(), showing_status(self._slack, request.thread, request.status):
            return await self._thinking.think(request, activity.info().attempt)

    @activity.defn
    async def act(self, request: ActRequest) -> list[Execution]:
        async with heartbeating(), showing_status(self._slack, request.thread, request.status):
            return await self._acting.act(request, activity.info().attempt)

    @activity.defn
    async def finish_turn(self, request: FinishRequest) -> FinishedTurn:
        async with heartbeating():
            return await self._finishing.finish(request, activity.info().attempt)


async def _fail_open(tx: Transaction, guard: str, question: Awaitable[Verdicts]) -> Verdicts | None:
    """What a guard says; None where it cannot say: it then lets everything pass, and is counted."""
    try:
        async with tx.begin_nested():
            return await question
    except Exception as error:  # noqa: BLE001 - a message must not wait for whatever a guard runs into
        _log.error("guard_failed_open", guard=guard, reason=str(error))
        activity.metric_meter().create_counter("threadline_guard_open").add(1, {"guard": guard})
        return None
