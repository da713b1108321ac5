"""The labels that people's reactions give to decisions, and the examples that tune the
thresholds.
"""

import pytest

from tests.decisions.outcome_samples import answered, escalated
from threadline.decisions.model import DecisionOutcome, EscalationReason, Judgement, NextStep
from threadline.decisions.reports import JudgedDecision, Label

LABELS: list[tuple[str, JudgedDecision, Label]] = [
    ("answered, thumb up", answered(thumbs_up=1), Label.GOOD),
    ("answered, thumb down", answered(thumbs_down=1), Label.BAD),
    ("answered, as many up as down", answered(thumbs_up=2, thumbs_down=2), Label.UNLABELLED),
    ("answered, more up than down", answered(thumbs_up=2, thumbs_down=1), Label.GOOD),
    (
        "asked back, thumb down",
        answered(thumbs_down=1, outcome=DecisionOutcome.CLARIFIED),
        Label.UNLABELLED,
    ),
    ("not settled yet", answered(thumbs_up=1, outcome=None), Label.UNLABELLED),
    (
        "escalated, answered and closed",
        escalated(person_answered=True, closed=True, thumbs_down=1),
        Label.ESCALATION_NEEDED,
    ),
    ("escalated and taken over", escalated(outcome=DecisionOutcome.TAKEN_OVER), Label.UNLABELLED),
    (
        "escalated, closed without an answer",
        escalated(outcome=DecisionOutcome.TAKEN_OVER, closed=True),
        Label.ESCALATION_NOT_NEEDED,
    ),
    ("escalated, thumb down", escalated(thumbs_down=1), Label.ESCALATION_NOT_NEEDED),
    ("escalated, thumb up", escalated(thumbs_up=1), Label.UNLABELLED),
]


@pytest.mark.parametrize(
    ("outcome", "label"), [row[1:] for row in LABELS], ids=[row[0] for row in LABELS]
)
def test_label_follows_from_reactions_and_results(outcome: JudgedDecision, label: Label) -> None:
    assert outcome.label is label


CAPPED = Judgement(NextStep.ESCALATE, 0.35, EscalationReason.LOW_CONFIDENCE)


@pytest.mark.parametrize(
    ("outcome", "example"),
    [
        (answered(0.8, thumbs_up=1), (0.8, True)),
        (answered(0.8, thumbs_down=1), (0.8, False)),
        (answered(0.8), None),
        (escalated(0.4, person_answered=True), (0.4, False)),
        (escalated(0.4, closed=True), (0.4, True)),
        (escalated(0.48, judgement=CAPPED, closed=True), (0.48, True)),
        (escalated(0.9, EscalationReason.SENSITIVE_TOPIC, person_answered=True), None),
        (answered(thumbs_up=1, factors=None, judgement=None), None),
    ],
)
def test_training_example_exists_only_if_confidence_decided(
    outcome: JudgedDecision, example: tuple[float, bool] | None
) -> None:
    assert outcome.training_example == (example and pytest.approx(example))
