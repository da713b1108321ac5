"""Changes that happen once: each is kept under its operation's key, in the transaction that makes it."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TypeVar

from pydantic import TypeAdapter
from sqlalchemy import delete, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from threadline.db.rate_limits import Limits
from threadline.db.values import storable, storable_key
from threadline.tools.model import CallIdReused, Change, Effect, Operation
from threadline.tools.tables import tool_operations

Answer = TypeVar("Answer")


class Operations:
    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def effect(self, operation: Operation) -> Effect | None:
        """What an operation did, for whoever was not told; None when it changed nothing."""
        row = tool_operations.c
        query = select(row.kind, row.record, row.result).where(row.key == storable_key(operation.key))
        found = (await self._connection.execute(query)).one_or_none()
        return Effect(*found) if found else None

    async def once(
        self,
        change: Change,
        kind: str,
        record: str,
        answers: TypeAdapter[Answer],
        act: Callable[[], Awaitable[Answer]],
    ) -> Answer:
        """Do it, or answer what it answered before. Another transaction that does the same is waited for.

        Args:
            kind: the change, as `create_items`; `record`: what it changes.
            answers: how the answer becomes JSON and a value again.
            act: changes the database, within this transaction; when it raises, nothing was done.

        Raises:
            OperationReused: the key stands for another change.
        """
        key, record = storable_key(change.operation.key), storable(record)
        made = datetime.fromtimestamp(change.now, UTC)
        new = insert(tool_operations).values(key=key, kind=kind, record=record, created_at=made)
        if (await self._connection.execute(new.on_conflict_do_nothing().returning(tool_operations.c.key))).first():
            answer = await act()
            result = answers.dump_python(answer, mode="json")
            kept = update(tool_operations).where(tool_operations.c.key == key).values(result=result)
            await self._connection.execute(kept)
            return answer
        earlier = await self.effect(change.operation)
        if earlier is None or (earlier.kind, earlier.record) != (kind, record):
            raise CallIdReused(f"{key} was used for another change: a new change needs its own call")
        return answers.validate_python(earlier.result)

    async def spend(self, change: Change, record: str) -> None:
        """Count a change against the rate of its record.

        Raises:
            RateExceeded: it was changed too often; the transaction is to end without changing it.
        """
        if change.rate:
            limits = Limits(self._connection)
            await limits.count_change(change.team, record, change.operation.key, change.now, change.rate)

    async def prune(self, before: float, limit: int = 10_000) -> int:
        """Forget operations from before a moment (seconds since 1970), at most `limit`; returns how many."""
        row = tool_operations.c
        old = select(row.key).where(row.created_at < datetime.fromtimestamp(before, UTC)).limit(limit)
        return (await self._connection.execute(delete(tool_operations).where(row.key.in_(old)))).rowcount
