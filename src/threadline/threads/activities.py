"""LiveThreadActivities: forwards a reply to the workflow of its thread, and posts a private
reply.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import structlog

from threadline.db.engine import Database
from threadline.slack.client import SlackClient
from threadline.slack.model import Thread
from threadline.threads.contract import ForwardedReply, PrivateReply, ThreadActivities
from threadline.threads.message_table import log_quarantined, redact_message
from threadline.threads.model import IncomingMessage, MessageKind, ThreadOwner, owner_in
from threadline.threads.store import PostStore, Quarantine, ThreadStore
from threadline.threads.workflow_client import WorkflowClient, WorkflowStart

_log = structlog.get_logger(__name__)

Relay = Callable[[ThreadOwner, IncomingMessage], Awaitable[bool]]
Start = Callable[[Thread, IncomingMessage], WorkflowStart]


@dataclass(eq=False)
class LiveThreadActivities(ThreadActivities):
    """The activities that every thread's workflow may call.

    Args:
        bot_user: Slack's user id of the bot.
        starts: by feature (`ThreadOwner.feature`), makes the workflow that receives a reply in one
            of the feature's threads.
        relays: by feature, takes a reply itself, and returns whether it did.
    """

    database: Database
    slack: SlackClient
    bot_user: str
    workflows: WorkflowClient
    starts: Mapping[str, Start]
    relays: Mapping[str, Relay]

    async def forward_reply(self, reply: ForwardedReply) -> bool:
        owner = await self._owner_of(reply.thread)
        if (
            owner
            and (relay := self.relays.get(owner.feature))
            and await relay(owner, reply.message)
        ):
            return True
        if owner is None or owner.feature not in self.starts:
            message = redact_message(reply.message)
            unreadable = [(message, "")] if message.kind == MessageKind.QUARANTINED else []
            async with self.database.begin() as tx:
                quarantined = await Quarantine(tx).keep(reply.thread, unreadable)
            log_quarantined(reply.thread, quarantined)
            _log.debug(
                "reply_ignored",
                slack_thread=reply.thread.key,
                reason="This thread belongs to no case.",
            )
            return False
        await self.workflows.start(self.starts[owner.feature](owner.thread, reply.message))
        return True

    async def reply_privately(self, reply: PrivateReply) -> None:
        await self.slack.post_ephemeral(reply.channel, reply.user_id, reply.text, reply.thread_ts)

    async def _owner_of(self, thread: Thread) -> ThreadOwner | None:
        """Return the owner by the registry, else by the metadata of the bot's own root: the root
        was posted, and its registration was lost.
        """
        async with self.database.begin() as tx:
            if known := await ThreadStore(tx).owner(thread):
                return known
        root = await self.slack.get_root(thread.channel, thread.ts)
        if root is None or root.user != self.bot_user:
            return None  # only the bot's own metadata names an owner
        owner = owner_in(root.payload)
        if (
            owner is None
            or owner.feature not in {*self.starts, *self.relays}
            or owner.thread.team != thread.team
        ):
            return None
        async with self.database.begin() as tx:
            await PostStore(tx).record_unfinished(str(root.payload.get("key", "")), thread.ts)
            await ThreadStore(tx).register(owner, thread.channel, thread.ts)
        return owner
