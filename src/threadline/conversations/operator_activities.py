"""The operator around the loop, as the workflow of a conversation asks for it."""

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import structlog
from temporalio import activity

from threadline.conversations.contract import TalkTurn
from threadline.conversations.model.conversation import ConversationSnapshot
from threadline.conversations.operator_contract import Begun, OperatorActivities, PassOn
from threadline.conversations.store.conversation import ConversationStore
from threadline.conversations.store.messages import MessageStore
from threadline.conversations.store.turns import TurnPlan, TurnStore
from threadline.conversations.turn_routing import Beginning
from threadline.db.engine import Database, Transaction
from threadline.errors import Permanent, Transient
from threadline.models.model import ChatModel
from threadline.operator.context import (
    LAYER_TIMEOUT,
    TOKENS,
    Context,
    ContextRequest,
    Records,
    RelatedThread,
    SlackContext,
    build_context,
    read_records,
    reason_of,
)
from threadline.operator.prompt import analyse_request
from threadline.rfps.model import BINDING
from threadline.slack.model import Thread
from threadline.threads.activity import heartbeating
from threadline.threads.store import ThreadBindingStore
from threadline.tools.registry import Tool

_RELATED_THREADS = 20
_ATTEMPTS = 3
"""To gather while nobody deletes anything in the thread; then the operator does without."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class _Asked:
    """What a turn is asked, by whom, and what is known of it so far.

    `deletions`: how often something had been deleted in the thread before any of this was read.
    """

    plan: TurnPlan
    user_id: str
    question: str
    deletions: int

    async def request(self, tx: Transaction, thread: Thread) -> ContextRequest:
        return await context_request(tx, thread, self.user_id, self.question, self.plan.route.scope.rfp_id)


class LiveOperatorActivities(OperatorActivities):
    """Args: `tools` are those on offer; `tokens` bound the context."""

    def __init__(
        self,
        database: Database,
        beginning: Beginning,
        slack: SlackContext,
        model: ChatModel | None,
        tools: Sequence[Tool],
        tokens: int = TOKENS,
    ) -> None:
        self._database = database
        self._beginning = beginning
        self._slack = slack
        self._model = model
        self._tools = tools
        self._tokens = tokens

    @activity.defn
    async def begin_turn(self, turn: TalkTurn) -> Begun:
        return await self._beginning.begin(turn)

    @activity.defn
    async def pass_on(self, request: PassOn) -> Begun:
        return await self._beginning.pass_on(request)

    @activity.defn
    async def prepare_turn(self, turn: TalkTurn) -> str:
        plan: TurnPlan | None = None
        async with heartbeating():
            for _ in range(_ATTEMPTS):
                if plan := await self._prepare(turn):
                    break
        there = [each for each in plan.layers if not each.get("missing")] if plan else []
        return ", ".join(f"{each['name']} {each['tokens']}" for each in there)

    async def _prepare(self, turn: TalkTurn) -> TurnPlan | None:
        """Gather the context and keep it; None when something was deleted in the thread meanwhile."""
        asked, request, records = await self._read(turn)
        if asked.plan.context:
            return asked.plan
        made = await build_context(
            request, records, self._slack, {each.wire_name for each in self._tools}, self._tokens
        )
        self._log_sizes(turn, made)
        async with self._database.begin() as tx:
            if await MessageStore(tx).deletion_count(turn.thread) != asked.deletions:
                _log.info("context_read_again", slack_thread=turn.thread.key, turn=turn.turn)
                return None
            layers = [asdict(each) for each in made.layers]
            await TurnStore(tx).set_context(turn.thread, turn.turn, made.text, made.patterns, layers)
            return await TurnStore(tx).plan(turn.thread, turn.turn)  # what another try has gathered first stands

    async def _read(self, turn: TalkTurn) -> tuple[_Asked, ContextRequest, Records | str]:
        """What is asked, and what is on record of it, or why that could not be read.

        Two transactions: the first holds the conversation's row, for which incoming messages wait.
        """
        async with self._database.begin() as tx:
            asked = await self._asked(tx, turn)
            request = await asked.request(tx, turn.thread)
        if asked.plan.context:
            return asked, request, Records()
        try:
            async with asyncio.timeout(LAYER_TIMEOUT), self._database.begin() as tx:
                return asked, request, await read_records(tx, request)
        except (TimeoutError, Permanent) as missing:
            return asked, request, reason_of(missing, "records")

    def _log_sizes(self, turn: TalkTurn, made: Context) -> None:
        sizes = {each.name: each.tokens for each in made.layers if not each.missing}
        _log.info(
            "context_built", slack_thread=turn.thread.key, turn=turn.turn, layers=sizes, tokens=sum(sizes.values())
        )

    @activity.defn
    async def analyse_request(self, turn: TalkTurn) -> ConversationSnapshot:
        async with self._database.begin() as tx:
            asked = await self._asked(tx, turn)
        said = ""
        if not asked.plan.analysis:
            async with heartbeating():
                said = await self._analyse(turn, asked)
        async with self._database.begin() as tx:
            if said and await MessageStore(tx).deletion_count(turn.thread) == asked.deletions:
                await TurnStore(tx).set_analysis(turn.thread, turn.turn, said)
            return await ConversationStore(tx).snapshot(turn.thread)

    async def _analyse(self, turn: TalkTurn, asked: _Asked) -> str:
        """What the request means, in a few sentences; empty where nobody can say. What it cost is accounted."""
        made = await analyse_request(self._model, asked.question, asked.plan.context, self._tools)
        if made.usage:
            try:
                async with self._database.begin() as tx:
                    await ConversationStore(tx).add_usage(
                        turn.thread, turn.turn, 0, "analyse", made.usage, made.milliseconds
                    )
            except (Permanent, Transient) as error:
                _log.warning(
                    "analysis_cost_not_stored", slack_thread=turn.thread.key, turn=turn.turn, reason=str(error)
                )
        return made.text

    async def _asked(self, tx: Transaction, turn: TalkTurn) -> _Asked:
        thread, number = turn.thread, turn.turn
        deletions = await MessageStore(tx).deletion_count(thread)
        plan = await TurnStore(tx).plan(thread, number)
        if plan is None:
            raise Permanent("This turn has no route yet, so no context can be gathered for it.")
        said = await TurnStore(tx).request_texts(thread, number)
        askers = await MessageStore(tx).askers(thread, number, 1)
        return _Asked(plan, askers[-1].user_id if askers else "", "\n".join(said), deletions)


async def context_request(tx: Transaction, thread: Thread, user_id: str, question: str, rfp_id: str) -> ContextRequest:
    """What somebody asks, with what the conversations know of it."""
    begun = await MessageStore(tx).first_said_at(thread)
    threads = await _other_threads(tx, thread, rfp_id) if rfp_id else ()
    return ContextRequest(thread, user_id, question, rfp_id, None if begun is None else float(begun), threads)


async def _other_threads(tx: Transaction, here: Thread, rfp_id: str) -> list[RelatedThread]:
    """Threads about the same RFP. Words are told in the channel in which they were said; a direct message is nobody
    else's business."""
    about = await ThreadBindingStore(tx).threads_of(here.team, BINDING, rfp_id, _RELATED_THREADS)
    others = [each for each in about if each != here]
    same = [each.ts for each in others if each.channel == here.channel]
    answered = await TurnStore(tx).last_answers(here.team, here.channel, same)
    told = sorted(answered.values(), key=lambda each: each.at, reverse=True)
    elsewhere = dict.fromkeys(each.channel for each in others if each.channel != here.channel)
    return [
        *(RelatedThread(here.channel, each.answer, each.at.timestamp()) for each in told),
        *(RelatedThread(channel) for channel in elsewhere if not channel.startswith("D")),
    ]
