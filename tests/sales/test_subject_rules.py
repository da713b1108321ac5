"""A subject arrives as it was written, with any letters and of any length."""

from datetime import UTC, datetime
from email import policy
from email.header import decode_header, make_header
from email.parser import BytesParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadline.sales.email import compose_message

AT = datetime(2026, 3, 2, 9, tzinfo=UTC)
WORDS = st.sampled_from(
    [
        "à",
        "l’offre",
        "price",
        "Müller",
        "–",
        "réunion",
        "x" * 40,
        "é" * 30,
        "€5,00",
        "日本語",
        "😀",
    ]
)
SUBJECTS = [
    (
        "a a – xxxxxxxxxxxxxxxxxxxxxxxxxxx l’offre à à price €5,00 Müller "
        "éééééééééééééééééééééééé réunion €5,00 l’offre"
    ),
    "Réunion à 10 h",
    "It’s done",
    "Offer 2026-117",
    "日本語の件名でとても長いものをテストするために書かれた文字列です、よろしくお願いします",
]


def as_mailboxes_read(subject: str) -> str:
    raw = compose_message(
        "a@b.example", "d@e.example", subject, "x", "<1@b.example>", AT
    ).as_bytes()
    assert all(len(line) <= 998 for line in raw.split(b"\r\n"))
    assert raw.isascii()
    folded = BytesParser(policy=policy.compat32).parsebytes(raw)["Subject"]
    return str(make_header(decode_header(folded.replace("\r\n", ""))))


@pytest.mark.parametrize("subject", SUBJECTS)
def test_subject_arrives_as_it_was_written(subject: str) -> None:
    assert as_mailboxes_read(subject) == subject


@given(st.lists(WORDS, min_size=1, max_size=20).map(" ".join))
def test_any_subject_arrives_as_it_was_written(subject: str) -> None:
    assert as_mailboxes_read(subject) == subject
