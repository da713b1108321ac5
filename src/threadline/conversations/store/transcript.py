"""TranscriptStore: what the model reads of a conversation: added to at its end, each entry once, in its order.

A message is kept as JSON in ASCII, so that it comes back the same to the last character. Python's strings may hold
halves of surrogate pairs, and JSON writes two halves that meet as it writes the character which they would make; so a
half is written as a mark of ours and its number. The mark is a noncharacter, which Unicode leaves to programs for such
uses (https://www.unicode.org/faq/private_use.html).
"""

import json
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from sqlalchemy import Row, select, text, update

from threadline.conversations.model.conversation import ConversationSnapshot
from threadline.conversations.store.conversation import ConversationStore, in_thread, thread_key
from threadline.conversations.tables import conversations, transcript_entries
from threadline.db.engine import Store
from threadline.db.values import DIGEST, storable_key
from threadline.models.model import Message, Role, ToolCall, ToolKind
from threadline.slack.model import Thread

DELETED = "(deleted by its author)"
"""Stands where a person's words stood."""
REMOVED = "(something of it was deleted by its author: read the thread again to see what is left)"
"""Stands where what a tool had read of the thread stood."""
THREAD_TOOLS = ("slack.get.thread", "slack_get_thread")
"""The name of the tool that reads the thread in Slack, and its name as providers write it."""
_MARK = "\ufdd0"
_UNWRITABLE = re.compile(r"[\ud800-\udfff\ufdd0]")
_MARKED = re.compile(r"\ufdd0([0-9a-f]{4})")
_row = transcript_entries.c

_APPEND = """
INSERT INTO transcript_entries (conversation_id, position, key, turn, step, body)
SELECT :id, coalesce((SELECT max(position) FROM transcript_entries WHERE conversation_id = :id), 0)
       + row_number() OVER (ORDER BY e.number), e.key, :turn, :step, e.body
FROM unnest(CAST(:keys AS text[]), CAST(:bodies AS text[])) WITH ORDINALITY AS e (key, body, number)
WHERE NOT EXISTS (SELECT FROM transcript_entries t WHERE t.conversation_id = :id AND t.key = e.key)
"""
_WITH_WORDS = """
LEFT JOIN transcript_entries beside ON beside.conversation_id = c.id
     AND (beside.key = ANY(CAST(:keys AS text[]))
          OR beside.turn = :of_turn AND (starts_with(beside.key, 'u:') OR starts_with(beside.key, :digest)))
"""
READ = """
SELECT c.id, c.summary_until, t.position, t.key, t.turn, t.step, t.body,
       row_number() OVER (ORDER BY t.position) AS number,
       CASE WHEN row_number() OVER (ORDER BY t.position) = 1 THEN c.summary END AS summary
FROM conversations c LEFT JOIN transcript_entries t ON t.conversation_id = c.id AND t.position > c.summary_until
WHERE c.team = :team AND c.channel = :channel AND c.thread_ts = :thread_ts
"""
"""A thread's transcript behind its summary, as `transcript_of` takes it, in the order of `number`; one row at least."""


@dataclass(frozen=True)
class TranscriptEntry:
    """A message of the transcript. `position` counts from 1; `key` says what it is, `turn` and `step` when it came."""

    position: int
    key: str
    turn: int
    step: int
    message: Message


@dataclass(frozen=True)
class Transcript:
    """`summary` tells of what came before `messages`, up to the position `summary_until`; empty when that is 0."""

    summary: str = ""
    summary_until: int = 0
    messages: tuple[TranscriptEntry, ...] = ()


_KEEP_REMOVED = text("""
INSERT INTO removed_content (conversation_id, message_id, record, record_key, kept)
SELECT e.conversation_id, r.message_id, 'transcript_entries', CAST(e.position AS text),
       jsonb_build_object('body', e.body)
FROM unnest(CAST(:keys AS text[]), CAST(:ids AS text[])) AS said (key, message_id)
JOIN transcript_entries e ON e.conversation_id = :id AND e.key = said.key
JOIN removed_content r ON r.conversation_id = e.conversation_id AND r.record = 'conversation_messages'
    AND r.record_key = said.message_id
ON CONFLICT DO NOTHING
""")
_RESTORE_REMOVED = text("""
UPDATE transcript_entries e SET body = r.kept ->> 'body'
FROM removed_content r
WHERE e.conversation_id = :id AND r.conversation_id = e.conversation_id AND r.message_id = :message_id
  AND r.record = 'transcript_entries' AND r.record_key = CAST(e.position AS text)
""")


class TranscriptStore(Store):
    async def append(self, thread: Thread, turn: int, step: int, entries: Sequence[tuple[str, Message]]) -> int:
        """Add messages at the end, each under its key, in their order; what a key has stood for first, stands. Returns
        how many are new. Raises `ConversationNotFound` when nothing is stored in this thread."""
        given = await self._to_append(thread, turn, step, entries)
        return (await self._tx.execute(text(_APPEND), given)).rowcount if entries else 0

    async def append_last(
        self, thread: Thread, turn: int, step: int, entries: Sequence[tuple[str, Message]]
    ) -> tuple[int, ConversationSnapshot]:
        """As `append`, with what is known of the thread then."""
        also = f"added AS ({_APPEND} RETURNING 1)"
        beside = "CROSS JOIN (SELECT count(*) AS added FROM added) beside"
        given = await self._to_append(thread, turn, step, entries)
        snapshot, rows = await ConversationStore(self._tx).snapshot_and_read(thread, given, also=also, beside=beside)
        return rows[0].added if rows else 0, snapshot

    async def get(self, thread: Thread, key: str) -> Message | None:
        """The message under a key; None when there is none."""
        return (await self.find(thread, [key])).get(key)

    async def find(self, thread: Thread, keys: Collection[str]) -> dict[str, Message]:
        """The messages under these keys, as far as there are any."""
        asked = {storable_key(key): key for key in keys}
        query = select(_row.key, _row.body).join(conversations, conversations.c.id == _row.conversation_id)
        rows = await self._tx.execute(query.where(in_thread(thread), _row.key.in_(asked)))
        return {asked[row.key]: decode_message(row.body) for row in rows}

    async def read(self, thread: Thread) -> Transcript:
        """All that no summary tells yet, in order; nothing when the thread has no conversation."""
        return transcript_of((await self._tx.execute(text(f"{READ} ORDER BY number"), thread_key(thread))).all())

    async def find_with_words(
        self, thread: Thread, turn: int, keys: Collection[str]
    ) -> tuple[dict[str, Message], ConversationSnapshot]:
        """As `find`, with all that people have said in a turn, under keys as they are stored; and what is known of the
        thread."""
        given = {"of_turn": turn, "keys": list(keys), "digest": DIGEST}
        snapshot, rows = await ConversationStore(self._tx).snapshot_and_read(thread, given, beside=_WITH_WORDS)
        return {row.key: decode_message(row.body) for row in rows if row.key is not None}, snapshot

    async def rewrite(self, thread: Thread, key: str, content: str) -> None:
        """Put other words under a key, if it is there. A summary that may tell of the old ones is given up."""
        row = await ConversationStore(self._tx).lock(thread)
        await self._rewrite(row.id, [storable_key(key)], content)

    async def delete_content(self, thread: Thread, message_ids: Collection[str]) -> None:
        """Remove what people have deleted. A summary that may tell of it is given up, to be made anew. `message_ids`:
        of messages and of edits, taken up or not."""
        row = await ConversationStore(self._tx).lock(thread)
        await self._rewrite(row.id, [storable_key(f"u:{each}") for each in message_ids], DELETED)

    async def keep_removed(self, conversation_id: int, message_ids: Collection[str]) -> None:
        """Copy the entries of messages and edits whose deletion was inferred, before they are removed."""
        keys = {storable_key(f"u:{each}"): each for each in message_ids}
        given = {"id": conversation_id, "keys": list(keys), "ids": list(keys.values())}
        await self._tx.execute(_KEEP_REMOVED, given)

    async def restore(self, conversation_id: int, original: str) -> None:
        """Bring back the entries that were removed with a message."""
        await self._tx.execute(_RESTORE_REMOVED, {"id": conversation_id, "message_id": original})

    async def remove_thread_reads(self, thread: Thread) -> list[int]:
        """Remove what a tool has read of the thread, in which something was deleted: which words those were, nobody
        knows. A summary that may tell of it is given up, to be made anew. The tool may be asked again. Returns the
        turns that had read it."""
        row = await ConversationStore(self._tx).lock(thread)
        query = select(_row.turn, _row.step, _row.body).where(_row.conversation_id == row.id)
        called = query.where(_row.key.startswith("a:"), _row.body.regexp_match("slack[._]get[._]thread"))
        keys = [
            storable_key(f"t:{turn}:{step}:{call.id}")
            for turn, step, body in await self._tx.execute(called)
            for call in decode_message(body).calls
            if call.name in THREAD_TOOLS
        ]
        return await self._rewrite(row.id, keys, REMOVED) if keys else []

    async def replace_with_summary(self, thread: Thread, summary: str, until: int) -> None:
        """From now on `summary` stands for all up to the position `until`. One that tells less changes nothing."""
        further = update(conversations).where(in_thread(thread), conversations.c.summary_until < until)
        await self._tx.execute(further.values(summary=summary, summary_until=until))

    async def _to_append(
        self, thread: Thread, turn: int, step: int, entries: Sequence[tuple[str, Message]]
    ) -> dict[str, object]:
        row = await ConversationStore(self._tx).lock(thread)
        bodies: dict[str, str] = {}
        for key, message in entries:
            bodies.setdefault(storable_key(key), encode_message(message))
        return {"id": row.id, "turn": turn, "step": step, "keys": list(bodies), "bodies": list(bodies.values())}

    async def _rewrite(self, conversation_id: int, keys: Collection[str], content: str) -> list[int]:
        """Put other words under keys; returns the turns in which something else stood there."""
        mine = _row.conversation_id == conversation_id
        query = select(_row.position, _row.turn, _row.body).where(mine, _row.key.in_(keys))
        read = [(position, turn, decode_message(body)) for position, turn, body in await self._tx.execute(query)]
        found = [each for each in read if each[2].content != content]
        for position, _, message in found:
            # Without what the provider has said of it in the old words.
            body = encode_message(replace(message, content=content, provider_data=""))
            await self._tx.execute(update(transcript_entries).where(mine, _row.position == position).values(body=body))
        if found:
            told = conversations.c.summary_until >= min(position for position, _, _ in found)
            void = update(conversations).where(conversations.c.id == conversation_id, told)
            await self._tx.execute(void.values(summary="", summary_until=0))
        return sorted({turn for _, turn, _ in found})


def transcript_of(rows: Sequence[Row[Any]]) -> Transcript:
    """Of the rows of `READ`."""
    if not rows:
        return Transcript()
    return Transcript(rows[0].summary, rows[0].summary_until, entries_in(rows))


def entries_in(rows: Sequence[Row[Any]]) -> tuple[TranscriptEntry, ...]:
    """The entries that rows hold, of which one may hold none."""
    return tuple(
        TranscriptEntry(row.position, row.key, row.turn, row.step, decode_message(row.body))
        for row in rows
        if row.position is not None
    )


def encode_message(message: Message) -> str:
    """What is empty is left out."""
    return json.dumps(_map_text(_mark, {name: value for name, value in asdict(message).items() if value}))


def decode_message(body: str) -> Message:
    """The message that `encode_message` has written."""
    raw = _map_text(_unmark, json.loads(body))
    calls = tuple(ToolCall(**{**call, "kind": ToolKind(call["kind"])}) for call in raw.pop("calls", ()))
    return Message(role=Role(raw.pop("role")), calls=calls, **raw)


def _map_text(change: Callable[[str], str], value: Any) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {name: _map_text(change, each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_map_text(change, each) for each in value]
    return value


def _mark(text: str) -> str:
    return _UNWRITABLE.sub(lambda found: f"{_MARK}{ord(found[0]):04x}", text)


def _unmark(text: str) -> str:
    return _MARKED.sub(lambda found: chr(int(found[1], 16)), text)
