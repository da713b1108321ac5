"""Faults of the installation, such as a refused token or a full disk: the admin is told once when one opens, and once
when it is over.

A fault concerns all threads and only the admin can mend it, so it does not call the people on call. Each fault is a
row of `installation_faults`, named by its kind and its subject. Its end is told by the sweep once it has been over for
`SETTLED`; until then a fault that returns continues its row without another message. The sweep also posts the messages
that Slack did not take at first.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog
from sqlalchemy import RowMapping, or_, select, update
from sqlalchemy.dialects.postgresql import insert

from threadline.db.engine import Database, Store, Transaction
from threadline.errors import Permanent, Transient
from threadline.slack import formatting
from threadline.threads.model import format_utc
from threadline.threads.outbox import Outbox, Post
from threadline.threads.tables import installation_faults

SETTLED = 300.0
"""Seconds after its end in which a fault that returns is the same fault."""
MAX_KEPT_TEXT = 1_000
"""Characters of a fault's text."""

_log = structlog.get_logger(__name__)
_fault = installation_faults.c


@dataclass(frozen=True)
class InstallationFault:
    """One fault. Times are seconds since 1970.

    - `kind`: a stable name, such as `slack_refuses` or `no_worker`;
    - `subject`: the part it concerns, such as a channel or a queue; may be empty;
    - `text`: for the admin: what is wrong, and what to do;
    - `resolved_at`: None while it lasts;
    - `told_open`, `told_over`: whether the admin was told of its beginning and of its end.
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
        """Open the fault, or renew the row of one that is open or whose end was not told."""
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
        opened = insert(installation_faults).values(kind=kind, subject=subject, first_seen=at, **given)
        await self._tx.execute(opened.on_conflict_do_nothing())

    async def resolve(self, kind: str, subject: str, now: float) -> int:
        """End the fault, or all of its kind when `subject` is empty; returns how many ended."""
        ended = update(installation_faults).where(_fault.kind == kind, _fault.resolved_at.is_(None))
        if subject:
            ended = ended.where(_fault.subject == subject)
        return (await self._tx.execute(ended.values(resolved_at=_moment(now)))).rowcount

    async def open(self) -> list[InstallationFault]:
        """Return the faults that last, oldest first."""
        query = select(installation_faults).where(_fault.resolved_at.is_(None)).order_by(_fault.id)
        return [_row(each) for each in (await self._tx.execute(query)).mappings()]

    async def untold_after(self, after: int, limit: int, now: float) -> list[InstallationFault]:
        """Return a page of the faults whose beginning, or whose settled end, the admin was not told."""
        begun = _fault.resolved_at.is_(None) & _fault.told_open.is_(False)
        settled = (_fault.resolved_at <= _moment(now - SETTLED)) & _fault.told_over.is_(False)
        untold = select(installation_faults).where(_fault.id > after, or_(begun, settled))
        page = untold.order_by(_fault.id).limit(limit)
        return [_row(each) for each in (await self._tx.execute(page)).mappings()]

    async def mark_told(self, fault_id: int, *, over: bool) -> None:
        """Remember what the admin was told. The end of a fault tells its beginning as well."""
        told = {"told_open": True, "told_over": True} if over else {"told_open": True}
        await self._tx.execute(update(installation_faults).where(_fault.id == fault_id).values(**told))


class InstallationFaults:
    """Reports faults, and tells them in the admin's channel.

    Args:
        channel: the id of the channel that the admin reads.
        clock: gives seconds since 1970.
    """

    def __init__(
        self, database: Database, outbox: Outbox, channel: str, clock: Callable[[], float] = time.time
    ) -> None:
        self._database = database
        self._outbox = outbox
        self._channel = channel
        self._clock = clock

    async def report(self, kind: str, subject: str, text: str) -> None:
        """Record that the fault is there, and tell the admin unless that was done. Never raises: the caller has
        something more important to do, and the sweep tells it later."""
        _log.error("installation_fault", kind=kind, subject=subject, reason=text)
        try:
            async with self._database.begin() as tx:
                await FaultStore(tx).report(kind, subject, text, self._clock())
            for fault in await self._untold():
                await self.tell(fault)
        except (Permanent, Transient) as error:
            _log.warning("installation_fault_untold", kind=kind, subject=subject, reason=str(error))

    async def resolve(self, kind: str, subject: str = "") -> None:
        """Record that the fault, or every fault of its kind, is over. The sweep tells the admin. Never raises."""
        try:
            async with self._database.begin() as tx:
                ended = await FaultStore(tx).resolve(kind, subject, self._clock())
        except (Permanent, Transient) as error:
            _log.warning("fault_end_not_recorded", kind=kind, subject=subject, reason=str(error))
            return
        if ended:
            _log.info("installation_fault_over", kind=kind, subject=subject)

    async def tell(self, fault: InstallationFault) -> bool:
        """Post what the admin does not know of this fault. Returns True. Raises `Permanent` or `Transient` when Slack
        does not take it."""
        over = fault.resolved_at is not None

        async def mark(tx: Transaction, _ts: str) -> None:
            await FaultStore(tx).mark_told(fault.id, over=over)

        key = f"fault:{fault.id}:over" if over else f"fault:{fault.id}"
        headline = "Mended" if over else "Threadline needs its admin"
        rendered = formatting.notice(fault_text(fault), headline=headline)
        await self._outbox.publish(Post(key, self._channel, None, rendered, on_posted=mark))
        return True

    async def _untold(self) -> Sequence[InstallationFault]:
        async with self._database.begin() as tx:
            return await FaultStore(tx).untold_after(0, 20, self._clock())


def fault_text(fault: InstallationFault) -> str:
    """Return the sentences that the admin reads, in Markdown."""
    if fault.resolved_at is None:
        return fault.text
    since, until = format_utc(fault.first_seen), format_utc(fault.resolved_at)
    return f"This is over; it lasted from {since} to {until}: {fault.text}"


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
