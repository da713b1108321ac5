"""Posts of a conversation in Slack: each answer once, with the records that its tools show."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import structlog

from threadline.conversations.blocks import answer_of, help_message, notice_text
from threadline.conversations.contract import ThreadNotice
from threadline.conversations.deps import ConversationDeps
from threadline.conversations.model.conversation import (
    ConversationSnapshot,
    ConversationTurn,
    NoticeReason,
    OutcomeKind,
)
from threadline.conversations.status import set_status
from threadline.conversations.store.turns import SettledTurn, TurnStore
from threadline.db.engine import Transaction
from threadline.errors import Permanent, Transient
from threadline.slack import formatting
from threadline.slack.formatting import Rendered
from threadline.slack.model import Thread
from threadline.threads.basis import Basis
from threadline.threads.outbox import Post
from threadline.threads.store import PostClaim, PostStore
from threadline.tools.store import ToolExecutionStore

_log = structlog.get_logger(__name__)
_NOT_YET = 5.0
"""Seconds until the next look for an answer that is about to be posted."""


async def post_answer(deps: ConversationDeps, turn: ConversationTurn) -> ConversationSnapshot:
    """See `ConversationActivities.post_answer`. The post removes the status; if Slack refuses the
    post, this function removes it.
    """
    async with deps.database.begin() as tx:
        answer = await read_answer(tx, turn)
        if answer is None:
            raise Permanent("This turn has not ended, so it has no answer to post yet.")
        claim = await deps.outbox.claim(tx, answer.post()) if answer.is_due else None
    try:
        return await publish_answer(deps, answer, claim)
    except Permanent:
        await set_status(deps.slack, turn.thread, "")
        raise


async def post_thread_notice(deps: ConversationDeps, word: ThreadNotice) -> None:
    async def is_open(tx: Transaction) -> bool:
        """Whether the turn is open; an attempt whose result was lost may have answered it."""
        return await TurnStore(tx).settled(word.thread, int(word.about)) is None

    rendered = formatting.notice(notice_text(word.kind, word.until))
    waits = word.kind in (NoticeReason.MODEL_AWAY, NoticeReason.MODEL_SLOW)
    # One key for both: a turn gets one notice about its wait.
    kind = NoticeReason.MODEL_AWAY if waits else word.kind
    key = f"conversation:{word.thread.key}:{kind}:{word.about}"
    valid_if = is_open if waits else None
    await deps.outbox.publish(
        Post(key, word.thread.channel, word.thread.ts, rendered, valid_if=valid_if)
    )


@dataclass(frozen=True)
class TurnAnswer:
    """A settled turn's answer.

    - `shown`: the record groups of its tools;
    - `asked`: the `ts` of each message that it answers;
    - `examples`: the requests on the buttons of a help; None for any other answer.
    """

    turn: ConversationTurn
    settled: SettledTurn
    shown: Sequence[Any]
    asked: tuple[str, ...] = ()
    examples: tuple[str, ...] | None = None

    @property
    def is_due(self) -> bool:
        """Whether it has text, and is not in Slack yet."""
        return bool(self.settled.answer) and self.settled.posted_at is None

    @property
    def key(self) -> str:
        """The key of its post."""
        return f"conversation:{self.turn.thread.key}:turn:{self.turn.turn}"

    def render(self) -> tuple[Rendered, ...]:
        """Return one part for each message; none for an empty answer. Records are in the order of
        the calls.
        """
        if not self.settled.answer:
            return ()
        if self.examples is not None:
            return (help_message(self.settled.answer, self.examples),)
        parts = [part for shown in self.shown for part in shown or () if isinstance(part, Mapping)]
        structured = [
            (str(part.get("kind") or ""), part["records"]) for part in parts if part.get("records")
        ]
        return answer_of(self.settled.answer, structured, self.settled.wants_detail)

    def post(self, parts: tuple[Rendered, ...] = ()) -> Post:
        thread = self.turn.thread
        needs_turn = self.examples is None and has_buttons(parts)
        basis = None if needs_turn else Basis("answer", thread.key, self.asked, self.asked)
        return Post(
            self.key, thread.channel, thread.ts, parts, correlation_id=self.turn.key, basis=basis
        )


def has_buttons(parts: Sequence[Rendered]) -> bool:
    """Whether a part has buttons. Except for those of a help, they do nothing if a restored
    database does not know their turn.
    """
    return any(block.get("type") == "actions" for part in parts for block in part.blocks)


async def read_answer(tx: Transaction, turn: ConversationTurn) -> TurnAnswer | None:
    """Return the answer of a turn; None if the turn is not settled."""
    settled = await TurnStore(tx).settled(turn.thread, turn.turn)
    if settled is None:
        return None
    if not settled.answer:
        return TurnAnswer(turn, settled, ())
    shown = await ToolExecutionStore(tx).record_groups(turn.thread, turn.turn)
    asked = await TurnStore(tx).asked(turn.thread, turn.turn)
    return TurnAnswer(turn, settled, shown, asked, await _examples(tx, turn, settled))


async def _examples(
    tx: Transaction, turn: ConversationTurn, settled: SettledTurn
) -> tuple[str, ...] | None:
    """Return the examples of a turn that gave a help; None for any other turn."""
    if settled.kind is not OutcomeKind.REPLIED_BY_RULE:
        return None
    plan = await TurnStore(tx).plan(turn.thread, turn.turn)
    return plan.route.examples if plan and plan.route.is_help else None


async def publish_answer(
    deps: ConversationDeps, answer: TurnAnswer, claim: PostClaim | None = None
) -> ConversationSnapshot:
    """Post an answer once, and store that it is posted.

    Args:
        claim: Result of `Outbox.claim` in a transaction right before this call.

    Raises:
        Permanent: Slack refuses it.
        Transient: Slack may take it later.
    """
    thread = answer.turn.thread
    noted = list[ConversationSnapshot]()

    async def note(tx: Transaction, _: str = "") -> None:
        noted.append(await TurnStore(tx).mark_posted(thread, answer.turn.turn))

    if parts := answer.render() if answer.is_due else ():
        # `on_posted` runs after the first part, so with several parts the others could be lost.
        on_posted = note if len(parts) == 1 else None
        await deps.outbox.publish(replace(answer.post(parts), claim=claim, on_posted=on_posted))
        _log.info("message_posted", slack_thread=thread.key, key=answer.key)
    if not noted:
        async with deps.database.begin() as tx:
            await note(tx)
    return noted[0]


async def find_answer_part(
    tx: Transaction, thread: Thread, turn: int, is_wanted: Callable[[Rendered], bool]
) -> tuple[str, Rendered] | None:
    """Find the message of a turn's answer that `is_wanted` accepts.

    Returns:
        Its `ts` and its content as posted; None if the answer has no such message.

    Raises:
        Transient: It is not in Slack yet, or the turn has not ended.
    """
    answer = await read_answer(tx, ConversationTurn(thread, turn))
    if answer is None:
        raise Transient("The turn that proposed this has not ended yet.", retry_after=_NOT_YET)
    for number, part in enumerate(answer.render()):
        if is_wanted(part):
            posted = await PostStore(tx).part_timestamps(answer.key)
            if len(posted) <= number:
                raise Transient(
                    "The message with the buttons is not in Slack yet.", retry_after=_NOT_YET
                )
            return posted[number], part
    return None
