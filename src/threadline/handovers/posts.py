"""HandoverPosts: the bot's posts about a handover, in both threads. Each post has a key, so that
it is posted once.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from threadline.conversations.model.conversation import ConversationTurn
from threadline.db.engine import Database
from threadline.handovers.files import HandoverFiles
from threadline.handovers.model import post_key
from threadline.slack import formatting
from threadline.slack.client import SlackClient
from threadline.slack.formatting import Rendered
from threadline.slack.model import Thread
from threadline.threads.basis import Basis
from threadline.threads.outbox import Outbox, Post
from threadline.threads.store import PostStore


@dataclass(frozen=True, eq=False)
class HandoverPosts:
    """Every method raises what `Outbox.publish` and `SlackClient.update` raise."""

    database: Database
    slack: SlackClient
    outbox: Outbox

    async def post(
        self,
        ref: ConversationTurn,
        what: str,
        place: Thread,
        rendered: Sequence[Rendered],
        about: Sequence[str] = (),
    ) -> None:
        """Post in a thread, once for each `what`.

        Args:
            about: the `ts` of the messages that the post shows or answers, by which it is
                recognised after a restore. Without them it is then sent again.
        """
        asked = tuple(about)
        basis = Basis(f"handover:{what}", ref.thread.key, asked, asked) if asked else None
        key = post_key(ref, what)
        post = Post(
            key, place.channel, place.ts, tuple(rendered), correlation_id=ref.key, basis=basis
        )
        await self.outbox.publish(post)

    @property
    def files(self) -> HandoverFiles:
        return HandoverFiles(self.database, self.slack, self.outbox)

    @property
    def finds_lost_posts(self) -> bool:
        """Whether `post` may find a post from before a restore, whose content may be outdated."""
        return self.outbox.lost.active_window is not None

    async def parts(self, ref: ConversationTurn, what: str) -> list[str]:
        """Return the `ts` of each message that was posted for this `what`."""
        async with self.database.begin() as tx:
            return list(await PostStore(tx).part_timestamps(post_key(ref, what)))

    async def reword(
        self,
        ref: ConversationTurn,
        what: str,
        place: Thread,
        rendered: Sequence[Rendered],
        parts: Sequence[str],
        rest: str,
        about: Sequence[str] = (),
    ) -> None:
        """Show a new wording in the messages of an earlier one, and `rest` in the messages that it
        leaves unused. Further parts of a longer wording are posted.
        """
        for number, ts in enumerate(parts):
            now = rendered[number] if number < len(rendered) else formatting.notice(rest)[0]
            await self.slack.update(place.channel, ts, now.text, now.blocks)
        await self.post(ref, what, place, rendered, about)
