"""After a turn: what it leaves behind is read from the record and remembered, once."""

from collections.abc import Sequence

import structlog

from threadline.conversations.catch_up_store import Talked
from threadline.conversations.conversation_store import ConversationStore
from threadline.conversations.model.conversation import ConversationNotFound, ExecutionStatus
from threadline.conversations.thread_reads import GONE
from threadline.conversations.transcript_store import DELETED, Placed, TranscriptStore
from threadline.conversations.turn_plans import TurnPlans
from threadline.db.engine import Transaction
from threadline.models.model import Role, ToolKind
from threadline.operator import memory
from threadline.operator.memory import TurnEnd, Used
from threadline.operator.model.memory import MemoryKind
from threadline.operator.model.routing import Agent
from threadline.operator.store import MemoryStore
from threadline.rfps import model as rfps
from threadline.rfps.model import resolve_scope
from threadline.rfps.store import RfpStore
from threadline.slack.model import Thread
from threadline.threads.store import ThreadBindingStore
from threadline.tools.registry import ToolRegistry
from threadline.tools.store import ToolExecutionStore, ToolOutcome

_log = structlog.get_logger(__name__)


async def remember_turn(tx: Transaction, thread: Thread, turn: int, registry: ToolRegistry, now: float) -> int:
    """Remember a settled turn: how many memories that is. Safe to repeat: each is kept once, as it was first.

    Nothing is left of a turn that is forgotten, is not settled, or of which all that was asked is deleted; of one
    about an RFP that was deleted since, only how tools did; of the conversational agent's, only what somebody has
    asked to have remembered.

    Args:
        now: seconds since 1970.

    Raises:
        Permanent, Transient: as the database did.
    """
    try:
        # Held until the end: what somebody deletes meanwhile is forgotten behind this, and not before it.
        await ConversationStore(tx).open_step(thread, turn, 1)
    except ConversationNotFound:
        return 0
    end = await _end(tx, thread, turn, registry)
    made = memory.memories(end) if end else []
    if end and end.rfp_id and await RfpStore(tx).is_deleted(thread.team, end.rfp_id):
        made = [(key, each) for key, each in made if each.kind is MemoryKind.PROCEDURAL]
    plan = await TurnPlans(tx).of(thread, turn)
    if plan and plan.route.agent is Agent.COPILOT:
        made = [(key, each) for key, each in made if each.kind is MemoryKind.SEMANTIC]
    for key, each in made:
        await MemoryStore(tx).remember(thread.team, each, key, now)
    _log.info("memories_stored", slack_thread=thread.key, turn=turn, count=len(made))
    return len(made)


async def _end(tx: Transaction, thread: Thread, turn: int, registry: ToolRegistry) -> TurnEnd | None:
    settled = await ConversationStore(tx).settled(thread, turn)
    if settled is None:
        return None
    placed = await TranscriptStore(tx).of_turn(thread, turn)
    said = [each for each in placed if each.message.role is Role.USER]
    by = await Talked(tx).stored(thread, [_id(each) for each in said])
    words = [
        (by[_id(each)].sender_id if _id(each) in by else settled.user_id, each.message.content)
        for each in said
        if DELETED not in each.message.content
    ]
    return TurnEnd(
        thread,
        turn,
        settled.user_id,
        words,
        settled.kind,
        settled.answer,
        _used(registry, await ToolExecutionStore(tx).outcomes(thread, turn)),
        await _about(tx, thread, turn, "\n".join(text for _, text in words)),
        whole=len(words) == len(said) and all(each.message.content != GONE for each in placed),
    )


def _used(registry: ToolRegistry, outcomes: Sequence[ToolOutcome]) -> list[Used]:
    """The calls under the tools' own names; a name that the model made up is none."""
    found = []
    for each in outcomes:
        tool = registry.get(each.tool_name)
        status = ExecutionStatus(each.status) if each.status else ExecutionStatus.UNKNOWN
        kind = tool.kind if tool else ToolKind.CHANGE
        found.append(Used(tool.name if tool else "", status, kind, each.code))
    return found


def _id(placed: Placed) -> str:
    """Of the message that a row of the transcript holds."""
    return placed.key.removeprefix("u:")


async def _about(tx: Transaction, thread: Thread, turn: int, request: str) -> str:
    """The RFP that the turn had for its scope: what is bound by now may be another."""
    plan = await TurnPlans(tx).of(thread, turn)
    if plan:
        return plan.route.scope.rfp_id
    return resolve_scope(request, (await ThreadBindingStore(tx).of(thread)).get(rfps.BINDING, "")).rfp_id
