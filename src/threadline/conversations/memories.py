"""The memories of a turn, stored in the transaction that ends it."""

import structlog

from threadline.conversations.deps import ConversationDeps
from threadline.conversations.model.conversation import (
    ConversationNotFound,
    ConversationTurn,
    OutcomeKind,
)
from threadline.conversations.model.turn_route import Agent
from threadline.conversations.store.conversation import ConversationStore
from threadline.conversations.store.transcript import DELETED, REMOVED
from threadline.conversations.store.turns import SettledTurn, StoredTurn, TurnStore
from threadline.db.engine import Transaction, savepoint
from threadline.models.model import Role, ToolKind
from threadline.operator import memory
from threadline.operator.memory import EndedTurn, ToolUse, TurnEnd
from threadline.operator.store import MemoryKind, MemoryStore
from threadline.rfps import model as rfps
from threadline.rfps.model import resolve_scope
from threadline.rfps.store import RfpStore
from threadline.threads.store import ThreadBindingStore
from threadline.tools.model import ToolStatus
from threadline.tools.registry import ToolRegistry
from threadline.tools.store import ToolExecutionStore

_ENDS = {
    OutcomeKind.SUMMARISED: TurnEnd.SUMMARISED,
    OutcomeKind.NO_ANSWER: TurnEnd.SUMMARISED,
    OutcomeKind.STOPPED: TurnEnd.STOPPED,
    OutcomeKind.FAILED: TurnEnd.FAILED,
}
"""Every other end is an answer."""
_log = structlog.get_logger(__name__)


async def try_to_remember(tx: Transaction, deps: ConversationDeps, turn: ConversationTurn) -> None:
    """Store the memories of a settled turn. A failure is only logged: the turn still ends, and the
    next one remembers less.
    """
    try:
        async with savepoint(tx):
            await remember_turn(tx, turn, deps.registry, deps.clock())
    except Exception as error:  # noqa: BLE001 - failed memories must not fail the turn
        _log.warning(
            "memories_not_stored", slack_thread=turn.thread.key, turn=turn.turn, exc_info=error
        )


async def remember_turn(
    tx: Transaction, turn: ConversationTurn, registry: ToolRegistry, now: float
) -> int:
    """Store the memories of a settled turn. First write wins.

    A turn has no memories if it is forgotten, is not settled, or all of its requests were deleted.
    If the turn is about an RFP that was deleted since, only the results of its tools remain; for
    the assistant's turns, only facts that somebody asked it to remember.

    Args:
        now: Seconds since 1970.

    Returns:
        The number of memories.
    """
    try:
        # The lock is held until the commit: a concurrent deletion forgets the memories after they
        # are stored, and not before.
        await ConversationStore(tx).current_step(turn.thread, turn.turn, 1)
    except ConversationNotFound:
        return 0
    stored = await TurnStore(tx).read(turn.thread, turn.turn)
    plan = stored.plan
    end: EndedTurn | None = None
    if stored.end and stored.end.kind is not OutcomeKind.SILENT:
        end = await _end(tx, turn, stored, stored.end, registry)
    made = memory.extract_memories(end) if end else []
    if end and end.rfp_id and await RfpStore(tx).is_deleted(turn.thread.team, end.rfp_id):
        made = [(key, each) for key, each in made if each.kind is MemoryKind.PROCEDURAL]
    if plan and plan.route.agent is Agent.ASSISTANT:
        made = [(key, each) for key, each in made if each.kind is MemoryKind.SEMANTIC]
    await MemoryStore(tx).remember(turn.thread.team, made, now)
    _log.info("memories_stored", slack_thread=turn.thread.key, turn=turn.turn, count=len(made))
    return len(made)


async def _end(
    tx: Transaction,
    turn: ConversationTurn,
    stored: StoredTurn,
    settled: SettledTurn,
    registry: ToolRegistry,
) -> EndedTurn:
    thread = turn.thread
    number = turn.turn
    said = [each for each in stored.entries if each.message.role is Role.USER]
    words = [
        (stored.senders.get(each.key, settled.user_id), each.message.content)
        for each in said
        if DELETED not in each.message.content
    ]
    if plan := stored.plan:
        # The RFP of the turn's scope; the thread may be bound to another one by now.
        rfp_id = plan.route.scope.rfp_id
    else:
        bound = (await ThreadBindingStore(tx).of(thread)).get(rfps.BINDING, "")
        rfp_id = resolve_scope("\n".join(text for _, text in words), bound).rfp_id
    return EndedTurn(
        thread,
        number,
        settled.user_id,
        words,
        _ENDS.get(settled.kind, TurnEnd.ANSWERED),
        settled.answer,
        list((await tool_uses(tx, turn, registry)).values()),
        rfp_id,
        whole=len(words) == len(said)
        and all(each.message.content != REMOVED for each in stored.entries),
    )


async def tool_uses(
    tx: Transaction, turn: ConversationTurn, registry: ToolRegistry
) -> dict[str, ToolUse]:
    """Return the recorded results of a turn's tool calls, by call id."""
    uses: dict[str, ToolUse] = {}
    for each in await ToolExecutionStore(tx).outcomes(turn.thread, turn.turn):
        tool = registry.get(each.tool_name)  # None: the model made the name up
        status = ToolStatus(each.status) if each.status else ToolStatus.UNKNOWN
        kind = tool.kind if tool else ToolKind.CHANGE
        uses[each.call_id] = ToolUse(tool.name if tool else "", status, kind, each.code)
    return uses
