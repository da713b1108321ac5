"""Recovery: ends a fault of the installation as soon as the failed operation works again.

Posts and model calls succeed all the time, so each checks this process's memory first. It holds
the faults that were open when the table was last read (`refresh`), and those that this process has
reported since.
"""

import time
from collections.abc import Callable

import structlog

from threadline.db.engine import Database
from threadline.errors import Permanent, Transient
from threadline.threads.fault_store import FaultStore

REFRESH_INTERVAL = 30.0
"""Seconds between two reads of the open faults: other workers report faults, too."""

_log = structlog.get_logger(__name__)


class Recovery:
    """Holds the open faults, and ends those that are over. Never raises: its callers have done
    their work.
    """

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock
        self._open = set[tuple[str, str]]()

    def note(self, kind: str, subject: str) -> None:
        """Remember a fault that this process reported."""
        self._open.add((kind, subject))

    async def refresh(self) -> None:
        """Read the open faults."""
        try:
            async with self._database.begin() as tx:
                self._open = {(each.kind, each.subject) for each in await FaultStore(tx).open()}
        except (Permanent, Transient) as error:
            _log.warning("open_faults_unknown", reason=str(error))

    async def works(self, kind: str, *subjects: str) -> None:
        """End the faults of these subjects, or all of the kind when no subject is given."""
        ended = [
            each
            for each in self._open
            if each[0] == kind and (not subjects or each[1] in subjects)
        ]
        for fault in ended:
            self._open.discard(fault)
            await self._resolve(*fault)

    async def _resolve(self, kind: str, subject: str) -> None:
        try:
            async with self._database.begin() as tx:
                count = await FaultStore(tx).resolve(kind, subject, self._clock())
        except (Permanent, Transient) as error:
            self._open.add((kind, subject))
            _log.warning("fault_end_not_recorded", kind=kind, subject=subject, reason=str(error))
            return
        if count:
            _log.info("installation_fault_over", kind=kind, subject=subject)
