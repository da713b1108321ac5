"""RetryBudget: how often an interrupted turn is tried again, by what interrupted it."""

from dataclasses import dataclass
from enum import StrEnum

FIRST_DELAY, LONGEST_DELAY, GIVE_UP_AFTER = 10.0, 600.0, 3600.0
MAX_LOST_WORKERS = 10
"""After this many lost workers the turn itself is the likely cause (it uses up the memory, say): people look at it."""


class FaultKind(StrEnum):
    LOST = "lost"
    """A deploy or a crashed machine: no fault of the turn, so it does not count towards `GIVE_UP_AFTER`."""
    TRANSIENT = "transient"
    PERMANENT = "permanent"


@dataclass(frozen=True)
class Fault:
    """Why an attempt ended without an outcome; `message` is a sentence for people."""

    kind: FaultKind
    message: str
    retry_after: float = 0.0


@dataclass
class RetryBudget:
    """Counts the interruptions of one turn. Times in seconds."""

    lost: int = 0
    transient: int = 0
    first_transient: float | None = None

    def next_delay(self, fault: Fault, now: float) -> float | None:
        """How long to wait before the next attempt; None when people must take over."""
        if fault.kind is FaultKind.LOST:
            self.lost += 1
            return 1.0 if self.lost <= MAX_LOST_WORKERS else None
        if fault.kind is FaultKind.PERMANENT:
            return None
        self.first_transient = now if self.first_transient is None else self.first_transient
        if now - self.first_transient >= GIVE_UP_AFTER:
            return None
        self.transient += 1
        return max(fault.retry_after, min(FIRST_DELAY * 2.0 ** (self.transient - 1), LONGEST_DELAY))
