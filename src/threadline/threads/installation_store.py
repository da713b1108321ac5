"""InstallationStore: the places of the data. A database in another place than before was restored
from a backup, and its data from between the backup and the restore is lost. `RestoreWindow` is
that stretch of time.
"""

from dataclasses import dataclass

from sqlalchemy import func, insert, select, text, update

from threadline.db.engine import Store
from threadline.threads.contract import LOOK_BACK
from threadline.threads.tables import installation_places, posts

CLOCK_SKEW = 300.0
"""Seconds by which Slack's clock and the database's may differ."""

_MAY_READ_CONTROL = text("""
SELECT has_function_privilege('pg_control_system()', 'EXECUTE')
   AND has_function_privilege('pg_control_checkpoint()', 'EXECUTE')
""")
_CLUSTER = text("""
SELECT system_identifier || '/' || timeline_id FROM pg_control_system(), pg_control_checkpoint()
""")
_DATABASE = text("""
SELECT oid || '/' || 'installation_places'::regclass::oid
FROM pg_database WHERE datname = current_database()
""")
_LOCK = text("LOCK TABLE installation_places IN SHARE ROW EXCLUSIVE MODE")
_place = installation_places.c


@dataclass(frozen=True)
class RestoreWindow:
    """The time that a restore has lost, in seconds since 1970.

    - `lost_since`: the last moment that the restored database knows;
    - `noticed_at`: when the restore was noticed; later messages are not lost.
    """

    lost_since: float
    noticed_at: float

    @property
    def oldest(self) -> float:
        """The earliest time by Slack's clock of a post that may be lost."""
        return max(self.lost_since - CLOCK_SKEW, 0.0)

    @property
    def newest(self) -> float:
        """The latest time by Slack's clock of a post that may be lost."""
        return self.noticed_at + CLOCK_SKEW

    def holds(self, at: float) -> bool:
        """Return whether something of this time by Slack's clock may be lost."""
        return self.oldest < at < self.newest


class InstallationStore(Store):
    """Reads and writes the table of places. The first row is the installation; each further row is
    a restore.
    """

    async def database_id(self) -> str:
        """Return an id that changes with a restore: of the cluster (a new one, or a point-in-time
        recovery), the database (dropped and created) and the table (dropped and created). A
        restored snapshot of the disk changes none of them.
        """
        cluster = ""
        if (await self._tx.execute(_MAY_READ_CONTROL)).scalar_one():
            cluster = str((await self._tx.execute(_CLUSTER)).scalar_one())
        return f"{cluster}/{(await self._tx.execute(_DATABASE)).scalar_one()}"

    async def notice(self, temporal_id: str, now: float) -> bool:
        """Record where the data lives.

        Args:
            temporal_id: id of Temporal's namespace; empty where Temporal did not return it.
            now: seconds since 1970.

        Returns:
            Whether the data was restored: it has lived elsewhere until now.
        """
        await self._tx.execute(_LOCK)  # only one of several starting workers notices
        database_id = await self.database_id()
        query = (
            select(_place.id, _place.database_id, _place.temporal_id)
            .order_by(_place.id.desc())
            .limit(1)
        )
        last = (await self._tx.execute(query)).one_or_none()
        if last is None:
            await self._add(database_id, temporal_id, now)
            return False
        same_temporal = last.temporal_id in ("", temporal_id) or not temporal_id
        if last.database_id == database_id and same_temporal:
            if temporal_id and not last.temporal_id:
                here = update(installation_places).where(_place.id == last.id)
                await self._tx.execute(here.values(temporal_id=temporal_id))
            return False
        await self._add(database_id, temporal_id, now, await self._last_known(now))
        return True

    async def record_restore(self, now: float) -> None:
        """Record a restore that only the admin can know, such as that of a snapshot of the
        disk.
        """
        await self._tx.execute(_LOCK)
        await self._add(await self.database_id(), "", now, await self._last_known(now))

    async def restore_window(self, now: float) -> RestoreWindow | None:
        """Return the time that restores within `LOOK_BACK` have lost; None without a restore."""
        recent = (_place.lost_since.is_not(None), _place.noticed_at > now - LOOK_BACK)
        query = select(func.min(_place.lost_since), func.max(_place.noticed_at)).where(*recent)
        lost_since, noticed_at = (await self._tx.execute(query)).one()
        return None if lost_since is None else RestoreWindow(lost_since, noticed_at)

    async def _last_known(self, now: float) -> float:
        last: float | None = (
            await self._tx.execute(select(func.max(posts.c.claimed_at)))
        ).scalar_one()
        return max(last or 0.0, now - LOOK_BACK)

    async def _add(
        self, database_id: str, temporal_id: str, now: float, lost_since: float | None = None
    ) -> None:
        row = {
            "database_id": database_id,
            "temporal_id": temporal_id,
            "noticed_at": now,
            "lost_since": lost_since,
        }
        await self._tx.execute(insert(installation_places).values(row))
