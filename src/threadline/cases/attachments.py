"""Files that were attached in Slack: what is still to be fetched, and what was."""

from dataclasses import dataclass

from sqlalchemy import func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from threadline.cases.tables import attachments
from threadline.threads import messages


@dataclass(frozen=True)
class PendingFile:
    """A file whose content is not stored; `id` is the row's, `size` in bytes as Slack said."""

    id: int
    file_id: str
    name: str
    mimetype: str
    size: int


class Attachments:
    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def pending(self, bug_id: str) -> list[PendingFile]:
        file = attachments.c
        query = select(file.id, file.file_id, file.name, file.mimetype, file.size)
        query = query.where(file.bug_id == bug_id, file.content.is_(None), file.error == "").order_by(file.id)
        return [PendingFile(*row) for row in await self._connection.execute(query)]

    async def store(self, identity: int, content: bytes) -> None:
        """Keep a file's content, unless it was deleted while it was fetched."""
        file = attachments.c
        kept = update(attachments).where(file.id == identity, file.error == "").values(content=content)
        await self._connection.execute(kept)

    async def fail(self, identity: int, error: str) -> None:
        """The file cannot be had; the agent is told why, in words."""
        file = attachments.c
        told = update(attachments).where(file.id == identity, file.content.is_(None), file.error == "")
        await self._connection.execute(told.values(error=messages.clean(error) or "it could not be fetched"))

    async def readable(self, bug_id: str) -> int:
        """How many files the agent can read."""
        query = select(func.count()).select_from(attachments)
        query = query.where(attachments.c.bug_id == bug_id, attachments.c.content.is_not(None))
        return int((await self._connection.execute(query)).scalar_one())
