"""What is proposed is as risky as what it changes, whoever proposes it."""

import itertools
import json

import pytest

from threadline.approvals import risk_table as risks
from threadline.approvals.model import Risk
from threadline.operator.model.protocol import Kind, kind_of
from threadline.wiring.toolset_list import TOOLS


@pytest.mark.parametrize(
    ("tool", "arguments", "risk"),
    [
        ("journal.append", {"rfp_id": "rfp_abc", "text": "The client has called."}, Risk.LOW),
        ("event_append", {"rfp_id": "rfp_abc"}, Risk.LOW),
        ("opportunity.patch", {"patch": {"notes": "They like us."}}, Risk.LOW),
        ("opportunity.patch", {"patch": {"notes": None}}, Risk.MEDIUM),
        ("opportunity.patch", {"patch": {"due_date": "2026-12-01"}}, Risk.MEDIUM),
        ("opportunity.patch", {"patch": {"status": "shortlisted"}}, Risk.MEDIUM),
        ("opportunity.patch", {"patch": {"something_new": 1}}, Risk.MEDIUM),
        ("opportunity.patch", {"patch": {"status": "won"}}, Risk.HIGH),
        ("opportunity_patch", {"patch": {"notes": "x", "status": "No-Bid"}}, Risk.HIGH),
        ("opportunity_patch", {"patch": {"sales": [{"Stage": " cancelled "}]}}, Risk.HIGH),
        ("opportunity_patch", {"patch": json.dumps({"status": "lost"})}, Risk.HIGH),
        ("opportunity_patch", {"patch": "no JSON"}, Risk.HIGH),
        ("opportunity_patch", {"patch": {}}, Risk.HIGH),
        ("opportunity_patch", {}, Risk.HIGH),
        ("jira.create", {"summary": "won"}, Risk.MEDIUM),
        ("appointments.book", {}, Risk.MEDIUM),
        ("schedule.job", {}, Risk.MEDIUM),
        ("agent.job.cancel", {}, Risk.MEDIUM),
        ("rockets.launch", {}, Risk.HIGH),
    ],
)
def test_a_call_is_as_risky_as_what_it_changes(tool: str, arguments: dict[str, object], risk: Risk) -> None:
    assert risks.assessed(tool, arguments) is risk


def test_who_proposes_can_raise_the_risk_and_never_lower_it() -> None:
    order = [Risk.LOW, Risk.MEDIUM, Risk.HIGH]
    for risk, wanted in itertools.product(order, [None, *order]):
        assert risks.raised(risk, wanted) is order[max(order.index(risk), order.index(wanted or risk))]


def test_no_tool_of_ours_is_riskier_for_being_forgotten_in_the_table() -> None:
    """One that nobody thought of is of high risk; those that are known were thought of. Nobody proposes to speak."""
    kinds = {each.name: kind_of(each.name, read_only=not each.mutating) for each in TOOLS}
    changing = [name for name, kind in kinds.items() if kind not in (Kind.READ, Kind.LOAD, Kind.SPEAK, Kind.PROPOSE)]
    note = {"patch": {"notes": "They like us."}}
    assert [name for name in changing if risks.assessed(name, note) is Risk.HIGH] == []
