"""Facts of an RFP, and the form in which they are written."""

from datetime import date

import pytest

from threadline.rfps.files import guess_title
from threadline.rfps.model import (
    RfpFacts,
    RfpRefused,
    RfpStatus,
    facts_from_document,
    facts_to_document,
    is_rfp_id,
    parse_status,
    validate_facts,
)


def test_status_is_read_as_people_write_it() -> None:
    for words in (" Proposal submitted ", "PROPOSAL-SUBMITTED"):
        assert parse_status(words) is RfpStatus.PROPOSAL_SUBMITTED
    with pytest.raises(RfpRefused, match=r"in_progress.*cancelled"):
        parse_status("sleeping")


def test_id_has_its_form() -> None:
    assert is_rfp_id("rfp_abc123")
    for text in ("rfp_b2", "RFP_abc123", "rfp_abc123 ", "rfp_" + "x" * 41):
        assert not is_rfp_id(text)


def test_facts_come_back_from_their_document() -> None:
    facts = RfpFacts("Bridge", "City", date(2026, 3, 31), RfpStatus.WON, "U1")
    assert facts_from_document(facts_to_document(facts)) == facts
    assert facts_to_document(RfpFacts("Bridge")) == {"title": "Bridge", "status": "new"}
    assert facts_from_document(facts_to_document(RfpFacts("Bridge"))) == RfpFacts("Bridge")


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
        facts_from_document(document)


def test_white_space_is_normalised() -> None:
    assert validate_facts(RfpFacts(" A\n  bridge ", " City ")) == RfpFacts("A bridge", "City")


@pytest.mark.parametrize(
    ("text", "name", "title"),
    [
        ("Request for Proposals\nA crane", "x.pdf", "Request for Proposals"),
        ("# **A crane** for us", "x.md", "A crane** for us"),
        (
            "Page 1 of 7\nDraft 3 of May\n12. 3. 2026\n\nA crane for the harbour",
            "x.pdf",
            "A crane for the harbour",
        ),
        ("CRANE\n" + "word " * 100, "the_big-crane.v2.pdf", "the big crane.v2"),
        ("", "brief", "brief"),
        ("", "___", "Untitled"),
        ("", "x" * 500, "x" * 150),
    ],
)
def test_title_is_the_first_line_like_one_or_the_file_name(
    text: str, name: str, title: str
) -> None:
    assert guess_title(text, name) == title
