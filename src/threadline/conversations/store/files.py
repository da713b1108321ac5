"""FileStore: the texts of files that people have attached in conversations; each is fetched from
Slack once.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import func, select, text, update
from sqlalchemy.dialects.postgresql import insert

from threadline.conversations.tables import conversation_files
from threadline.db.engine import Store
from threadline.slack.file_kinds import holds_text
from threadline.slack.model import FileRef

_file = conversation_files.c
_PENDING = text("""
SELECT f.message_id, f.file_id FROM conversation_files f
JOIN conversations c ON c.id = f.conversation_id
JOIN conversation_messages m ON m.conversation_id = f.conversation_id
  AND m.message_id = f.message_id
WHERE f.conversation_id = :id AND f.fetched_at IS NULL AND m.wants_turn
  AND (m.turn IS NULL OR m.turn > c.turn)
ORDER BY m.said_at, m.seq, f.file_id
LIMIT :most
""")
_FORGET_UNSHOWN = text("""
DELETE FROM conversation_files f
WHERE f.conversation_id = :id AND f.message_id = ANY(:message_ids) AND NOT EXISTS (
    SELECT FROM conversation_messages m
    WHERE m.conversation_id = f.conversation_id AND m.message_id = f.message_id
      AND m.files @> jsonb_build_array(jsonb_build_object('id', f.file_id)))
RETURNING f.message_id, f.file_id
""")


@dataclass(frozen=True)
class PendingFile:
    """A file whose text is not fetched yet, and the message that shows it."""

    message_id: str
    file_id: str


@dataclass(frozen=True)
class FileText:
    """The text of a file, or the `trouble` that made it unreadable, worded as the end of a
    sentence.
    """

    content: str = ""
    trouble: str = ""


class FileStore(Store):
    """Access to the texts of files. A caller that writes holds the conversation's row; every
    method is safe to repeat.
    """

    async def expect(
        self, conversation_id: int, message_id: str, files: Collection[FileRef]
    ) -> None:
        """Note the files of a message that may hold text. Files of an edit belong to the message
        that it corrects.
        """
        rows = [
            {"conversation_id": conversation_id, "message_id": message_id, "file_id": file.id}
            for file in files
            if is_expected(file)
        ]
        if rows:
            await self._tx.execute(insert(conversation_files).on_conflict_do_nothing(), rows)

    async def pending(self, conversation_id: int, most: int) -> list[PendingFile]:
        """Return the files of messages that wait for an answer, in the order in which they were
        sent.
        """
        rows = await self._tx.execute(_PENDING, {"id": conversation_id, "most": most})
        return [PendingFile(*row) for row in rows]

    async def keep(self, conversation_id: int, file: PendingFile, found: FileText) -> None:
        """Store the text of a file. First write wins; a file that was deleted in the meantime is
        ignored.
        """
        kept = update(conversation_files).where(
            _file.conversation_id == conversation_id,
            _file.message_id == file.message_id,
            _file.file_id == file.file_id,
            _file.fetched_at.is_(None),
        )
        await self._tx.execute(
            kept.values(content=found.content, trouble=found.trouble, fetched_at=func.now())
        )

    async def texts(
        self, conversation_id: int, message_ids: Collection[str]
    ) -> dict[str, dict[str, FileText]]:
        """Return the fetched texts, by the id of the message, then by the id of the file."""
        query = select(_file.message_id, _file.file_id, _file.content, _file.trouble).where(
            _file.conversation_id == conversation_id,
            _file.message_id.in_(message_ids),
            _file.fetched_at.is_not(None),
        )
        found: dict[str, dict[str, FileText]] = {}
        for row in await self._tx.execute(query):
            found.setdefault(row.message_id, {})[row.file_id] = FileText(row.content, row.trouble)
        return found

    async def forget_unshown(
        self, conversation_id: int, message_ids: Sequence[str]
    ) -> Mapping[str, list[str]]:
        """Delete the texts of files that no message shows any longer, after a deletion or an edit.

        Returns:
            The ids of the files, by message.
        """
        gone: dict[str, list[str]] = {}
        given = {"id": conversation_id, "message_ids": list(message_ids)}
        for row in await self._tx.execute(_FORGET_UNSHOWN, given):
            gone.setdefault(row.message_id, []).append(row.file_id)
        return gone


def is_expected(file: FileRef) -> bool:
    """Return whether a file may hold text.

    In a channel that companies share, a message may give only the id of its file:
    https://docs.slack.dev/reference/objects/file-object.
    """
    return not (file.name or file.mimetype) or holds_text(file.mimetype, file.name)
