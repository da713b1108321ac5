"""Passages conflict if two documents name different amounts for the same thing, or one denies
it.
"""

import pytest

from threadline.knowledge.conflicts import find_conflicts
from threadline.knowledge.model import DocumentType, Passage


def passage(text: str, source: str) -> Passage:
    return Passage("T", "", source, DocumentType.POLICY, text, 1.0)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The Starter plan costs 20 euros a month.", "Starter plan: it costs €25 a month."),
        (
            "Refunds are possible within 30 days.",
            "Refunds are possible within fourteen days of purchase.",
        ),
        ("The warranty lasts two years.", "The warranty lasts 12 months."),
        ("Customers get a discount of 10%.", "Existing customers get a discount of 15 percent."),
        ("A team has at most 1,200 seats.", "A team has at most 1500 seats."),
        ("Annual plans can be refunded.", "Annual plans cannot be refunded."),
        ("Discount codes are valid for refunds.", "Discount codes aren't valid for refunds."),
    ],
)
def test_another_amount_or_a_denial_is_suspicious(one: str, other: str) -> None:
    assert find_conflicts([passage(one, "a.md"), passage(other, "b.md")]) == [(0, 1)]


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
def test_same_amount_or_another_topic_is_not_suspicious(one: str, other: str) -> None:
    assert find_conflicts([passage(one, "a.md"), passage(other, "b.md")]) == []


def test_one_document_alone_is_not_suspicious() -> None:
    passages = [passage(f"The plan costs {price} euros.", "a.md") for price in (20, 30)]
    assert find_conflicts(passages) == []
