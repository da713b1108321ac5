"""FaultStore: the faults of the installation, one row each, and the messages about them that the
admin has received.
"""

from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import RowMapping, or_, select, update
from sqlalchemy.dialects.postgresql import insert

from threadline.db.engine import Store
from threadline.threads.tables import installation_faults

SETTLED = 300.0
"""Seconds after its end within which a fault that returns is the same fault."""
MAX_KEPT_TEXT = 1_000
"""Characters of a fault's text that are kept."""

_fault = installation_faults.c


@dataclass(frozen=True)
class InstallationFault:
    """One fault. Times are seconds since 1970.

    - `kind`: a stable name, such as `slack_refuses` or `no_worker`;
    - `subject`: the part it concerns, such as a channel or a queue; may be empty;
    - `text`: the problem and its remedy, for the admin;
    - `resolved_at`: None while it lasts;
    - `told_open`, `told_over`: whether the admin has received the message about its beginning, and
      the one about its end.
    """

    id: int
    kind: str
    subject: str
    text: str
    first_seen: float
    last_seen: float
    resolved_at: float | None
    told_open: bool
    told_over: bool


class FaultStore(Store):
    """Reads and writes the table of faults."""

    async def report(self, kind: str, subject: str, text: str, now: float) -> None:
        """Open the fault, or renew the row of one that is open or whose end is not posted yet."""
        at = _moment(now)
        given = {"text": text[:MAX_KEPT_TEXT], "last_seen": at}
        renewed = (
            update(installation_faults)
            .where(_fault.kind == kind, _fault.subject == subject)
            .where(or_(_fault.resolved_at.is_(None), _fault.told_over.is_(False)))
            .values(**given, resolved_at=None)
        )
        if (await self._tx.execute(renewed)).rowcount:
            return
        opened = insert(installation_faults).values(
            kind=kind, subject=subject, first_seen=at, **given
        )
        await self._tx.execute(opened.on_conflict_do_nothing())

    async def resolve(self, kind: str, subject: str, now: float) -> int:
        """End the fault, or all of its kind when `subject` is empty; returns how many ended."""
        ended = update(installation_faults).where(
            _fault.kind == kind, _fault.resolved_at.is_(None)
        )
        if subject:
            ended = ended.where(_fault.subject == subject)
        return (await self._tx.execute(ended.values(resolved_at=_moment(now)))).rowcount

    async def open(self) -> list[InstallationFault]:
        """Return the open faults, oldest first."""
        query = select(installation_faults).where(_fault.resolved_at.is_(None)).order_by(_fault.id)
        return [_row(each) for each in (await self._tx.execute(query)).mappings()]

    async def untold_after(self, after: int, limit: int, now: float) -> list[InstallationFault]:
        """Return a page of the faults whose beginning, or whose settled end, is not posted yet."""
        begun = _fault.resolved_at.is_(None) & _fault.told_open.is_(False)
        settled = (_fault.resolved_at <= _moment(now - SETTLED)) & _fault.told_over.is_(False)
        untold = select(installation_faults).where(_fault.id > after, or_(begun, settled))
        page = untold.order_by(_fault.id).limit(limit)
        return [_row(each) for each in (await self._tx.execute(page)).mappings()]

    async def mark_told(self, fault_id: int, *, over: bool) -> None:
        """Record that the admin received a message. The message about a fault's end covers its
        beginning.
        """
        told = {"told_open": True, "told_over": True} if over else {"told_open": True}
        await self._tx.execute(
            update(installation_faults).where(_fault.id == fault_id).values(**told)
        )


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _row(row: RowMapping) -> InstallationFault:
    ended = row["resolved_at"]
    return InstallationFault(
        id=row["id"],
        kind=row["kind"],
        subject=row["subject"],
        text=row["text"],
        first_seen=row["first_seen"].timestamp(),
        last_seen=row["last_seen"].timestamp(),
        resolved_at=ended.timestamp() if ended else None,
        told_open=row["told_open"],
        told_over=row["told_over"],
    )
