"""Drafts of mails: each says for ever what it said, and goes out at most once."""

from datetime import UTC, datetime
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import Row, Select, delete, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from threadline.db.values import storable, storable_key
from threadline.sales import email_model as letters
from threadline.sales.email_model import Draft, DraftNotFound, DraftRefused, DraftStatus, NewLetter
from threadline.sales.tables import email_drafts
from threadline.slack.model import Thread
from threadline.tools.model import Change, Operation
from threadline.tools.operation_store import Operations

_DRAFT = TypeAdapter(Draft)


class Letters:
    """A draft belongs to its thread: in others it is not there."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection
        self._operations = Operations(connection)

    async def draft(self, change: Change, user_id: str, new: NewLetter) -> Draft:
        """Keep a draft, once for each operation. Raises `DraftRefused`, `LeadRefused`, `RateExceeded`."""
        kept = letters.checked(NewLetter(*(storable(each) for each in (new.recipient, new.subject, new.body))))

        async def act() -> Draft:
            thread, at = change.operation.thread, datetime.fromtimestamp(change.now, UTC)
            await self._operations.spend(change, f"mail:{kept.recipient}")
            place = {"team": thread.team, "channel": thread.channel, "thread_ts": thread.ts, "user_id": user_id}
            row = insert(email_drafts).values(**place, **vars(kept), created_at=at).returning(email_drafts)
            return _draft((await self._connection.execute(row)).one())

        return await self._operations.once(change, "email_draft", kept.recipient, _DRAFT, act)

    async def get(self, thread: Thread, draft_id: str) -> Draft:
        """Raises `DraftNotFound`."""
        found = (await self._connection.execute(_of(thread, draft_id))).one_or_none()
        if found is None:
            raise DraftNotFound(f"this thread has no draft {draft_id[:40]}: draft the mail first")
        return _draft(found)

    async def claim(self, change: Change, draft_id: str) -> Draft:
        """Take a draft to send it; of any number that do, one gets it.

        Raises:
            DraftNotFound, RateExceeded: nothing is taken.
            DraftRefused: it was taken before, be it by the same operation.
        """
        draft = await self.get(change.operation.thread, draft_id)
        await self._operations.spend(change, f"sent:{draft.recipient}")
        mine = {"status": DraftStatus.SENDING.value, "operation_key": storable_key(change.operation.key)}
        row = email_drafts.c
        taken = update(email_drafts).where(row.draft_id == draft.draft_id, row.status == DraftStatus.DRAFT.value)
        if (await self._connection.execute(taken.values(**mine))).rowcount:
            return draft
        now = await self.get(change.operation.thread, draft_id)
        was = "was sent before" if now.status is DraftStatus.SENT else "may have been sent"
        raise DraftRefused(f"{draft.draft_id} {was}, and a draft is sent only once. Draft another mail to send one")

    async def release(self, operation: Operation) -> None:
        """The mail surely did not go out: it is a draft again."""
        free = {"status": DraftStatus.DRAFT.value, "operation_key": ""}
        await self._connection.execute(_taken_by(operation).values(**free))

    async def sent(self, operation: Operation, message_id: str, at: datetime) -> Draft:
        """The mail server has taken it over."""
        done = {"status": DraftStatus.SENT.value, "message_id": message_id, "sent_at": at}
        changed = _taken_by(operation).values(**done).returning(email_drafts)
        return _draft((await self._connection.execute(changed)).one())

    async def taken_by(self, operation: Operation) -> Draft | None:
        """What an operation has sent, or has begun to."""
        mine = select(email_drafts).where(email_drafts.c.operation_key == storable_key(operation.key))
        found = (await self._connection.execute(mine)).one_or_none()
        return _draft(found) if found else None

    async def prune(self, before: float, limit: int = 10_000) -> int:
        """Forget drafts from before a moment (seconds since 1970), at most `limit`; returns how many."""
        row = email_drafts.c
        old = select(row.id).where(row.created_at < datetime.fromtimestamp(before, UTC)).limit(limit)
        return (await self._connection.execute(delete(email_drafts).where(row.id.in_(old)))).rowcount


def _of(thread: Thread, draft_id: str) -> Select[Any]:
    row = email_drafts.c
    here = (row.team == thread.team, row.channel == thread.channel, row.thread_ts == thread.ts)
    return select(email_drafts).where(*here, row.draft_id == storable(draft_id).strip().upper())


def _taken_by(operation: Operation) -> Any:
    row = email_drafts.c
    mine = (row.operation_key == storable_key(operation.key), row.status == DraftStatus.SENDING.value)
    return update(email_drafts).where(*mine)


def _draft(row: Row[Any]) -> Draft:
    texts = (row.draft_id, row.user_id, row.recipient, row.subject, row.body)
    return Draft(*texts, DraftStatus(row.status), row.message_id, row.sent_at)
