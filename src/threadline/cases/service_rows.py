"""Who owns what: the directory in which the agent looks up an owner."""

from collections.abc import Sequence

from sqlalchemy import delete, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from threadline.cases.records import Service
from threadline.cases.tables import services


class Services:
    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def all(self) -> list[Service]:
        named = select(services).order_by(services.c.name)
        return [Service(*row) for row in await self._connection.execute(named)]

    async def replace(self, directory: Sequence[Service]) -> None:
        """Make the directory what is given: services that are not in it are forgotten."""
        await self._connection.execute(
            delete(services).where(services.c.name.not_in([service.name for service in directory]))
        )
        for service in directory:
            row = vars(service)
            known = insert(services).values(row)
            await self._connection.execute(known.on_conflict_do_update(index_elements=["name"], set_=row))
