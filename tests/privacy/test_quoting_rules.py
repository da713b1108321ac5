"""Another service's words are quoted only when they name no place and hold no secret."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadline.privacy.redaction import MAX_QUOTE, quotable


@pytest.mark.parametrize("text", ["Summary is required.", "The value 'NONE' does not exist for the field 'project'."])
def test_plain_sentence_is_quoted(text: str) -> None:
    assert quotable(f"  {text}\n") == text


@pytest.mark.parametrize(
    "text",
    [
        {"message": "no"},
        "no such file /etc/passwd",
        "acme.internal refused",
        "localhost refused",
        "db:5432 is away",
        "C:\\jira\\home",
        "bot@acme is unknown",
        "<b>Log in",
        "the token ghp_0123456789abcdefghijABCDEFGHIJ012345 is expired",
        "a\x00b",
        "x" * (MAX_QUOTE + 1),
    ],
)
def test_place_or_secret_is_not_quoted(text: object) -> None:
    assert quotable(text) == ""


@given(st.text())
def test_text_is_quoted_whole_or_not_at_all(text: str) -> None:
    assert quotable(text) in ("", " ".join(text.split()))
