"""The activities of the sweep: what must hold is looked up, and made to hold. Run in the core worker."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from enum import StrEnum

from temporalio import activity

from threadline.threads.activity_options import SCAN, activity_options


class RepairKind(StrEnum):
    QUESTION = "question"
    FINDINGS = "findings"


@dataclass(frozen=True)
class Repair:
    """Something finished that was never said; saying it is safe to repeat."""

    bug_id: str
    turn: int
    kind: RepairKind


@dataclass(frozen=True)
class Swept:
    """`next`: what the following page begins after, 0 when all were seen; `revived`: what runs again."""

    next: int
    revived: int = 0


@dataclass(frozen=True)
class Unsaid:
    """A page of what was never said; `next` as in `Swept`."""

    next: int
    repairs: list[Repair] = field(default_factory=list)


class SweepActivities(ABC):
    """What must hold of cases and conversations is looked up, and made to hold. Run in the core worker."""

    @activity_options(SCAN)
    @activity.defn
    @abstractmethod
    async def sweep_cases(self, after: int) -> Swept:
        """Start the workflow of each case that must have one and has none."""

    @activity_options(SCAN)
    @activity.defn
    @abstractmethod
    async def sweep_clocks(self, after: int) -> Swept:
        """Start the clock of each open escalation that has lost it."""

    @activity_options(SCAN)
    @activity.defn
    @abstractmethod
    async def sweep_conversations(self, after: int) -> Swept:
        """Start the workflow of each conversation in which something waits for an answer, or an answer to be said;
        with the last page, that of each hand-over that is open."""

    @activity_options(SCAN)
    @activity.defn
    @abstractmethod
    async def find_missing_answers(self, after: int) -> Unsaid:
        """What finished and was not said, where no workflow has it before it."""
