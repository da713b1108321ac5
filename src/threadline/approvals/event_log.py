"""What becomes of a proposed action, in the log of events of the RFP that it is about."""

from datetime import datetime
from typing import Any

import structlog

from threadline.approvals.model import ProposedAction
from threadline.db.engine import Transaction
from threadline.errors import Permanent
from threadline.rfps.model import NewEvent
from threadline.rfps.store import RfpStore
from threadline.slack.model import Thread
from threadline.tools.model import Author, Change, Operation

_log = structlog.get_logger(__name__)


async def proposed(tx: Transaction, team: str, action: ProposedAction) -> None:
    told = {"risk": action.risk.value, "tool": str(action.action.get("tool", ""))}
    await _append(tx, team, action, "action_proposed", told, action.author.user_id, action.created_at)


async def decided(tx: Transaction, team: str, action: ProposedAction) -> None:
    """Nothing happens to one that is still open. An expiry is nobody's."""
    if action.decision and action.decided_at:
        kind = f"action_{action.decision.value}"
        await _append(tx, team, action, kind, {}, action.decided_by, action.decided_at)


async def made(tx: Transaction, team: str, action: ProposedAction, status: str, at: datetime) -> None:
    """Args: `status` is the execution's, `unknown` where it has none."""
    told = {"status": status, "tool": str(action.action.get("tool", ""))}
    await _append(tx, team, action, "action_carried_out", told, action.author.user_id, at)


async def _append(
    tx: Transaction, team: str, action: ProposedAction, kind: str, told: dict[str, Any], by: str, at: datetime
) -> None:
    """Once for each kind; what is refused leaves nothing, and is no reason to stop."""
    if not action.rfp_id:
        return
    operation = Operation(Thread(team, action.channel, action.thread_ts), 0, 0, f"{action.action_id}:{kind}")
    author = Author(by, action.author.correlation_id)
    event = NewEvent(kind, {"action_id": action.action_id} | told)
    try:
        async with tx.begin_nested():
            await RfpStore(tx).append_event(Change(operation, at.timestamp()), action.rfp_id, event, author)
    except Permanent as refused:
        _log.warning("action_event_refused", action=action.action_id, kind=kind, reason=str(refused))
