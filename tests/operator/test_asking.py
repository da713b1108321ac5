"""What the words of a question call for."""

import pytest

from threadline.operator import query_triggers as asking


@pytest.mark.parametrize(
    "question",
    [
        *(f"Tell me about the {word} for this" for word in asking.TEAM_WORDS),
        *(f"{phrase} write Rust?" for phrase in asking.TEAM_PHRASES),
        "WHO CAN do it",
        "our Team's skills",
        "the capabilities of Ann",
    ],
)
def test_words_that_call_for_the_team(question: str) -> None:
    assert asking.about_team(question)


@pytest.mark.parametrize(
    "question", ["What's the status?", "the steam engine", "rfp_team1 is due", "", "a biofuel bid"]
)
def test_words_that_do_not(question: str) -> None:
    assert not asking.about_team(question)


@pytest.mark.parametrize("question", ["search the web for Acme", "was Acme in the news?", "look at their  website"])
def test_words_that_call_for_the_outside(question: str) -> None:
    assert asking.about_outside(question)
    assert not asking.about_skills(question)


@pytest.mark.parametrize("question", ["the website relaunch", "an online shop", "webinar", "any news?"])
def test_a_request_for_a_website_asks_for_nothing_outside(question: str) -> None:
    assert not asking.about_outside(question)


def test_words_that_call_for_skills() -> None:
    assert asking.about_skills("Follow our playbook for bids")
    assert not asking.about_skills("Who has skills in Rust?")
    assert not asking.about_outside("Who has skills in Rust?")


@pytest.mark.parametrize(
    ("question", "what"),
    [
        ("remember that Acme wants PDF only", "Acme wants PDF only"),
        ("Please remember: invoices go to Ann", "invoices go to Ann"),
        ("remember to call Acme", ""),
        ("Do you remember that thing?", ""),
        ("remember", ""),
    ],
)
def test_what_is_to_be_remembered(question: str, what: str) -> None:
    assert asking.to_remember(question) == what
