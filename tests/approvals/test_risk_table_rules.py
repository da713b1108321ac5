"""The risk of a proposed call follows from what it changes."""

import itertools
import json

import pytest

from threadline.approvals import risk_table as risks
from threadline.approvals.model import Risk
from threadline.operator.model.protocol import Kind, kind_of
from threadline.wiring.toolset_list import TOOLS


@pytest.mark.parametrize(
    ("patch", "risk"),
    [
        ({"notes": "They like us."}, Risk.LOW),
        ({"notes": None}, Risk.MEDIUM),
        ({"due_date": "2026-12-01"}, Risk.MEDIUM),
        ({"status": "shortlisted"}, Risk.MEDIUM),
        ({"notes": "x", "status": "No-Bid"}, Risk.HIGH),
        ({"sales": [{"Stage": " cancelled "}]}, Risk.HIGH),
        ({"status": "canceled"}, Risk.HIGH),
        ({"status": "NoBid"}, Risk.HIGH),
        (json.dumps({"status": "lost"}), Risk.HIGH),
        ("no JSON", Risk.HIGH),
        ({}, Risk.HIGH),
        (None, Risk.HIGH),
    ],
)
def test_risk_of_a_patch_follows_from_its_fields(patch: object, risk: Risk) -> None:
    assert risks.assessed("opportunity.patch", {"patch": patch}) is risks.assessed(
        "opportunity_patch", {"patch": patch}
    )
    assert risks.assessed("opportunity.patch", {"patch": patch}) is risk


@pytest.mark.parametrize(
    ("tool", "risk"),
    [
        ("journal.append", Risk.LOW),
        ("event_append", Risk.LOW),
        ("jira.create", Risk.MEDIUM),
        ("appointments.book", Risk.MEDIUM),
        ("schedule.job", Risk.MEDIUM),
        ("agent.job.cancel", Risk.MEDIUM),
        ("rockets.launch", Risk.HIGH),
    ],
)
def test_risk_of_another_tool_follows_from_the_table(tool: str, risk: Risk) -> None:
    assert risks.assessed(tool, {"summary": "won"}) is risk


def test_proposer_may_raise_the_risk_and_never_lower_it() -> None:
    order = [Risk.LOW, Risk.MEDIUM, Risk.HIGH]
    for risk, wanted in itertools.product(order, [None, *order]):
        assert risks.raised(risk, wanted) is order[max(order.index(risk), order.index(wanted or risk))]


def test_every_tool_that_changes_something_is_in_the_table() -> None:
    """An unknown tool is of high risk. Nobody proposes to speak."""
    kinds = {each.name: kind_of(each.name, read_only=not each.mutating) for each in TOOLS}
    changing = [name for name, kind in kinds.items() if kind not in (Kind.READ, Kind.LOAD, Kind.SPEAK, Kind.PROPOSE)]
    note = {"patch": {"notes": "They like us."}}
    assert [name for name in changing if risks.assessed(name, note) is Risk.HIGH] == []
