"""RestoredEnds: finds ends of threads that a restored database does not know, by the bot's posts
that announced them.

The catch-up finds the messages of people, and they have the same effects as before. An end without
a message in Slack, such as by `threadline cases resolve`, left nothing in Slack but the bot's
closing post.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from threadline.db.engine import Database
from threadline.slack.client import post_payload
from threadline.slack.history import RawMessage
from threadline.slack.model import Thread
from threadline.threads.basis import LostPost, lost_post
from threadline.threads.catch_up_store import CatchUpThread
from threadline.threads.comparison import MissedEvent, ThreadSource
from threadline.threads.contract import Handled
from threadline.threads.lost_posts import LostPosts
from threadline.threads.store import PostStore
from threadline.threads.workflow_client import WorkflowClient, WorkflowStart

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class RestoredEnds:
    """Finds ends, and signals them. `bot_user`: Slack's id of the bot; posts of others end
    nothing.
    """

    database: Database
    lost: LostPosts
    workflows: WorkflowClient
    bot_user: str

    async def find(
        self, source: ThreadSource, thread: CatchUpThread, shown: Sequence[RawMessage]
    ) -> list[MissedEvent]:
        """Return the ends that posts of a thread announce and the database does not know. `shown`:
        the thread's messages in Slack.
        """
        place = Thread(thread.team, thread.channel, thread.thread_ts)
        ends = [(post, end) for post in self._lost(shown) if (end := source.lost_end(place, post))]
        if not ends:
            return []
        async with self.database.begin() as tx:
            stored = await source.stored_ids(tx, [end.id for _, end in ends])
            known = {post.key for post, _ in ends if await PostStore(tx).ts_of(post.key)}
        return [end for post, end in ends if end.id not in stored and post.key not in known]

    async def signal(self, start: WorkflowStart) -> Handled:
        """End the thread's workflow in the same way as before the restore."""
        await self.workflows.start(start)
        _log.info("lost_end_found", workflow_id=start.workflow_id)
        return Handled("restored_end", signalled=True)

    def _lost(self, shown: Sequence[RawMessage]) -> list[LostPost]:
        """Return the bot's posts from the time that was lost."""
        window = self.lost.active_window
        if window is None:
            return []
        posts = (
            lost_post(str(each["ts"]), post_payload(each))
            for each in shown
            if each.get("user") == self.bot_user
        )
        return [post for post in posts if post and window.holds(float(post.ts))]
