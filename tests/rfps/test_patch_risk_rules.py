"""The risk of a proposed patch follows from the fields that it changes."""

from typing import Any

import pytest

from threadline.rfps.model import RfpStatus, event_risk, is_owned_by, patch_risk, status_risk
from threadline.tools.model import Risk


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
        ({"status": "lost"}, Risk.HIGH),
        ({"deal": {"stage": "wOn"}}, Risk.HIGH),
        ({"deal": {"stAge": "we have lOST it"}}, Risk.HIGH),
        ({"deal": {"code": "canceLLed"}}, Risk.HIGH),
        ({"deal": {"code": "no_bId"}}, Risk.HIGH),
        ({"deal": {"wOn": True}}, Risk.HIGH),
        ({"deal": {"WONDeal": True}}, Risk.HIGH),
        ({"deal": {"stage": "wonder"}}, Risk.MEDIUM),
    ],
)
def test_risk_of_a_patch_follows_from_its_fields(patch: dict[str, Any], risk: Risk) -> None:
    assert patch_risk(patch) is risk


@pytest.mark.parametrize(
    ("before", "after", "risk"),
    [
        (RfpStatus.NEW, RfpStatus.SHORTLISTED, Risk.LOW),
        (RfpStatus.WON, RfpStatus.WON, Risk.LOW),
        *[
            (RfpStatus.NEW, each, Risk.HIGH)
            for each in RfpStatus
            if each in ("won", "lost", "no_bid", "cancelled")
        ],
        (RfpStatus.LOST, RfpStatus.IN_PROGRESS, Risk.HIGH),
        (RfpStatus.WON, RfpStatus.LOST, Risk.HIGH),
    ],
)
def test_final_status_is_of_high_risk(before: RfpStatus, after: RfpStatus, risk: Risk) -> None:
    assert status_risk(before, after) is risk


@pytest.mark.parametrize(
    ("event_type", "payload", "risk"),
    [
        ("proposal_sent", {}, Risk.LOW),
        ("status_wOn", {}, Risk.HIGH),
        ("acTion_approved", {}, Risk.HIGH),
        ("note", {"status": "wOn"}, Risk.HIGH),
        ("note", {"rfp": {"Outcome": "clOSed lOst"}}, Risk.HIGH),
    ],
)
def test_event_about_an_outcome_is_of_high_risk(
    event_type: str, payload: dict[str, Any], risk: Risk
) -> None:
    assert event_risk(event_type, payload) is risk


BEFORE: dict[str, Any] = {
    "offer": {"price": 100, "text": "as agreed"},
    "lines": [{"price": 7}],
    "deal": {"stage": "won"},
    "price": 5,
    "notes": {"a": "It may be lost."},
    "place": "Kiel",
}


@pytest.mark.parametrize(
    ("patch", "own", "others"),
    [
        ({"offer": None}, Risk.MEDIUM, Risk.HIGH),
        ({"offer": "free of charge"}, Risk.MEDIUM, Risk.HIGH),
        ({"offer": {"price": 1}}, Risk.MEDIUM, Risk.HIGH),
        ({"offer": {"text": "new"}}, Risk.MEDIUM, Risk.MEDIUM),
        ({"lines": []}, Risk.MEDIUM, Risk.HIGH),
        ({"price": {"net": 1}}, Risk.MEDIUM, Risk.HIGH),
        ({"place": {"price": 1}}, Risk.MEDIUM, Risk.HIGH),
        ({"place": {"country": "DE"}}, Risk.MEDIUM, Risk.MEDIUM),
        ({"deal": None}, Risk.HIGH, Risk.HIGH),
        ({"deal": {"stage": "open"}}, Risk.HIGH, Risk.HIGH),
        ({"deal": {"stage": {"x": "open"}}}, Risk.HIGH, Risk.HIGH),
        ({"deal": []}, Risk.HIGH, Risk.HIGH),
        ({"notes": None}, Risk.MEDIUM, Risk.MEDIUM),
        ({"notes": {"b": "x"}}, Risk.LOW, Risk.LOW),
    ],
)
def test_values_that_a_patch_removes_count_as_those_that_it_sets(
    patch: dict[str, Any], own: Risk, others: Risk
) -> None:
    assert patch_risk(patch, BEFORE, is_own=True) is own
    assert patch_risk(patch, BEFORE, is_own=False) is others


@pytest.mark.parametrize(
    ("owner", "user_id", "member_name", "is_own"),
    [
        ("Bob Miller", "U0EVE", "", False),
        ("Bob Miller", "U0EVE", "Eve", False),
        ("Bob Miller", "U0BOB", "bob miller ", True),
        ("U0BOB", "U0BOB", "", True),
        ("<@U0BOB>", "U0BOB", "", True),
        ("Bob Miller (U0BOB)", "U0BOB", "", True),
        ("Bob Miller (U0BOBBY)", "U0BOB", "", False),
        ("", "U0EVE", "", False),
    ],
)
def test_owner_is_known_by_id_or_by_the_name_among_the_members(
    owner: str, user_id: str, member_name: str, is_own: bool
) -> None:
    assert is_owned_by(owner, user_id, member_name) is is_own
