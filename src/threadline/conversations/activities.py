"""The conversation in the database, its model and its tools, as its workflow asks for them."""

from collections.abc import Awaitable, Mapping
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
    Refused,
    Stored,
    StoreRequest,
    TalkTurn,
    ThinkRequest,
    Thought,
    TurnDecision,
)
from threadline.conversations.decide import Deciding
from threadline.conversations.finish import Finishing
from threadline.conversations.model.conversation import ConversationLimits, ConversationSnapshot, Execution, Refusal
from threadline.conversations.status import showing_status
from threadline.conversations.store.conversation import ConversationStore
from threadline.conversations.store.messages import ConversationBatch, MessageStore
from threadline.conversations.think import Thinking
from threadline.db.engine import Database, Transaction
from threadline.db.rate_limits import RateLimits, RateVerdict
from threadline.slack.client import SlackClient
from threadline.slack.model import Thread
from threadline.threads.activity import heartbeating
from threadline.threads.message_table import log_quarantined, redact_message

_REFUSALS = {
    RateVerdict.OK: None,
    RateVerdict.THROTTLED: Refusal.THROTTLED,
    RateVerdict.THROTTLED_FIRST: Refusal.THROTTLED_FIRST,
}
_REFUSED: Mapping[str | None, Refusal] = {why.value: why for why in Refusal}
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
        slack: SlackClient,
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
            stored = await MessageStore(tx).store(thread, batch)
            verdicts = await _judge(tx, thread, stored)
            if verdicts:
                await MessageStore(tx).judge(thread, verdicts, answers=stored.question_open)
            marks = await ConversationStore(tx).snapshot(thread) if stored.exists else ConversationSnapshot()
        log_quarantined(thread, stored.quarantined)
        # Also what an earlier attempt judged, whose answer was lost: nobody has told its writer.
        refused = [(each, verdicts.get(each.message_id) or _REFUSED.get(each.verdict)) for each in stored.messages]
        not_addressed = {each.message_id for each in stored.messages if each.not_addressed}
        return Stored(
            marks,
            tuple(Refused(each.channel, each.ts, each.user_id, why) for each, why in refused if why),
            tuple(each.id for each in batch if each.id in not_addressed),
            stored.forwarded,
            stored.reworded,
            limits=self._limits if request.first else None,
        )

    @activity.defn
    async def summarise(self, turn: TalkTurn) -> ConversationSnapshot:
        async with heartbeating():
            await self._thinking.summarise(turn)
        async with self._database.begin() as tx:
            return await ConversationStore(tx).snapshot(turn.thread)

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
    async def act(self, request: ActRequest) -> Execution:
        async with heartbeating(), showing_status(self._slack, request.thread, request.status):
            return await self._acting.act(request, activity.info().attempt)

    @activity.defn
    async def finish_turn(self, request: FinishRequest) -> FinishedTurn:
        async with heartbeating():
            return await self._finishing.finish(request, activity.info().attempt)


async def _judge(tx: Transaction, thread: Thread, stored: ConversationBatch) -> dict[str, Refusal | None]:
    """Ask the guards about what no guard has judged before, by id. They spare the model: what no model is asked about,
    they let pass."""
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
            verdict = await _fail_open(tx, "user", said)
            verdicts[each.message_id] = _REFUSALS[verdict] if verdict else None
    return verdicts


async def _fail_open(tx: Transaction, guard: str, question: Awaitable[Verdicts]) -> Verdicts | None:
    """What a guard says; None where it cannot say: it then lets everything pass, and is counted."""
    try:
        async with tx.begin_nested():
            return await question
    except Exception as error:  # noqa: BLE001 - a message must not wait for whatever a guard runs into
        _log.error("guard_failed_open", guard=guard, reason=str(error))
        activity.metric_meter().create_counter("threadline_guard_open").add(1, {"guard": guard})
        return None
