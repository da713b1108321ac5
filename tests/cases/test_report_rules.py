"""The fields that rules extract from a report before an agent reads it."""

import pytest

from threadline.cases.model import Severity
from threadline.cases.report import LONGEST_TITLE, NO_TEXT, parse_bug_report


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Checkout fails. It began today.", "Checkout fails"),
        ("<@U1> *Checkout* fails :fire:\nDetails follow", "Checkout fails"),
        ("See [the page](https://x.test/a) please", "See the page please"),
        ("Version 1.2.3 crashes on start", "Version 1.2.3 crashes on start"),
        ("Why is it slow? I wonder", "Why is it slow?"),
        (":tada:\n\nSecond line", "Second line"),
        ("", NO_TEXT),
        (":fire: :fire:", NO_TEXT),
        ("🔥🔥", NO_TEXT),
        ("<@U1>", NO_TEXT),
        ("https://x.test/only-a-link", NO_TEXT),
    ],
)
def test_title_is_the_first_sentence_in_plain_text(text: str, title: str) -> None:
    assert parse_bug_report(text).title == title


@pytest.mark.parametrize("text", ["word " * 100, "x" * 500])
def test_long_title_is_cut(text: str) -> None:
    title = parse_bug_report(text).title
    assert len(title) <= LONGEST_TITLE
    assert title.endswith("…")


@pytest.mark.parametrize(
    ("text", "severity"),
    [
        ("Production is down!", Severity.S1),
        ("We have data loss since noon", Severity.S1),
        ("nobody can pay", Severity.S1),
        ("The app crashes", Severity.S2),
        ("I can’t log in", Severity.S2),
        ("HTTP 502 on login", Severity.S2),
        ("Typo on the start page", Severity.S4),
        ("The total looks odd", Severity.S3),
        ("Item 5021 looks odd", Severity.S3),
        ("", Severity.S3),
        ("Severity: 4. Production is down, but only on my machine", Severity.S4),
        ("This is P1", Severity.S1),
        ("s2: odd", Severity.S2),
    ],
)
def test_severity_is_stated_or_derived_from_the_words(text: str, severity: Severity) -> None:
    assert parse_bug_report(text).severity is severity


@pytest.mark.parametrize(
    ("text", "components"),
    [
        ("component: cart, checkout", ("cart", "checkout")),
        ("Service=billing is slow.", ("billing",)),
        ("It breaks in sample-shop/src/cart.py", ("sample-shop",)),
        ("The invoices page is slow", ("invoices",)),
        ("The invoices-old page is slow", ()),
        ("See https://x.test/shop/cart.py and [the page](https://x.test/a/b.html)", ()),
        ("component: invoices and invoices/tax.py", ("invoices",)),
        ("", ()),
    ],
)
def test_components_are_named_by_label_path_or_catalogue(
    text: str, components: tuple[str, ...]
) -> None:
    assert parse_bug_report(text, services=["invoices", "shipping"]).components == list(components)
