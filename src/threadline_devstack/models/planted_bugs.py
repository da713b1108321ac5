"""The faults planted in the sample shop, as somebody recognises them who reads its files."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """`wrong` is in the file as long as the fault is, then `right`, which mends it; `about` are words for it."""

    component: str
    wrong: str
    right: str
    about: frozenset[str]
    title: str
    cause: str
    advice: str

    def mended_in(self, source: str) -> bool:
        return self.wrong not in source and self.right in source

    def line_in(self, source: str) -> int:
        """The number, from 1, of the line on which the fault, or what mended it, begins."""
        there = self.right if self.mended_in(source) else self.wrong
        return source[: source.index(there)].count("\n") + 1


FAULTS = (
    Fault(
        component="cart",
        wrong="before = sum((line.list_total for line in self.lines), Decimal(0))",
        right="before = sum((line.total for line in self.lines), Decimal(0))",
        about=frozenset({"cart", "total", "discount", "code", "coupon", "bulk", "quantity", "save10", "pieces"}),
        title="A discount code loses the bulk price",
        cause=(
            "With a discount code, Cart.total() adds up list prices; the bulk price for ten or more pieces is lost, "
            "so both a code and a quantity of at least ten are needed to see it"
        ),
        advice="Add up the lines' totals, which hold the bulk price, before the code takes its share off.",
    ),
    Fault(
        component="discounts",
        wrong="return day < self.last_day",
        right="return day <= self.last_day",
        about=frozenset({"code", "discount", "valid", "expired", "expires", "day", "last", "refused", "spring"}),
        title="A discount code is refused on its last day",
        cause="Discount.valid_on() compares with `<`, so a code is over one day too early: on its last day",
        advice="Compare with `<=`: the last day is included.",
    ),
    Fault(
        component="shipping",
        wrong="if value > FREE_FROM:",
        right="if value >= FREE_FROM:",
        about=frozenset({"shipping", "parcel", "free", "delivery", "postage", "fifty", "euros"}),
        title="Parcels of exactly 50 euros are not free",
        cause="shipping_cost() compares with `>`, so a parcel worth exactly FREE_FROM still pays",
        advice="Compare with `>=`: free shipping begins at 50 euros.",
    ),
    Fault(
        component="invoices",
        wrong="return sum((rounded(price * TAX) for price in self.net_prices), Decimal(0))",
        right="return rounded(self.net * TAX)",
        about=frozenset({"invoice", "tax", "vat", "cent", "rounded", "rounding", "gross"}),
        title="The tax of an invoice is rounded too often",
        cause="Invoice.tax rounds the tax of each price and adds the rounded values, so invoices are off by cents",
        advice="Add up the net prices first and round their tax once.",
    ),
)


def recognise(sources: Mapping[str, str], words: Iterable[str]) -> tuple[str, Fault] | None:
    """The fault in these sources, mended or not, that explains the most of these words, and its file.

    Args:
        sources: path → text; of two faults that explain the same number of words the one in the earlier file counts.

    Returns:
        None when no fault explains any of the words.
    """
    said = set(words)
    known = [(path, fault) for path, text in sources.items() for fault in FAULTS if _is_or_was_in(fault, text)]
    explaining = [(path, fault) for path, fault in known if fault.about & said]
    return max(explaining, key=lambda found: len(found[1].about & said), default=None)


def _is_or_was_in(fault: Fault, text: str) -> bool:
    return fault.wrong in text or fault.right in text
