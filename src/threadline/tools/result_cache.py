"""What read-only tools have answered, given again for a while to who asks the same."""

from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from threadline.tools.tables import tool_results


class ToolResults:
    """`now`, `until` and `before` are in seconds since 1970; a `fingerprint` is of one question alone."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def get(self, fingerprint: str, now: float) -> Any:
        """The answer as JSON; None when there is none, or it is too old."""
        row = tool_results.c
        query = select(row.result).where(row.fingerprint == fingerprint, row.until > now)
        return (await self._connection.execute(query)).scalar_one_or_none()

    async def put(self, team: str, toolset: str, fingerprint: str, result: object, until: float) -> None:
        """Keep an answer (JSON) in the place of an earlier one."""
        row = {"team": team, "toolset": toolset, "result": result, "until": until}
        kept = insert(tool_results).values(fingerprint=fingerprint, **row)
        await self._connection.execute(kept.on_conflict_do_update(index_elements=["fingerprint"], set_=row))

    async def forget(self, team: str, toolset: str) -> None:
        """Nothing that a toolset answered before is given again in this team."""
        row = tool_results.c
        await self._connection.execute(delete(tool_results).where(row.team == team, row.toolset == toolset))

    async def prune(self, before: float, limit: int = 10_000) -> int:
        """Drop what was good until a moment, at most `limit`; returns how many, so that 0 means none is left."""
        row = tool_results.c
        old = select(row.fingerprint).where(row.until < before).limit(limit)
        return (await self._connection.execute(delete(tool_results).where(row.fingerprint.in_(old)))).rowcount
