"""A cheap look for contradictions: different documents, one thing, and another amount or a denial."""

from dataclasses import replace

import pytest

from threadline.knowledge.conflicts import suspicious
from threadline.knowledge.model import DocumentType, Passage


def passage(text: str, source: str) -> Passage:
    return Passage("T", "", source, DocumentType.POLICY, text, 1.0)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The Starter plan costs 20 euros a month.", "Starter plan: it costs €25 a month."),
        ("Refunds are possible within 30 days.", "Refunds are possible within fourteen days of purchase."),
        ("The warranty lasts two years.", "The warranty lasts 12 months."),
        ("Customers get a discount of 10%.", "Existing customers get a discount of 15 percent."),
        ("A team has at most 1,200 seats.", "A team has at most 1500 seats."),
        ("Annual plans can be refunded.", "Annual plans cannot be refunded."),
        ("Discount codes are valid for refunds.", "Discount codes aren't valid for refunds."),
    ],
)
def test_the_same_thing_with_another_amount_or_denied_is_suspicious(one: str, other: str) -> None:
    mine, theirs = passage(one, "a.md"), passage(other, "b.md")
    assert suspicious([mine, theirs]) == [(0, 1)]
    assert suspicious([mine, replace(theirs, source="a.md")]) == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The Starter plan costs 20 euros a month.", "The Starter plan costs €20.00 a month."),
        ("The warranty lasts two years.", "The warranty lasts 24 months, that is 2 years."),
        ("A team has at most 1,200 seats.", "A team has at most 1200 seats."),
        ("Refunds are possible within 30 days.", "The office opens at 9, and closes at 17."),
        ("Parcels arrive in three days.", "Ask support for a new card within three days."),
        ("", "?!"),
    ],
)
def test_what_says_the_same_or_speaks_of_something_else_is_not(one: str, other: str) -> None:
    assert suspicious([passage(one, "a.md"), passage(other, "b.md")]) == []


def test_nothing_and_one_alone_are_no_conflict() -> None:
    assert suspicious([]) == []
    assert suspicious([passage("The plan costs 20 euros. The plan costs 30 euros.", "a.md")]) == []
