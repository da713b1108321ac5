"""The activities of the catch-up: what Slack shows is compared with what is stored. Run in the core worker.

No message travels in arguments or results: what is missing is read from Slack and signalled within one activity.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from enum import StrEnum

from temporalio import activity


@dataclass(frozen=True)
class Window:
    """A stretch of one channel's history, from `oldest` to `latest`, both exclusive: Slack timestamps.

    `by_bot`: only threads that the bot opened count there. `talk`: people talk with the bot there, and have no cases.
    """

    channel: str
    by_bot: bool
    oldest: str
    latest: str
    talk: bool = False


@dataclass(frozen=True)
class LookPlan:
    """What one look covers. `began`: seconds since 1970; `quiet`: seconds for which fresh messages are left alone.

    `talk`: the part of it that is about conversations, and not about cases.
    """

    began: float
    deep: bool
    quiet: float
    windows: list[Window] = field(default_factory=list)
    talk: bool = False


@dataclass
class CatchUpState:
    """All that survives continue-as-new. Whoever starts the workflow gives an empty one."""

    asked: bool = False
    """Somebody wants a look that begins now; one that is under way does not count."""
    deep: bool = False
    """Every active thread is to be compared, and not only those that show a change."""
    after: bool = False
    """A look was asked for by a gateway that came back: what was too young for it is looked at once more."""
    plan: LookPlan | None = None
    """The look that the last run began, with the threads of cases or of conversations still to be compared."""


@dataclass(frozen=True)
class PageRequest:
    """The page of a window's history that ends at `latest`; Slack shows the newest first."""

    window: Window
    began: float
    latest: str


@dataclass(frozen=True)
class WindowDone:
    """A channel was read to its end, or cannot be: `trouble` says why."""

    window: Window
    began: float
    deep: bool
    trouble: str = ""


@dataclass(frozen=True)
class Compared:
    """`left`: threads that are still to be compared; `sent`: what was signalled now."""

    left: int
    sent: int = 0


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


class CatchUpActivities(ABC):
    """Every step may be repeated, by whichever worker: how far it came is in the database."""

    @activity.defn
    @abstractmethod
    async def begin_look(self, deep: bool) -> LookPlan:
        """Mark channels that are new here, and say what to read."""

    @activity.defn
    @abstractmethod
    async def read_history(self, request: PageRequest) -> str:
        """Take in one page; returns where the next one ends, empty after the last."""

    @activity.defn
    @abstractmethod
    async def finish_channel(self, done: WindowDone) -> None:
        """Note that a channel was read, or why not."""

    @activity.defn
    @abstractmethod
    async def choose_threads(self, plan: LookPlan) -> int:
        """Add threads that show no change; returns how many are to be compared."""

    @activity.defn
    @abstractmethod
    async def compare_threads(self, plan: LookPlan) -> Compared:
        """Compare some threads with what is stored, and signal what is missing, oldest first within each case."""


class SweepActivities(ABC):
    """What must hold of cases and conversations is looked up, and made to hold. Run in the core worker."""

    @activity.defn
    @abstractmethod
    async def sweep_cases(self, after: int) -> Swept:
        """Start the workflow of each case that must have one and has none."""

    @activity.defn
    @abstractmethod
    async def sweep_clocks(self, after: int) -> Swept:
        """Start the clock of each open escalation that has lost it."""

    @activity.defn
    @abstractmethod
    async def sweep_conversations(self, after: int) -> Swept:
        """Start the workflow of each conversation in which something waits for an answer, or an answer to be said;
        with the last page, that of each hand-over that is open."""

    @activity.defn
    @abstractmethod
    async def find_missing_answers(self, after: int) -> Unsaid:
        """What finished and was not said, where no workflow has it before it."""
