"""How often a turn that was interrupted is run again, by the class of what interrupted it."""

from dataclasses import dataclass
from enum import StrEnum

FIRST_DELAY, LONGEST_DELAY, PATIENCE = 10.0, 600.0, 3600.0
LOST_WORKERS = 10
"""Beyond this the turn itself is the likely killer (it eats the machine's memory, say): people look at it."""


class FaultKind(StrEnum):
    LOST = "lost"
    """A deploy or a crashed machine; not the turn's fault, so it costs no patience."""
    TRANSIENT = "transient"
    PERMANENT = "permanent"


@dataclass(frozen=True)
class Fault:
    """Why an attempt ended without an outcome; `words` is a sentence for people."""

    kind: FaultKind
    words: str
    retry_after: float = 0.0


@dataclass
class Attempts:
    """Counts one turn's interruptions; times in seconds."""

    lost: int = 0
    transient: int = 0
    troubled_since: float | None = None

    def delay(self, fault: Fault, now: float) -> float | None:
        """How long to wait before the next attempt; None when people must take over."""
        if fault.kind is FaultKind.LOST:
            self.lost += 1
            return 1.0 if self.lost <= LOST_WORKERS else None
        if fault.kind is FaultKind.PERMANENT:
            return None
        self.troubled_since = now if self.troubled_since is None else self.troubled_since
        if now - self.troubled_since >= PATIENCE:
            return None
        self.transient += 1
        return max(fault.retry_after, min(FIRST_DELAY * 2.0 ** (self.transient - 1), LONGEST_DELAY))
