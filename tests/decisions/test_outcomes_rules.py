"""What people's doings say of a decision, and what is learnt of it."""

from typing import Any

import pytest

from tests.decisions.outcome_samples import answered, escalated
from threadline.decisions.model import Course, Reason, Result, Verdict
from threadline.decisions.outcomes import Label, Outcome

LABELS: list[tuple[str, Outcome, Label]] = [
    ("answered with a thumb up", answered(ups=1), Label.GOOD),
    ("answered with a thumb down", answered(downs=1), Label.BAD),
    ("answered without a thumb", answered(), Label.UNLABELLED),
    ("answered with as many up as down", answered(ups=2, downs=2), Label.UNLABELLED),
    ("answered with most up", answered(ups=2, downs=1), Label.GOOD),
    ("asked back, whatever the thumb", answered(downs=1, result=Result.CLARIFIED), Label.UNLABELLED),
    ("failed, whatever the thumb", answered(downs=1, result=Result.FAILED), Label.UNLABELLED),
    ("not settled yet", answered(ups=1, result=None), Label.UNLABELLED),
    ("escalated and answered by a person", escalated(result=Result.TAKEN_OVER, helped=True), Label.NEEDED),
    ("escalated, answered and closed", escalated(helped=True, closed=True, downs=1), Label.NEEDED),
    ("escalated and taken over", escalated(result=Result.TAKEN_OVER), Label.UNLABELLED),
    ("escalated and waiting", escalated(), Label.UNLABELLED),
    ("escalated and closed without an answer", escalated(result=Result.TAKEN_OVER, closed=True), Label.NEEDLESS),
    ("escalated with a thumb down", escalated(downs=1), Label.NEEDLESS),
    ("escalated with a thumb up", escalated(ups=1), Label.UNLABELLED),
]


@pytest.mark.parametrize(("outcome", "label"), [row[1:] for row in LABELS], ids=[row[0] for row in LABELS])
def test_what_came_of_a_decision_has_one_meaning(outcome: Outcome, label: Label) -> None:
    assert outcome.label is label


@pytest.mark.parametrize(
    ("outcome", "lesson"),
    [
        (answered(0.8, ups=1), (0.8, True)),
        (answered(0.8, downs=1), (0.8, False)),
        (answered(0.8), None),
        (escalated(0.4, helped=True), (0.4, False)),
        (escalated(0.4, closed=True), (0.4, True)),
        (escalated(0.9, Reason.SENSITIVE_TOPIC, helped=True), None),
        (escalated(0.9, Reason.RETRIEVAL_FAILURE, closed=True), None),
        (answered(ups=1, factors=None, verdict=None), None),
    ],
)
def test_the_confidence_learns_only_where_it_has_decided(outcome: Outcome, lesson: tuple[float, bool] | None) -> None:
    assert outcome.lesson == (lesson and pytest.approx(lesson))


def test_an_escalation_is_learnt_from_with_the_confidence_before_its_cap() -> None:
    capped: dict[str, Any] = {"verdict": Verdict(Course.ESCALATE, 0.35, Reason.LOW_CONFIDENCE), "closed": True}
    assert answered(0.48, result=Result.ESCALATED, **capped).lesson == pytest.approx((0.48, True))
