"""After a turn: what it leaves behind is read from the record and remembered, once."""

import time
from collections.abc import Callable, Sequence

import structlog

from threadline.conversations.model.conversation import ConversationNotFound, ExecutionStatus
from threadline.conversations.store.conversation import ConversationStore
from threadline.conversations.store.messages import MessageStore
from threadline.conversations.store.transcript import DELETED, REMOVED, TranscriptEntry, TranscriptStore
from threadline.conversations.store.turns import TurnStore
from threadline.db.engine import Database, Transaction
from threadline.models.model import Role, ToolKind
from threadline.operator import memory
from threadline.operator.memory import EndedTurn, ToolUse
from threadline.operator.model.routing import Agent
from threadline.operator.store import MemoryKind, MemoryStore
from threadline.rfps import model as rfps
from threadline.rfps.model import resolve_scope
from threadline.rfps.store import RfpStore
from threadline.slack.model import Thread
from threadline.threads.store import ThreadBindingStore
from threadline.tools.registry import ToolRegistry
from threadline.tools.store import ToolExecutionStore, ToolOutcome

_log = structlog.get_logger(__name__)


class Remembering:
    """Args: `clock` returns seconds since 1970."""

    def __init__(self, database: Database, registry: ToolRegistry, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._registry = registry
        self._clock = clock

    async def remember(self, thread: Thread, turn: int) -> int:
        """Remember a settled turn: how many memories that is. Safe to repeat: each is kept once, as it was first.

        Nothing is left of a turn that is forgotten, is not settled, or of which all that was asked is deleted; of one
        about an RFP that was deleted since, only how tools did; of the conversational agent's, only what somebody has
        asked to have remembered.

        Raises:
            Permanent, Transient: as the database did.
        """
        async with self._database.begin() as tx:
            try:
                # Held until the end: what somebody deletes meanwhile is forgotten behind this, and not before it.
                await ConversationStore(tx).current_step(thread, turn, 1)
            except ConversationNotFound:
                return 0
            end = await self._end(tx, thread, turn)
            made = memory.extract_memories(end) if end else []
            if end and end.rfp_id and await RfpStore(tx).is_deleted(thread.team, end.rfp_id):
                made = [(key, each) for key, each in made if each.kind is MemoryKind.PROCEDURAL]
            plan = await TurnStore(tx).plan(thread, turn)
            if plan and plan.route.agent is Agent.COPILOT:
                made = [(key, each) for key, each in made if each.kind is MemoryKind.SEMANTIC]
            await MemoryStore(tx).remember(thread.team, made, self._clock())
        _log.info("memories_stored", slack_thread=thread.key, turn=turn, count=len(made))
        return len(made)

    async def _end(self, tx: Transaction, thread: Thread, turn: int) -> EndedTurn | None:
        settled = await TurnStore(tx).settled(thread, turn)
        if settled is None:
            return None
        placed = await TranscriptStore(tx).entries_of(thread, turn)
        said = [each for each in placed if each.message.role is Role.USER]
        by = await MessageStore(tx).find(thread, [_id(each) for each in said])
        words = [
            (by[_id(each)].sender_id if _id(each) in by else settled.user_id, each.message.content)
            for each in said
            if DELETED not in each.message.content
        ]
        return EndedTurn(
            thread,
            turn,
            settled.user_id,
            words,
            settled.kind,
            settled.answer,
            self._used(await ToolExecutionStore(tx).outcomes(thread, turn)),
            await _about(tx, thread, turn, "\n".join(text for _, text in words)),
            whole=len(words) == len(said) and all(each.message.content != REMOVED for each in placed),
        )

    def _used(self, outcomes: Sequence[ToolOutcome]) -> list[ToolUse]:
        """The calls under the tools' own names; a name that the model made up is none."""
        found = []
        for each in outcomes:
            tool = self._registry.get(each.tool_name)
            status = ExecutionStatus(each.status) if each.status else ExecutionStatus.UNKNOWN
            kind = tool.kind if tool else ToolKind.CHANGE
            found.append(ToolUse(tool.name if tool else "", status, kind, each.code))
        return found


def _id(placed: TranscriptEntry) -> str:
    """Of the message that a row of the transcript holds."""
    return placed.key.removeprefix("u:")


async def _about(tx: Transaction, thread: Thread, turn: int, request: str) -> str:
    """The RFP that the turn had for its scope: what is bound by now may be another."""
    plan = await TurnStore(tx).plan(thread, turn)
    if plan:
        return plan.route.scope.rfp_id
    return resolve_scope(request, (await ThreadBindingStore(tx).of(thread)).get(rfps.BINDING, "")).rfp_id
