"""Sensitive words: in any case and inflection, and never inside other words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadline.decisions.sensitive_topics import TOPICS, words_in


@pytest.mark.parametrize(
    ("topic", "words"),
    [
        ("refund", "refund Refunds REFUNDED refunding refundable"),
        ("legal", "legal Legally LEGALITY"),
        ("complaint", "complaint complaints complain complains complained complaining"),
        ("sue", "sue sues sued suing SUE"),
        ("compensation", "compensation compensate compensates compensated compensating"),
    ],
)
def test_a_topic_is_found_in_each_of_its_inflections(topic: str, words: str) -> None:
    assert [words_in(f"Well, {word}!") for word in words.split()] == [(topic,)] * len(words.split())


@pytest.mark.parametrize(
    "text",
    [
        "The issue is with tissue samples, and we pursue it.",
        "They want to delegalise it; it is illegal.",
        "A sued\u00e9 jacket for Susan, who ensued.",
        "refundierung, recompensation",
        "",
    ],
)
def test_a_topic_is_not_found_inside_another_word(text: str) -> None:
    assert words_in(text) == ()


@pytest.mark.parametrize(
    "text", ["_refund_", "*refund*", "~refund~", "refund-request", "refund's", "(refund)", "refund…"]
)
def test_what_people_and_slack_put_around_a_word_does_not_hide_it(text: str) -> None:
    assert words_in(text) == ("refund",)


def test_words_of_the_settings_are_found_beside_the_topics_that_they_hold() -> None:
    found = words_in("They threaten LEGAL\n actions about the chargeback, ", ["legal action", "chargeback", "fraud"])
    assert found == ("legal", "legal action", "chargeback")


@pytest.mark.parametrize(
    ("word", "forms"),
    [
        ("dispute", "dispute disputes disputed disputing dispute's"),
        ("guarantee", "guarantee guarantees guaranteed guaranteeing"),
        ("policy", "policy policies policy's"),
        ("cancel", "cancel cancels canceled cancelled cancelling"),
        ("data breach", "breach breaches breached breaching"),
        ("ban", "ban bans banned banning"),
        ("survey", "survey surveys surveyed surveying"),
        ("RMA", "RMA RMAs"),
    ],
)
def test_words_of_the_settings_are_found_in_their_regular_inflections(word: str, forms: str) -> None:
    before = word.rpartition(" ")[0]
    assert [words_in(f"{before} {form}", [word]) for form in forms.split()] == [(word,)] * len(forms.split())
    assert words_in(f"{before} {word.split()[-1]}let", [word]) == ()


def test_a_word_of_the_settings_is_text_and_no_pattern() -> None:
    assert words_in("c++ abc", ["a.c", "(", "c++"]) == ("c++",)


def test_a_blank_word_of_the_settings_is_no_word() -> None:
    assert words_in("Good morning, everybody!", ["", "  "]) == ()


@given(st.sampled_from(sorted(TOPICS)), st.text(max_size=40), st.text(max_size=40))
def test_a_topic_is_found_whatever_stands_before_and_behind_it(topic: str, before: str, behind: str) -> None:
    assert topic in words_in(f"{before} {topic.upper()} {behind}")


@given(st.text(max_size=200), st.lists(st.text(max_size=10), max_size=5))
def test_any_text_and_any_list_are_looked_through(text: str, more: list[str]) -> None:
    assert set(words_in(text, more)) <= {*TOPICS, *more}


def test_a_topic_that_the_settings_name_again_keeps_its_inflections() -> None:
    assert words_in("They refunded it", ["refund"]) == ("refund",)
