"""A notice in the thread about a slow model, posted while an activity waits for it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog
from temporalio import activity

from threadline.conversations.contract import ThreadNotice
from threadline.conversations.deps import ConversationDeps
from threadline.conversations.model.conversation import ConversationTurn, NoticeReason
from threadline.conversations.posting import post_thread_notice
from threadline.errors import Permanent, Transient

_log = structlog.get_logger(__name__)


@asynccontextmanager
async def announcing_a_wait(
    deps: ConversationDeps, turn: ConversationTurn, longest: float, *, addressed: bool
) -> AsyncIterator[None]:
    """Post a notice to the thread if the block takes longer than `deps.slow_after` seconds.
    Earlier attempts of the activity count as well.

    A turn gets one notice over all its calls and their retries. The notice precedes the answer: a
    block that ends during the post waits for it. If the post fails, the turn goes on without it.

    Args:
        longest: Seconds after which the turn has ended, without the patience for a model that is
            unavailable.
        addressed: Whether somebody waits for the answer. Otherwise there is no notice.
    """
    if not addressed:
        yield
        return
    is_slow = asyncio.Event()

    async def tell() -> None:
        await asyncio.sleep(_time_to_notice(deps.slow_after, deps.clock()))
        is_slow.set()
        await _tell(deps, turn, longest)

    telling = asyncio.create_task(tell())
    try:
        yield
        if is_slow.is_set():
            await telling
    finally:
        telling.cancel()


def _time_to_notice(slow_after: float, now: float) -> float:
    """Return the seconds until the notice is due.

    A later attempt counts from the first one. It gets a second at least, in which it returns a
    reply that was recorded before.
    """
    info = activity.info()
    if info.attempt == 1:
        return slow_after
    waited = now - info.scheduled_time.timestamp()
    return min(max(slow_after - waited, 1.0), slow_after)


async def _tell(deps: ConversationDeps, turn: ConversationTurn, longest: float) -> None:
    until = deps.clock() + longest + deps.limits.model_patience
    word = ThreadNotice(turn.thread, NoticeReason.MODEL_SLOW, about=str(turn.turn), until=until)
    try:
        await post_thread_notice(deps, word)
    except (Permanent, Transient) as error:
        _log.warning(
            "slow_model_notice_failed",
            slack_thread=turn.thread.key,
            turn=turn.turn,
            reason=str(error),
        )
