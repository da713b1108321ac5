"""The profiles of Slack users in the database."""

from collections.abc import Collection
from datetime import UTC, datetime

from sqlalchemy import delete, select, tuple_
from sqlalchemy.dialects.postgresql import insert

from threadline.db.engine import Store
from threadline.slack.model import UserProfile
from threadline.slack.tables import users


class UserStore(Store):
    async def get(self, team: str, user_id: str) -> UserProfile | None:
        """Return the user's profile of any age; None before the first answer from Slack."""
        query = select(users).where(users.c.team == team, users.c.user_id == user_id)
        row = (await self._tx.execute(query)).one_or_none()
        if row is None:
            return None
        return UserProfile(
            row.user_id, row.email, row.display_name, row.platform_id, row.fetched_at.timestamp()
        )

    async def names(self, team: str, user_ids: Collection[str]) -> dict[str, str]:
        """Return the stored names of users by their ids, without users that have none."""
        query = select(users.c.user_id, users.c.display_name).where(
            users.c.team == team, users.c.user_id.in_(list(user_ids)), users.c.display_name != ""
        )
        return {row.user_id: row.display_name for row in await self._tx.execute(query)}

    async def save(self, team: str, profile: UserProfile) -> None:
        """Store a profile from Slack, unless a newer one is stored."""
        row = {**vars(profile), "fetched_at": datetime.fromtimestamp(profile.fetched_at, UTC)}
        new = insert(users).values(team=team, **row)
        newer = new.excluded.fetched_at >= users.c.fetched_at
        del row["user_id"]
        await self._tx.execute(
            new.on_conflict_do_update(index_elements=["team", "user_id"], set_=row, where=newer)
        )

    async def prune(self, before: float, limit: int = 10_000) -> int:
        """Delete at most `limit` profiles from before a moment (seconds since 1970), and return
        their number.
        """
        old = select(users.c.team, users.c.user_id).where(
            users.c.fetched_at < datetime.fromtimestamp(before, UTC)
        )
        which = tuple_(users.c.team, users.c.user_id).in_(old.limit(limit))
        return (await self._tx.execute(delete(users).where(which))).rowcount
