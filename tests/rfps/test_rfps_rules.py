"""Facts of an RFP, and the form in which they are written."""

from datetime import date

import pytest

from threadline.rfps.document_title import title_of
from threadline.rfps.model import (
    Facts,
    RfpRefused,
    RfpStatus,
    checked,
    facts_of,
    in_document,
    is_rfp_id,
    status_of,
)


def test_status_is_read_as_people_write_it() -> None:
    for words in (" Proposal submitted ", "PROPOSAL-SUBMITTED"):
        assert status_of(words) is RfpStatus.PROPOSAL_SUBMITTED
    with pytest.raises(RfpRefused, match=r"in_progress.*cancelled"):
        status_of("sleeping")


def test_id_has_its_form() -> None:
    assert is_rfp_id("rfp_abc123")
    for text in ("rfp_b2", "RFP_abc123", "rfp_abc123 ", "rfp_" + "x" * 41):
        assert not is_rfp_id(text)


def test_facts_come_back_from_their_document() -> None:
    facts = Facts("Bridge", "City", date(2026, 3, 31), RfpStatus.WON, "U1")
    assert facts_of(in_document(facts)) == facts
    assert in_document(Facts("Bridge")) == {"title": "Bridge", "status": "new"}
    assert facts_of(in_document(Facts("Bridge"))) == Facts("Bridge")


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ({"title": " \n", "status": "new"}, "needs a title"),
        ({"title": "x"}, "needs a status"),
        ({"title": 7, "status": "new"}, "title must be text"),
        ({"title": "x", "status": ["new"]}, "status must be text"),
        ({"title": "x", "status": "new", "due_date": "2026-02-30"}, "not a due date"),
        ({"title": "x" * 301, "status": "new"}, "at most 300 characters"),
    ],
)
def test_malformed_facts_are_refused(document: dict[str, object], says: str) -> None:
    with pytest.raises(RfpRefused, match=says):
        facts_of(document)


def test_white_space_is_normalised() -> None:
    assert checked(Facts(" A\n  bridge ", " City ")) == Facts("A bridge", "City")


@pytest.mark.parametrize(
    ("text", "name", "title"),
    [
        ("Request for Proposals\nA crane", "x.pdf", "Request for Proposals"),
        ("# **A crane** for us", "x.md", "A crane** for us"),
        ("Page 1 of 7\nDraft 3 of May\n12. 3. 2026\n\nA crane for the harbour", "x.pdf", "A crane for the harbour"),
        ("CRANE\n" + "word " * 100, "the_big-crane.v2.pdf", "the big crane.v2"),
        ("", "brief", "brief"),
        ("", "___", "Untitled"),
        ("", "x" * 500, "x" * 150),
    ],
)
def test_title_is_the_first_line_like_one_or_the_file_name(text: str, name: str, title: str) -> None:
    assert title_of(text, name) == title
