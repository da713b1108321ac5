"""Texts of another service are quoted sentence by sentence, without those that name a place or
hold a secret.
"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadline.privacy.quotes import MAX_QUOTE, WITHHELD, quotable, quote_refusal

READABLE = [
    "Summary is required.",
    "The value 'NONE' does not exist for the field 'project'.",
    "Component/s is required.",
    "Fix Version/s is required.",
    "Option value 'N/A' is not valid.",
    "Front-end/Back-end is required.",
    "Field 'customfield_10010' cannot be set. It is not on the appropriate screen, or unknown.",
    "Error parsing date string: 2024/13/01. It must be in the format d/MMM/yy.",
    "Version 2.3.1 is archived; v10.2 is not.",
    "No commits between main and threadline/bug-12",
    "Head sha can't be blank",
    "Resource not accessible by personal access token",
    "Repository was archived so is read-only.",
    "Request must be at 10:30, e.g. tomorrow.",
    "Le champ « Résumé » est obligatoire.",
    "概要を入力してください。",
]
WITHHELD_WHOLLY = [
    {"message": "no"},
    "no such file /etc/passwd",
    "no such file ~/.ssh/id_rsa",
    "see ./config/jira",
    "src/threadline/main.py is not writable",
    "not found: src/main/java",
    "`.github/workflows/ci.yml` cannot be changed",
    "acme.internal refused",
    "ACME.INTERNAL:443 refused",
    "Jira.acme.internal refused",
    "localhost refused",
    "db:5432 is away",
    "10.0.0.7 is away",
    "fe80:0:0:0:1ff:fe23:4567:890a is away",
    "C:\\jira\\home",
    "bot@acme is unknown",
    "<b>Log in",
    "Can not construct instance of com.atlassian.jira.Issue",
    "{0} is missing",
    "the token ghp_0123456789abcdefghijABCDEFGHIJ012345 is expired",
    "a\x00b",
    "x" * (MAX_QUOTE + 1),
]


@pytest.mark.parametrize("text", READABLE)
def test_plain_sentence_is_quoted(text: str) -> None:
    assert quotable(f"  {text}\n") == text


@pytest.mark.parametrize("text", WITHHELD_WHOLLY)
def test_place_or_secret_is_not_quoted(text: object) -> None:
    assert quotable(text) == ""


@pytest.mark.parametrize("text", [text for text in WITHHELD_WHOLLY if isinstance(text, str)])
def test_sentences_beside_it_are_quoted(text: str) -> None:
    assert quotable(f"Component/s is required. {text}") == f"Component/s is required. {WITHHELD}"
    assert quotable(f"{text}\nComponent/s is required.") == f"Component/s is required. {WITHHELD}"


def test_long_list_ends_with_a_mark() -> None:
    told = quotable(*(f"Field {number} is required and was not sent." for number in range(50)))
    assert told.startswith("Field 0 is required and was not sent. Field 1 ")
    assert told.endswith(f"sent. {WITHHELD}")
    assert len(told) <= MAX_QUOTE + 2


@given(st.lists(st.text()))
def test_quote_adds_no_words(texts: list[str]) -> None:
    told = quotable(*texts)
    words = " ".join(" ".join(text.split()) for text in texts)
    assert all(
        word in words or word.removesuffix(";") in words
        for word in told.removesuffix(WITHHELD).split()
    )


REFUSALS: dict[str, tuple[Any, str]] = {
    "Jira, by field": (
        {"errorMessages": [], "errors": {"components": "Component/s is required."}},
        "components: Component/s is required.",
    ),
    "Jira, two fields": (
        {
            "errorMessages": [],
            "errors": {"customfield_10016": "Team is required.", "summary": "Say what happens."},
        },
        "customfield_10016: Team is required. summary: Say what happens.",
    ),
    "Jira, the key in the text": (
        {
            "errors": {
                "customfield_1": (
                    "Field 'customfield_1' cannot be set. It is not on the appropriate screen."
                )
            }
        },
        "Field 'customfield_1' cannot be set. It is not on the appropriate screen.",
    ),
    "Jira, messages and fields": (
        {
            "errorMessages": ["The issue cannot be created"],
            "errors": {"priority": "Priority is required."},
        },
        "The issue cannot be created; priority: Priority is required.",
    ),
    "Jira, several messages": ({"errorMessages": ["One.", "Two."], "errors": {}}, "One. Two."),
    "Jira, one of two with a place": (
        {
            "errorMessages": ["See https://acme.example/x for it.", "Sprint is required."],
            "errors": {},
        },
        f"Sprint is required. {WITHHELD}",
    ),
    "Jira, a message": (
        {"message": "Client must be authenticated.", "status-code": 401},
        "Client must be authenticated.",
    ),
    "Jira, errorMessage": ({"errorMessage": "No permission."}, "No permission."),
    "Jira, error": ({"error": "Not allowed.", "code": 403}, "Not allowed."),
    "Jira, as a list": (
        {"errors": [{"status": 400, "title": "Bad", "detail": "No such field."}]},
        "Bad; No such field.",
    ),
    "problem of RFC 9457": (
        {"type": "about:blank", "title": "Forbidden", "detail": "No seat."},
        "Forbidden; No seat.",
    ),
    "GitHub": (
        {"message": "Bad credentials", "documentation_url": "https://docs.example"},
        "Bad credentials",
    ),
    "GitHub, custom": (
        {
            "message": "Validation Failed",
            "errors": [
                {
                    "resource": "PullRequest",
                    "code": "custom",
                    "message": "No commits between main and x/y",
                }
            ],
            "documentation_url": "https://docs.example",
        },
        "Validation Failed; No commits between main and x/y",
    ),
    "GitHub, by field": (
        {
            "message": "Validation Failed",
            "errors": [{"resource": "Issue", "field": "title", "code": "missing_field"}],
        },
        "Validation Failed; title: it is required",
    ),
    "GitHub, a message by field": (
        {
            "message": "Validation Failed",
            "errors": [{"field": "base", "code": "custom", "message": "is gone"}],
        },
        "Validation Failed; base: is gone",
    ),
    "GitHub, texts": (
        {"message": "Invalid request.", "errors": ["Base is missing."]},
        "Invalid request. Base is missing.",
    ),
    "GitHub, one text": (
        {"message": "Validation Failed", "errors": "Could not add."},
        "Validation Failed; Could not add.",
    ),
    "an unknown code": ({"errors": [{"field": "x", "code": "odd"}]}, ""),
    "the same twice": ({"message": "No.", "errors": ["No."]}, "No."),
    "nothing": ({}, ""),
    "null": (None, ""),
    "a number": (7, ""),
    "nulls": ({"message": None, "errorMessages": None, "errors": None}, ""),
    "nested": ({"error": {"code": 1, "message": "Deep."}}, "Deep."),
    "nested too deeply": ({"errors": {"a": [[[[[[["deep"]]]]]]]}}, ""),
    "a text": ("Just so.", "Just so."),
}


@pytest.mark.parametrize(("answer", "told"), REFUSALS.values(), ids=REFUSALS)
def test_refusal_is_read_in_each_form(answer: Any, told: str) -> None:
    assert quote_refusal(answer) == told
