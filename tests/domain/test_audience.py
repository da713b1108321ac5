"""What of a result may cross to the reporter: what was written for them, unless it holds something internal."""

from typing import Any

import pytest

from threadline.domain.audience import crossings, told_to_reporter

INTERNAL: dict[str, Any] = {
    "summary": "The total adds list prices.",
    "root_cause": "Cart.total() adds up the list prices of all lines before the code takes its share off.",
    "evidence": [{"file": "sample-shop/shop/cart.py", "line": 2, "note": "here the bulk price is lost"}],
    "recommended_actions": ["Roll back release 4711 on the second shard before noon."],
}


@pytest.mark.promise("privacy:audience:internal-kept-back")
@pytest.mark.parametrize(
    ("words", "crossing"),
    [
        ("It is in cart.py, we think.", "cart.py"),
        ("See sample-shop/shop/cart.py:2.", "cart.py"),
        ("See src/billing/tax.rb.", "src/billing/tax.rb"),
        ("This is it:\n```\nx = 1\n```", "a block of code"),
        ("cart total  ADDS UP the list prices of all lines!", "cart total adds up the list prices of"),
        ("I saw that here, the bulk price is lost.", "here the bulk price is lost"),
        ("We will roll back release 4711 on the second shard before noon.", "roll back release 4711"),
    ],
)
def test_something_internal_in_the_reporters_words_keeps_them_back(words: str, crossing: str) -> None:
    result = {**INTERNAL, "for_reporter": words}
    assert crossing in " ".join(crossings(words, result))
    assert told_to_reporter(result) == ""


@pytest.mark.parametrize(
    "words",
    [
        "With a discount code, the price for many pieces was ignored. It is being mended.",
        "Please leave the code away until then; see https://shop.example/help/prices.html or https://a.b/x.html.",
        "On 12/11 the list prices were used, and/or those of last week.",
        "The prices are lost here.",
    ],
)
def test_plain_words_are_told(words: str) -> None:
    assert told_to_reporter({**INTERNAL, "for_reporter": f" {words}\n"}) == words


@pytest.mark.parametrize("result", [{}, INTERNAL, {"for_reporter": None}, {"for_reporter": 7}, {"summary": "secret"}])
def test_a_result_without_the_field_tells_the_reporter_nothing(result: dict[str, Any]) -> None:
    assert told_to_reporter(result) == ""


@pytest.mark.parametrize("name", ["root_cause", "evidence", "recommended_actions"])
@pytest.mark.parametrize("value", [None, 3, "text", ["text", None, {"file": None}], {"a": 1}])
def test_a_result_in_another_form_is_read_all_the_same(name: str, value: object) -> None:
    assert told_to_reporter({name: value, "for_reporter": "All is well."}) == "All is well."
