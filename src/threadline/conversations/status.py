"""The status that Slack shows under a thread while an activity works: it may delay that by a second, never fail it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog

from threadline.errors import Permanent, Transient
from threadline.slack.client import SlackClient
from threadline.slack.model import Thread

DELAY = 0.5
"""Seconds after which a status is shown: work that ends sooner shows none."""
LAST_WAIT = 1.0
"""Seconds for which the end of the work waits for Slack: a status that arrives after the answer would stay."""

_log = structlog.get_logger(__name__)


@asynccontextmanager
async def showing_status(slack: SlackClient, thread: Thread, words: str) -> AsyncIterator[None]:
    """Show `words` under a thread while the block runs; nothing where they are empty. Slack takes a status away with
    the bot's next post, or after two minutes."""
    if not words:
        yield
        return
    begun = False

    async def show() -> None:
        nonlocal begun
        await asyncio.sleep(DELAY)
        begun = True
        await set_status(slack, thread, words)

    task = asyncio.create_task(show())
    try:
        yield
    except asyncio.CancelledError:
        task.cancel()
        raise
    finally:
        if not begun:
            task.cancel()
        await asyncio.wait([task], timeout=LAST_WAIT)
        task.cancel()


async def set_status(slack: SlackClient, thread: Thread, words: str) -> None:
    """Set a thread's status, or clear it with empty words. A refusal is logged."""
    try:
        await slack.set_status(thread.channel, thread.ts, words)
    except (Permanent, Transient) as error:
        _log.debug("status_update_failed", slack_thread=thread.key, reason=str(error))
