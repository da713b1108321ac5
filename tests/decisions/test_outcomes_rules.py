"""What people's reactions say of a decision, and what the thresholds learn from it."""

import pytest

from tests.decisions.outcome_samples import answered, escalated
from threadline.decisions.model import Course, Reason, Result, Verdict
from threadline.decisions.outcomes import Label, Outcome

LABELS: list[tuple[str, Outcome, Label]] = [
    ("answered, thumb up", answered(ups=1), Label.GOOD),
    ("answered, thumb down", answered(downs=1), Label.BAD),
    ("answered, as many up as down", answered(ups=2, downs=2), Label.UNLABELLED),
    ("answered, more up than down", answered(ups=2, downs=1), Label.GOOD),
    ("asked back, thumb down", answered(downs=1, result=Result.CLARIFIED), Label.UNLABELLED),
    ("not settled yet", answered(ups=1, result=None), Label.UNLABELLED),
    ("escalated, answered and closed", escalated(helped=True, closed=True, downs=1), Label.NEEDED),
    ("escalated and taken over", escalated(result=Result.TAKEN_OVER), Label.UNLABELLED),
    ("escalated, closed without an answer", escalated(result=Result.TAKEN_OVER, closed=True), Label.NEEDLESS),
    ("escalated, thumb down", escalated(downs=1), Label.NEEDLESS),
    ("escalated, thumb up", escalated(ups=1), Label.UNLABELLED),
]


@pytest.mark.parametrize(("outcome", "label"), [row[1:] for row in LABELS], ids=[row[0] for row in LABELS])
def test_label_follows_from_reactions_and_results(outcome: Outcome, label: Label) -> None:
    assert outcome.label is label


CAPPED = Verdict(Course.ESCALATE, 0.35, Reason.LOW_CONFIDENCE)


@pytest.mark.parametrize(
    ("outcome", "lesson"),
    [
        (answered(0.8, ups=1), (0.8, True)),
        (answered(0.8, downs=1), (0.8, False)),
        (answered(0.8), None),
        (escalated(0.4, helped=True), (0.4, False)),
        (escalated(0.4, closed=True), (0.4, True)),
        (escalated(0.48, verdict=CAPPED, closed=True), (0.48, True)),
        (escalated(0.9, Reason.SENSITIVE_TOPIC, helped=True), None),
        (answered(ups=1, factors=None, verdict=None), None),
    ],
)
def test_lesson_exists_only_where_confidence_decided(outcome: Outcome, lesson: tuple[float, bool] | None) -> None:
    assert outcome.lesson == (lesson and pytest.approx(lesson))
