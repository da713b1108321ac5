"""MessageStore: the messages of conversations, the guards' verdicts on them, and the turns that
used them.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from sqlalchemy import Row, func, select, text

from threadline.conversations.model.conversation import (
    CONVERSATION,
    ConversationSnapshot,
    Refusal,
    conversation_workflow_id,
)
from threadline.conversations.model.listening import DEFAULT_LISTENING, Listening
from threadline.conversations.model.quiet import Quiet
from threadline.conversations.store.conversation import (
    Conversation,
    ConversationStore,
    thread_key,
)
from threadline.conversations.store.files import FileStore, FileText
from threadline.conversations.store.handovers import HandoverStore
from threadline.conversations.store.listening import Attended, ThreadAttention
from threadline.conversations.store.transcript import DELETED, TranscriptStore
from threadline.conversations.store.turns import TurnStore
from threadline.conversations.tables import conversation_messages
from threadline.db.engine import Store, Transaction
from threadline.db.values import storable
from threadline.decisions.store import DecisionStore
from threadline.operator.store import MemoryStore
from threadline.slack.model import FileRef, Thread
from threadline.slack.text import file_piece, with_forwarded
from threadline.threads.message_table import (
    MessageTable,
    StoredBatch,
    StoredMessage,
    distinct,
    seconds,
)
from threadline.threads.model import REACTIONS, IncomingMessage, MessageKind, ThreadOwner, turn_id
from threadline.threads.store import Quarantine, ThreadStore

MESSAGES = MessageTable(conversation_messages, "conversation_id")
_BEFORE_FIRST = Decimal(900)
"""Seconds before the first message from which the thread's messages are compared with Slack's."""
_SAME_WITHIN = 120
"""Seconds within which the same text by the same author is a duplicate."""
_OK = "ok"
_ANSWER = "answer"
_HEARD = "heard"
"""The verdict on a message that is only stored."""

_SET_RATING = text("""
INSERT INTO ratings AS t (conversation_id, message_ts, user_id, reaction, active, at)
VALUES (:id, :message_ts, :user_id, :reaction, :active, :at)
ON CONFLICT (conversation_id, message_ts, user_id, reaction) DO UPDATE
  SET active = excluded.active, at = excluded.at
WHERE t.at < excluded.at
""")
_BATCH = text("""
SELECT m.message_id, m.channel AS said_in, m.slack_ts, m.sender_id, m.said_at, m.seq, m.verdict,
       m.message_type = 'message' AND NOT m.addressed
       AND (m.message_text ~ '<@[UW][A-Z0-9_]+[|>]' OR CAST(:several AS boolean)
            OR m.verdict IS NOT DISTINCT FROM 'heard') AS not_addressed,
       m.turn IS NULL AND m.verdict IS NULL AND m.needs_answer AS unjudged,
       EXISTS (SELECT FROM handovers h
               WHERE h.conversation_id = :id AND h.closed_at IS NULL AND h.taken_by <> '')
         AS with_person
FROM conversation_messages m
WHERE m.conversation_id = :id
  AND (m.message_id = ANY(:ids) OR m.turn IS NULL AND m.verdict IS NULL AND m.needs_answer)
ORDER BY m.said_at, m.seq
""")
_JUDGE = text("""
UPDATE conversation_messages m
SET verdict = j.verdict, wants_turn = j.verdict IN ('ok', 'answer') AND m.needs_answer
FROM unnest(CAST(:ids AS text[]), CAST(:verdicts AS text[])) AS j (message_id, verdict)
WHERE m.conversation_id = :id AND m.message_id = j.message_id AND m.verdict IS NULL
""")
_DUPLICATES = text("""
SELECT m.message_id, array_agg(o.message_id) AS said_before
FROM conversation_messages m
JOIN conversation_messages o ON o.conversation_id = m.conversation_id
  AND o.seq < m.seq AND abs(o.said_at - m.said_at) < :seconds
  AND o.message_type = 'message' AND o.redacted_at IS NULL AND o.sender_id = m.sender_id
  AND o.message_text = m.message_text AND o.forwarded = m.forwarded AND o.files = m.files
  AND (o.addressed OR NOT m.addressed)
  AND coalesce(o.verdict, '')
      NOT IN ('duplicate', 'throttled', 'throttled_first', 'answer', 'heard')
  AND NOT EXISTS (
      SELECT FROM handovers h
      WHERE h.conversation_id = m.conversation_id AND h.taken_at <= o.created_at
        AND (h.closed_at IS NULL OR o.created_at < h.closed_at))
WHERE m.conversation_id = :id AND m.message_id = ANY(:ids)
GROUP BY m.message_id, m.seq
ORDER BY m.seq
""")
"""A repeat addressed to the bot does not count as a duplicate of a message to other users, or to a
person who had taken the thread over. A throttled author was asked to send the message again, and
answers to questions may repeat. A duplicate starts no interval of its own: the same text is
answered again two minutes after the message that was answered.
"""
_DELETED = text("""
SELECT message_id, turn FROM conversation_messages
WHERE conversation_id = :id AND redacted_at IS NOT NULL
  AND (message_id = ANY(:originals) OR message_type = 'edit' AND correction_of = ANY(:originals))
""")
_REOPEN = text("""
UPDATE conversation_messages m
SET addressed = true, verdict = NULL, wants_turn = false, turn = NULL, step = NULL
FROM conversation_messages e
WHERE m.conversation_id = :id AND m.message_id = ANY(:originals)
  AND m.message_type = 'message' AND m.redacted_at IS NULL AND NOT m.addressed
  AND e.conversation_id = :id AND e.correction_of = m.message_id
  AND e.message_type = 'edit' AND e.addressed
  AND NOT EXISTS (SELECT FROM conversation_messages later
                  WHERE later.conversation_id = :id AND later.correction_of = m.message_id
                    AND later.message_type = 'edit' AND later.version > e.version)
  AND NOT EXISTS (SELECT FROM handovers h
                  WHERE h.conversation_id = :id AND h.closed_at IS NULL AND h.taken_by <> '')
  AND (m.turn IS NULL
       OR (m.message_text ~ '<@[UW][A-Z0-9_]+[|>]'
           OR EXISTS (SELECT FROM conversations c WHERE c.id = :id AND c.has_several_people))
       AND NOT EXISTS (SELECT FROM conversation_messages a
                       WHERE a.conversation_id = :id AND a.turn = m.turn AND a.addressed
                         AND a.sender_id = m.sender_id)
       AND NOT EXISTS (SELECT FROM conversation_turns t
                       WHERE t.conversation_id = :id AND t.turn = m.turn
                         AND t.settled_at IS NOT NULL AND t.kind <> 'silent'
                         AND NOT EXISTS (SELECT FROM conversation_messages a
                                         WHERE a.conversation_id = :id AND a.turn = m.turn
                                           AND a.addressed)))
RETURNING m.message_id, e.message_id AS edit_id
""")
"""Messages that were not answered: the author was not alone with the bot, sent it nothing else in
their turn, and the turn did not answer overheard messages. The messages of a thread that a person
has taken over stay theirs.
"""
_SHOWN = text("""
SELECT message_id,
       CASE WHEN message_type = 'edit' THEN correction_of ELSE message_id END AS original, turn
FROM conversation_messages
WHERE conversation_id = :id
  AND (message_id = ANY(:originals) OR message_type = 'edit' AND correction_of = ANY(:originals))
""")
"""Messages whose files were removed, with their edits."""
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
"""A message that was deleted before a turn took it up needs no answer."""
_TAKE_UP = text("""
WITH taken AS (
    UPDATE conversation_messages SET turn = :turn, step = :step
    WHERE conversation_id = :id AND (wants_turn OR verdict = 'heard') AND turn IS NULL
      AND (CAST(:until AS bigint) IS NULL OR (said_at, seq) < (
          SELECT u.said_at, u.seq FROM conversation_messages u
          WHERE u.conversation_id = :id AND u.seq = :until))
    RETURNING message_id
)
UPDATE conversation_messages e SET turn = :turn, step = :step
FROM conversation_messages o
WHERE e.conversation_id = :id AND e.message_type = 'edit' AND e.turn IS NULL
  AND o.conversation_id = e.conversation_id AND o.message_id = e.correction_of
  AND (o.turn IS NOT NULL OR o.message_id IN (SELECT message_id FROM taken))
""")
"""Messages are taken up with their edits, together with edits of messages that were taken up
earlier. Messages that were only stored are context for the model.
"""
_TAKEN = text("""
SELECT * FROM turn_messages
WHERE conversation_id = :id AND turn = :turn
  AND (step = :step OR step < :step AND NOT in_transcript)
ORDER BY said_at, seq
""")
"""An earlier step may have been lost before it read anything."""
_UNREAD = text("""
SELECT * FROM turn_messages
WHERE conversation_id = :id AND turn = :turn AND NOT in_transcript
ORDER BY said_at, seq
""")
_TAKEN_FILES = text("""
SELECT * FROM turn_messages
WHERE conversation_id = :id AND turn = :turn
  AND files <> '[]' AND edit_of = '' AND redacted_at IS NULL
ORDER BY said_at, seq
""")
_WAITING = text("""
SELECT m.message_id, m.sender_id, m.message_text, m.forwarded, m.files, m.said_at, m.redacted_at,
       m.addressed, '' AS edit_of, m.seq, m.verdict IS NOT DISTINCT FROM 'heard' AS only_stored,
       EXISTS (SELECT FROM conversation_files f
               WHERE f.conversation_id = :id AND f.message_id = m.message_id
                 AND f.fetched_at IS NULL)
         AS files_due
FROM conversation_messages m
WHERE m.conversation_id = :id AND m.wants_turn AND m.turn IS NULL ORDER BY m.said_at, m.seq
""")
"""The messages that the next step may take up."""
_OPEN_MESSAGES = text("""
SELECT m.sender_id, m.addressed, m.said_at FROM conversation_messages m
WHERE m.conversation_id = :id AND m.message_type = 'message' AND m.redacted_at IS NULL
  AND (m.turn > :turn OR m.turn IS NULL AND (m.wants_turn OR m.verdict IS NULL AND m.needs_answer))
""")
"""The messages that the turn under way, or the next one, answers."""
_ASKERS = text("""
SELECT * FROM (
    SELECT DISTINCT ON (m.sender_id) m.sender_id, m.message_id, m.addressed, m.said_at, m.seq
    FROM conversation_messages m
    WHERE m.conversation_id = (SELECT c.id FROM conversations c
                               WHERE c.team = :team AND c.channel = :channel
                                 AND c.thread_ts = :thread_ts)
      AND m.turn = :turn AND m.step <= :step AND m.message_type = 'message'
    ORDER BY m.sender_id, m.addressed DESC, m.said_at DESC, m.seq DESC
) newest ORDER BY addressed, said_at, seq
""")
"""Users who addressed the bot sort last."""


@dataclass(frozen=True)
class BatchMessage:
    """A message of a batch, or one that waits for the guards. `said_at`: seconds since 1970.

    `verdict`: None before it is judged, and in messages that never are. `unjudged`: the guards
    have yet to judge it. `not_addressed`: people talk to each other; the bot was not addressed,
    and several people write, or the message mentions another user.
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
    """The result of storing a batch. `exists`: the thread has a conversation; without one the
    whole batch is dropped.

    `messages`: the messages of the batch, and all unjudged ones that need an answer, also of
    earlier batches, in the order in which they were sent; a message starts no turn before it is
    judged. `quarantined`: ids of newly quarantined messages. `question_open`: the bot's question
    has no answer yet. `with_person`: a person has taken the thread over. `stops_as_messages`: ids
    of requests to stop that stop nothing: they are messages to that person, or remarks among
    people. `turns_to_show_again`: turns of edited or deleted messages, in a thread that a person
    has or had.
    """

    exists: bool
    messages: tuple[BatchMessage, ...] = ()
    quarantined: tuple[str, ...] = ()
    question_open: bool = False
    with_person: bool = False
    stops_as_messages: tuple[str, ...] = ()
    turns_to_show_again: tuple[int, ...] = ()

    @property
    def unjudged(self) -> tuple[BatchMessage, ...]:
        return tuple(each for each in self.messages if each.unjudged)


@dataclass(frozen=True)
class TurnMessage:
    """A message for the model, as it reads now. `said_at`: seconds since 1970.

    Rules read `text`, the author's own words; `shown` includes the forwarded messages. `edit_of`:
    empty, or the id of a message that the model has read already and whose new wording this is.
    `file_texts`: fetched texts, by the ids of the files. `only_stored`: context for the model; no
    rule reads it as a request.
    """

    message_id: str
    author_id: str
    text: str
    files: tuple[FileRef, ...] = ()
    said_at: float = 0.0
    edit_of: str = ""
    addressed: bool = False
    forwarded: str = ""
    file_texts: Mapping[str, FileText] = field(default_factory=dict)
    only_stored: bool = False

    @property
    def shown(self) -> str:
        return with_forwarded(self.text, self.forwarded)


@dataclass(frozen=True)
class Asker:
    """A user who wrote in a turn, and their last message in it; the last one addressed to the bot,
    if there is one.
    """

    user_id: str
    message_id: str


class MessageStore(Store):
    """Access to the messages of conversations; every method is safe to repeat.

    A method that changes messages locks their conversation's row until the transaction ends. In a
    thread without a conversation, `store`, `find`, `askers`, `first_said_at` and `deletion_count`
    return an empty result; all others raise `ConversationNotFound`.
    """

    def __init__(self, tx: Transaction) -> None:
        super().__init__(tx)
        self._conversations = ConversationStore(tx)
        self._files = FileStore(tx)

    # -- a batch arrives

    async def store(
        self,
        thread: Thread,
        batch: Sequence[IncomingMessage],
        listening: Listening = DEFAULT_LISTENING,
    ) -> ConversationBatch:
        """Store a batch; the first message that is addressed to the bot opens the conversation.
        Call `judge` afterwards, also without verdicts.

        `batch`: in any order, without secrets; an id may occur twice, or be stored already. A new
        run passes an empty batch to get the stored messages that are not judged yet. `listening`:
        the settings of silence.
        """
        messages = distinct([each for each in batch if each.kind not in REACTIONS])
        row = await self._open(thread, messages)
        if row is None:
            unreadable = [(each, "") for each in messages if each.kind == MessageKind.QUARANTINED]
            return ConversationBatch(
                False, quarantined=tuple(await Quarantine(self._tx).keep(thread, unreadable))
            )
        if not batch:
            return await self._read_batch(row, [], several=row.has_several_people)
        await self._set_ratings(row.id, [each for each in batch if each.kind in REACTIONS])
        to_person = await self._stops_to_forward(thread, row, messages)
        stops_as_messages = (*to_person, *await self._stops_said_to_others(row, messages))
        messages = [
            replace(each, kind=MessageKind.MESSAGE) if each.id in stops_as_messages else each
            for each in messages
        ]
        attended, stored = await self._store_attended(thread, row, messages, listening)
        several = await self._change_row(thread, row, stored.new, attended.quiet)
        # Messages with other ids are in quarantine.
        kept = [each.id for each in messages if storable(each.id) == each.id]
        found = await self._read_batch(row, kept, several=several)
        turns_to_show_again = await self._reworded(row.id, messages)
        return replace(
            found,
            quarantined=tuple(stored.quarantined),
            stops_as_messages=stops_as_messages,
            turns_to_show_again=turns_to_show_again,
        )

    async def _store_attended(
        self,
        thread: Thread,
        row: Conversation,
        messages: Sequence[IncomingMessage],
        listening: Listening,
    ) -> tuple[Attended, StoredBatch]:
        """Apply the rule for silence, and store the messages with their corrections."""
        attended = await ThreadAttention(self._tx).attend(
            thread,
            row,
            messages,
            listening,
            several=bool(_people(row, messages)["has_several_people"]),
        )

        def columns(message: IncomingMessage) -> dict[str, object]:
            verdict = _HEARD if message.id in attended.only_stored else None
            return {"addressed": message.addressed, "verdict": verdict}

        stored = await MESSAGES.store(
            self._tx, thread, row.id, row.stored, attended.messages, columns
        )
        for each in stored.new:
            await self._files.expect(row.id, each.correction_of or each.id, each.files)
        if stored.corrected:
            await self._delete_content(thread, row.id, stored.corrected)
            await self._delete_removed_files(thread, row.id, stored.corrected)
            await self._reopen(thread, row.id, stored.corrected)
        return attended, stored

    async def _change_row(
        self, thread: Thread, row: Conversation, new: Sequence[IncomingMessage], quiet: Quiet
    ) -> bool:
        """Take newly stored messages over into the conversation's row. Returns whether several
        people write in the thread.
        """
        deletions = sum(each.kind == MessageKind.DELETION for each in new)
        if deletions:
            # The deleted message may never have been stored; tools and contexts quote those too.
            await self.delete_thread_reads(thread)
            await TurnStore(self._tx).delete_content(row.id)
        if not row.stored and new:
            await self._register(thread, new)
        stoppers = [each.sender_id for each in new if each.kind == MessageKind.STOP]
        await self._conversations.clear_question(row.id, stoppers)
        people = _people(row, new)
        await self._conversations.change(
            thread,
            stored=row.stored + len(new),
            deletions=row.deletions + deletions,
            quiet_until=quiet.until,
            quiet_changed_at=quiet.changed_at,
            **people,
        )
        return bool(people["has_several_people"])

    async def _read_batch(
        self, before: Conversation, ids: Sequence[str], *, several: bool
    ) -> ConversationBatch:
        """Return the messages of a batch, with those that wait for the guards.

        `before`: the row before the batch. `several`: several people write in the thread.
        """
        given = {"id": before.id, "ids": list(ids), "several": several}
        rows = (await self._tx.execute(_BATCH, given)).all()
        return _batch(before, rows)

    async def find_duplicates(self, thread: Thread, ids: Collection[str]) -> frozenset[str]:
        """Return the messages that repeat an earlier message of their author in the thread, less
        than two minutes after it.

        The earlier message is neither deleted nor a duplicate itself.
        """
        row = await self._conversations.lock(thread)
        which = {"id": row.id, "ids": list(ids), "seconds": _SAME_WITHIN}
        duplicates = set[str]()
        # The messages have no verdicts yet, so the order decides which one is the duplicate.
        for each in await self._tx.execute(_DUPLICATES, which):
            if not duplicates.issuperset(each.said_before):
                duplicates.add(each.message_id)
        return frozenset(duplicates)

    async def judge(
        self, thread: Thread, verdicts: Mapping[str, Refusal | None], *, answers: bool = False
    ) -> ConversationSnapshot:
        """Store the guards' verdicts on the messages of a batch, then discard requests to stop
        that have nothing to stop. Returns the thread's new state.

        Args:
            thread: the conversation's thread.
            verdicts: by the message's id; None lets a message pass. First write wins.
            answers: a question was open, so the messages that pass answer it.
        """
        row = await self._conversations.lock(thread)
        if verdicts:
            passed = _ANSWER if answers else _OK
            words = [why.value if why else passed for why in verdicts.values()]
            given = {"id": row.id, "ids": list(verdicts), "verdicts": words}
            await self._tx.execute(_JUDGE, given)
            await self._conversations.touch(thread)
        await self._conversations.discard_stale_stops(row.id, row.turn)
        return await self._conversations.snapshot(thread)

    # -- a turn reads messages

    async def take_up(
        self,
        thread: Thread,
        turn: int,
        step: int,
        stays: Callable[[TurnMessage], bool] | None = None,
    ) -> tuple[list[TurnMessage], ConversationSnapshot]:
        """Assign the waiting messages to a model call, which reads them first; return them in
        order, with the thread's new state.

        The result includes messages that a lost step of the turn was to read. Only the first
        attempt of a step takes up unused messages: otherwise a reply to an earlier attempt would
        count as the answer to messages that its model call never saw.

        Args:
            thread: the conversation's thread.
            turn: the turn.
            step: the turn's model call, counted from 1.
            stays: whether a message waits for the next turn. Later messages wait with it, as they
                do after a message whose files are not fetched yet.
        """
        row = await self._conversations.lock(thread)
        which = {"id": row.id, "turn": turn, "step": step, "until": None}
        if turn <= row.turn or (turn, step) <= (row.reading_turn, row.reading_step):
            return await self._taken_by(which), await self._conversations.snapshot(thread)
        if step > 1:
            waiting = (await self._tx.execute(_WAITING, which)).all()
            which["until"] = next((each.seq for each in waiting if _stays(each, stays)), None)
        await self._tx.execute(_TAKE_UP, which)
        await self._conversations.change(thread, reading_turn=turn, reading_step=step)
        return await self._taken_by(which), await self._conversations.snapshot(thread)

    async def _taken_by(self, which: Mapping[str, Any]) -> list[TurnMessage]:
        return await self._with_files(which["id"], (await self._tx.execute(_TAKEN, which)).all())

    async def unread(self, thread: Thread, turn: int) -> list[TurnMessage]:
        """Return messages that a turn has taken up and its transcript lacks: the turn was stopped
        or lost before it wrote them.
        """
        row = await self._conversations.lock(thread)
        return await self._with_files(
            row.id, (await self._tx.execute(_UNREAD, {"id": row.id, "turn": turn})).all()
        )

    async def _with_files(
        self, conversation_id: int, rows: Sequence[Row[Any]]
    ) -> list[TurnMessage]:
        """Return messages with the texts of their files."""
        taken = [_taken(each) for each in rows]
        showing = [each.edit_of or each.message_id for each in taken if each.files]
        if not showing:
            return taken
        texts = await self._files.texts(conversation_id, showing)
        return [
            replace(each, file_texts=texts.get(each.edit_of or each.message_id, {}))
            for each in taken
        ]

    async def file_pieces(self, thread: Thread, turn: int, longest: int) -> list[str]:
        """Return the beginnings of the text files that a turn has taken up, marked as quotations.

        `longest`: characters of each.
        """
        row = await self._conversations.lock(thread)
        said = await self._with_files(
            row.id, (await self._tx.execute(_TAKEN_FILES, {"id": row.id, "turn": turn})).all()
        )
        return [
            file_piece(file, found.content[:longest], found.trouble)
            for each in said
            for file in each.files
            if (found := each.file_texts.get(file.id))
        ]

    async def askers(self, thread: Thread, turn: int, step: int) -> list[Asker]:
        """Return the authors of the messages that a turn has taken up until a step, each once; the
        one who addressed the bot last is at the end.

        It locks nothing: a tool may run in the same transaction, and the thread's messages must
        not wait for that tool.
        """
        found = await self._tx.execute(_ASKERS, thread_key(thread) | {"turn": turn, "step": step})
        return [Asker(each.sender_id, each.message_id) for each in found]

    # -- deletions

    async def restore(self, conversation_id: int, original: str) -> None:
        """Bring back a message whose deletion was inferred, in the transcript as well.

        The operator's memories of its turn and the decisions' texts stay deleted.
        """
        row = await self._conversations.lock(await self._conversations.thread_of(conversation_id))
        await TranscriptStore(self._tx).restore(row.id, original)
        await MESSAGES.restore(self._tx, row.id, original)
        said = conversation_messages.c
        query = select(said.files).where(
            said.conversation_id == row.id, said.message_id == original
        )
        for files in (await self._tx.execute(query)).scalars():
            await self._files.expect(row.id, original, [FileRef(**file) for file in files])

    async def deletion_count(self, thread: Thread) -> int:
        """Return the number of known deletions in a thread; -1 once the conversation is pruned.

        The conversation's row is locked, so the number holds until the transaction ends.
        """
        row = await self._conversations.lock_if_exists(thread)
        if row is None:
            return 0
        return int(row.deletions) if row.stored else -1

    async def delete_thread_reads(self, thread: Thread) -> None:
        """Delete the results of tools that read the thread, and the memories of their turns, after
        a deletion in the thread.
        """
        turns = await TranscriptStore(self._tx).remove_thread_reads(thread)
        await MemoryStore(self._tx).forget_user_content(
            thread.team, [turn_id(thread, turn) for turn in turns]
        )

    # -- reads by other components

    async def find(self, thread: Thread, ids: Collection[str]) -> dict[str, StoredMessage]:
        """Return those of the messages that a conversation holds, by id, with their
        corrections.
        """
        conversation_id = await self._conversations.find_id(thread)
        return await MESSAGES.find(self._tx, conversation_id, ids) if conversation_id else {}

    async def first_said_at(self, thread: Thread) -> Decimal | None:
        """Return the time of the first stored message of a conversation; None without one."""
        said = conversation_messages.c
        conversation_id = await self._conversations.find_id(thread)
        first = select(func.min(said.said_at)).where(
            said.conversation_id == conversation_id, said.message_type == MessageKind.MESSAGE
        )
        at: Decimal | None = (await self._tx.execute(first)).scalar_one()
        return at

    # ------------------------------------------------------------

    async def _open(
        self, thread: Thread, messages: Sequence[IncomingMessage]
    ) -> Conversation | None:
        """Lock the row and return it; None when the thread has no conversation, and no message
        opens one.
        """
        row = await self._conversations.lock_if_exists(thread)
        if row is not None and row.stored:
            return row
        if any(each.addressed and each.kind == MessageKind.MESSAGE for each in messages):
            return row or await self._conversations.lock_or_create(thread)
        return None

    async def _set_ratings(
        self, conversation_id: int, reactions: Sequence[IncomingMessage]
    ) -> None:
        """Store ratings; the latest reaction wins, in any order of arrival, and repeats change
        nothing.

        Slack treats each skin tone as a separate reaction: a user may remove one and leave the
        other.
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
        """Return the ids of requests to stop that are meant for the person who has taken the
        thread over, since the bot does nothing that they could stop.

        A request that meets an earlier turn of the bot stops that turn. A reaction has no text to
        forward.
        """
        words = tuple(
            each.id for each in messages if each.kind == MessageKind.STOP and each.text.strip()
        )
        if not words:
            return ()
        handover = await HandoverStore(self._tx).open_for(thread)
        if handover is None or not handover.taken_by:
            return ()
        plan = await TurnStore(self._tx).plan(thread, row.turn + 1)
        return words if plan is None or plan.route.ends else ()

    async def _stops_said_to_others(
        self, row: Conversation, messages: Sequence[IncomingMessage]
    ) -> tuple[str, ...]:
        """Return the ids of requests to stop that are remarks among people: where several write, a
        third person has to mention the bot.

        A reaction by anybody who counts stops the turn: its emoji has no other meaning.
        """
        several = bool(_people(row, messages)["has_several_people"])
        words = [each for each in messages if each.kind == MessageKind.STOP and each.text.strip()]
        unsure = [each for each in words if several and not each.addressed]
        if not unsure:
            return ()
        found = await self._tx.execute(_OPEN_MESSAGES, {"id": row.id, "turn": row.turn})
        open_messages = [(each.sender_id, each.addressed, each.said_at) for each in found]
        open_messages += [
            (each.sender_id, each.addressed, seconds(each.ts))
            for each in messages
            if each.kind == MessageKind.MESSAGE
        ]
        remarks = []
        for stop in unsure:
            # A later message is no request that the stop could be about: the catch-up may deliver
            # both at once.
            before = [
                (sender, addressed)
                for sender, addressed, said_at in open_messages
                if said_at <= seconds(stop.ts)
            ]
            # Without askers there is nothing to stop, and nothing for people to remark on.
            askers = askers_of(before)
            if askers and stop.sender_id not in askers:
                remarks.append(stop.id)
        return tuple(remarks)

    async def _register(self, thread: Thread, stored: Sequence[IncomingMessage]) -> None:
        """Register the conversation as the owner of the thread, and record the root's author."""
        first = min(seconds(each.ts) for each in stored)
        author = next((each.sender_id for each in stored if each.ts == thread.ts), "")
        await ThreadStore(self._tx).register(
            ThreadOwner(conversation_workflow_id(thread), CONVERSATION),
            thread.channel,
            thread.ts,
            author_id=author
            or next((each.root_author_id for each in stored if each.root_author_id), ""),
            compare_from=first - _BEFORE_FIRST,
            first_message_at=first,
        )

    async def _reworded(
        self, conversation_id: int, messages: Sequence[IncomingMessage]
    ) -> tuple[int, ...]:
        """Return the turns of edited or deleted messages.

        All messages of the batch count, not only new ones: an earlier attempt may have stored them
        and lost its reply.
        """
        originals = [
            each.correction_of
            for each in messages
            if each.kind in (MessageKind.EDIT, MessageKind.DELETION)
        ]
        if not originals:
            return ()
        return tuple(
            (
                await self._tx.execute(_REWORDED, {"id": conversation_id, "originals": originals})
            ).scalars()
        )

    async def _delete_content(
        self, thread: Thread, conversation_id: int, corrected: Sequence[str]
    ) -> None:
        """Remove deleted messages from every copy: transcript, memories, contexts and
        decisions.
        """
        deleted = (
            await self._tx.execute(_DELETED, {"id": conversation_id, "originals": corrected})
        ).all()
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
            await ConversationStore(self._tx).delete_failures(conversation_id)

    async def _reopen(
        self, thread: Thread, conversation_id: int, corrected: Sequence[str]
    ) -> None:
        """Reopen overheard messages that mention the bot since their edit: the guards judge them,
        and the next turn answers them.
        """
        found = await self._tx.execute(
            _REOPEN, {"id": conversation_id, "originals": list(corrected)}
        )
        for each in found.all():
            await TranscriptStore(self._tx).rename(thread, each.message_id, each.edit_id)

    async def _delete_removed_files(
        self, thread: Thread, conversation_id: int, corrected: Sequence[str]
    ) -> None:
        """Delete the texts of files whose message was deleted, or which an edit removed, from the
        same copies as in `_delete_content`.
        """
        gone = await self._files.forget_unshown(conversation_id, corrected)
        if not gone:
            return
        found = (
            await self._tx.execute(_SHOWN, {"id": conversation_id, "originals": list(gone)})
        ).all()
        shown = {each.message_id: gone[each.original] for each in found}
        await TranscriptStore(self._tx).remove_files(thread, shown)
        turns = {each.turn for each in found if each.turn is not None}
        await MemoryStore(self._tx).forget_user_content(
            thread.team, [turn_id(thread, turn) for turn in sorted(turns)]
        )
        await TurnStore(self._tx).delete_content(conversation_id)
        await DecisionStore(self._tx).delete_content(conversation_id)


def askers_of(open_messages: Sequence[tuple[str, bool]]) -> frozenset[str]:
    """Return the users who wait for an answer: those who addressed the bot, or all authors if none
    did.

    Args:
        open_messages: the sender of each, and whether it is addressed to the bot.
    """
    to_bot = {sender for sender, addressed in open_messages if addressed}
    return frozenset(to_bot or {sender for sender, _ in open_messages})


def _batch(conversation: Conversation, rows: Sequence[Row[Any]]) -> ConversationBatch:
    """Build the batch from the rows of `_BATCH`."""
    messages = tuple(
        BatchMessage(
            *(each.message_id, each.said_in, each.slack_ts, each.sender_id, float(each.said_at)),
            *(each.verdict, each.not_addressed, each.unjudged),
        )
        for each in rows
    )
    with_person = any(each.with_person for each in rows)
    asked = bool(conversation.question)
    return ConversationBatch(True, messages, question_open=asked, with_person=with_person)


def _people(row: Conversation, stored: Sequence[IncomingMessage]) -> dict[str, object]:
    """Return the columns on the thread's people; the root's author counts, even if the root came
    before the first message to the bot.
    """
    said = [each for each in stored if each.kind in (MessageKind.MESSAGE, MessageKind.STOP)]
    found = {
        row.first_author,
        *(each.sender_id for each in said),
        *(each.root_author_id for each in said),
    } - {""}
    return {
        "first_author": min(found, default=""),
        "has_several_people": row.has_several_people or len(found) > 1,
    }


def _stays(row: Row[Any], stays: Callable[[TurnMessage], bool] | None) -> bool:
    return row.files_due or (stays is not None and stays(_taken(row)))


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
        only_stored=row.only_stored,
    )
