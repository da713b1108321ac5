"""The retention of each kind of record, and the deletion of expired ones."""

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

import structlog

from threadline.approvals.store import ApprovalStore
from threadline.conversations.store.conversation import ConversationStore
from threadline.db.engine import Database, Transaction
from threadline.db.rate_limits import RateLimits
from threadline.jobs.store import JobStore
from threadline.operator.store import MemoryStore
from threadline.sales.store import EmailDraftStore
from threadline.settings import (
    ConversationSettings,
)
from threadline.slack.store import UserStore
from threadline.threads.activity import repeating
from threadline.threads.removed_store import RemovedStore
from threadline.threads.store import Quarantine
from threadline.tools.store import ToolExecutionStore

PRUNE_INTERVAL = 3600.0
"""Seconds between two deletions of expired records."""
_DAY = 24 * 3600.0


_log = structlog.get_logger(__name__)


class _Prunable(Protocol):
    """A store of records with a limited retention."""

    async def prune(self, before: float) -> int:
        """Delete some of the records from before a moment, in seconds since 1970; returns their
        number, 0 when none is left.
        """
        ...


@dataclass(frozen=True)
class Prune:
    """Retention of one kind of record: `keep` is its maximum age in seconds."""

    kind: str
    keep: float
    store: Callable[[Transaction], _Prunable]


def prunes(settings: ConversationSettings) -> list[Prune]:
    kept = settings.conversation_retention_days * _DAY
    memories = settings.memory_days * _DAY
    return [
        Prune("conversations", kept, ConversationStore),
        Prune("memories", memories, MemoryStore),
        Prune("tool executions", settings.tool_log_days * _DAY, ToolExecutionStore),
        Prune("email drafts", kept, EmailDraftStore),
        Prune("proposed actions", kept, ApprovalStore),
        Prune("jobs", kept, JobStore),
        Prune("users", memories, UserStore),
        Prune("quarantine", kept, Quarantine),
        Prune("removed messages", settings.restore_days * _DAY, RemovedStore),
        # Guards look back two minutes; a day leaves room for a late message.
        Prune("rate limits", _DAY, RateLimits),
    ]


@asynccontextmanager
async def prune_periodically(database: Database, prunes: Sequence[Prune]) -> AsyncIterator[None]:
    """Delete expired records, at the start and every hour. Several workers may do so
    concurrently.
    """

    async def prune() -> None:
        try:
            await prune_all(database, prunes, time.time())
        except Exception:  # noqa: BLE001 - the next run tries again
            _log.exception("retention_sweep_failed")

    async with repeating(prune, PRUNE_INTERVAL):
        yield


async def prune_all(database: Database, prunes: Sequence[Prune], now: float) -> dict[str, int]:
    """Delete expired records in small transactions.

    Args:
        now: seconds since 1970.

    Returns:
        The number of deleted records of each kind.
    """
    counts = dict[str, int]()
    for prune in prunes:
        counts[prune.kind] = 0
        deleted = 1
        while deleted:
            async with database.begin() as tx:
                deleted = await prune.store(tx).prune(now - prune.keep)
            counts[prune.kind] += deleted
    if count := counts.get("conversations"):
        _log.info("conversations_deleted", count=count)
    return counts
