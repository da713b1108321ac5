"""What a conversation says in Slack: each answer once, with what its tools have to show."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import structlog
from temporalio import activity

from threadline.conversations.blocks import answer_of, word_text
from threadline.conversations.contract import Marker, SpeakingActivities, TalkTurn, Word
from threadline.conversations.model.conversation import ConversationSnapshot
from threadline.conversations.store.conversation import ConversationStore
from threadline.conversations.store.turns import TurnStore
from threadline.db.engine import Database, Transaction
from threadline.errors import Permanent, Transient
from threadline.slack import formatting
from threadline.slack.client import SlackClient
from threadline.slack.formatting import Rendered
from threadline.slack.model import Thread
from threadline.threads.model import turn_id
from threadline.threads.outbox import Outbox, Post, add_reactions
from threadline.threads.store import PostStore
from threadline.tools.store import ToolExecutionStore

_log = structlog.get_logger(__name__)


_NOT_YET = 5.0
"""Seconds until an answer that is about to be posted is looked for again."""


class LiveSpeakingActivities(SpeakingActivities):
    """Args: `slack` for reactions; everything else is said through `outbox`."""

    def __init__(self, database: Database, slack: SlackClient, outbox: Outbox) -> None:
        self._database = database
        self._slack = slack
        self._outbox = outbox

    @activity.defn
    async def post_answer(self, turn: TalkTurn) -> ConversationSnapshot:
        async with self._database.begin() as tx:
            answer = await read_answer(tx, turn.thread, turn.turn)
        if answer is None:
            raise Permanent("This turn has not ended, so it has no answer to post yet.")
        return await publish_answer(self._database, self._outbox, answer)

    @activity.defn
    async def post_word(self, word: Word) -> None:
        rendered = formatting.notice(word_text(word.kind, word.until))
        await self._outbox.publish(_post(word.thread, f"{word.kind}:{word.about}", rendered))

    @activity.defn
    async def mark_messages(self, marker: Marker) -> None:
        await add_reactions(self._slack, marker.name, marker.items)


@dataclass(frozen=True)
class TurnAnswer:
    """A settled turn's answer; `shown` are the record groups of its tools. `posted`: nothing is left to post."""

    thread: Thread
    turn: int
    posted: bool
    text: str = ""
    shown: Sequence[Any] = ()
    detail: bool = False

    def render(self) -> tuple[Rendered, ...]:
        """One part for each message; none for an answer that says nothing."""
        return answer_of(self.text, tuple(_structured(self.shown)), self.detail) if self.text else ()


async def read_answer(tx: Transaction, thread: Thread, turn: int) -> TurnAnswer | None:
    """The answer of a turn; None where it is not settled."""
    settled = await TurnStore(tx).settled(thread, turn)
    if settled is None:
        return None
    if settled.posted_at or not settled.answer:
        return TurnAnswer(thread, turn, settled.posted_at is not None)
    shown = await ToolExecutionStore(tx).record_groups(thread, turn)
    return TurnAnswer(thread, turn, False, settled.answer, shown, settled.wants_detail)


async def publish_answer(database: Database, outbox: Outbox, answer: TurnAnswer) -> ConversationSnapshot:
    """Post an answer, once, and write down that it is posted.

    Raises:
        Permanent: Slack refuses it.
        Transient: it is to be tried again.
    """
    thread, turn, noted = answer.thread, answer.turn, list[ConversationSnapshot]()

    async def note(tx: Transaction, _: str) -> None:
        noted.append(await _mark_posted(tx, thread, turn))

    parts = answer.render()
    post = _post(thread, f"turn:{turn}", parts, turn_id(thread, turn))
    if parts:  # of several parts the first alone would tell, and the others could be lost
        await outbox.publish(replace(post, on_posted=note if len(parts) == 1 else None))
        _log.info("message_posted", slack_thread=thread.key, key=post.key)
    if noted:
        return noted[0]
    async with database.begin() as tx:
        return await _mark_posted(tx, thread, turn)


async def _mark_posted(tx: Transaction, thread: Thread, turn: int) -> ConversationSnapshot:
    """Write down that a turn's answer is in Slack; returns what is then known of the conversation."""
    await TurnStore(tx).mark_posted(thread, turn)
    return await ConversationStore(tx).snapshot(thread)


def _post(thread: Thread, key: str, rendered: tuple[Rendered, ...], correlation: str = "") -> Post:
    return Post(f"talk:{thread.key}:{key}", thread.channel, thread.ts, rendered, correlation_id=correlation)


async def find_answer_part(
    tx: Transaction, thread: Thread, turn: int, is_wanted: Callable[[Rendered], bool]
) -> tuple[str, Rendered] | None:
    """Find the message of a turn's answer for which `is_wanted` holds.

    Returns:
        Its `ts` and its content as it was posted; None if the answer has no such message.

    Raises:
        Transient: the turn has not ended yet, or the message is not in Slack yet.
    """
    settled = await TurnStore(tx).settled(thread, turn)
    if settled is None:
        raise Transient("The turn that proposed this has not ended yet.", retry_after=_NOT_YET)
    groups = tuple(_structured(await ToolExecutionStore(tx).record_groups(thread, turn)))
    parts = answer_of(settled.answer, groups, settled.wants_detail) if settled.answer else ()
    for number, part in enumerate(parts, start=1):
        if is_wanted(part):
            key = f"talk:{thread.key}:turn:{turn}"
            ts = await PostStore(tx).ts_of(key if number == 1 else f"{key}#{number}")
            if not ts:
                raise Transient("The message with the buttons is not in Slack yet.", retry_after=_NOT_YET)
            return ts, part
    return None


def _structured(shown: Sequence[Any]) -> Iterator[tuple[str, Sequence[Any]]]:
    """The records that the calls of a turn returned, in the order of the calls; see `tools.model.RecordGroup`."""
    for parts in shown:
        for part in parts or ():
            if isinstance(part, Mapping) and part.get("records"):
                yield str(part.get("kind") or ""), part["records"]
