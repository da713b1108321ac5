"""TranscriptStore: the model's view of a conversation, an append-only list in which each entry
occurs once.

A message is kept as JSON in ASCII, so that it comes back unchanged to the last character. Python's
strings may hold unpaired surrogates, and JSON writes two adjacent ones exactly like the character
that they would form. So a surrogate is written as a mark and its number. The mark is a
noncharacter, which Unicode leaves to programs for such uses
(https://www.unicode.org/faq/private_use.html).
"""

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from sqlalchemy import Row, select, text, update

from threadline.conversations.store.conversation import ConversationStore, in_thread, thread_key
from threadline.conversations.tables import conversations, transcript_entries
from threadline.db.engine import Store
from threadline.db.values import DIGEST, storable_key
from threadline.models.model import Message, Role, ToolCall, ToolKind
from threadline.slack.model import Thread
from threadline.slack.text import without_files

DELETED = "(deleted by its author)"
"""Replaces the text of a deleted message."""
REMOVED = "(something of it was deleted by its author: read the thread again to see what is left)"
"""Replaces a tool's result that quoted the thread."""
THREAD_TOOLS = ("slack.get.thread", "slack_get_thread")
"""The name of the tool that reads the thread in Slack, and its name in the providers' spelling."""
_MARK = "\ufdd0"
_UNWRITABLE = re.compile(r"[\ud800-\udfff\ufdd0]")
_MARKED = re.compile(r"\ufdd0([0-9a-f]{4})")
_row = transcript_entries.c

_APPEND = text("""
INSERT INTO transcript_entries (conversation_id, position, key, turn, step, body)
SELECT :id, coalesce((SELECT max(position) FROM transcript_entries WHERE conversation_id = :id), 0)
       + row_number() OVER (ORDER BY e.number), e.key, :turn, :step, e.body
FROM unnest(CAST(:keys AS text[]), CAST(:bodies AS text[]))
     WITH ORDINALITY AS e (key, body, number)
WHERE NOT EXISTS (SELECT FROM transcript_entries t WHERE t.conversation_id = :id AND t.key = e.key)
""")
_WITH_WORDS = text("""
SELECT t.key, t.body FROM conversations c JOIN transcript_entries t ON t.conversation_id = c.id
WHERE c.team = :team AND c.channel = :channel AND c.thread_ts = :thread_ts
  AND (t.key = ANY(CAST(:keys AS text[]))
       OR t.turn = :turn AND (starts_with(t.key, 'u:') OR starts_with(t.key, :digest)))
""")
_READ = text("""
SELECT c.summary_until, t.position, t.key, t.turn, t.step, t.body,
       CASE WHEN row_number() OVER (ORDER BY t.position) = 1 THEN c.summary END AS summary
FROM conversations c LEFT JOIN transcript_entries t
  ON t.conversation_id = c.id AND t.position > c.summary_until
WHERE c.team = :team AND c.channel = :channel AND c.thread_ts = :thread_ts
ORDER BY t.position
""")
"""The entries after a thread's summary. The first row has the summary; it has no entry if there is
none.
"""


@dataclass(frozen=True)
class TranscriptEntry:
    """A message of the transcript. `position` counts from 1; `key` identifies the message, `turn`
    and `step` its origin.
    """

    position: int
    key: str
    turn: int
    step: int
    message: Message


@dataclass(frozen=True)
class Transcript:
    """A transcript: `summary` covers the entries before `messages`, up to the position
    `summary_until`; it is empty when that is 0.
    """

    summary: str = ""
    summary_until: int = 0
    messages: tuple[TranscriptEntry, ...] = ()


_KEEP_REMOVED = text("""
INSERT INTO removed_content (conversation_id, message_id, record, record_key, kept)
SELECT e.conversation_id, r.message_id, 'transcript_entries', CAST(e.position AS text),
       jsonb_build_object('body', e.body)
FROM unnest(CAST(:keys AS text[]), CAST(:ids AS text[])) AS said (key, message_id)
JOIN transcript_entries e ON e.conversation_id = :id AND e.key = said.key
JOIN removed_content r ON r.conversation_id = e.conversation_id
  AND r.record = 'conversation_messages'
    AND r.record_key = said.message_id
ON CONFLICT DO NOTHING
""")
_RESTORE_REMOVED = text("""
UPDATE transcript_entries e SET body = r.kept ->> 'body'
FROM removed_content r
WHERE e.conversation_id = :id
  AND r.conversation_id = e.conversation_id AND r.message_id = :message_id
  AND r.record = 'transcript_entries' AND r.record_key = CAST(e.position AS text)
""")


class TranscriptStore(Store):
    async def append(
        self, thread: Thread, turn: int, step: int, entries: Sequence[tuple[str, Message]]
    ) -> int:
        """Add messages at the end, each under its key, in their order; the first write under a key
        wins.

        Returns:
            The number of new entries.

        Raises:
            ConversationNotFound: the thread has no conversation.
        """
        given = await self._to_append(thread, turn, step, entries)
        return (await self._tx.execute(_APPEND, given)).rowcount if entries else 0

    async def get(self, thread: Thread, key: str) -> Message | None:
        """Return the message under a key; None when there is none."""
        return (await self.find(thread, [key])).get(key)

    async def find(self, thread: Thread, keys: Collection[str]) -> dict[str, Message]:
        """Return the messages under these keys, as far as they exist."""
        asked = {storable_key(key): key for key in keys}
        query = select(_row.key, _row.body).join(
            conversations, conversations.c.id == _row.conversation_id
        )
        rows = await self._tx.execute(query.where(in_thread(thread), _row.key.in_(asked)))
        return {asked[row.key]: decode_message(row.body) for row in rows}

    async def read(self, thread: Thread) -> Transcript:
        """Return the entries after the summary, in order; the empty transcript when the thread has
        no conversation.
        """
        rows = (await self._tx.execute(_READ, thread_key(thread))).all()
        if not rows:
            return Transcript()
        entries = [each for each in rows if each.position is not None]
        return Transcript(rows[0].summary, rows[0].summary_until, entries_in(entries))

    async def find_with_words(
        self, thread: Thread, turn: int, keys: Collection[str]
    ) -> dict[str, Message]:
        """Return the messages under these keys and all user messages of a turn, by their stored
        keys.
        """
        given = {"turn": turn, "keys": list(keys), "digest": DIGEST}
        rows = await self._tx.execute(_WITH_WORDS, thread_key(thread) | given)
        return {row.key: decode_message(row.body) for row in rows}

    async def rewrite(self, thread: Thread, key: str, content: str) -> None:
        """Replace the text under a key, if it exists, and discard a summary that may quote the old
        text.
        """
        row = await ConversationStore(self._tx).lock(thread)
        await self._rewrite(row.id, [storable_key(key)], content)

    async def delete_content(self, thread: Thread, message_ids: Collection[str]) -> None:
        """Remove the texts of deleted messages, and discard a summary that may quote them.

        `message_ids`: of messages and of edits, taken up or not.
        """
        row = await ConversationStore(self._tx).lock(thread)
        await self._rewrite(row.id, [storable_key(f"u:{each}") for each in message_ids], DELETED)

    async def remove_files(self, thread: Thread, files: Mapping[str, Collection[str]]) -> None:
        """Remove the texts of deleted files, and discard a summary that may quote them.

        `files`: the ids of the files, by the id of the message or edit that showed them.
        """
        row = await ConversationStore(self._tx).lock(thread)
        for message_id, file_ids in files.items():
            await self._change(
                row.id,
                [storable_key(f"u:{message_id}")],
                partial(without_files, file_ids=file_ids),
            )

    async def rename(self, thread: Thread, message_id: str, edit_id: str) -> None:
        """Move a message's entry to the id of its edit, so that the next turn reads the message
        again in its new wording.
        """
        row = await ConversationStore(self._tx).lock(thread)
        old_key = storable_key(f"u:{message_id}")
        renamed = update(transcript_entries).where(
            _row.conversation_id == row.id, _row.key == old_key
        )
        await self._tx.execute(renamed.values(key=storable_key(f"u:{edit_id}")))

    async def keep_removed(self, conversation_id: int, message_ids: Collection[str]) -> None:
        """Copy the entries of messages and edits whose deletion was inferred, before they are
        removed.
        """
        keys = {storable_key(f"u:{each}"): each for each in message_ids}
        given = {"id": conversation_id, "keys": list(keys), "ids": list(keys.values())}
        await self._tx.execute(_KEEP_REMOVED, given)

    async def restore(self, conversation_id: int, original: str) -> None:
        """Bring back the entries that were removed with a message."""
        await self._tx.execute(_RESTORE_REMOVED, {"id": conversation_id, "message_id": original})

    async def remove_thread_reads(self, thread: Thread) -> list[int]:
        """Remove the results of tools that read the thread, since a message in it was deleted and
        any result may quote it.

        A summary that may quote them is discarded. The model may call the tool again.

        Returns:
            The turns that had read the thread.
        """
        row = await ConversationStore(self._tx).lock(thread)
        query = select(_row.turn, _row.step, _row.body).where(_row.conversation_id == row.id)
        called = query.where(
            _row.key.startswith("a:"), _row.body.regexp_match("slack[._]get[._]thread")
        )
        keys = [
            storable_key(f"t:{turn}:{step}:{call.id}")
            for turn, step, body in await self._tx.execute(called)
            for call in decode_message(body).calls
            if call.name in THREAD_TOOLS
        ]
        return await self._rewrite(row.id, keys, REMOVED) if keys else []

    async def replace_with_summary(self, thread: Thread, summary: str, until: int) -> None:
        """Replace all entries up to the position `until` with `summary`; a summary that covers
        less than the current one changes nothing.
        """
        further = update(conversations).where(
            in_thread(thread), conversations.c.summary_until < until
        )
        await self._tx.execute(further.values(summary=summary, summary_until=until))

    async def _to_append(
        self, thread: Thread, turn: int, step: int, entries: Sequence[tuple[str, Message]]
    ) -> dict[str, object]:
        row = await ConversationStore(self._tx).lock(thread)
        bodies: dict[str, str] = {}
        for key, message in entries:
            bodies.setdefault(storable_key(key), encode_message(message))
        return {
            "id": row.id,
            "turn": turn,
            "step": step,
            "keys": list(bodies),
            "bodies": list(bodies.values()),
        }

    async def _rewrite(
        self, conversation_id: int, keys: Collection[str], content: str
    ) -> list[int]:
        """Replace the text under keys; return the turns in which the text changed."""
        return await self._change(conversation_id, keys, lambda _: content)

    async def _change(
        self, conversation_id: int, keys: Collection[str], change: Callable[[str], str]
    ) -> list[int]:
        """Change the texts under keys; return the turns in which the text changed."""
        mine = _row.conversation_id == conversation_id
        query = select(_row.position, _row.turn, _row.body).where(mine, _row.key.in_(keys))
        read = [
            (position, turn, decode_message(body))
            for position, turn, body in await self._tx.execute(query)
        ]
        found = [each for each in read if each[2].content != change(each[2].content)]
        for position, _, message in found:
            # Drop the provider's data, which may quote the old text.
            body = encode_message(
                replace(message, content=change(message.content), provider_data="")
            )
            await self._tx.execute(
                update(transcript_entries).where(mine, _row.position == position).values(body=body)
            )
        if found:
            told = conversations.c.summary_until >= min(position for position, _, _ in found)
            void = update(conversations).where(conversations.c.id == conversation_id, told)
            await self._tx.execute(void.values(summary="", summary_until=0))
        return sorted({turn for _, turn, _ in found})


def entries_in(rows: Sequence[Row[Any]]) -> tuple[TranscriptEntry, ...]:
    return tuple(
        TranscriptEntry(row.position, row.key, row.turn, row.step, decode_message(row.body))
        for row in rows
    )


def encode_message(message: Message) -> str:
    """Write a message as JSON; omits empty fields."""
    return json.dumps(
        _map_text(_mark, {name: value for name, value in asdict(message).items() if value})
    )


def decode_message(body: str) -> Message:
    """Read a message that `encode_message` has written."""
    raw = _map_text(_unmark, json.loads(body))
    calls = tuple(
        ToolCall(**{**call, "kind": ToolKind(call["kind"])}) for call in raw.pop("calls", ())
    )
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
