"""The row of a request for proposals: found by its id, or told with the ids that look most like it."""

from typing import Any

from sqlalchemy import Column, ColumnElement, Row, Select, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection

from threadline.db.values import storable
from threadline.rfps.model import FACTS, Facts, Rfp, RfpNotFound, RfpStatus
from threadline.rfps.tables import rfps

COLUMNS: tuple[Column[Any], ...] = tuple(
    rfps.c[name] for name in (*FACTS, "rfp_id", "source_name", "created_by", "created_at")
)
"""What is told of a request: never its file's text, which may be long."""
_LONGEST_ID = 60
_NEAREST = text("""
SELECT rfp_id FROM rfps
WHERE team = :team AND deleted_at IS NULL AND similarity(substr(rfp_id, 5), :sought) > 0.2
ORDER BY similarity(substr(rfp_id, 5), :sought) DESC, rfp_id LIMIT :limit
""")
"""All ids begin alike, so that the beginning says nothing."""


async def rfp(connection: AsyncConnection, team: str, rfp_id: str, *, hold: bool = False) -> Rfp:
    """The request of this id, whatever its letters' case.

    Args:
        hold: nobody is to delete it before the transaction ends.

    Raises:
        RfpNotFound: there is none, or it was deleted; the message names the nearest ids.
    """
    sought = plain(rfp_id)
    query: Select[Any] = select(*COLUMNS, rfps.c.deleted_at).where(rfps.c.team == team, rfps.c.rfp_id == sought)
    if hold:
        query = query.with_for_update(key_share=True)
    row = (await connection.execute(query)).one_or_none()
    if row is None or row.deleted_at:
        raise RfpNotFound(sought, await nearest(connection, team, sought), deleted=row is not None)
    return told(row)


async def nearest(connection: AsyncConnection, team: str, rfp_id: str, limit: int = 3) -> list[str]:
    """The team's ids that look most like this one, the likest first."""
    given = {"team": team, "sought": plain(rfp_id).removeprefix("rfp_"), "limit": limit}
    return list((await connection.execute(_NEAREST, given)).scalars())


async def write(connection: AsyncConnection, rfp_id: str, facts: Facts) -> None:
    """Let lists show these facts."""
    await connection.execute(update(rfps).where(rfps.c.rfp_id == rfp_id).values(vars(facts)))


def there(team: str) -> tuple[ColumnElement[bool], ...]:
    """Of the team, and not deleted."""
    return rfps.c.team == team, rfps.c.deleted_at.is_(None)


def told(row: Row[Any]) -> Rfp:
    return Rfp(
        title=row.title,
        client=row.client,
        due_date=row.due_date,
        status=RfpStatus(row.status),
        owner=row.owner,
        rfp_id=row.rfp_id,
        source_name=row.source_name,
        created_by=row.created_by,
        created_at=row.created_at,
    )


def plain(rfp_id: str) -> str:
    """The id as it would be stored, whatever a person or a model wrote."""
    return storable(rfp_id).strip().lower()[:_LONGEST_ID]
