"""Storing a batch of a conversation: what opens it, what the guards have to judge, and what is deleted for good."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from sqlalchemy import select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from threadline.conversations import conversation_row
from threadline.conversations import open_questions as pending_requests
from threadline.conversations import thread_reads as threads_read
from threadline.conversations import transcript_store as transcripts
from threadline.conversations.contract import Refusal, RefusedMessage
from threadline.conversations.conversation_row import WANTS, Conversation
from threadline.conversations.model.conversation import (
    CONVERSATION,
    ConversationMarks,
    OutcomeKind,
    conversation_workflow_id,
)
from threadline.conversations.ratings import Thumbs
from threadline.conversations.tables import conversation_messages, conversations
from threadline.conversations.turn_plans import TurnPlans
from threadline.decisions.store import DecisionStore
from threadline.handovers.store import HandoverStore
from threadline.operator.store import MemoryStore
from threadline.slack.model import Thread
from threadline.threads.message_table import MessageTable, distinct, seconds
from threadline.threads.model import REACTIONS, IncomingMessage, MessageKind, ThreadOwner, turn_id
from threadline.threads.store import Quarantine, ThreadStore

MESSAGES = MessageTable(conversation_messages, "conversation_id")
_BEFORE_FIRST = Decimal(900)
"""Seconds before the first message from which on what was said in the thread is compared with Slack."""
_SAME_WITHIN = 120
"""Seconds within which the same words of the same person are a duplicate."""
_OK, _ANSWER = "ok", "answer"
_QUESTIONS = (OutcomeKind.ASKED, OutcomeKind.CLARIFIED)

_UNJUDGED = text(f"""
SELECT message_id, channel, slack_ts, sender_id, message_text, said_at FROM conversation_messages m
WHERE m.conversation_id = :id AND m.turn IS NULL AND m.verdict IS NULL AND {WANTS} ORDER BY m.said_at, m.seq
""")  # noqa: S608 - both parts are written here
_JUDGE = text(f"""
UPDATE conversation_messages m SET verdict = j.verdict, wants_turn = j.verdict IN ('ok', 'answer') AND {WANTS}
FROM unnest(CAST(:ids AS text[]), CAST(:verdicts AS text[])) AS j (message_id, verdict)
WHERE m.conversation_id = :id AND m.message_id = j.message_id AND m.verdict IS NULL
""")  # noqa: S608 - as above
_OVERHEARD = text("""
SELECT m.message_id FROM conversation_messages m JOIN conversations c ON c.id = m.conversation_id
WHERE m.conversation_id = :id AND m.message_id = ANY(:ids) AND m.message_type = 'message' AND NOT m.addressed
  AND (position('<@' IN m.message_text) > 0 OR c.several)
""")
_DUPLICATES = text("""
SELECT m.message_id FROM conversation_messages m
WHERE m.conversation_id = :id AND m.message_id = ANY(:ids) AND EXISTS (
    SELECT FROM conversation_messages o
    WHERE o.conversation_id = m.conversation_id AND o.seq < m.seq AND abs(o.said_at - m.said_at) < :seconds
      AND o.message_type = 'message' AND o.redacted_at IS NULL AND o.sender_id = m.sender_id
      AND o.message_text = m.message_text AND o.files = m.files AND (o.addressed OR NOT m.addressed)
      AND coalesce(o.verdict, '') NOT IN ('throttled', 'throttled_first', 'answer')
      AND NOT EXISTS (
          SELECT FROM handovers h WHERE h.conversation_id = m.conversation_id AND h.taken_at <= o.created_at
          AND (h.closed_at IS NULL OR o.created_at < h.closed_at)))
""")
"""What was only said to others, or to a person who had taken the thread over, is not the same as a call of the bot.
Who was throttled was told to send it again, and an answer to a question may be the same twice."""
_DELETED = text("""
SELECT message_id FROM conversation_messages
WHERE conversation_id = :id AND redacted_at IS NOT NULL
  AND (message_id = ANY(:originals) OR message_type = 'edit' AND correction_of = ANY(:originals))
""")
_TURNS = text("""
SELECT DISTINCT turn FROM conversation_messages
WHERE conversation_id = :id AND message_id = ANY(:deleted) AND turn IS NOT NULL
""")
_REWORDED = text("""
SELECT DISTINCT turn FROM conversation_messages
WHERE conversation_id = :id AND message_id = ANY(:originals) AND turn IS NOT NULL
  AND EXISTS (SELECT FROM handovers h WHERE h.conversation_id = :id)
ORDER BY turn
""")
_WAKE_NOBODY = text("""
UPDATE conversation_messages SET wants_turn = false
WHERE conversation_id = :id AND wants_turn AND turn IS NULL AND redacted_at IS NOT NULL
""")
"""Of what was deleted before a turn took it up there is nothing to answer."""


@dataclass(frozen=True)
class Unjudged:
    """A message that the guards have not judged yet. `text`: as it reads now; `said_at`: seconds since 1970."""

    message_id: str
    channel: str
    ts: str
    user_id: str
    text: str
    said_at: float


@dataclass(frozen=True)
class ConversationBatch:
    """`quarantined`: ids of what is in quarantine since. `question_open`: the bot has asked and nobody has answered.

    `with_person`: somebody has taken the thread over. `passed_on`: ids of words to stop that are messages for them.
    `reworded`: turns of what was edited or deleted, in a thread that a person has or had.
    """

    marks: ConversationMarks
    quarantined: tuple[str, ...] = ()
    unjudged: tuple[Unjudged, ...] = ()
    question_open: bool = False
    with_person: bool = False
    passed_on: tuple[str, ...] = ()
    reworded: tuple[int, ...] = ()


async def store(connection: AsyncConnection, thread: Thread, batch: Sequence[IncomingMessage]) -> ConversationBatch:
    """See `ConversationStore.store`."""
    thumbs = [message for message in batch if message.kind in REACTIONS]
    each_once = distinct([message for message in batch if message not in thumbs])
    row = await _opened(connection, thread, each_once)
    if row is None:
        unreadable = [(each, "") for each in each_once if each.kind == MessageKind.QUARANTINED]
        return ConversationBatch(ConversationMarks(), tuple(await Quarantine(connection).keep(thread, unreadable)))
    if not batch:  # a run begins: it asks what is known, and what was stored and not judged
        marks, unjudged = await conversation_row.marks(connection, thread), await _unjudged(connection, row.id)
        with_person = await _with_person(connection, thread)
        return ConversationBatch(marks, (), unjudged, bool(row.question), with_person)
    await Thumbs(connection).note(row.id, thumbs)
    with_person = await _with_person(connection, thread)
    passed_on = await _to_a_person(connection, thread, row, each_once) if with_person else ()
    each_once = [replace(each, kind=MessageKind.MESSAGE) if each.id in passed_on else each for each in each_once]
    answering = await _answering(connection, row.id, each_once)
    batch_stored = await MESSAGES.store(connection, thread, row.id, row.stored, answering, _columns)
    stored = batch_stored.new
    if batch_stored.corrected:
        await _forget_words(connection, thread, row.id, batch_stored.corrected)
    if any(message.kind == MessageKind.DELETION for message in stored):  # of what was never stored, too
        await MemoryStore(connection).forget_user_content(
            thread.team, await threads_read.forget(connection, thread, row.id)
        )
        await TurnPlans(connection).forget_told(row.id)  # the context tells of messages that were never stored
    if not row.stored and stored:
        await _register(connection, thread, stored)
    await conversation_row.use_stops(connection, row.id)
    await conversation_row.drop_question(
        connection, row.id, [m.sender_id for m in stored if m.kind == MessageKind.STOP]
    )
    await conversation_row.write(connection, row.id, stored=row.stored + len(stored), **_people(row, stored))
    return ConversationBatch(
        await conversation_row.marks(connection, thread),
        tuple(batch_stored.quarantined),
        await _unjudged(connection, row.id),
        bool(row.question),
        with_person,
        passed_on,
        await _reworded(connection, row.id, each_once),
    )


async def duplicates(connection: AsyncConnection, thread: Thread, ids: Collection[str]) -> frozenset[str]:
    """See `ConversationStore.duplicates`."""
    row = await conversation_row.locked(connection, thread)
    which = {"id": row.id, "ids": list(ids), "seconds": _SAME_WITHIN}
    return frozenset((await connection.execute(_DUPLICATES, which)).scalars())


async def judge(
    connection: AsyncConnection, thread: Thread, verdicts: Mapping[str, Refusal | None], *, answers: bool
) -> ConversationMarks:
    """See `ConversationStore.judged`."""
    row = await conversation_row.locked(connection, thread)
    words = [why.value if why else _ANSWER if answers else _OK for why in verdicts.values()]
    await connection.execute(_JUDGE, {"id": row.id, "ids": list(verdicts), "verdicts": words})
    await conversation_row.use_stops(connection, row.id)
    await conversation_row.write(connection, row.id)
    return await conversation_row.marks(connection, thread)


async def refused(connection: AsyncConnection, thread: Thread, ids: Collection[str]) -> tuple[RefusedMessage, ...]:
    """See `ConversationStore.refused`."""
    row = conversation_messages.c
    query = select(row.channel, row.slack_ts, row.sender_id, row.verdict).join(conversations)
    asked = query.where(
        conversation_row.here(thread), row.message_id.in_(list(ids)), row.verdict.not_in((_OK, _ANSWER))
    )
    rows = await connection.execute(asked.order_by(row.said_at, row.seq))
    return tuple(RefusedMessage(each.channel, each.slack_ts, each.sender_id, Refusal(each.verdict)) for each in rows)


async def overheard(connection: AsyncConnection, thread: Thread, ids: Collection[str]) -> frozenset[str]:
    """See `ConversationStore.overheard`."""
    row = await conversation_row.locked(connection, thread)
    return frozenset((await connection.execute(_OVERHEARD, {"id": row.id, "ids": list(ids)})).scalars())


async def _with_person(connection: AsyncConnection, thread: Thread) -> bool:
    """Whether somebody has taken the thread over."""
    handover = await HandoverStore(connection).open_for(thread)
    return handover is not None and bool(handover.taken_by)


async def _to_a_person(
    connection: AsyncConnection, thread: Thread, row: Conversation, batch: Sequence[IncomingMessage]
) -> tuple[str, ...]:
    """Which words to stop are for the person who has the thread: the bot is at nothing there that it could leave.

    One that meets a turn of the bot's from before that stops it; a reaction has no words to pass on.
    """
    words = tuple(each.id for each in batch if each.kind == MessageKind.STOP and each.text.strip())
    plan = await TurnPlans(connection).of(thread, row.turn + 1) if words else None
    return words if plan is None or plan.route.ends else ()


async def _reworded(
    connection: AsyncConnection, conversation_id: int, batch: Sequence[IncomingMessage]
) -> tuple[int, ...]:
    """By all of the batch: what it holds may be stored already, and the answer that said so lost."""
    originals = [each.correction_of for each in batch if each.kind in (MessageKind.EDIT, MessageKind.DELETION)]
    if not originals:
        return ()
    which = {"id": conversation_id, "originals": originals}
    return tuple((await connection.execute(_REWORDED, which)).scalars())


async def _answering(
    connection: AsyncConnection, conversation_id: int, batch: Sequence[IncomingMessage]
) -> list[IncomingMessage]:
    """Who was asked something speaks to the bot next, also without calling it; unless they call somebody else."""
    unsure = [each for each in batch if each.kind == MessageKind.MESSAGE and not each.addressed]
    if not unsure or not (pending := await pending_requests.pending(connection, conversation_id, _QUESTIONS)):
        return list(batch)

    def answers(each: IncomingMessage) -> bool:
        asked = pending.get(each.sender_id)
        return asked is not None and "<@" not in each.text and seconds(each.ts) > asked.said_at

    return [replace(each, addressed=True) if each in unsure and answers(each) else each for each in batch]


def _columns(message: IncomingMessage) -> dict[str, object]:
    return {"addressed": message.addressed}


def _people(row: Conversation, stored: Sequence[IncomingMessage]) -> dict[str, object]:
    """Whose thread it is: whoever wrote the root is one of them, though it was said before anybody spoke to the bot."""
    said = [each for each in stored if each.kind in (MessageKind.MESSAGE, MessageKind.STOP)]
    found = {row.writer, *(each.sender_id for each in said), *(each.root_author_id for each in said)} - {""}
    return {"writer": min(found, default=""), "several": row.several or len(found) > 1}


async def _unjudged(connection: AsyncConnection, conversation_id: int) -> tuple[Unjudged, ...]:
    rows = await connection.execute(_UNJUDGED, {"id": conversation_id})
    return tuple(
        Unjudged(row.message_id, row.channel, row.slack_ts, row.sender_id, row.message_text, float(row.said_at))
        for row in rows
    )


async def _opened(connection: AsyncConnection, thread: Thread, batch: Sequence[IncomingMessage]) -> Conversation | None:
    """The locked row; None when nobody has spoken to the bot, or all is forgotten, and nothing here speaks to it."""
    row = await conversation_row.lock(connection, thread)
    if row is not None and row.stored:
        return row
    if any(message.addressed and message.kind == MessageKind.MESSAGE for message in batch):
        return await conversation_row.opened(connection, thread)
    return None


async def _register(connection: AsyncConnection, thread: Thread, stored: Sequence[IncomingMessage]) -> None:
    """The thread is the conversation's from now on, and whoever wrote its root is on record."""
    first = min(seconds(each.ts) for each in stored)
    author = next((each.sender_id for each in stored if each.ts == thread.ts), "")
    await ThreadStore(connection).register(
        ThreadOwner(conversation_workflow_id(thread), CONVERSATION),
        thread.channel,
        thread.ts,
        author_id=author or next((each.root_author_id for each in stored if each.root_author_id), ""),
        compare_from=first - _BEFORE_FIRST,
        first_message_at=first,
    )


async def _forget_words(
    connection: AsyncConnection, thread: Thread, conversation_id: int, corrected: Sequence[str]
) -> None:
    which = {"id": conversation_id, "originals": corrected}
    deleted = list((await connection.execute(_DELETED, which)).scalars())
    if deleted:
        await connection.execute(_WAKE_NOBODY, {"id": conversation_id})
        await transcripts.forget_words(connection, conversation_id, deleted)
        used = {"id": conversation_id, "deleted": deleted}
        turns = (await connection.execute(_TURNS, used)).scalars()
        keys = [turn_id(thread, turn) for turn in turns]
        await MemoryStore(connection).forget_user_content(thread.team, keys)
        await TurnPlans(connection).forget_told(conversation_id)
        await DecisionStore(connection).delete_content(conversation_id)
