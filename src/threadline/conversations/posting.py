"""What a conversation says in Slack: each answer once, with what its tools have to show."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import structlog

from threadline.conversations.blocks import answer_of, notice_text
from threadline.conversations.contract import ConversationTurn, ThreadNotice
from threadline.conversations.deps import ConversationDeps
from threadline.conversations.model.conversation import ConversationSnapshot
from threadline.conversations.store.conversation import ConversationStore
from threadline.conversations.store.turns import TurnStore
from threadline.db.engine import Transaction
from threadline.errors import Permanent, Transient
from threadline.slack import formatting
from threadline.slack.formatting import Rendered
from threadline.slack.model import Thread
from threadline.threads.model import turn_id
from threadline.threads.outbox import Outbox, Post
from threadline.threads.store import PostClaim, PostStore
from threadline.tools.store import ToolExecutionStore

_log = structlog.get_logger(__name__)


_NOT_YET = 5.0
"""Seconds until an answer that is about to be posted is looked for again."""


async def post_answer(deps: ConversationDeps, turn: ConversationTurn) -> ConversationSnapshot:
    """See `ConversationActivities.post_answer`."""
    async with deps.database.begin() as tx:
        answer = await read_answer(tx, turn.thread, turn.turn)
    if answer is None:
        raise Permanent("This turn has not ended, so it has no answer to post yet.")
    return await publish_answer(deps, answer)


async def post_thread_notice(deps: ConversationDeps, word: ThreadNotice) -> None:
    """See `ConversationActivities.post_thread_notice`."""
    rendered = formatting.notice(notice_text(word.kind, word.until))
    await deps.outbox.publish(_post(word.thread, f"{word.kind}:{word.about}", rendered))


@dataclass(frozen=True)
class TurnAnswer:
    """A settled turn's answer; `shown` are the record groups of its tools. `posted`: it is in Slack."""

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


Afterwards = Callable[[Transaction], Awaitable[None]]
"""What is written in the transaction that writes down that an answer is posted. Safe to repeat."""


async def publish_answer(
    deps: ConversationDeps,
    answer: TurnAnswer,
    *,
    claim: PostClaim | None = None,
    afterwards: Afterwards | None = None,
) -> ConversationSnapshot:
    """Post an answer, once, and write down that it is posted.

    Args:
        claim: see `claim_answer`.

    Raises:
        Permanent: Slack refuses it.
        Transient: it is to be tried again.
    """
    thread, turn, noted = answer.thread, answer.turn, list[ConversationSnapshot]()

    async def note(tx: Transaction, _: str = "") -> None:
        await ConversationStore(tx).lock(thread)
        if afterwards:
            await afterwards(tx)
        await TurnStore(tx).mark_posted(thread, turn)
        noted.append(await ConversationStore(tx).snapshot(thread))

    parts = answer.render()
    post = _answer_post(answer, parts)
    if parts:  # of several parts the first alone would tell, and the others could be lost
        await deps.outbox.publish(replace(post, claim=claim, on_posted=note if len(parts) == 1 else None))
        _log.info("message_posted", slack_thread=thread.key, key=post.key)
    if not noted:
        async with deps.database.begin() as tx:
            await note(tx)
    return noted[0]


async def claim_answer(tx: Transaction, outbox: Outbox, answer: TurnAnswer) -> PostClaim:
    """Claim the post of an answer that `publish_answer` posts right behind this transaction."""
    return await outbox.claim(tx, _answer_post(answer))


def _answer_post(answer: TurnAnswer, parts: tuple[Rendered, ...] = ()) -> Post:
    return _post(answer.thread, f"turn:{answer.turn}", parts, turn_id(answer.thread, answer.turn))


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
