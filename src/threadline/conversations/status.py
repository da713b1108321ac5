"""The status under a thread in Slack while an activity works. It neither delays nor fails the
activity.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

import structlog

from threadline.errors import Permanent, Transient
from threadline.slack.client import SlackClient
from threadline.slack.model import Thread

DELAY = 0.5
"""Seconds before a status is shown; shorter work shows none."""

_showing = set[asyncio.Task[None]]()
_last = WeakValueDictionary[Thread, asyncio.Task[None]]()
"""The task of the latest status of each thread."""
_log = structlog.get_logger(__name__)


@asynccontextmanager
async def showing_status(slack: SlackClient, thread: Thread, words: str) -> AsyncIterator[None]:
    """Show `words` under a thread while the block runs; empty words show nothing.

    Slack removes a status with the bot's next post, or after two minutes. The block never waits
    for Slack: a status that Slack accepts only after the block has ended is removed again, since
    the post may have come before it.
    """
    if not words:
        yield
        return
    begun = ended = False

    async def show() -> None:
        nonlocal begun
        await asyncio.sleep(DELAY)
        begun = True
        await set_status(slack, thread, words)
        if ended and _last[thread] is task:  # keep a later status
            await set_status(slack, thread, "")

    task = _last[thread] = asyncio.create_task(show())
    _showing.add(task)
    task.add_done_callback(_showing.discard)
    try:
        yield
    finally:
        ended = True
        if not begun:
            task.cancel()


async def set_status(slack: SlackClient, thread: Thread, words: str) -> None:
    """Set a thread's status, or clear it with empty words. A refusal is logged."""
    try:
        await slack.set_status(thread.channel, thread.ts, words)
    except (Permanent, Transient) as error:
        _log.debug("status_update_failed", slack_thread=thread.key, reason=str(error))
