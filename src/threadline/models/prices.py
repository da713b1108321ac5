"""The cost of a call, by the published prices of named models."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from threadline.models.model import Usage

_MILLION = 1_000_000
_FORM = (
    "write it as model=input/cached/output in US dollars per million tokens, such as "
    "gpt-5.4-mini=0.75/0.075/4.5"
)
_SNAPSHOT = re.compile(r"-\d{4}-\d{2}-\d{2}$")


@dataclass(frozen=True)
class Price:
    """US dollars for a million tokens: of new input, of input from the provider's cache, and of
    output.
    """

    input: float
    cached: float
    output: float

    def of(self, input_tokens: int, cached_tokens: int, output_tokens: int) -> float:
        """Return the cost of these tokens in US dollars; `cached_tokens` are among the input."""
        cached = min(cached_tokens, input_tokens)
        cost = (
            (input_tokens - cached) * self.input
            + cached * self.cached
            + output_tokens * self.output
        )
        return cost / _MILLION


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
"""Prices of 2026, for an estimate: without the surcharges for long inputs and for filling the
cache. Current prices: https://developers.openai.com/api/docs/pricing; `THREADLINE_OPENAI_PRICES`
overrides these.
"""


class PriceList:
    """Prices by model; a dated snapshot has the price of its model."""

    def __init__(self, overrides: Mapping[str, Price] | None = None) -> None:
        self._prices = {**PRICES, **(overrides or {})}
        self._unknown: set[str] = set()

    def find(self, model: str) -> Price | None:
        """Return the price of a model by its name; None where it is unknown, never another
        model's.
        """
        return self._prices.get(model) or self._prices.get(_SNAPSHOT.sub("", model))

    def with_cost(self, usage: Usage) -> Usage:
        """Return the usage with its cost: None for a model without a price, which is logged once
        per model.
        """
        price = self.find(usage.model)
        if price is None:
            if usage.model not in self._unknown:
                self._unknown.add(usage.model)
                # structlog loads the styles of tracebacks, which no command needs
                import structlog

                hint = f"Set THREADLINE_OPENAI_PRICES={usage.model}=input/cached/output."
                structlog.get_logger().warning("model_price_unknown", model=usage.model, hint=hint)
            return replace(usage, cost_usd=None)
        return replace(
            usage, cost_usd=price.of(usage.input_tokens, usage.cached_tokens, usage.output_tokens)
        )


def cost_text(cost_usd: float | None, tokens: int | None = None, *, digits: int = 4) -> str:
    """Format a cost for people; with the tokens, where they are given and the cost is unknown."""
    if cost_usd is not None:
        return f"${cost_usd:.{digits}f}"
    return "cost unknown" if tokens is None else f"cost unknown, {tokens:,} tokens"


def parse_prices(text: str) -> dict[str, Price]:
    """Read `model=input/cached/output`, several separated by commas; raises ValueError with the
    required form.
    """
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
