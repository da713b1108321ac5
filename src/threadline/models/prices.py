"""What a call cost, by the published prices of named models."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from threadline.models.model import Usage

_MILLION = 1_000_000
_FORM = "write it as model=input/cached/output in US dollars per million tokens, such as gpt-5.4-mini=0.75/0.075/4.5"
_SNAPSHOT = re.compile(r"-\d{4}-\d{2}-\d{2}$")


@dataclass(frozen=True)
class Price:
    """US dollars for a million tokens: of new input, of input from the provider's cache, and of output."""

    input: float
    cached: float
    output: float


PRICES: Mapping[str, Price] = {
    "gpt-6-astra": Price(10.0, 1.0, 50.0),
    "gpt-6.1-sol": Price(2.0, 0.1, 10.0),
    "gpt-6-sol": Price(2.0, 0.2, 10.0),
    "gpt-6-luna": Price(0.1, 0.01, 0.5),
    "gpt-5.6-terra": Price(2.0, 0.2, 12.0),
    "gpt-5.6-luna": Price(0.2, 0.02, 1.2),
    "gpt-5.4": Price(2.5, 0.25, 15.0),
    "gpt-5.4-mini": Price(0.75, 0.075, 4.5),
    "gpt-5.1": Price(1.25, 0.125, 10.0),
    "gpt-5": Price(1.25, 0.125, 10.0),
    "gpt-5-mini": Price(0.25, 0.025, 2.0),
    "gpt-5-nano": Price(0.05, 0.005, 0.4),
    "gpt-4.1": Price(2.0, 0.5, 8.0),
    "gpt-4.1-mini": Price(0.4, 0.1, 1.6),
    "gpt-4o": Price(2.5, 1.25, 10.0),
    "gpt-4o-mini": Price(0.15, 0.075, 0.6),
}
"""Figures of 2026, for an estimate: without the surcharges for long inputs and for filling the cache. Today's are at
https://developers.openai.com/api/docs/pricing; `THREADLINE_OPENAI_PRICES` overrides these."""


class PriceList:
    """Prices by model; a dated snapshot costs what its model does."""

    def __init__(self, overrides: Mapping[str, Price] | None = None) -> None:
        self._prices = {**PRICES, **(overrides or {})}
        self._unknown: set[str] = set()

    def with_cost(self, usage: Usage) -> Usage:
        """The same usage with its cost: 0 for a model without a price, which the log says once for each."""
        price = self._prices.get(usage.model) or self._prices.get(_SNAPSHOT.sub("", usage.model))
        if price is None:
            if usage.model not in self._unknown:
                self._unknown.add(usage.model)
                import structlog  # it brings the rules by which it colours tracebacks, which no command needs

                structlog.get_logger().warning("model_price_unknown", model=usage.model)
            return usage
        cached = min(usage.cached_tokens, usage.input_tokens)
        cost = (usage.input_tokens - cached) * price.input + cached * price.cached + usage.output_tokens * price.output
        return replace(usage, cost_usd=cost / _MILLION)


def parse_prices(text: str) -> dict[str, Price]:
    """Read `model=input/cached/output`, several separated by commas; raises ValueError with the form that is wanted."""
    found = {}
    for part in (part.strip() for part in text.split(",") if part.strip()):
        model, _, numbers = part.partition("=")
        try:
            price = Price(*(float(number) for number in numbers.split("/")))
        except (TypeError, ValueError) as exc:
            raise ValueError(_FORM) from exc
        if not model.strip() or not all(0 <= number < math.inf for number in vars(price).values()):
            raise ValueError(_FORM)
        found[model.strip()] = price
    return found
