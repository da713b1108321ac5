"""Failed model calls, stored for `threadline explain` in a separate transaction: that of the turn
is rolled back.
"""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog

from threadline.conversations.store.conversation import ConversationStore
from threadline.db.engine import Database
from threadline.errors import Permanent, Transient
from threadline.models.errors import call_failure
from threadline.slack.model import Thread

_log = structlog.get_logger(__name__)


@asynccontextmanager
async def failures_kept(
    database: Database, thread: Thread, turn: int, step: int, purpose: str
) -> AsyncIterator[None]:
    """Store why the model call in the block fails, and re-raise the error."""
    begun = time.monotonic()
    try:
        yield
    except (Permanent, Transient) as failure:
        took = round((time.monotonic() - begun) * 1000)
        try:
            async with database.begin() as tx:
                call = (thread, turn, step, purpose, call_failure(failure), took)
                await ConversationStore(tx).add_failure(*call)
        except Exception as lost:  # noqa: BLE001 - the model's failure decides the turn
            _log.warning(
                "model_failure_not_stored", slack_thread=thread.key, turn=turn, reason=str(lost)
            )
        raise
