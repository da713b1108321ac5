"""MessageStore: what people have said in conversations, what the guards judged of it, and which turn has used it."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from sqlalchemy import Row, func, select, text

from threadline.conversations.model.conversation import (
    CONVERSATION,
    ConversationSnapshot,
    OutcomeKind,
    Refusal,
    conversation_workflow_id,
)
from threadline.conversations.store.conversation import (
    DISCARD_STALE_STOPS,
    NEEDS_ANSWER,
    Conversation,
    ConversationStore,
    thread_key,
)
from threadline.conversations.store.transcript import DELETED, TranscriptStore
from threadline.conversations.store.turns import TurnStore
from threadline.conversations.tables import conversation_messages
from threadline.db.engine import Store, Transaction
from threadline.db.values import storable
from threadline.decisions.store import DecisionStore
from threadline.handovers.store import HandoverStore
from threadline.operator.store import MemoryStore
from threadline.slack.model import FileRef, Thread
from threadline.slack.text import mentions_in, with_forwarded
from threadline.threads.message_table import MessageTable, StoredMessage, distinct, seconds
from threadline.threads.model import REACTIONS, IncomingMessage, MessageKind, ThreadOwner, turn_id
from threadline.threads.store import Quarantine, ThreadStore

MESSAGES = MessageTable(conversation_messages, "conversation_id")
_BEFORE_FIRST = Decimal(900)
"""Seconds before the first message from which on what was said in the thread is compared with Slack."""
_SAME_WITHIN = 120
"""Seconds within which the same words of the same person are a duplicate."""
_OK, _ANSWER = "ok", "answer"
_QUESTIONS = (OutcomeKind.ASKED, OutcomeKind.CLARIFIED)

_SET_RATING = text("""
INSERT INTO ratings AS t (conversation_id, message_ts, user_id, reaction, active, at)
VALUES (:id, :message_ts, :user_id, :reaction, :active, :at)
ON CONFLICT (conversation_id, message_ts, user_id, reaction) DO UPDATE SET active = excluded.active, at = excluded.at
WHERE t.at < excluded.at
""")
_BATCH = f"""
SELECT m.message_id, m.channel AS said_in, m.slack_ts, m.sender_id, m.said_at, m.seq, m.verdict,
       m.message_type = 'message' AND NOT m.addressed
       AND (m.message_text ~ '<@[UW][A-Z0-9_]+[|>]' OR CAST(:several AS boolean)) AS not_addressed,
       m.turn IS NULL AND m.verdict IS NULL AND {NEEDS_ANSWER} AS unjudged,
       EXISTS (SELECT FROM handovers h
               WHERE h.conversation_id = :id AND h.closed_at IS NULL AND h.taken_by <> '') AS with_person
FROM conversation_messages m
WHERE m.conversation_id = :id
  AND (m.message_id = ANY(:ids) OR m.turn IS NULL AND m.verdict IS NULL AND {NEEDS_ANSWER})
"""  # noqa: S608 - both parts are written here
_JUDGE = text(f"""
UPDATE conversation_messages m SET verdict = j.verdict, wants_turn = j.verdict IN ('ok', 'answer') AND {NEEDS_ANSWER}
FROM unnest(CAST(:ids AS text[]), CAST(:verdicts AS text[])) AS j (message_id, verdict)
WHERE m.conversation_id = :id AND m.message_id = j.message_id AND m.verdict IS NULL
""")  # noqa: S608 - both parts are written here
_DUPLICATES = text("""
SELECT m.message_id, array_agg(o.message_id) AS said_before
FROM conversation_messages m
JOIN conversation_messages o ON o.conversation_id = m.conversation_id
  AND o.seq < m.seq AND abs(o.said_at - m.said_at) < :seconds
  AND o.message_type = 'message' AND o.redacted_at IS NULL AND o.sender_id = m.sender_id
  AND o.message_text = m.message_text AND o.forwarded = m.forwarded AND o.files = m.files
  AND (o.addressed OR NOT m.addressed)
  AND coalesce(o.verdict, '') NOT IN ('duplicate', 'throttled', 'throttled_first', 'answer')
  AND NOT EXISTS (
      SELECT FROM handovers h WHERE h.conversation_id = m.conversation_id AND h.taken_at <= o.created_at
      AND (h.closed_at IS NULL OR o.created_at < h.closed_at))
WHERE m.conversation_id = :id AND m.message_id = ANY(:ids)
GROUP BY m.message_id, m.seq
ORDER BY m.seq
""")
"""What was only said to others, or to a person who had taken the thread over, is not the same as a call of the bot.
Who was throttled was told to send it again, and an answer to a question may be the same twice. A duplicate begins no
time of its own: the same words are answered again two minutes after those that were answered."""
_DELETED = text("""
SELECT message_id, turn FROM conversation_messages
WHERE conversation_id = :id AND redacted_at IS NOT NULL
  AND (message_id = ANY(:originals) OR message_type = 'edit' AND correction_of = ANY(:originals))
""")
_REWORDED = text("""
SELECT DISTINCT turn FROM conversation_messages
WHERE conversation_id = :id AND message_id = ANY(:originals) AND turn IS NOT NULL
  AND EXISTS (SELECT FROM handovers h WHERE h.conversation_id = :id)
ORDER BY turn
""")
_NEED_NO_TURN = text("""
UPDATE conversation_messages SET wants_turn = false
WHERE conversation_id = :id AND wants_turn AND turn IS NULL AND redacted_at IS NOT NULL
""")
"""Of what was deleted before a turn took it up there is nothing to answer."""
_TAKE_UP = """
taken AS (
    UPDATE conversation_messages SET turn = :turn, step = :step
    WHERE conversation_id = :id AND wants_turn AND turn IS NULL
      AND (CAST(:until AS bigint) IS NULL OR (said_at, seq) < (
          SELECT u.said_at, u.seq FROM conversation_messages u WHERE u.conversation_id = :id AND u.seq = :until))
    RETURNING message_id
), edits AS (
    UPDATE conversation_messages e SET turn = :turn, step = :step
    FROM conversation_messages o
    WHERE e.conversation_id = :id AND e.message_type = 'edit' AND e.turn IS NULL
      AND o.conversation_id = e.conversation_id AND o.message_id = e.correction_of
      AND (o.turn IS NOT NULL OR o.message_id IN (SELECT message_id FROM taken))
)
"""
"""What is open stays open until the turn is settled, so a snapshot of the same statement tells it."""
_AS_IT_READS = "m.message_id, m.sender_id, m.message_text, m.forwarded, m.files, m.said_at, m.redacted_at, m.addressed"
_TAKEN_UP = f"""
SELECT {_AS_IT_READS}, '' AS edit_of, m.seq, m.step
FROM conversation_messages m
WHERE m.conversation_id = :id AND m.turn = :turn AND m.message_type = 'message'
UNION ALL
SELECT e.message_id, o.sender_id, o.message_text, o.forwarded, o.files, o.said_at, o.redacted_at, o.addressed,
       o.message_id, e.seq, e.step
FROM conversation_messages e JOIN conversation_messages o
     ON o.conversation_id = e.conversation_id AND o.message_id = e.correction_of
WHERE e.conversation_id = :id AND e.turn = :turn AND e.message_type = 'edit'
  AND (o.turn, o.step) < (e.turn, e.step) AND o.redacted_at IS NULL
  AND NOT EXISTS (SELECT FROM conversation_messages later
                  WHERE later.conversation_id = e.conversation_id AND later.message_type = 'edit'
                    AND later.correction_of = e.correction_of AND later.version > e.version)
"""  # noqa: S608 - both parts are written here
"""An edit is shown when its original was shown before; else the original has its wording."""
_IS_UNREAD = """
NOT EXISTS (SELECT FROM transcript_entries r WHERE r.conversation_id = :id AND r.key = 'u:' || t.message_id)
"""
_TAKEN = f"""
SELECT * FROM ({_TAKEN_UP}) t WHERE t.step = :step OR t.step < :step AND {_IS_UNREAD} ORDER BY said_at, seq
"""  # noqa: S608 - as above
"""An earlier step may have been lost before it read anything."""
_UNREAD = text(f"SELECT * FROM ({_TAKEN_UP}) t WHERE {_IS_UNREAD} ORDER BY said_at, seq")  # noqa: S608 - as above
_NEW = f"""
SELECT {_AS_IT_READS}, '' AS edit_of, m.seq, m.wants_turn AND m.turn IS NULL AS waits FROM conversation_messages m
WHERE m.conversation_id = :id AND (
    m.turn IS NULL AND (m.wants_turn OR m.message_type = 'edit')
    OR m.turn = :turn AND m.message_type IN ('message', 'edit') AND NOT EXISTS (
        SELECT FROM transcript_entries r WHERE r.conversation_id = :id AND r.key = 'u:' || m.message_id))
"""  # noqa: S608 - as above
"""What a later step of a turn may have to read; it is empty where nothing has come."""
_BESIDE = "LEFT JOIN ({}) beside ON true ORDER BY beside.said_at, beside.seq"
_OPEN_MESSAGES = text(f"""
SELECT DISTINCT m.sender_id, m.addressed FROM conversation_messages m
WHERE m.conversation_id = :id AND m.message_type = 'message' AND m.redacted_at IS NULL
  AND (m.turn > :turn OR m.turn IS NULL AND (m.wants_turn OR m.verdict IS NULL AND {NEEDS_ANSWER}))
""")  # noqa: S608 - both parts are written here
"""What the turn under way, or the next one, answers."""
_ASKERS = text("""
SELECT * FROM (
    SELECT DISTINCT ON (m.sender_id) m.sender_id, m.message_id, m.addressed, m.said_at, m.seq
    FROM conversation_messages m
    WHERE m.conversation_id = (SELECT c.id FROM conversations c
                               WHERE c.team = :team AND c.channel = :channel AND c.thread_ts = :thread_ts)
      AND m.turn = :turn AND m.step <= :step AND m.message_type = 'message'
    ORDER BY m.sender_id, m.addressed DESC, m.said_at DESC, m.seq DESC
) newest ORDER BY addressed, said_at, seq
""")
"""Who speaks to the bot comes after who only speaks."""


@dataclass(frozen=True)
class BatchMessage:
    """A message of a batch, or one that waits for the guards. `said_at`: seconds since 1970.

    `verdict` is None until it is judged, and where it never is; `unjudged`: the guards are to judge it.
    `not_addressed`: people have said it to each other: nobody spoke to the bot, and several people write, or somebody
    else was called.
    """

    message_id: str
    channel: str
    ts: str
    user_id: str
    said_at: float
    verdict: str | None
    not_addressed: bool
    unjudged: bool


@dataclass(frozen=True)
class ConversationBatch:
    """What became of a batch. `exists`: the thread has a conversation; else all of it is dropped.

    `messages`: those of the batch, and all that want an answer and were not judged yet, also of earlier batches, in the
    order in which they were said: until it is judged, a message starts no turn. `quarantined`: ids of what is in
    quarantine since. `question_open`: the bot has asked and nobody has answered. `with_person`: somebody has taken the
    thread over. `stops_as_messages`: ids of words to stop that stop nothing: they are messages
    to that person, or remarks among people. `turns_to_show_again`: turns of what was
    edited or deleted, in a thread that a person has or had. `snapshot`: before anything of it is judged.
    """

    exists: bool
    messages: tuple[BatchMessage, ...] = ()
    quarantined: tuple[str, ...] = ()
    question_open: bool = False
    with_person: bool = False
    stops_as_messages: tuple[str, ...] = ()
    turns_to_show_again: tuple[int, ...] = ()
    snapshot: ConversationSnapshot = field(default_factory=ConversationSnapshot)

    @property
    def unjudged(self) -> tuple[BatchMessage, ...]:
        return tuple(each for each in self.messages if each.unjudged)


@dataclass(frozen=True)
class TurnMessage:
    """A message for the model, as it reads now. Rules read `text`, what its author wrote; `shown` has what they forward
    as well. `said_at`: seconds since 1970.

    `edit_of` is empty, or the id of a message that the model has read before and whose new wording this is.
    """

    message_id: str
    author_id: str
    text: str
    files: tuple[FileRef, ...] = ()
    said_at: float = 0.0
    edit_of: str = ""
    addressed: bool = False
    forwarded: str = ""

    @property
    def shown(self) -> str:
        return with_forwarded(self.text, self.forwarded)


@dataclass(frozen=True)
class Asker:
    """Somebody who wrote in a turn, and the last message of theirs in it: to the bot, if any was."""

    user_id: str
    message_id: str


class MessageStore(Store):
    """What changes messages holds their conversation's row until the transaction ends; all of it is safe to repeat.

    Where nothing is stored in a thread, `store`, `find`, `askers`, `first_said_at` and `deletion_count` say so, and
    everything else raises `ConversationNotFound`.
    """

    def __init__(self, tx: Transaction) -> None:
        super().__init__(tx)
        self._conversations = ConversationStore(tx)

    # -- a batch arrives ---------------------------------------------------------------------------------------------

    async def store(self, thread: Thread, batch: Sequence[IncomingMessage]) -> ConversationBatch:
        """Store what arrived; the first message that is addressed to the bot opens the conversation. `batch`: in any
        order, without secrets; an id may occur twice, or be stored already. Empty when a run begins: it asks what was
        stored and not judged."""
        messages = distinct([each for each in batch if each.kind not in REACTIONS])
        row = await self._open(thread, messages)
        if row is None:
            unreadable = [(each, "") for each in messages if each.kind == MessageKind.QUARANTINED]
            return ConversationBatch(False, quarantined=tuple(await Quarantine(self._tx).keep(thread, unreadable)))
        batched: dict[str, object] = {"ids": [], "several": row.has_several_people}
        if not batch:
            given = {"id": row.id, **batched}
            beside = _BESIDE.format(_BATCH)
            return _batch(row, *await self._conversations.snapshot_and_read(thread, given, beside=beside))
        await self._set_ratings(row.id, [each for each in batch if each.kind in REACTIONS])
        to_person = await self._stops_to_forward(thread, row, messages)
        stops_as_messages = (*to_person, *await self._stops_said_to_others(row, messages))
        messages = [
            replace(each, kind=MessageKind.MESSAGE) if each.id in stops_as_messages else each for each in messages
        ]
        with_answers = await self._with_answers_addressed(thread, messages)
        stored = await MESSAGES.store(self._tx, thread, row.id, row.stored, with_answers, _columns)
        if stored.corrected:
            await self._delete_content(thread, row.id, stored.corrected)
        deletions = sum(each.kind == MessageKind.DELETION for each in stored.new)
        if deletions:  # of what was never stored, too
            await self.delete_thread_reads(thread)
            await TurnStore(self._tx).delete_content(row.id)  # the context tells of messages that were never stored
        if not row.stored and stored.new:
            await self._register(thread, stored.new)
        stoppers = [each.sender_id for each in stored.new if each.kind == MessageKind.STOP]
        await self._conversations.clear_question(row.id, stoppers)
        people = _people(row, stored.new)
        stored_now, deleted_now = row.stored + len(stored.new), row.deletions + deletions
        changed = {"stored": stored_now, "deletions": deleted_now, **people}
        batched["ids"] = [each.id for each in messages if storable(each.id) == each.id]  # the others are in quarantine
        batched["several"] = people["has_several_people"]
        now = await self._conversations.update_and_read(
            thread, changed, {"turn": row.turn, **batched}, also=DISCARD_STALE_STOPS, beside=_BESIDE.format(_BATCH)
        )
        found = _batch(row, *now)
        turns_to_show_again = await self._reworded(row.id, messages)
        return replace(
            found,
            quarantined=tuple(stored.quarantined),
            stops_as_messages=stops_as_messages,
            turns_to_show_again=turns_to_show_again,
        )

    async def find_duplicates(self, thread: Thread, ids: Collection[str]) -> frozenset[str]:
        """Which of these messages say again what their author had said in the thread less than two minutes before, in
        a message that was neither deleted since nor a duplicate itself."""
        row = await self._conversations.lock(thread)
        which = {"id": row.id, "ids": list(ids), "seconds": _SAME_WITHIN}
        duplicates = set[str]()
        for each in await self._tx.execute(_DUPLICATES, which):  # in order: of these messages none has a verdict yet
            if not duplicates.issuperset(each.said_before):
                duplicates.add(each.message_id)
        return frozenset(duplicates)

    async def judge(
        self, thread: Thread, verdicts: Mapping[str, Refusal | None], *, answers: bool = False
    ) -> ConversationSnapshot:
        """Write down what the guards said of messages, by id; None lets one pass. The first verdict stands. `answers`:
        a question was open, so those that pass answer it. Returns what is known of the thread then."""
        row = await self._conversations.lock(thread)
        words = [why.value if why else _ANSWER if answers else _OK for why in verdicts.values()]
        await self._tx.execute(_JUDGE, {"id": row.id, "ids": list(verdicts), "verdicts": words})
        return await self._conversations.touch(thread, {"id": row.id, "turn": row.turn}, also=DISCARD_STALE_STOPS)

    # -- a turn reads what was said ----------------------------------------------------------------------------------

    async def take_up(
        self, thread: Thread, turn: int, step: int, stays: Callable[[TurnMessage], bool] | None = None
    ) -> tuple[list[TurnMessage], ConversationSnapshot]:
        """What a call of the model is to read first, in the order in which it was said, and what is known of the thread
        then. It includes what a lost step of the turn was to read. Only the first try of a step takes up what is unused
        by then: a reply that an earlier try comes to in the end would else answer for messages that it has not seen.
        `stays`: whether a message waits for the next turn; what was said after it waits with it."""
        row = await self._conversations.lock(thread)
        which = {"id": row.id, "turn": turn, "step": step, "until": None}
        if turn <= row.turn or (turn, step) <= (row.reading_turn, row.reading_step):
            snapshot, found = await self._conversations.snapshot_and_read(thread, which, beside=_BESIDE.format(_TAKEN))
            return [_taken(each) for each in found if each.message_id], snapshot
        reading = {"reading_turn": turn, "reading_step": step}
        if step > 1:
            snapshot, found = await self._conversations.update_and_read(
                thread, reading, which, beside=_BESIDE.format(_NEW)
            )
            new = [each for each in found if each.message_id]
            if not new:
                return [], snapshot
            if stays:
                which["until"] = next((each.seq for each in new if each.waits and stays(_taken(each))), None)
            await self._tx.execute(text(f"WITH {_TAKE_UP} SELECT 1"), which)
        else:
            snapshot, _ = await self._conversations.update_and_read(thread, reading, which, also=_TAKE_UP)
        return [_taken(each) for each in await self._tx.execute(text(_TAKEN), which)], snapshot

    async def unread(self, thread: Thread, turn: int) -> list[TurnMessage]:
        """What a turn has taken up and its transcript does not hold: it was stopped, or lost, before it could."""
        row = await self._conversations.lock(thread)
        return [_taken(each) for each in await self._tx.execute(_UNREAD, {"id": row.id, "turn": turn})]

    async def askers(self, thread: Thread, turn: int, step: int) -> list[Asker]:
        """Who wrote what a turn has taken up until a step, each once, whoever last spoke to the bot at the end.

        It locks nothing: a tool may run in the same transaction, for which the thread's messages are not to wait.
        """
        found = await self._tx.execute(_ASKERS, thread_key(thread) | {"turn": turn, "step": step})
        return [Asker(each.sender_id, each.message_id) for each in found]

    # -- deletions ---------------------------------------------------------------------------------------------------

    async def restore(self, conversation_id: int, original: str) -> None:
        """Bring back a message whose deletion was inferred, in the transcript as well. The operator's memories of its
        turn, and the decisions' texts, are gone."""
        row = await self._conversations.lock(await self._conversations.thread_of(conversation_id))
        await TranscriptStore(self._tx).restore(row.id, original)
        await MESSAGES.restore(self._tx, row.id, original)

    async def deletion_count(self, thread: Thread) -> int:
        """How often something was deleted in a thread, as far as is known; -1 once the conversation is pruned.

        The conversation's row is held, so that it stays so until the transaction ends.
        """
        row = await self._conversations.lock_if_exists(thread)
        if row is None:
            return 0
        return int(row.deletions) if row.stored else -1

    async def delete_thread_reads(self, thread: Thread) -> None:
        """What a tool has read of the thread goes, and what is remembered of it: something was deleted meanwhile."""
        turns = await TranscriptStore(self._tx).remove_thread_reads(thread)
        await MemoryStore(self._tx).forget_user_content(thread.team, [turn_id(thread, turn) for turn in turns])

    # -- what others ask ---------------------------------------------------------------------------------------------

    async def find(self, thread: Thread, ids: Collection[str]) -> dict[str, StoredMessage]:
        """Which of these messages are stored of a conversation, by id, with whatever corrects them."""
        conversation_id = await self._conversations.find_id(thread)
        return await MESSAGES.find(self._tx, conversation_id, ids) if conversation_id else {}

    async def first_said_at(self, thread: Thread) -> Decimal | None:
        """When the first message was said that is stored of a conversation; None without one."""
        said = conversation_messages.c
        conversation_id = await self._conversations.find_id(thread)
        first = select(func.min(said.said_at)).where(
            said.conversation_id == conversation_id, said.message_type == MessageKind.MESSAGE
        )
        at: Decimal | None = (await self._tx.execute(first)).scalar_one()
        return at

    # ----------------------------------------------------------------------------------------------------------------

    async def _open(self, thread: Thread, messages: Sequence[IncomingMessage]) -> Conversation | None:
        """The locked row; None when nobody has spoken to the bot, or all is pruned, and nothing here speaks to it."""
        row = await self._conversations.lock_if_exists(thread)
        if row is not None and row.stored:
            return row
        if any(each.addressed and each.kind == MessageKind.MESSAGE for each in messages):
            return row or await self._conversations.lock_or_create(thread)
        return None

    async def _set_ratings(self, conversation_id: int, reactions: Sequence[IncomingMessage]) -> None:
        """The last word on each counts, in whatever order they arrive and however often.

        Each tone of skin is a reaction of its own to Slack, which one may take away and leave the other.
        """
        rows = [
            {
                "id": conversation_id,
                "message_ts": each.correction_of.rpartition(":")[2],
                "user_id": each.sender_id,
                "reaction": each.text,
                "active": each.kind == MessageKind.REACTION_ADDED,
                "at": seconds(each.ts),
            }
            for each in reactions
        ]
        if rows:
            await self._tx.execute(_SET_RATING, rows)

    async def _stops_to_forward(
        self, thread: Thread, row: Conversation, messages: Sequence[IncomingMessage]
    ) -> tuple[str, ...]:
        """Which words to stop are for the person who has taken the thread over: the bot does nothing that it could
        stop. One that meets a turn of the bot's from before that stops it; a reaction has no words to pass on.
        """
        words = tuple(each.id for each in messages if each.kind == MessageKind.STOP and each.text.strip())
        if not words:
            return ()
        handover = await HandoverStore(self._tx).open_for(thread)
        if handover is None or not handover.taken_by:
            return ()
        plan = await TurnStore(self._tx).plan(thread, row.turn + 1)
        return words if plan is None or plan.route.ends else ()

    async def _stops_said_to_others(self, row: Conversation, messages: Sequence[IncomingMessage]) -> tuple[str, ...]:
        """Which words to stop are remarks among people: where several write, a third person has to mention the bot.
        A reaction stops whoever puts it: its sign means nothing else."""
        several = bool(_people(row, messages)["has_several_people"])
        words = [each for each in messages if each.kind == MessageKind.STOP and each.text.strip()]
        unsure = [each for each in words if several and not each.addressed]
        if not unsure:
            return ()
        found = await self._tx.execute(_OPEN_MESSAGES, {"id": row.id, "turn": row.turn})
        open_messages = [(each.sender_id, each.addressed) for each in found]
        open_messages += [(each.sender_id, each.addressed) for each in messages if each.kind == MessageKind.MESSAGE]
        askers = askers_of(open_messages)  # without any there is nothing to stop, and nothing to talk about
        return tuple(each.id for each in unsure if askers and each.sender_id not in askers)

    async def _with_answers_addressed(
        self, thread: Thread, messages: Sequence[IncomingMessage]
    ) -> list[IncomingMessage]:
        """Who was asked something speaks to the bot next, also without calling it; unless they call somebody else."""
        unsure = [each for each in messages if each.kind == MessageKind.MESSAGE and not each.addressed]
        if not unsure or not (asked := await TurnStore(self._tx).open_questions(thread, _QUESTIONS)):
            return list(messages)

        def answers(each: IncomingMessage) -> bool:
            question = asked.get(each.sender_id)
            return question is not None and not mentions_in(each.text) and seconds(each.ts) > question.said_at

        return [replace(each, addressed=True) if each in unsure and answers(each) else each for each in messages]

    async def _register(self, thread: Thread, stored: Sequence[IncomingMessage]) -> None:
        """The thread is the conversation's from now on, and whoever wrote its root is on record."""
        first = min(seconds(each.ts) for each in stored)
        author = next((each.sender_id for each in stored if each.ts == thread.ts), "")
        await ThreadStore(self._tx).register(
            ThreadOwner(conversation_workflow_id(thread), CONVERSATION),
            thread.channel,
            thread.ts,
            author_id=author or next((each.root_author_id for each in stored if each.root_author_id), ""),
            compare_from=first - _BEFORE_FIRST,
            first_message_at=first,
        )

    async def _reworded(self, conversation_id: int, messages: Sequence[IncomingMessage]) -> tuple[int, ...]:
        """By all of the batch: what it holds may be stored already, and the answer that said so lost."""
        originals = [each.correction_of for each in messages if each.kind in (MessageKind.EDIT, MessageKind.DELETION)]
        if not originals:
            return ()
        return tuple((await self._tx.execute(_REWORDED, {"id": conversation_id, "originals": originals})).scalars())

    async def _delete_content(self, thread: Thread, conversation_id: int, corrected: Sequence[str]) -> None:
        """What was deleted is deleted wherever it was taken to: transcript, memories, contexts and decisions."""
        deleted = (await self._tx.execute(_DELETED, {"id": conversation_id, "originals": corrected})).all()
        if deleted:
            await self._tx.execute(_NEED_NO_TURN, {"id": conversation_id})
            ids = [each.message_id for each in deleted]
            await TranscriptStore(self._tx).keep_removed(conversation_id, ids)
            await TranscriptStore(self._tx).delete_content(thread, ids)
            turns = {each.turn for each in deleted if each.turn is not None}
            await MemoryStore(self._tx).forget_user_content(
                thread.team, [turn_id(thread, turn) for turn in sorted(turns)]
            )
            await TurnStore(self._tx).delete_content(conversation_id)
            await DecisionStore(self._tx).delete_content(conversation_id)


def askers_of(open_messages: Sequence[tuple[str, bool]]) -> frozenset[str]:
    """Who has asked for what is open: whoever spoke to the bot; where nobody did, whoever wrote.

    Args:
        open_messages: the sender of each, and whether it is addressed to the bot.
    """
    to_bot = {sender for sender, addressed in open_messages if addressed}
    return frozenset(to_bot or {sender for sender, _ in open_messages})


def _batch(conversation: Conversation, snapshot: ConversationSnapshot, rows: Sequence[Row[Any]]) -> ConversationBatch:
    """Of rows beside which `_BATCH` stands."""
    found = [each for each in rows if each.message_id]
    messages = tuple(
        BatchMessage(
            *(each.message_id, each.said_in, each.slack_ts, each.sender_id, float(each.said_at)),
            *(each.verdict, each.not_addressed, each.unjudged),
        )
        for each in found
    )
    with_person = any(each.with_person for each in found)
    asked = bool(conversation.question)
    return ConversationBatch(True, messages, question_open=asked, with_person=with_person, snapshot=snapshot)


def _columns(message: IncomingMessage) -> dict[str, object]:
    return {"addressed": message.addressed}


def _people(row: Conversation, stored: Sequence[IncomingMessage]) -> dict[str, object]:
    """Whose thread it is: whoever wrote the root is one of them, though it was said before anybody spoke to the bot."""
    said = [each for each in stored if each.kind in (MessageKind.MESSAGE, MessageKind.STOP)]
    found = {row.first_author, *(each.sender_id for each in said), *(each.root_author_id for each in said)} - {""}
    return {"first_author": min(found, default=""), "has_several_people": row.has_several_people or len(found) > 1}


def _taken(row: Row[Any]) -> TurnMessage:
    return TurnMessage(
        message_id=row.message_id,
        author_id=row.sender_id,
        text=DELETED if row.redacted_at else row.message_text,
        files=tuple(FileRef(**file) for file in row.files),
        said_at=float(row.said_at),
        edit_of=row.edit_of,
        addressed=row.addressed,
        forwarded=row.forwarded,
    )
