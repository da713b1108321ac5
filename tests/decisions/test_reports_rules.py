"""What the decisions of some days came to."""

from dataclasses import replace
from datetime import timedelta

import pytest

from tests.decisions.outcome_samples import AT, answered, escalated
from threadline.decisions.model import Action, Course, Decided
from threadline.decisions.outcomes import Label
from threadline.decisions.reports import report

LOOKED_UP = Decided(Action.RETRIEVE, "It asks for a price.", query="Starter price")


def test_nothing_has_no_report() -> None:
    assert report([]) is None


def test_each_action_is_told_with_how_often_and_what_it_came_to() -> None:
    found = report([answered(ups=2, cost_usd=0.5), answered(decided=LOOKED_UP, downs=1, cost_usd=0.25), escalated()])
    assert found
    assert [(action, tally.decisions) for action, tally in found.actions] == [
        (Action.RETRIEVE, 1),
        (Action.REASON_ONLY, 2),
    ]
    assert found.whole.courses == {Course.PROCEED: 2, Course.ESCALATE: 1}
    assert (found.whole.ups, found.whole.downs, found.whole.cost_usd) == (2, 1, 0.75)
    assert found.whole.labels == {Label.GOOD: 1, Label.BAD: 1, Label.UNLABELLED: 1}
    assert found.whole.share_right == pytest.approx(0.5)


def test_what_was_needless_and_what_was_missed_are_listed_newest_first() -> None:
    older, newer = escalated(closed=True), escalated(closed=True, turn=2, at=AT + timedelta(hours=1))
    missed = answered(downs=1, turn=3)
    found = report([older, missed, newer, escalated(helped=True), answered(ups=1)])
    assert found
    assert found.needless == (newer, older)
    assert found.missed == (missed,)


def test_variants_are_compared_each_with_its_own_scores() -> None:
    calm, bold = answered(0.9, ups=1, variant="calm"), answered(0.9, downs=1, variant="bold")
    found = report([calm, bold, bold, replace(bold, prompt_version="v2")])
    assert found
    assert [(name, version, tally.decisions) for name, version, tally in found.variants] == [
        ("bold", "v1", 2),
        ("bold", "v2", 1),
        ("calm", "v1", 1),
    ]
    scores = [tally.calibration.brier for _, _, tally in found.variants if tally.calibration]
    assert scores == [pytest.approx(0.81), pytest.approx(0.81), pytest.approx(0.01)]


def test_without_labels_nothing_is_said_of_right_and_of_calibration() -> None:
    found = report([answered(), escalated()])
    assert found
    assert (found.whole.share_right, found.whole.calibration) == (None, None)
