"""The fields that rules extract from a report before an agent reads it."""

import tomllib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

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
        ("the whole shop is down\n" + "and then\n" * 10_000, Severity.S1),
        ("x " * 5_000 + "the whole shop is down", Severity.S3),
    ],
)
def test_severity_is_derived_from_the_words(text: str, severity: Severity) -> None:
    assert parse_bug_report(text).severity is severity


@pytest.mark.parametrize(
    ("text", "severity"),
    [
        ("Severity: 4. Production is down, but only on my machine", Severity.S4),
        ("**Severity:** 2\nodd totals", Severity.S2),
        ("severity level 3, nobody can pay", Severity.S3),
        ("SEV-1 odd totals", Severity.S1),
        ("sev0: odd totals", Severity.S1),
        ("Priority: P2", Severity.S2),
        ("Priorität 1, falsche Summe", Severity.S1),
        ("Priority: Critical\nodd totals", Severity.S1),
        ("Severity: minor\nnobody can pay", Severity.S4),
        ("This is P1", Severity.S1),
        ("This is a P1.", Severity.S1),
        ("s2: odd", Severity.S2),
        ("[P1] odd", Severity.S1),
        ("P1 odd totals", Severity.S1),
        ("odd totals (S2)", Severity.S2),
        ("another P1 incident", Severity.S1),
    ],
)
def test_stated_severity_comes_before_all_words(text: str, severity: Severity) -> None:
    assert parse_bug_report(text).severity is severity


@pytest.mark.parametrize(
    "text",
    [
        "not a P1, the totals differ",
        "this is no P1 incident",
        "OpenSSH 8.2p1 shows zero",
        "v1.2-P1 is odd",
        "the S3 bucket is empty",
        "S3 uploads have the wrong type",
        "iPhone P1 case",
        "Galaxy S2 layout",
        "p2p sync is slow",
        "severity 10",
        "priority 1.5",
        "PS2 keyboard",
        "P1 and P2 endpoints differ",
    ],
)
def test_names_and_versions_state_no_severity(text: str) -> None:
    assert parse_bug_report(text).severity is Severity.S3


REPORTS = tomllib.loads((Path(__file__).parent / "severity_reports.toml").read_text("utf-8"))
FLOOR = 0.9


def labelled() -> Iterator[tuple[Severity, str]]:
    for severity, groups in REPORTS.items():
        for text in chain.from_iterable(groups.values()):
            yield Severity(severity), text


@pytest.mark.parametrize("wanted", [(Severity.S1,), (Severity.S1, Severity.S2)], ids=str)
def test_labelled_reports_are_found_and_ordinary_ones_are_not(
    wanted: tuple[Severity, ...],
) -> None:
    pairs = [(label, parse_bug_report(text).severity) for label, text in labelled()]
    found = [label in wanted for label, severity in pairs if severity in wanted]
    labels = [severity in wanted for label, severity in pairs if label in wanted]
    precision = sum(found) / len(found)
    recall = sum(labels) / len(labels)
    assert (precision >= FLOOR, recall >= FLOOR) == (True, True), (precision, recall)


def test_no_ordinary_report_calls_people_at_night() -> None:
    quiet = [text for label, text in labelled() if label in (Severity.S3, Severity.S4)]
    assert [text for text in quiet if parse_bug_report(text).severity is Severity.S1] == []


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
