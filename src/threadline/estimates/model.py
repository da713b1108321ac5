"""Projects and what they are estimated to cost: days, day rates and quotes, in exact decimals."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Annotated

from pydantic import BaseModel, Field

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


Days = Annotated[Decimal, Field(ge=0, le=100_000, description="Days of work, with at most four decimals.")]
Title = Annotated[str, Field(min_length=1, max_length=300, description="What is to be done.")]
RoleName = Annotated[str, Field(min_length=1, max_length=100, description="Who does it: a role of the project.")]


class NewWbsItem(BaseModel):
    title: Title
    role: RoleName
    days: Days


class WbsItemChange(BaseModel):
    """What is None stays as it is."""

    number: Annotated[int, Field(ge=1, description="The item's number in its project.")]
    title: Title | None = None
    role: RoleName | None = None
    days: Days | None = None


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


def calculate_totals(
    lines: Iterable[tuple[Decimal, Decimal]], discount_percent: Decimal, tax_percent: Decimal
) -> Totals:
    """What work costs: exact until the end, and then each figure rounded once, half up, to cents. `lines`: days and day
    rate of each item."""
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
    """The value, from 0 to `most` with at most four decimals. Raises `Permanent`, whose message names `what`."""
    exponent = value.as_tuple().exponent
    fits = isinstance(exponent, int) and exponent >= -_MAX_PLACES and 0 <= value <= most
    if not fits:
        raise Permanent(f"{what} must be a number from 0 to {most:,} with at most {_MAX_PLACES} decimals")
    return value
