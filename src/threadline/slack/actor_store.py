"""Who asks, as Slack said when it was asked last."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Row, delete, select, tuple_
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from threadline.db.values import storable
from threadline.slack.model import UserProfile
from threadline.slack.tables import actors


class Actors:
    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def of(self, team: str, user_id: str) -> UserProfile | None:
        """Who that is, however long ago Slack was asked; None when nobody has asked yet."""
        return (await self.all_of(team, [user_id])).get(user_id)

    async def all_of(self, team: str, user_ids: Sequence[str]) -> dict[str, UserProfile]:
        """Who these are, by id, as far as it is known."""
        query = select(actors).where(actors.c.team == team, actors.c.user_id.in_([storable(each) for each in user_ids]))
        return {row.user_id: _actor(row) for row in await self._connection.execute(query)}

    async def save(self, team: str, actor: UserProfile) -> None:
        """Keep what Slack said, unless something newer is known."""
        row = {
            "email": storable(actor.email),
            "display_name": storable(actor.display_name),
            "platform_id": storable(actor.platform_id),
            "fetched_at": datetime.fromtimestamp(actor.fetched_at, UTC),
        }
        new = insert(actors).values(team=team, user_id=storable(actor.user_id), **row)
        newer = new.excluded.fetched_at >= actors.c.fetched_at
        kept = new.on_conflict_do_update(index_elements=["team", "user_id"], set_=row, where=newer)
        await self._connection.execute(kept)

    async def prune(self, before: float, limit: int = 10_000) -> int:
        """Forget who was looked up before a moment (seconds since 1970), at most `limit`; returns how many."""
        old = select(actors.c.team, actors.c.user_id).where(actors.c.fetched_at < datetime.fromtimestamp(before, UTC))
        which = tuple_(actors.c.team, actors.c.user_id).in_(old.limit(limit))
        return (await self._connection.execute(delete(actors).where(which))).rowcount


def _actor(row: Row[Any]) -> UserProfile:
    return UserProfile(row.user_id, row.email, row.display_name, row.platform_id, row.fetched_at.timestamp())
