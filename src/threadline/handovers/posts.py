"""What is posted of a hand-over, in either of its threads: each under a key of its own, and so once."""

from collections.abc import Sequence

from threadline.handovers.model import CARD, post_key
from threadline.handovers.store import Handover
from threadline.slack.client import Slack
from threadline.slack.formatting import Rendered
from threadline.threads.outbox_posts import Post, Posts


class HandoverPosts:
    """Every method raises what `Posts.publish` and `Slack.update` raise."""

    def __init__(self, slack: Slack, posts: Posts) -> None:
        self._slack = slack
        self._posts = posts

    async def card(self, handover: Handover, channel: str, card: Rendered) -> str:
        """Post the card; returns its `ts`."""
        return await self._publish(handover, CARD, channel, None, (card,))

    async def in_thread(self, handover: Handover, what: str, words: Sequence[Rendered]) -> None:
        """Where somebody waits for an answer."""
        thread = handover.ref.thread
        await self._publish(handover, what, thread.channel, thread.ts, words)

    async def under_card(self, handover: Handover, what: str, words: Sequence[Rendered]) -> None:
        """Where people have it."""
        await self._publish(handover, what, handover.channel, handover.card_ts, words)

    async def reword(self, channel: str, posted: Sequence[str], words: Sequence[Rendered], gone: Rendered) -> None:
        """Have the messages of an earlier wording show this one, and `gone` those that it does not need any more."""
        for number, ts in enumerate(posted):
            now = words[number] if number < len(words) else gone
            await self._slack.update(channel, ts, now.text, now.blocks)

    async def _publish(
        self, handover: Handover, what: str, channel: str, thread_ts: str | None, words: Sequence[Rendered]
    ) -> str:
        ref = handover.ref
        key = post_key(ref, what)
        post = Post(key, channel, thread_ts, tuple(words), case="", kind="handover", correlation_id=ref.key)
        return await self._posts.publish(post)
