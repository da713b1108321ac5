"""What people wrote under hand-overs' cards and has been dealt with: what the catch-up compares Slack with."""

from collections.abc import Collection
from dataclasses import asdict, replace
from decimal import Decimal
from typing import Any

from sqlalchemy import ColumnElement, Numeric, Select, and_, cast, literal, or_, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from threadline.conversations import conversation_row
from threadline.conversations.tables import conversations
from threadline.handovers.model import HandoverRef
from threadline.handovers.tables import handover_answers
from threadline.slack.model import FileRef
from threadline.threads.message_table import StoredMessage, seconds
from threadline.threads.model import IncomingMessage, MessageKind, SenderType

_CORRECTIONS = (MessageKind.EDIT, MessageKind.DELETION)
_row = handover_answers.c


class HandoverAnswers:
    """A row says that its message needs nothing more, be it that it was said to who asks or that nothing was to say."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def has(self, ref: HandoverRef, message_id: str) -> bool:
        query = select(_row.message_id).join(conversations).where(_of(ref), _row.message_id == message_id)
        return (await self._connection.execute(query)).first() is not None

    async def as_it_reads(self, ref: HandoverRef, message: IncomingMessage) -> IncomingMessage | None:
        """A message beside what is kept of its corrections, whichever of them came first.

        Returns:
            an original in its newest wording, and a correction as it is; None where nothing of it is to be read: it is
            deleted, or a newer edit is kept.
        """
        about = message.correction_of if message.kind in _CORRECTIONS else message.id
        kept = select(handover_answers).join(conversations).where(_of(ref), _row.correction_of == about)
        newest_first = ((_row.message_type == MessageKind.DELETION).desc(), _row.version.desc())
        query = kept.where(_row.message_type.in_(_CORRECTIONS)).order_by(*newest_first).limit(1)
        newest = (await self._connection.execute(query)).one_or_none()
        if newest is None or message.kind == MessageKind.DELETION:
            return message
        if newest.message_type == MessageKind.DELETION:
            return None
        if message.kind == MessageKind.EDIT:
            return message if _version(message) >= newest.version else None
        files = tuple(FileRef(**each) for each in newest.files)
        return replace(message, text=newest.message_text, files=files or message.files)

    async def keep(self, ref: HandoverRef, message: IncomingMessage) -> None:
        """A message is dealt with. The newest edit of it wins; of what is deleted no words are kept.

        Args:
            message: without secrets; what is kept stays as it was first.
        """
        conversation = await conversation_row.locked(self._connection, ref.thread)
        now = await self.as_it_reads(ref, message)
        row = {
            "conversation_id": conversation.id,
            "message_id": message.id,
            "turn": ref.turn,
            "message_type": message.kind,
            "sender_id": message.sender_id,
            "channel": message.channel,
            "slack_ts": message.ts,
            "correction_of": message.correction_of,
            "version": _version(message),
            "deleted": now is None and message.kind not in _CORRECTIONS,
            **_words(None if message.kind == MessageKind.DELETION else now),
        }
        await self._connection.execute(insert(handover_answers).values(row).on_conflict_do_nothing())
        if now and message.kind in _CORRECTIONS:
            await self._correct(conversation.id, now)

    async def _correct(self, conversation_id: int, newest: IncomingMessage) -> None:
        """Of what it corrects no older words are kept."""
        change = update(handover_answers).where(_row.conversation_id == conversation_id)
        original = _row.message_id == newest.correction_of
        edits = and_(_row.message_type == MessageKind.EDIT, _row.correction_of == newest.correction_of)
        older = change.where(edits, _row.message_id != newest.id)
        await self._connection.execute(older.values(_words(None)))
        if newest.kind == MessageKind.DELETION:
            await self._connection.execute(change.where(original).values(deleted=True, **_words(None)))
        else:
            await self._connection.execute(change.where(original, ~_row.deleted).values(_words(newest)))

    async def stored(self, ref: HandoverRef, ids: Collection[str]) -> dict[str, StoredMessage]:
        """Which of these messages are kept, by id, with whatever corrects them."""
        which = or_(_row.message_id.in_(ids), _row.correction_of.in_(ids))
        return {each.message_id: each for each in await self._read(_MESSAGES.where(_of(ref), which))}

    async def said_in(self, ref: HandoverRef, oldest: Decimal, latest: Decimal) -> list[StoredMessage]:
        """What people wrote between two moments (seconds since 1970, both exclusive) and have not deleted."""
        at = cast(_row.slack_ts, Numeric)
        there = and_(_row.message_type == MessageKind.MESSAGE, ~_row.deleted, at > oldest, at < latest)
        return await self._read(_MESSAGES.where(_of(ref), there))

    async def stored_ids(self, ids: Collection[str]) -> set[str]:
        """Which of these messages are kept, of whichever hand-over."""
        return set((await self._connection.execute(select(_row.message_id).where(_row.message_id.in_(ids)))).scalars())

    async def _read(self, query: Select[tuple[str, str, str, str, str, str, str]]) -> list[StoredMessage]:
        return [StoredMessage(**row) for row in (await self._connection.execute(query)).mappings()]


_MESSAGES = select(
    _row.message_id,
    _row.message_type,
    _row.sender_id,
    literal(SenderType.DEVELOPER).label("sender_type"),
    _row.message_text,
    _row.channel,
    _row.slack_ts,
).join(conversations)


def _version(message: IncomingMessage) -> Decimal:
    return seconds(message.version) if message.version else Decimal(0)


def _words(message: IncomingMessage | None) -> dict[str, Any]:
    """The columns of what is to be read of a message; None: nothing."""
    if message is None:
        return {"message_text": "", "files": []}
    return {"message_text": message.text, "files": [asdict(file) for file in message.files]}


def _of(ref: HandoverRef) -> ColumnElement[bool]:
    return and_(conversation_row.here(ref.thread), _row.turn == ref.turn)
