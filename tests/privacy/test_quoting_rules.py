"""What of a service's own words may be repeated."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadline.privacy.quoting import LONGEST, quotable


@pytest.mark.parametrize(
    "words",
    [
        "Specify a valid priority name",
        "The value 'NONE' does not exist for the field 'project'.",
        "Summary is required.",
    ],
)
def test_a_plain_sentence_is_repeated(words: str) -> None:
    assert quotable(f"  {words}\n") == words


@pytest.mark.parametrize(
    "words",
    [
        None,
        {"message": "no"},
        "",
        "see https://acme.example/x",
        "no such file /etc/passwd",
        "acme.internal refused",
        "localhost refused",
        "db:5432 is away",
        "C:\\jira\\home",
        "bot@acme.example is unknown",
        "<html>Log in</html>",
        "the token ghp_0123456789abcdefghijABCDEFGHIJ012345 is expired",
        "a\x00b",
        "x" * (LONGEST + 1),
    ],
)
def test_what_names_a_place_or_holds_a_secret_is_not(words: object) -> None:
    assert quotable(words) == ""


@given(st.text())
def test_it_is_all_or_nothing(words: str) -> None:
    assert quotable(words) in ("", " ".join(words.split()))
