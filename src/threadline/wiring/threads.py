"""The catch-up, the sweeps and the relays between threads."""

from collections.abc import Collection

from threadline.cases.catch_up import CaseThreads
from threadline.conversations.catch_up import ConversationThreads
from threadline.conversations.model.listening import DEFAULT_LISTENING, Listening
from threadline.handovers.activities import (
    HandoverThreads,
)
from threadline.settings import (
    ChannelSettings,
)
from threadline.slack.model import BOT_NAME
from threadline.threads.catch_up import LiveCatchUpActivities
from threadline.threads.comparison import ThreadSource
from threadline.threads.restored_ends import RestoredEnds
from threadline.wiring.core import CoreDeps


def thread_sources(
    bot_user_id: str,
    allowed_apps: Collection[str] = (),
    bot_name: str = BOT_NAME,
    listening: Listening = DEFAULT_LISTENING,
) -> tuple[ThreadSource, ...]:
    """Return every kind of thread that the catch-up compares. The first of a scope gets the
    threads without an owner.

    Args:
        allowed_apps: ids of bots and apps whose messages count.
    """
    return (
        CaseThreads(),
        ConversationThreads(bot_user_id, allowed_apps, bot_name, listening),
        HandoverThreads(),
    )


def catch_up(channels: ChannelSettings, deps: CoreDeps) -> LiveCatchUpActivities:
    """Build the catch-up over the channels of cases and conversations."""
    bot_user = deps.case_channels.bot_user
    name = deps.identity.name or BOT_NAME
    return LiveCatchUpActivities(
        deps.database,
        deps.history,
        deps.router.handle,
        thread_sources(bot_user, channels.allowed_apps, name, deps.listening),
        channels.of_cases,
        team=deps.case_channels.team,
        bot_user_id=bot_user,
        faults=deps.faults,
        conversation_channels=channels.conversation_channels or None,
        allowed_apps=frozenset(channels.allowed_apps),
        restored=RestoredEnds(deps.database, deps.outbox.lost, deps.workflows, bot_user),
    )
