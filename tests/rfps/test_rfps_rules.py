"""What is known of a request for proposals, and in which form it is written."""

from datetime import date

import pytest

from threadline.rfps.model import (
    Facts,
    RfpNotFound,
    RfpRefused,
    RfpStatus,
    checked,
    facts_of,
    in_document,
    is_rfp_id,
    status_of,
)


@pytest.mark.parametrize("words", ["proposal_submitted", " Proposal submitted ", "PROPOSAL-SUBMITTED"])
def test_a_status_is_read_as_people_write_it(words: str) -> None:
    assert status_of(words) is RfpStatus.PROPOSAL_SUBMITTED


def test_what_is_no_status_is_refused_with_those_there_are() -> None:
    with pytest.raises(RfpRefused, match=r"'sleeping' is not an RFP status: .* new, in_progress, .*, cancelled"):
        status_of("sleeping")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rfp_abc123", True),
        ("rfp_b2", False),
        ("RFP_abc123", False),
        ("rfp_abc123 ", False),
        ("rfp_" + "x" * 41, False),
    ],
)
def test_an_id_has_its_form(text: str, expected: bool) -> None:
    assert is_rfp_id(text) is expected


def test_facts_come_back_from_the_document_that_they_stand_in() -> None:
    facts = Facts("Bridge", "City", date(2026, 3, 31), RfpStatus.WON, "U1")
    assert facts_of(in_document(facts)) == facts
    assert in_document(Facts("Bridge")) == {"title": "Bridge", "status": "new"}
    assert facts_of(in_document(Facts("Bridge"))) == Facts("Bridge")


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ({"status": "new"}, "needs a title"),
        ({"title": " \n", "status": "new"}, "needs a title"),
        ({"title": "x"}, "needs a status"),
        ({"title": 7, "status": "new"}, "title must be text"),
        ({"title": "x", "status": ["new"]}, "status must be text"),
        ({"title": "x", "status": "new", "due_date": "soon"}, "'soon' is not a due date: write it as 2026-03-31"),
        ({"title": "x", "status": "new", "due_date": "2026-02-30"}, "not a due date"),
        ({"title": "x" * 301, "status": "new"}, "at most 300 characters"),
    ],
)
def test_facts_of_another_form_are_refused_in_plain_words(document: dict[str, object], says: str) -> None:
    with pytest.raises(RfpRefused, match=says):
        facts_of(document)


def test_white_space_is_normalised() -> None:
    assert checked(Facts(" A\n  bridge ", " City ")) == Facts("A bridge", "City")


def test_who_is_not_found_hears_of_the_nearest() -> None:
    assert str(RfpNotFound("rfp_x", ["rfp_y", "rfp_z"])) == "there is no RFP rfp_x; did you mean rfp_y or rfp_z?"
    assert str(RfpNotFound("rfp_x", deleted=True)) == "rfp_x was deleted; list the RFPs to find its id"
