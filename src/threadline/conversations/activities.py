"""The conversation in the database, its model and its tools, as its workflow asks for them."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import structlog
from temporalio import activity

from threadline.conversations.act import Acting
from threadline.conversations.contract import (
    ActRequest,
    ConversationActivities,
    ConversationOpened,
    DecideRequest,
    FinishedTurn,
    FinishRequest,
    Refusal,
    Stored,
    StoreRequest,
    TalkTurn,
    ThinkRequest,
    Thought,
    TurnDecision,
)
from threadline.conversations.decide import Deciding
from threadline.conversations.finish import Finishing
from threadline.conversations.message_intake import Unjudged
from threadline.conversations.model.conversation import ConversationLimits, ConversationMarks, Execution
from threadline.conversations.status import showing_status
from threadline.conversations.think import Thinking
from threadline.db.engine import Database
from threadline.db.rate_limit_rules import Verdict
from threadline.db.unit_of_work import Work
from threadline.slack.client import Slack
from threadline.slack.model import FileRef, Thread
from threadline.threads.activity import heartbeating
from threadline.threads.message_table import log_quarantined, redact_message
from threadline.threads.model import IncomingMessage

Value = TypeVar("Value")

_REFUSALS = {
    Verdict.OK: None,
    Verdict.THROTTLED: Refusal.THROTTLED,
    Verdict.THROTTLED_FIRST: Refusal.THROTTLED_FIRST,
}
_log = structlog.get_logger(__name__)


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
    async def open_conversation(self, thread: Thread) -> ConversationOpened:
        async with self._database.begin() as work:
            unjudged = await work.conversations.has_unjudged(thread)
            marks = await work.conversations.marks(thread)
        if not unjudged:
            return ConversationOpened(marks, self._limits)
        judged = await self._store(thread, [])  # an earlier run was broken off before the guards had their word
        return ConversationOpened(judged.marks, self._limits, judged.refused)

    @activity.defn
    async def store_messages(self, request: StoreRequest) -> Stored:
        return await self._store(request.thread, [redact_message(each) for each in request.messages])

    async def _store(self, thread: Thread, batch: Sequence[IncomingMessage]) -> Stored:
        """Store a batch, and have the guards judge it with what no guard has judged before."""
        async with self._database.begin() as work:
            stored = await work.conversations.store(thread, batch)
            told = [each.id for each in batch] + [each.message_id for each in stored.unjudged]
            opened = stored.marks.opened
            overheard = await work.conversations.overheard(thread, told) if opened else frozenset[str]()
        log_quarantined(thread, stored.quarantined)
        if not opened:
            return Stored(stored.marks)
        files = {each.id: each.files for each in batch}
        verdicts: dict[str, Refusal | None] = dict.fromkeys(overheard & {each.message_id for each in stored.unjudged})
        for each in stored.unjudged:
            if stored.with_person:
                verdicts[each.message_id] = None  # the guards spare the model, and none is asked
            elif each.message_id not in overheard:
                attached = files.get(each.message_id, ())
                verdicts[each.message_id] = await self._judge(thread, each, attached, exempt=stored.question_open)
        async with self._database.begin() as work:
            marks = await work.conversations.judged(thread, verdicts) if verdicts else stored.marks
            # Also what an earlier attempt judged, whose answer was lost: nobody has told its writer.
            refused = await work.conversations.refused(thread, told)
        heard = tuple(each.id for each in batch if each.id in overheard)
        return Stored(marks, refused, heard, stored.passed_on, stored.reworded)

    async def _judge(self, thread: Thread, said: Unjudged, files: Sequence[FileRef], *, exempt: bool) -> Refusal | None:
        """The guards' word on a message; `exempt`: the bot has asked, and an answer may be the same twice."""
        words, now = "\n".join([said.text, *(file.id for file in files)]), float(said.said_at)

        async def is_duplicate(work: Work) -> bool:
            return await work.limits.is_duplicate(thread, said.user_id, words, said.message_id, now)

        async def of_user(work: Work) -> Verdict:
            return await work.limits.of_user(thread.team, said.user_id, said.message_id, now)

        if not exempt and await self._or_open(is_duplicate, "duplicate", otherwise=False):
            return Refusal.DUPLICATE
        return _REFUSALS[await self._or_open(of_user, "user", otherwise=Verdict.OK)]

    async def _or_open(self, asked: Callable[[Work], Awaitable[Value]], guard: str, *, otherwise: Value) -> Value:
        """What a guard says in a transaction of its own; one that cannot say lets everything pass, and is counted."""
        try:
            async with self._database.begin() as work:
                return await asked(work)
        except Exception as error:  # noqa: BLE001 - a message must not wait for whatever a guard runs into
            _log.error("guard_failed_open", guard=guard, reason=str(error))
            activity.metric_meter().create_counter("threadline_guard_open").add(1, {"guard": guard})
            return otherwise

    @activity.defn
    async def summarise(self, turn: TalkTurn) -> ConversationMarks:
        async with heartbeating():
            await self._thinking.summarise(turn)
        async with self._database.begin() as work:
            return await work.conversations.marks(turn.thread)

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
            return await self._finishing.finish(request)
