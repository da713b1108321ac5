"""The activities of a conversation: its records, its model, its tools and its posts."""

from collections.abc import Awaitable, Sequence
from typing import TypeVar

import structlog
from temporalio import activity

from threadline.conversations import decide, posting
from threadline.conversations.act import act
from threadline.conversations.contract import (
    LONGEST_DECIDING,
    LONGEST_THINKING,
    ActRequest,
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
from threadline.conversations.files import fetch_files
from threadline.conversations.finish import finish_turn
from threadline.conversations.help import is_example
from threadline.conversations.model.conversation import (
    ConversationSnapshot,
    ConversationTurn,
    Execution,
    Refusal,
)
from threadline.conversations.routing import begin_turn, pass_to_operator
from threadline.conversations.slow_model import announcing_a_wait
from threadline.conversations.status import showing_status
from threadline.conversations.store.messages import ConversationBatch, MessageStore
from threadline.conversations.think import think
from threadline.db.engine import Transaction, savepoint
from threadline.db.rate_limits import RateLimits
from threadline.slack.model import Thread
from threadline.threads.message_table import log_quarantined, redact_message
from threadline.threads.model import IncomingMessage, MessageKind

_log = structlog.get_logger(__name__)
Verdicts = TypeVar("Verdicts")

RECEIVED_REACTION = "eyes"
NOTHING_TO_STOP_REACTION = "ok_hand"
REFUSAL_REACTIONS = {
    Refusal.DUPLICATE: "repeat",
    Refusal.THROTTLED: "hourglass",
    Refusal.THROTTLED_FIRST: "hourglass",
}
"""Reactions to refused messages. Every other message gets :eyes: when it is stored. A stop request
with nothing to stop gets :ok_hand:; any other is answered by the turn that it ends.
"""


class LiveConversationActivities(ConversationActivities):
    def __init__(self, deps: ConversationDeps) -> None:
        self.deps = deps

    async def store_messages(self, request: StoreRequest) -> StoredMessages:
        thread = request.thread
        batch = [redact_message(each) for each in request.messages]
        async with self.deps.database.begin() as tx:
            messages = MessageStore(tx)
            stored = await messages.store(thread, batch, self.deps.listening)
            verdicts = await _judge(tx, thread, stored)
            snapshot = ConversationSnapshot()
            if stored.exists:
                snapshot = await messages.judge(thread, verdicts, answers=stored.question_open)
        log_quarantined(thread, stored.quarantined)
        # Includes messages that an earlier attempt judged: its result was lost, so their writers
        # do not know yet.
        judged = [
            (each, verdicts.get(each.message_id) or _refusal(each.verdict))
            for each in stored.messages
        ]
        refused = tuple(RefusedMessage(each.channel, each.ts, why) for each, why in judged if why)
        self._add_reactions(batch, stored, snapshot, refused)
        return StoredMessages(
            snapshot,
            refused,
            stored.turns_to_show_again,
            limits=self.deps.limits if request.first else None,
        )

    def _add_reactions(
        self,
        batch: Sequence[IncomingMessage],
        stored: ConversationBatch,
        snapshot: ConversationSnapshot,
        refused: Sequence[RefusedMessage],
    ) -> None:
        """React to each message with what became of it. Refused messages may be from an earlier
        batch. Slack has no message of a person who pressed a button.
        """
        not_addressed = {each.message_id for each in stored.messages if each.not_addressed}
        reactions = {(each.channel, each.ts): REFUSAL_REACTIONS[each.why] for each in refused}
        for message in batch:
            is_message = (
                message.kind == MessageKind.MESSAGE or message.id in stored.stops_as_messages
            )
            if message.kind == MessageKind.STOP and not is_message:
                name = (
                    NOTHING_TO_STOP_REACTION if message.addressed and not snapshot.stop_due else ""
                )
            else:
                newly_addressed = message.kind == MessageKind.EDIT and message.addressed
                is_addressed = message.id not in not_addressed and not is_example(message.id)
                is_received = newly_addressed or (is_message and is_addressed)
                name = RECEIVED_REACTION if is_received and snapshot.exists else ""
            if name:
                reactions.setdefault((message.channel, message.ts), name)
        for name in dict.fromkeys(reactions.values()):
            self.deps.outbox.add_reactions(
                name, [place for place, each in reactions.items() if each == name]
            )

    async def begin_turn(self, turn: ConversationTurn) -> BegunTurn:
        async with self.deps.database.begin() as tx:
            return await begin_turn(self.deps, tx, turn)

    async def fetch_files(self, turn: ConversationTurn) -> ConversationSnapshot:
        return await fetch_files(self.deps, turn.thread, activity.info().attempt)

    async def pass_to_operator(self, request: PassToOperator) -> BegunTurn:
        return await pass_to_operator(self.deps, request)

    async def decide(self, request: DecideRequest) -> TurnDecision:
        async with (
            showing_status(self.deps.slack, request.thread, request.status),
            announcing_a_wait(
                self.deps, request, LONGEST_DECIDING, addressed=bool(request.status)
            ),
        ):
            return await decide.decide(self.deps, request, activity.info().attempt)

    async def decide_without_model(self, request: DecideRequest) -> TurnDecision:
        return await decide.decide_without_model(self.deps, request)

    async def think(self, request: ThinkRequest) -> Thought:
        async with (
            showing_status(self.deps.slack, request.thread, request.status),
            announcing_a_wait(
                self.deps, request, LONGEST_THINKING, addressed=bool(request.status)
            ),
        ):
            return await think(self.deps, request, activity.info().attempt)

    async def act(self, request: ActRequest) -> list[Execution]:
        async with showing_status(self.deps.slack, request.thread, request.status):
            return await act(self.deps, request, activity.info().attempt)

    async def finish_turn(self, request: FinishRequest) -> FinishedTurn:
        return await finish_turn(self.deps, request)

    async def post_answer(self, turn: ConversationTurn) -> ConversationSnapshot:
        return await posting.post_answer(self.deps, turn)

    async def post_thread_notice(self, word: ThreadNotice) -> None:
        await posting.post_thread_notice(self.deps, word)


async def _judge(
    tx: Transaction, thread: Thread, stored: ConversationBatch
) -> dict[str, Refusal | None]:
    """Return the guards' verdicts on the messages that have none yet, by id. Messages that no
    model reads pass.
    """
    verdicts: dict[str, Refusal | None] = {each.message_id: None for each in stored.unjudged}
    asking = (
        [] if stored.with_person else [each for each in stored.unjudged if not each.not_addressed]
    )
    again = frozenset[str]()
    if asking and not stored.question_open:  # two answers to a question may be equal
        duplicates = MessageStore(tx).find_duplicates(thread, [each.message_id for each in asking])
        again = await _fail_open(tx, "duplicate", duplicates) or again
        verdicts |= dict.fromkeys(again, Refusal.DUPLICATE)
    # Every transaction counts users in the same order: two that wait for each other's locks would
    # never end.
    for each in sorted(asking, key=lambda said: said.user_id):
        if each.message_id not in again:
            said = RateLimits(tx).count_request(
                thread.team, each.user_id, each.message_id, each.said_at
            )
            verdicts[each.message_id] = _refusal(await _fail_open(tx, "user", said))
    return verdicts


def _refusal(verdict: str | None) -> Refusal | None:
    return Refusal(verdict) if verdict in set(Refusal) else None


async def _fail_open(
    tx: Transaction, guard: str, question: Awaitable[Verdicts]
) -> Verdicts | None:
    """Return a guard's verdict; None if the guard fails. It then lets everything pass, and a
    metric counts it.
    """
    try:
        async with savepoint(tx):
            return await question
    except Exception as error:  # noqa: BLE001 - a failing guard must not hold up messages
        _log.error("guard_failed_open", guard=guard, reason=str(error))
        activity.metric_meter().create_counter("threadline_guard_open").add(1, {"guard": guard})
        return None
