"""Totals of a quote: exact until the end, and each figure rounded once."""

import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from threadline.errors import Permanent
from threadline.estimates.model import (
    Project,
    ProjectDetails,
    ProjectRole,
    Quote,
    Totals,
    WbsItem,
    calculate_totals,
    check_number,
    stale_quotes,
)

LINES = st.lists(
    st.tuples(st.decimals(0, 100_000, places=4), st.decimals(0, 1_000_000, places=4)), max_size=20
)
PERCENT = st.decimals(0, 100, places=4)
NONE = Decimal(0)
JUST_BELOW_HALF = [(Decimal(100_000), Decimal(1_000_000)), (Decimal("0.0001"), Decimal("49.9999"))]
"""A hundred thousand millions and 0.00499999: rounding too early turns the fraction into a cent.
"""


def cents(amount: Fraction) -> int:
    return math.floor(amount * 100 + Fraction(1, 2))


@given(LINES, PERCENT, PERCENT)
@example([], Decimal(10), Decimal(19))
@example(JUST_BELOW_HALF, NONE, NONE)
@example([(Decimal(1), Decimal("0.005"))], NONE, NONE)
@example([(Decimal("0.5"), Decimal("0.01"))] * 3, NONE, NONE)
def test_each_figure_is_rounded_once_half_up(
    lines: list[tuple[Decimal, Decimal]], discount_percent: Decimal, tax_percent: Decimal
) -> None:
    subtotal = sum((Fraction(each) * Fraction(rate) for each, rate in lines), Fraction(0))
    discount = subtotal * Fraction(discount_percent) / 100
    tax = (subtotal - discount) * Fraction(tax_percent) / 100
    found = calculate_totals(lines, discount_percent, tax_percent)
    expected = [cents(amount) for amount in (subtotal, discount, tax, subtotal - discount + tax)]
    assert [
        figure * 100 for figure in (found.subtotal, found.discount, found.tax, found.total)
    ] == expected
    assert all(figure.as_tuple().exponent == -2 for figure in vars(found).values())


@pytest.mark.parametrize("value", ["-0", "100", "99.9999", "1E+2", "1E-4"])
def test_number_within_its_bounds_is_returned(value: str) -> None:
    assert check_number("it", Decimal(value), 100) == Decimal(value)


@pytest.mark.parametrize("value", ["-0.0001", "100.0001", "1E-5", "NaN", "sNaN", "Infinity"])
def test_any_other_number_is_refused_by_its_name(value: str) -> None:
    with pytest.raises(
        Permanent, match="a discount must be a number from 0 to 100 with at most 4 decimals"
    ):
        check_number("a discount", Decimal(value), 100)


def test_quote_is_outdated_when_items_or_rates_give_another_sum() -> None:
    project = Project("PRJ-1", "Shop", "EUR", locked=False)
    dev = ProjectRole("dev", Decimal(900))
    work = WbsItem(1, "Build", "dev", Decimal("1.5"))
    fresh = Quote(
        1, NONE, Decimal(19), calculate_totals([(work.days, dev.day_rate)], NONE, Decimal(19))
    )
    empty = Quote(2, NONE, NONE, Totals(NONE, NONE, NONE, NONE))
    assert stale_quotes(ProjectDetails(project, [dev], [work], [fresh, empty])) == [empty]
    assert stale_quotes(ProjectDetails(project, [dev], [], [empty])) == []
    dearer = ProjectRole("dev", Decimal("900.01"))
    assert stale_quotes(ProjectDetails(project, [dearer], [work], [fresh])) == [fresh]
