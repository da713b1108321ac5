"""What came of a turn's decision, and what that says of it: the judgement of people, never of a model. Pure."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from threadline.decisions.confidence import Factors, Thresholds, composite
from threadline.decisions.model import Course, Decided, Reason, Result, Verdict
from threadline.slack.model import Thread


class Label(StrEnum):
    """What people's doings say of a decision; most decisions stay without one."""

    GOOD = "good"
    """Answered, and more thumbs are up than down."""
    BAD = "should_have_been_escalated"
    """Answered, and more thumbs are down than up."""
    NEEDED = "needed"
    """Escalated, and a person answered."""
    NEEDLESS = "need_not_have_been_escalated"
    """Escalated, and a person closed it without an answer, or more thumbs are down than up."""
    UNLABELLED = ""


@dataclass(frozen=True)
class Outcome:
    """A turn's last round, and what came of it.

    `ups` and `downs` count people. `cost_usd` is the whole turn's. `helped`: a person to whom the turn was given has
    answered; `closed`: they are done with it.
    """

    thread: Thread
    turn: int
    round: int
    variant: str
    prompt_version: str
    decided: Decided
    thresholds: Thresholds
    factors: Factors | None
    verdict: Verdict | None
    result: Result | None
    ups: int
    downs: int
    cost_usd: float
    at: datetime
    helped: bool = False
    closed: bool = False

    @property
    def key(self) -> str:
        """The thread's, with the turn."""
        return f"{self.thread.key}:{self.turn}"

    @property
    def escalated(self) -> bool:
        return self.verdict is not None and self.verdict.course is Course.ESCALATE

    @property
    def label(self) -> Label:
        if self.escalated:
            return self._label_of_escalation()
        if self.result is not Result.ANSWERED or self.ups == self.downs:
            return Label.UNLABELLED
        return Label.GOOD if self.ups > self.downs else Label.BAD

    @property
    def lesson(self) -> tuple[float, bool] | None:
        """The evidence's confidence, before any cap, and whether the agent was right to answer, or would have been.

        None without a label, and where something else than the confidence has decided: a sensitive topic, an error,
        the engine's own word.
        """
        if self.factors is None or self.verdict is None or self.label is Label.UNLABELLED:
            return None
        if self.escalated and self.verdict.reason is not Reason.LOW_CONFIDENCE:
            return None
        return composite(self.factors), self.label in (Label.GOOD, Label.NEEDLESS)

    def _label_of_escalation(self) -> Label:
        if self.helped:
            return Label.NEEDED
        return Label.NEEDLESS if self.closed or self.downs > self.ups else Label.UNLABELLED
