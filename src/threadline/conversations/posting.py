"""What a conversation says in Slack: each answer once, with what its tools have to show."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import structlog
from temporalio import activity

from threadline.conversations.blocks import answer_of, word_text
from threadline.conversations.contract import Marker, SpeakingActivities, TalkTurn, Word
from threadline.conversations.model.conversation import ConversationMarks
from threadline.db.engine import Database
from threadline.errors import Permanent
from threadline.slack import formatting
from threadline.slack.client import Slack
from threadline.slack.formatting import Rendered
from threadline.slack.model import Thread
from threadline.threads.model import turn_id
from threadline.threads.outbox import Outbox, Post, add_reactions

_log = structlog.get_logger(__name__)


class LiveSpeakingActivities(SpeakingActivities):
    """Args: `slack` for reactions; everything else is said through `outbox`."""

    def __init__(self, database: Database, slack: Slack, outbox: Outbox) -> None:
        self._database = database
        self._slack = slack
        self._outbox = outbox

    @activity.defn
    async def post_answer(self, turn: TalkTurn) -> ConversationMarks:
        thread = turn.thread
        async with self._database.begin() as work:
            settled = await work.conversations.settled(thread, turn.turn)
            shown = await work.tool_executions.record_groups(thread, turn.turn)
        if settled is None:
            raise Permanent("This turn has not ended, so it has no answer to post yet.")
        if rendered := answer_of(settled.answer, tuple(_structured(shown)), settled.detail) if settled.answer else ():
            await self._say(thread, f"turn:{turn.turn}", rendered, "answer", turn_id(turn.thread, turn.turn))
        async with self._database.begin() as work:
            return await work.conversations.said(thread, turn.turn)

    @activity.defn
    async def post_word(self, word: Word) -> None:
        rendered = formatting.notice(word_text(word.kind, word.until))
        await self._say(word.thread, f"{word.kind}:{word.about}", rendered, "word")

    @activity.defn
    async def mark_messages(self, marker: Marker) -> None:
        await add_reactions(self._slack, marker.name, marker.items)

    async def _say(
        self, thread: Thread, key: str, rendered: tuple[Rendered, ...], kind: str, correlation: str = ""
    ) -> None:
        place = (thread.channel, thread.ts, rendered)
        post = Post(f"talk:{thread.key}:{key}", *place, correlation_id=correlation)
        await self._outbox.publish(post)
        _log.info("message_posted", slack_thread=thread.key, key=post.key)


def _structured(shown: Sequence[Any]) -> Iterator[tuple[str, Sequence[Any]]]:
    """The records that the calls of a turn returned, in the order of the calls; see `tools.model.RecordGroup`."""
    for parts in shown:
        for part in parts or ():
            if isinstance(part, Mapping) and part.get("records"):
                yield str(part.get("kind") or ""), part["records"]
