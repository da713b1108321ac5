"""Projects and their estimated costs: days, day rates and quotes, in exact decimals."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Annotated

from pydantic import BaseModel, Field

from threadline.errors import Permanent

PROJECT_BINDING = "project"
"""The kind of binding of a thread to a project."""

_CENT = Decimal("0.01")
_DIGITS = 80
"""More digits than any sum of products has here, so that intermediate results are exact."""
_MAX_PLACES = 4


@dataclass(frozen=True)
class Project:
    """An estimated project. `currency`: three letters of ISO 4217. While it is `locked`, it cannot
    be changed.
    """

    project_id: str
    name: str
    currency: str
    locked: bool


@dataclass(frozen=True)
class ProjectRole:
    """A role in a project. `day_rate`: the price of one day, in the project's currency."""

    name: str
    day_rate: Decimal


@dataclass(frozen=True)
class WbsItem:
    """A piece of work of `days` for a `role`; `number` counts from 1 in each project."""

    number: int
    title: str
    role: str
    days: Decimal


Days = Annotated[
    Decimal, Field(ge=0, le=100_000, description="Days of work, with at most four decimals.")
]
Title = Annotated[str, Field(min_length=1, max_length=300, description="What is to be done.")]
RoleName = Annotated[
    str, Field(min_length=1, max_length=100, description="Who does it: a role of the project.")
]


class NewWbsItem(BaseModel):
    title: Title
    role: RoleName
    days: Days


class WbsItemChange(BaseModel):
    """A change of one item. Fields that are null stay as they are."""

    number: Annotated[int, Field(ge=1, description="The item's number in its project.")]
    title: Title | None = None
    role: RoleName | None = None
    days: Days | None = None


@dataclass(frozen=True)
class Totals:
    """Figures of a quote. Each is rounded separately from the exact amount, so the total may
    differ from their sum by a cent.
    """

    subtotal: Decimal
    discount: Decimal
    tax: Decimal
    total: Decimal


@dataclass(frozen=True)
class Quote:
    """A quote as last calculated. Later changes of items or rates appear in it after an update of
    its totals.
    """

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
    """The project is locked."""


def calculate_totals(
    lines: Iterable[tuple[Decimal, Decimal]], discount_percent: Decimal, tax_percent: Decimal
) -> Totals:
    """Return the price of work: exact until the end, then each figure rounded once, half up, to
    cents. `lines`: days and day rate of each item.
    """
    with localcontext() as context:
        context.prec = _DIGITS
        subtotal = sum((days * rate for days, rate in lines), Decimal(0))
        discount = subtotal * discount_percent / 100
        tax = (subtotal - discount) * tax_percent / 100
        exact = (subtotal, discount, tax, subtotal - discount + tax)
        return Totals(*(amount.quantize(_CENT, ROUND_HALF_UP) for amount in exact))


def stale_quotes(details: ProjectDetails) -> list[Quote]:
    """Return the quotes whose totals differ from those of the current items and rates."""
    rates = {role.name: role.day_rate for role in details.roles}
    lines = [(item.days, rates[item.role]) for item in details.items]
    return [
        each
        for each in details.quotes
        if calculate_totals(lines, each.discount_percent, each.tax_percent) != each.totals
    ]


def check_number(what: str, value: Decimal, most: int) -> Decimal:
    """Return a value that is from 0 to `most` with at most four decimals. Raises `Permanent`,
    whose message names `what`.
    """
    exponent = value.as_tuple().exponent
    fits = isinstance(exponent, int) and exponent >= -_MAX_PLACES and 0 <= value <= most
    if not fits:
        raise Permanent(
            f"{what} must be a number from 0 to {most:,} with at most {_MAX_PLACES} decimals"
        )
    return value
