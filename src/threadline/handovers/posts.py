"""What is posted of a hand-over, in either of its threads: each under a key of its own, and so once."""

from collections.abc import Sequence

from threadline.db.engine import Transaction
from threadline.handovers.model import CARD, HANDOVER, handover_workflow_id, post_key
from threadline.handovers.store import Handover, Handovers
from threadline.slack.client import Slack
from threadline.slack.formatting import Rendered
from threadline.threads.model import ThreadOwner
from threadline.threads.outbox import Outbox, Post


class HandoverPosts:
    """Every method raises what `Outbox.publish` and `Slack.update` raise."""

    def __init__(self, slack: Slack, outbox: Outbox) -> None:
        self._slack = slack
        self._outbox = outbox

    async def card(self, handover: Handover, channel: str, card: Rendered) -> None:
        """Post the card, and remember where it is."""
        ref = handover.ref

        async def record(tx: Transaction, ts: str) -> None:
            await Handovers(tx).shown(ref, channel, ts)

        opens = ThreadOwner(handover_workflow_id(ref.thread, ref.turn), HANDOVER)
        key = post_key(ref, CARD)
        await self._outbox.publish(Post(key, channel, None, (card,), opens, on_posted=record, correlation_id=ref.key))

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
    ) -> None:
        ref = handover.ref
        key = post_key(ref, what)
        post = Post(key, channel, thread_ts, tuple(words), correlation_id=ref.key)
        await self._outbox.publish(post)
