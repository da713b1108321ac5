"""The part of a result that may cross to the reporter: the words written for them, unless they
contain anything internal.
"""

from typing import Any

import pytest

from threadline.cases.audience import find_internal_content, reporter_text
from threadline.cases.outcome import Outcome

INTERNAL: dict[str, Any] = {
    "title": "Totals are of the list price",
    "summary": "The total adds list prices.",
    "root_cause": (
        "Cart.total() adds up the list prices of all lines before the code takes its share off."
    ),
    "evidence": [
        {"file": "sample-shop/shop/cart.py:42", "line": 42, "note": "here the bulk price is lost"}
    ],
    "reply": "The second shard is the one that still runs the old release.",
    "recommended_actions": ["Roll back release 4711 on the second shard before noon."],
    "affected_components": ["tax-service"],
}


@pytest.mark.parametrize(
    ("words", "crossing"),
    [
        ("It is in cart.py, we think.", "cart.py"),
        ("See sample-shop/shop/cart.py:2.", "cart.py"),
        ("See src/billing/tax.rb.", "src/billing/tax.rb"),
        ("This is it:\n```\nx = 1\n```", "a block of code"),
        (
            "cart total  ADDS UP the list prices of all lines!",
            "cart total adds up the list prices of",
        ),
        ("I saw that here, the bulk price is lost.", "here the bulk price is lost"),
        (
            "We will roll back release 4711 on the second shard before noon.",
            "roll back release 4711",
        ),
        ("It is in tax.rb.", "tax.rb"),
        (r"It is in src\billing\tax.rb.", "src/billing/tax.rb"),
        ("It is in src/billing/Makefile, I think.", "src/billing/Makefile"),
        ("It is in config/prices.yaml.", "config/prices.yaml"),
        ("I changed `Cart.total` for you.", "Cart.total"),
        ("This is it:\n\n    return net + vat\n\nIt is mended.", "a block of code"),
        (
            "See https://github.com/acme/shop/pull/31.",
            "the address https://github.com/acme/shop/pull/31",
        ),
        ("See https://code.acme.example/shop/-/merge_requests/4!", "merge_requests/4"),
        ("See github.com/acme/shop.", "github.com/acme/shop"),
        ("See http://grafana.internal/d/abc?x=1, please.", "http://grafana.internal/d/abc?x=1"),
        ("See http://grafana:3000/d/abc.", "http://grafana:3000/d/abc"),
        ("See http://10.0.0.7/d/abc.", "http://10.0.0.7/d/abc"),
        ("See http://[broken.", "http://[broken"),
        ("Ask at grafana.internal for it.", "grafana.internal"),
    ],
)
def test_internal_content_withholds_the_words_for_the_reporter(words: str, crossing: str) -> None:
    result = {**INTERNAL, "for_reporter": words}
    assert crossing in " ".join(find_internal_content(words, result))
    assert reporter_text(result) == ""


COPIES = [
    *((name, str(INTERNAL[name])) for name in ("title", "reply", "summary", "root_cause")),
    ("evidence", "It is at sample-shop/shop/cart.py:42 now."),
    ("evidence", "See cart.py, line 42."),
    ("evidence", "I saw it: here the bulk price is lost."),
    ("recommended_actions", "Roll back release 4711 on the second shard before noon."),
    ("affected_components", "The tax-service is at fault."),
]


@pytest.mark.parametrize(("name", "words"), COPIES)
def test_copy_of_any_field_is_withheld(name: str, words: str) -> None:
    assert reporter_text({name: INTERNAL[name], "for_reporter": words}) == ""
    assert reporter_text({"for_reporter": "All is well.", **INTERNAL}) == "All is well."


def test_every_field_of_an_outcome_is_judged() -> None:
    told = {"for_reporter", "clarification_question"}
    values = {"action", "severity", "confidence", "fix_requested"}
    assert {name for name, _ in COPIES} == set(Outcome.model_fields) - told - values


@pytest.mark.parametrize(
    "file", ["a/b.conf:7", "a/b.conf:7:3", "a/b.conf#L7-L9", "a/b.conf, line 7", r"a\b.conf:7-9"]
)
def test_file_is_found_however_its_line_is_written(file: str) -> None:
    assert find_internal_content("It is in b.conf.", {"evidence": [{"file": file}]}) == [
        "the file b.conf"
    ]


def test_file_without_an_ending_is_found_by_its_folder() -> None:
    result = {"evidence": [{"file": "shop/billing/Procfile.d/web"}]}
    assert find_internal_content("It is in Procfile.d/web.", result) == ["the file Procfile.d/web"]
    assert find_internal_content("It is on the web.", result) == []


def test_words_and_files_of_the_reporter_are_not_internal() -> None:
    said = (
        "In cart.py of https://github.com/acme/shop/pull/31 I ran `total()`: the total adds list "
        "prices\norders.csv"
    )
    result = {**INTERNAL, "evidence": [{"file": "orders.csv", "line": 3, "note": ""}]}
    words = (
        "The total adds list prices, as you say of `total()` in cart.py; see line 3 of orders.csv."
    )
    assert len(find_internal_content(words, result)) == 4
    assert find_internal_content(words, result, said) == []
    assert find_internal_content("See art.py.", result, said) == ["the path art.py"], (
        "a substring of a name is no match"
    )


@pytest.mark.parametrize(
    "words",
    [
        "Which line of orders.csv is wrong?",
        "What do you see at /checkout/cart.html, and what in reports/2024.csv?",
        "Do you use Node.js or https://shop.example/tree/oak?",
    ],
)
def test_question_about_files_and_pages_of_users_is_not_internal(words: str) -> None:
    attached = {"evidence": [{"file": "attachments/orders.csv", "line": 3, "note": "one"}]}
    assert find_internal_content(words, {**INTERNAL, **attached}) == []


@pytest.mark.parametrize(
    "words",
    [
        "With a discount code, the price for many pieces was ignored. It is being mended.",
        (
            "Please leave the code away until then; see https://shop.example/help/prices.html or "
            "https://a.b/x.html."
        ),
        "On 12/11 the list prices were used, and/or those of last week.",
        "The prices are lost here.",
    ],
)
def test_plain_words_reach_the_reporter(words: str) -> None:
    assert reporter_text({**INTERNAL, "for_reporter": f" {words}\n"}) == words


def test_result_without_words_for_the_reporter_gives_no_text() -> None:
    for result in (
        {},
        INTERNAL,
        {"for_reporter": None},
        {"for_reporter": 7},
        {"summary": "secret"},
    ):
        assert reporter_text(result) == ""


@pytest.mark.parametrize(
    "name", ["root_cause", "evidence", "recommended_actions", "affected_components"]
)
def test_result_with_fields_of_other_types_is_read(name: str) -> None:
    for value in (None, 3, "text", ["text", None, {"file": None}], {"a": 1}):
        assert reporter_text({name: value, "for_reporter": "All is well."}) == "All is well."
