"""The report on decisions: counts, labels, calibration and variants."""

from dataclasses import replace
from datetime import timedelta

import pytest

from tests.decisions.outcome_samples import AT, answered, escalated
from threadline.decisions.model import Action, Course, Decided
from threadline.decisions.outcomes import Label
from threadline.decisions.reports import report

RETRIEVED = Decided(Action.RETRIEVE, "It asks for a price.", query="Starter price")


def test_report_counts_actions_courses_labels_and_cost() -> None:
    found = report([answered(ups=2, cost_usd=0.5), answered(decided=RETRIEVED, downs=1, cost_usd=0.25), escalated()])
    assert found
    counts = [(action, tally.decisions) for action, tally in found.actions]
    assert counts == [(Action.RETRIEVE, 1), (Action.REASON_ONLY, 2)]
    assert found.whole.courses == {Course.PROCEED: 2, Course.ESCALATE: 1}
    assert (found.whole.ups, found.whole.downs, found.whole.cost_usd) == (2, 1, 0.75)
    assert found.whole.labels == {Label.GOOD: 1, Label.BAD: 1, Label.UNLABELLED: 1}
    assert found.whole.share_right == pytest.approx(0.5)


def test_needless_and_missed_escalations_are_listed_newest_first() -> None:
    older, newer = escalated(closed=True), escalated(closed=True, turn=2, at=AT + timedelta(hours=1))
    missed = answered(downs=1, turn=3)
    found = report([older, missed, newer, escalated(helped=True), answered(ups=1)])
    assert found
    assert (found.needless, found.missed) == ((newer, older), (missed,))


def test_each_variant_and_prompt_version_has_its_own_scores() -> None:
    calm, bold = answered(0.9, ups=1, variant="calm"), answered(0.9, downs=1, variant="bold")
    found = report([calm, bold, bold, replace(bold, prompt_version="v2")])
    assert found
    counts = [(name, version, tally.decisions) for name, version, tally in found.variants]
    assert counts == [("bold", "v1", 2), ("bold", "v2", 1), ("calm", "v1", 1)]
    scores = [tally.calibration.brier for _, _, tally in found.variants if tally.calibration]
    assert scores == pytest.approx([0.81, 0.81, 0.01])


def test_report_without_decisions_or_labels_claims_nothing() -> None:
    assert report([]) is None
    found = report([answered(), escalated()])
    assert found
    assert (found.whole.share_right, found.whole.calibration) == (None, None)
