"""The report on decisions: counts, labels, calibration and variants."""

from datetime import timedelta

import pytest

from tests.decisions.outcome_samples import AT, answered, escalated
from threadline.decisions.model import Decision, DecisionType, NextStep
from threadline.decisions.reports import Label, report

RETRIEVED = Decision(DecisionType.RETRIEVE, "It asks for a price.", query="Starter price")


def test_report_counts_types_next_steps_labels_and_cost() -> None:
    found = report(
        [
            answered(thumbs_up=2, cost_usd=0.5),
            answered(decision=RETRIEVED, thumbs_down=1, cost_usd=0.25),
            escalated(),
        ]
    )
    assert found
    counts = [(type_, stats.decisions) for type_, stats in found.types]
    assert counts == [(DecisionType.RETRIEVE, 1), (DecisionType.REASON_ONLY, 2)]
    assert found.total.next_steps == {NextStep.PROCEED: 2, NextStep.ESCALATE: 1}
    assert (found.total.thumbs_up, found.total.thumbs_down, found.total.cost_usd) == (2, 1, 0.75)
    assert found.total.labels == {Label.GOOD: 1, Label.BAD: 1, Label.UNLABELLED: 1}
    assert found.total.share_right == pytest.approx(0.5)


def test_needless_and_missed_escalations_are_listed_newest_first() -> None:
    older = escalated(closed=True)
    newer = escalated(closed=True, turn=2, decided_at=AT + timedelta(hours=1))
    missed = answered(thumbs_down=1, turn=3)
    found = report([older, missed, newer, escalated(person_answered=True), answered(thumbs_up=1)])
    assert found
    assert (found.not_needed, found.missed) == ((newer, older), (missed,))


def test_each_variant_and_prompt_version_has_its_own_scores() -> None:
    calm = answered(0.9, thumbs_up=1, variant="calm")
    bold = answered(0.9, thumbs_down=1, variant="bold")
    newer = answered(0.9, thumbs_down=1, variant="bold", prompt_version="v2")
    found = report([calm, bold, bold, newer])
    assert found
    counts = [(name, version, stats.decisions) for name, version, stats in found.variants]
    assert counts == [("bold", "v1", 2), ("bold", "v2", 1), ("calm", "v1", 1)]
    scores = [stats.calibration.brier for _, _, stats in found.variants if stats.calibration]
    assert scores == pytest.approx([0.81, 0.81, 0.01])


def test_report_without_decisions_or_labels_claims_nothing() -> None:
    assert report([]) is None
    found = report([answered(), escalated()])
    assert found
    assert (found.total.share_right, found.total.calibration) == (None, None)
