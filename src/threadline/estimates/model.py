"""Projects and what they are estimated to cost: days, day rates and quotes, in exact decimals."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal, localcontext

from threadline.errors import Permanent

PROJECT_BINDING = "project"
"""The kind of binding by which a thread is about a project."""

_CENT = Decimal("0.01")
_DIGITS = 80
"""More than any sum of products here has, so that nothing is rounded on the way."""
_MAX_PLACES = 4


@dataclass(frozen=True)
class Project:
    """`currency`: three letters of ISO 4217. While it is `locked`, nothing of it can be changed."""

    project_id: str
    name: str
    currency: str
    locked: bool


@dataclass(frozen=True)
class ProjectRole:
    """`day_rate`: what one day costs, in the project's currency."""

    name: str
    day_rate: Decimal


@dataclass(frozen=True)
class WbsItem:
    """A piece of work; `number` counts from 1 in each project, `role` does it in `days`."""

    number: int
    title: str
    role: str
    days: Decimal


@dataclass(frozen=True)
class NewItem:
    title: str
    role: str
    days: Decimal


@dataclass(frozen=True)
class ItemChange:
    """What is None stays as it is."""

    number: int
    title: str | None = None
    role: str | None = None
    days: Decimal | None = None


@dataclass(frozen=True)
class Totals:
    """Each figure is rounded by itself from the exact amount, so that they may differ by a cent from their sum."""

    subtotal: Decimal
    discount: Decimal
    tax: Decimal
    total: Decimal


@dataclass(frozen=True)
class Quote:
    """As it was calculated last: later changes of items or rates show in it when its totals are updated."""

    number: int
    discount_percent: Decimal
    tax_percent: Decimal
    totals: Totals


@dataclass(frozen=True)
class ProjectDetails:
    project: Project
    roles: Sequence[ProjectRole]
    items: Sequence[WbsItem]
    quotes: Sequence[Quote]


class ProjectNotFound(Permanent):
    """The team has no such project."""


class ProjectLocked(Permanent):
    """The project is read-only now."""


class EstimateRefused(Permanent):
    """What was asked for does not fit the project: an unknown role, item or quote, or a number out of bounds."""


def calculate_totals(
    lines: Iterable[tuple[Decimal, Decimal]], discount_percent: Decimal, tax_percent: Decimal
) -> Totals:
    """What work costs: exact until the end, and then each figure rounded once, half up, to cents.

    Args:
        lines: days and day rate of each item.
    """
    with localcontext() as context:
        context.prec = _DIGITS
        subtotal = sum((days * rate for days, rate in lines), Decimal(0))
        discount = subtotal * discount_percent / 100
        tax = (subtotal - discount) * tax_percent / 100
        exact = (subtotal, discount, tax, subtotal - discount + tax)
        return Totals(*(amount.quantize(_CENT, ROUND_HALF_UP) for amount in exact))


def stale_quotes(details: ProjectDetails) -> list[Quote]:
    """The quotes whose totals are not what the items and the rates of now come to."""
    rates = {role.name: role.day_rate for role in details.roles}
    lines = [(item.days, rates[item.role]) for item in details.items]
    return [
        each
        for each in details.quotes
        if calculate_totals(lines, each.discount_percent, each.tax_percent) != each.totals
    ]


def check_number(what: str, value: Decimal, most: int) -> Decimal:
    """The value, from 0 to `most` with at most four decimals.

    Raises:
        EstimateRefused: it is another; the message names `what`.
    """
    exponent = value.as_tuple().exponent
    fits = isinstance(exponent, int) and exponent >= -_MAX_PLACES and 0 <= value <= most
    if not fits:
        raise EstimateRefused(f"{what} must be a number from 0 to {most:,} with at most {_MAX_PLACES} decimals")
    return value
