"""Texts of errors: no secret, no place and no stack trace."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.privacy.secrets_corpus import SECRETS
from threadline.settings import SettingsGroup
from threadline.tools.model import ErrorCategory, ErrorCode, ToolError, ToolStatus, error_result
from threadline.tools.public_text import (
    MAX_SENTENCE,
    admin_sentence,
    public_lines,
    public_sentence,
)

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
    "(psycopg.errors.UniqueViolation) it is there already",
    "INSERT failed [SQL: INSERT INTO cases (id) VALUES (%(id)s)]",
    'new row violates check constraint "cases_status_check"',
    'relation "cases" does not exist',
    'column "email" of relation "users" does not exist',
    "DETAIL:  Key (email)=(ann@shop.example) already exists.",
    'syntax error at or near "SELEC"',
    "UNIQUE constraint failed: users.email",
    "Duplicate entry 'ann@shop.example' for key 'users.email'",
    "ORA-00001: unique constraint (SHOP.USERS_PK) violated",
    "E11000 duplicate key error collection: shop.users index: email_1",
    "panic: runtime error: index out of range [3] with length 3",
    "goroutine 1 [running]:\nmain.main()\n\tmain.go:12 +0x1d",
    "thread 'main' panicked at src/main.rs:5:9:\nindex out of bounds",
    "lua: cart.lua:3: attempt to index a nil value (field 'total')\nstack traceback:\n\t[C]: in ?",
    "attempt to call a nil value (global 'total')",
    "cart.rb:3:in `total': undefined method `sum' for nil:NilClass",
    "PHP Fatal error:  Uncaught TypeError: total() in cart.php on line 3",
    "Can't locate object method at cart.pl line 3.",
    (
        'Exception in thread "main" java.lang.IllegalStateException\n\tat '
        "shop.Cart.total(Cart.java:12)"
    ),
    "Caused by: shop.Broken: no cart",
    "at shop.Cart.total(Cart.java:12)",
    "Unhandled exception. System.InvalidOperationException: no cart",
    "Cannot read properties of undefined (reading 'total')",
    "cart.total is not a function",
    "** (RuntimeError) no cart\n    lib/cart.ex:3: Cart.total/1",
    "Segmentation fault (core dumped)".lower(),
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
    "Could not connect with host=db-1 dbname=threadline now.": (
        "Could not connect with [host] [host] now."
    ),
    "Nobody answers at 2001:db8:0:1::7 now.": "Nobody answers at [host] now.",
}
INNOCENT = (
    "The project is locked: have it unlocked, or ask for what can be looked up.",
    "Use estimates.getProjectDetails first, then cases.search and/or cases.get.",
    "It is free on 2026-03-01 from 10:30 to 11:00, for 1,250.50 EUR (3.5 days).",
    "`items/0/title` is missing: expected text.",
    "Nothing is called “Grüne Straße 12/3”; did you mean PROJ-12?",
    "The key (the blue one) is with Ann at the desk (2nd floor).",
    "Line 3 of the order has no price: add one.",
    "There was panic in the shop at 10:30; the column of people did not end.",
)


@pytest.mark.parametrize("text", PROGRAMS)
def test_text_of_a_program_is_replaced_as_a_whole(text: str) -> None:
    assert public_sentence(text, "-") == public_sentence(f"Could not do it: {text}", "-") == "-"


@pytest.mark.parametrize(
    ("text", "shown"), [*PLACES.items(), *zip(INNOCENT, INNOCENT, strict=True)]
)
def test_places_are_masked_and_other_sentences_stay(text: str, shown: str) -> None:
    assert public_sentence(text, "-") == shown


ASK = "ask the admin to check the settings"
SETTINGS = {
    "Jira does not accept the account: check THREADLINE_JIRA_EMAIL and THREADLINE_JIRA_TOKEN.": (
        f"Jira does not accept the account: {ASK}."
    ),
    "GitHub could not be reached: check the network and GITHUB_API_URL.": (
        f"GitHub could not be reached: {ASK}."
    ),
    (
        "GitHub does not accept the token: set a new one in THREADLINE_GITHUB_TOKEN, or "
        "GITHUB_TOKEN."
    ): (f"GitHub does not accept the token: {ASK}."),
    "could not clone shop from https://a.example/shop: no; check THREADLINE_REPO": (
        f"could not clone shop from [address] no; {ASK}"
    ),
    "The case has used up its budget of $5.00 (THREADLINE_CASE_BUDGET_USD).": (
        "The case has used up its budget of $5.00."
    ),
    "No sender is set: THREADLINE_SMTP_FROM is empty. Nothing was sent.": (
        f"No sender is set: {ASK}. Nothing was sent."
    ),
    "OPENAI_API_KEY is not set.": f"A{ASK[1:]}.",
    "It waits. THREADLINE_APPROVERS is empty. Try later.": f"It waits. A{ASK[1:]}. Try later.",
    "No: check OPENAI_API_KEY; set SLACK_BOT_TOKEN. Then go on.": f"No: {ASK}. Then go on.",
    "No API was found: check OPENAI_BASE_URL (it ends in /v1) and THREADLINE_OPENAI_API.": (
        f"No API was found: {ASK}."
    ),
    "Set BULK_PRICE to 3, and THREADLINE to run.": "Set BULK_PRICE to 3, and THREADLINE to run.",
}


@pytest.mark.parametrize(("text", "shown"), SETTINGS.items())
def test_names_of_settings_are_for_the_admin(text: str, shown: str) -> None:
    assert public_sentence(text, "-") == shown
    assert all(
        name in admin_sentence(text, "-") for name in re.findall(r"\b[A-Z]+_[A-Z_]+\b", text)
    )


def test_every_setting_is_known_by_its_name() -> None:
    names = [name for group in SettingsGroup.__subclasses__() for name in group.variables()]
    assert [
        name for name in names if name in public_sentence(f"It fails: set {name} first.", "-")
    ] == []


@given(st.text(max_size=2_000))
@example("a " * 1_000)
@example("x" * 100_000)
def test_sentence_is_one_bounded_line(text: str) -> None:
    said = public_sentence(text, "otherwise")
    assert 0 < len(said) <= MAX_SENTENCE
    assert said.isprintable()
    assert public_sentence(said, "otherwise") in (said, "otherwise")


def test_no_secret_reaches_an_error() -> None:
    known = [each for each in SECRETS if each.kind == "GitHub" or "Slack" in each.kind]
    assert known
    for each in known:
        assert (
            each.value
            not in ToolError(ErrorCode.REFUSED, f"It failed with {each.text} today.").text
        )


def test_every_error_describes_the_problem_and_the_next_step() -> None:
    for code in ErrorCode:
        error = ToolError(code)
        assert error.code.category in ErrorCategory
        assert public_sentence(error.message, "") == error.message != ""
        assert public_sentence(error.suggestion, "") == error.suggestion != ""
    assert {each for each in ErrorCode if error_result(each).status is ToolStatus.BLOCKED} == {
        ErrorCode.NOT_ALLOWED,
        ErrorCode.PROTOCOL,
    }


def test_account_keeps_its_lines() -> None:
    text = (
        "I could not reach db.internal.\n\n- `estimates.listRoles`: done\n- `ci.rerun`: "
        "ValueError: x=0x7f12a4c0\n"
    )
    clean = "I could not reach [host].\n\n- `estimates.listRoles`: done\nSomething went wrong."
    assert public_lines(text, "Something went wrong.") == clean
    assert public_lines(" \n\n", "Something went wrong.") == "Something went wrong."
