"""Prices of models, and the settings of the model's API."""

import pytest

from tests.models.asking import KEY
from threadline.errors import Permanent
from threadline.models import client
from threadline.models.model import Usage, add_costs
from threadline.models.prices import Price, PriceList, cost_text, parse_prices
from threadline.settings import ModelSettings


@pytest.mark.parametrize(
    "text", ["gpt-x", "gpt-x=1/2", "gpt-x=1/2/3/4", "=1/2/3", "gpt-x=1/2/three", "gpt-x=1/-2/3"]
)
def test_prices_of_another_form_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="model=input/cached/output"):
        parse_prices(text)


def test_snapshot_of_a_model_costs_what_the_model_does() -> None:
    prices = parse_prices("gpt-x=1/0.5/2, gpt-y=0/0/0")
    assert prices == {"gpt-x": Price(1, 0.5, 2), "gpt-y": Price(0, 0, 0)}
    usage = Usage(
        "gpt-x-2026-03-17", input_tokens=1_000_000, cached_tokens=400_000, output_tokens=500_000
    )
    assert PriceList(prices).with_cost(usage).cost_usd == pytest.approx(0.6 + 0.2 + 1.0)


@pytest.mark.parametrize(
    "model", ["qwen3-8b", "gpt-7", "gpt-5.4-mini-turbo", "openai/gpt-5.4", "", "GPT-5"]
)
def test_unknown_model_has_no_cost_and_no_other_models_price(model: str) -> None:
    cost = PriceList().with_cost(Usage(model, input_tokens=100, output_tokens=10)).cost_usd
    assert cost is None
    assert cost_text(cost, 110) == "cost unknown, 110 tokens"
    assert (
        PriceList({model: Price(0, 0, 0)}).with_cost(Usage(model, input_tokens=100)).cost_usd == 0
    )


@pytest.mark.parametrize(
    ("costs", "total"), [([], 0), ([0.5, 0.25], 0.75), ([0.5, None], None), ([None], None)]
)
def test_sum_with_an_unknown_cost_is_unknown(
    costs: list[float | None], total: float | None
) -> None:
    assert add_costs(costs) == total


def test_settings_of_the_model_are_read_and_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "THREADLINE_OPENAI_API"):
        monkeypatch.delenv(name, raising=False)
    assert ModelSettings.load().api_key is None
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("THREADLINE_OPENAI_PRICES", "gpt-x=1/0.5/2")
    monkeypatch.setenv("THREADLINE_OPENAI_TIMEOUT", "90s")
    read = ModelSettings.load()
    assert (read.openai_prices, read.openai_timeout, read.base_url) == (
        {"gpt-x": Price(1, 0.5, 2)},
        90,
        client.OPENAI,
    )
    assert KEY not in repr(read)
    for name, value in (
        ("OPENAI_BASE_URL", "api.openai.com"),
        ("THREADLINE_OPENAI_API", "telepathy"),
        ("THREADLINE_OPENAI_PRICES", "gpt-x=1"),
    ):
        with monkeypatch.context() as patched:
            patched.setenv(name, value)
            with pytest.raises(Permanent, match=name):
                ModelSettings.load()
