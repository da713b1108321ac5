"""InstallationFaults: faults of the installation, such as a refused token or a full disk. The
admin gets one message when a fault opens, and one when it is over.

A fault concerns all threads and only the admin can mend it, so it does not call the people on
call. Each fault is a row of `installation_faults`, named by its kind and its subject. The sweep
posts its end once the fault has been over for `SETTLED`; until then a fault that returns continues
its row without another message. The sweep also posts the messages that Slack did not accept at
first.
"""

import time
from collections.abc import Callable

import structlog

from threadline.db.engine import Database, Transaction
from threadline.errors import Permanent, Transient
from threadline.slack import formatting
from threadline.threads.fault_store import FaultStore, InstallationFault
from threadline.threads.model import format_utc
from threadline.threads.outbox import Outbox, Post
from threadline.tools.public_text import admin_lines

MAX_TOLD = 20
"""Faults that one report posts; the sweep posts the others."""

_INTERNAL = "A part of Threadline does not work: `threadline doctor` says which."
_log = structlog.get_logger(__name__)


class InstallationFaults:
    """Records faults, and posts them in the admin's channel.

    Args:
        channel: the id of the channel that the admin reads.
        clock: gives seconds since 1970.
    """

    def __init__(
        self,
        database: Database,
        outbox: Outbox,
        channel: str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._outbox = outbox
        self._channel = channel
        self._clock = clock

    async def report(self, kind: str, subject: str, text: str) -> None:
        """Record that the fault is there, and post it unless the admin knows it. Never raises: the
        caller has something more important to do, and the sweep posts it later.
        """
        _log.error("installation_fault", kind=kind, subject=subject, reason=text)
        self._outbox.recovery.note(kind, subject)
        try:
            async with self._database.begin() as tx:
                await FaultStore(tx).report(kind, subject, text, self._clock())
            async with self._database.begin() as tx:
                untold = await FaultStore(tx).untold_after(0, MAX_TOLD, self._clock())
            for fault in untold:
                await self.tell(fault)
        except (Permanent, Transient) as error:
            _log.warning(
                "installation_fault_not_posted", kind=kind, subject=subject, reason=str(error)
            )

    async def resolve(self, kind: str, subject: str = "") -> None:
        """Record that the fault, or every fault of its kind, is over. The sweep posts the end.
        Never raises.
        """
        try:
            async with self._database.begin() as tx:
                ended = await FaultStore(tx).resolve(kind, subject, self._clock())
        except (Permanent, Transient) as error:
            _log.warning("fault_end_not_recorded", kind=kind, subject=subject, reason=str(error))
            return
        if ended:
            _log.info("installation_fault_over", kind=kind, subject=subject)

    async def tell(self, fault: InstallationFault) -> bool:
        """Post the beginning or the end of this fault. Always returns True.

        Raises:
            Permanent: Slack refuses the message.
            Transient: Slack may accept it later.
        """
        over = fault.resolved_at is not None

        async def mark(tx: Transaction, _ts: str) -> None:
            await FaultStore(tx).mark_told(fault.id, over=over)

        key = f"fault:{fault.id}:over" if over else f"fault:{fault.id}"
        headline = "Solved" if over else "Threadline needs its admin"
        rendered = formatting.notice(fault_text(fault), headline=headline)
        await self._outbox.publish(Post(key, self._channel, None, rendered, on_posted=mark))
        return True


def fault_text(fault: InstallationFault) -> str:
    """Return the sentences that the admin reads in Slack, in Markdown. Paths and technical terms
    are left to the log, `threadline doctor` and `threadline explain`.
    """
    text = admin_lines(fault.text, _INTERNAL)
    if fault.resolved_at is None:
        return text
    since = format_utc(fault.first_seen)
    until = format_utc(fault.resolved_at)
    return f"This fault lasted from {since} to {until}, and is over now: {text}"
