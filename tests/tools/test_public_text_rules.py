"""The text of an error: no secret, no place and no stack trace reaches a person."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.privacy.secrets_corpus import SECRETS
from threadline.tools.model import Category, Code, Status, ToolError, failure
from threadline.tools.public_text import LONGEST, account, sentence

PROGRAMS = (
    'Traceback (most recent call last):\n  File "/srv/app/x.py", line 3, in f\nValueError: no',
    "ValueError: invalid literal for int() with base 10: 'x'",
    "asyncpg.exceptions.UniqueViolationError: duplicate key",
    "ConnectionRefusedError(111, 'Connect call failed')",
    "Permanent('no such thing')",
    "<Repository object at 0x7f12a4c0d1e0>",
    "[Errno 13] Permission denied",
    "TypeError\n    at Object.run (index.js:12)",
    "failed <class 'dict'>",
)
PLACES = {
    "Could not read /etc/threadline/keys.json now.": "Could not read [path] now.",
    "See ~/secrets for it.": "See [path] for it.",
    "It is in src/threadline/db/engine.py there.": "It is in [path] there.",
    r"It is in C:\Users\root\x.txt there.": "It is in [path] there.",
    "The database db-1.internal did not answer.": "The database [host] did not answer.",
    "POST https://api.example.com/v1/x?key=1 failed.": "POST [address] failed.",
    "Nobody answers at 10.0.3.17:5432 now.": "Nobody answers at [host] now.",
    "Nobody answers at localhost:7233 now.": "Nobody answers at [host] now.",
    "Nobody answers at temporal:7233 now.": "Nobody answers at [host] now.",
    "Nobody answers at 2001:db8:0:1::7 now.": "Nobody answers at [host] now.",
}
INNOCENT = (
    "The project is locked: have it unlocked, or ask for what can be looked up.",
    "Use estimates.getProjectDetails first, then cases.search and/or cases.get.",
    "It is free on 2026-03-01 from 10:30 to 11:00, for 1,250.50 EUR (3.5 days).",
    "`items/0/title` is missing: expected text.",
    "Nothing is called “Grüne Straße 12/3”; did you mean PROJ-12?",
)


@pytest.mark.parametrize("text", PROGRAMS)
def test_what_a_program_says_is_replaced_as_a_whole(text: str) -> None:
    assert sentence(text, "Something went wrong.") == "Something went wrong."
    assert sentence(f"Could not do it: {text}", "Something went wrong.") == "Something went wrong."


@pytest.mark.parametrize("text", PLACES)
def test_places_become_marks(text: str) -> None:
    assert sentence(text, "-") == PLACES[text]


@pytest.mark.parametrize("text", INNOCENT)
def test_a_sentence_for_people_stays_as_it_is(text: str) -> None:
    assert sentence(text, "-") == text


@given(st.text(max_size=2_000))
@example("a " * 1_000)
@example("x" * 100_000)
def test_a_sentence_is_one_line_of_bounded_length_and_never_empty(text: str) -> None:
    said = sentence(text, "otherwise")
    assert 0 < len(said) <= LONGEST
    assert said.isprintable()
    assert sentence(said, "otherwise") in (said, "otherwise")


def test_no_secret_reaches_an_error() -> None:
    known = [each for each in SECRETS if each.kind == "GitHub" or "Slack" in each.kind]
    assert known
    for each in known:
        assert each.value not in ToolError(Code.REFUSED, f"It failed with {each.text} today.").words


@pytest.mark.parametrize("code", Code)
def test_every_error_says_what_happened_and_what_to_try(code: Code) -> None:
    error = ToolError(code)
    assert error.message
    assert error.suggestion
    assert error.code.category in Category
    assert sentence(error.message, "") == error.message
    assert sentence(error.suggestion, "") == error.suggestion
    blocked = code in (Code.NOT_ALLOWED, Code.PROTOCOL)
    assert failure(code).status is (Status.BLOCKED if blocked else Status.ERROR)


def test_an_account_keeps_its_lines_and_loses_what_is_not_for_people() -> None:
    text = "I could not reach db.internal.\n\n- `estimates.listRoles`: done\n- `ci.rerun`: ValueError: x=0x7f12a4c0\n"
    clean = "I could not reach [host].\n\n- `estimates.listRoles`: done\nSomething went wrong."
    assert account(text, "Something went wrong.") == clean
    assert account(" \n\n", "Something went wrong.") == "Something went wrong."
