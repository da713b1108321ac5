"""What the decisions of some days came to: how often each, how well calibrated, where a person was needed. Pure."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from threadline.decisions.calibration import Calibration, calibration
from threadline.decisions.model import Action, Course
from threadline.decisions.outcomes import Label, Outcome


@dataclass(frozen=True)
class Tally:
    """Counts of some decisions. `cost_usd`: of their turns in all."""

    decisions: int
    courses: Counter[Course]
    labels: Counter[Label]
    ups: int
    downs: int
    cost_usd: float
    calibration: Calibration | None

    @property
    def share_right(self) -> float | None:
        """Of what is labelled, how much was decided as people would have it; None without labels."""
        labelled = sum(self.labels.values()) - self.labels[Label.UNLABELLED]
        return (self.labels[Label.GOOD] + self.labels[Label.NEEDED]) / labelled if labelled else None


@dataclass(frozen=True)
class Report:
    """`actions`: how often each was decided, with its tally. `variants`: by name and version of the prompt.

    `needless` are the escalations that need not have been, `missed` what should have been one; newest first.
    """

    whole: Tally
    actions: tuple[tuple[Action, Tally], ...]
    variants: tuple[tuple[str, str, Tally], ...]
    needless: tuple[Outcome, ...]
    missed: tuple[Outcome, ...]


def report(outcomes: Sequence[Outcome]) -> Report | None:
    """None where nothing was decided."""
    if not outcomes:
        return None
    newest = sorted(outcomes, key=lambda each: each.at, reverse=True)
    variants = sorted({(each.variant, each.prompt_version) for each in outcomes})
    return Report(
        _tally(outcomes),
        tuple(
            (action, _tally(mine))
            for action in Action
            if (mine := [each for each in outcomes if each.decided.action is action])
        ),
        tuple(
            (
                name,
                version,
                _tally([each for each in outcomes if (each.variant, each.prompt_version) == (name, version)]),
            )
            for name, version in variants
        ),
        tuple(each for each in newest if each.label is Label.NEEDLESS),
        tuple(each for each in newest if each.label is Label.BAD),
    )


def _tally(outcomes: Sequence[Outcome]) -> Tally:
    return Tally(
        len(outcomes),
        Counter(each.verdict.course for each in outcomes if each.verdict),
        Counter(each.label for each in outcomes),
        sum(each.ups for each in outcomes),
        sum(each.downs for each in outcomes),
        sum(each.cost_usd for each in outcomes),
        calibration([lesson for each in outcomes if (lesson := each.lesson) is not None]),
    )
