"""Sensitive words are found in any case and inflection, but never inside other words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadline.decisions.model import SENSITIVE_TOPICS, sensitive_topics

INFLECTIONS = {
    "refund": "refund Refunds REFUNDED refunding refundable",
    "legal": "legal Legally LEGALITY",
    "complaint": "complaint complaints complain complains complained complaining",
    "sue": "sue sues sued suing SUE",
    "compensation": "compensation compensate compensates compensated compensating",
}


@pytest.mark.parametrize("topic", INFLECTIONS)
def test_topic_is_found_in_each_inflection(topic: str) -> None:
    for word in INFLECTIONS[topic].split():
        assert sensitive_topics(f"Well, {word}!") == (topic,)


@pytest.mark.parametrize(
    "text",
    [
        "The issue is with tissue samples, and we pursue it.",
        "They want to delegalise it; it is illegal.",
        "A sued\u00e9 jacket for Susan, who ensued.",
        "refundierung, recompensation",
    ],
)
def test_topic_inside_another_word_is_not_found(text: str) -> None:
    assert sensitive_topics(text) == ()


@pytest.mark.parametrize("text", ["_refund_", "*refund*", "refund-request", "refund's", "refund…"])
def test_markup_and_punctuation_do_not_hide_a_topic(text: str) -> None:
    assert sensitive_topics(text) == ("refund",)


def test_configured_words_are_found_next_to_overlapping_topics() -> None:
    found = sensitive_topics(
        "They threaten LEGAL\n actions about the chargeback, ",
        ["legal action", "chargeback", "fraud"],
    )
    assert found == ("legal", "legal action", "chargeback")


@pytest.mark.parametrize(
    ("word", "forms"),
    [
        ("dispute", "dispute disputes disputed disputing dispute's"),
        ("guarantee", "guarantee guarantees guaranteed guaranteeing"),
        ("policy", "policy policies policy's"),
        ("cancel", "cancel cancels canceled cancelled cancelling"),
        ("data breach", "breach breaches breached breaching"),
        ("survey", "survey surveys surveyed surveying"),
        ("RMA", "RMA RMAs"),
    ],
)
def test_configured_word_is_found_in_regular_inflections(word: str, forms: str) -> None:
    before = word.rpartition(" ")[0]
    for form in forms.split():
        assert sensitive_topics(f"{before} {form}", [word]) == (word,)
    assert sensitive_topics(f"{before} {word.split()[-1]}let", [word]) == ()


@pytest.mark.parametrize(
    ("text", "configured", "found"),
    [
        ("c++ abc", ["a.c", "(", "c++"], ("c++",)),
        ("Good morning, everybody!", ["", "  "], ()),
        ("They refunded it", ["refund"], ("refund",)),
    ],
    ids=["signs", "blank", "a topic again"],
)
def test_unusual_configured_words(
    text: str, configured: list[str], found: tuple[str, ...]
) -> None:
    assert sensitive_topics(text, configured) == found


@given(
    st.sampled_from(sorted(SENSITIVE_TOPICS)),
    st.text(max_size=40),
    st.text(max_size=40),
    st.lists(st.text(max_size=10)),
)
def test_topic_is_found_in_any_text(
    topic: str, before: str, behind: str, configured: list[str]
) -> None:
    found = sensitive_topics(f"{before} {topic.upper()} {behind}", configured)
    assert topic in found
    assert set(found) <= {*SENSITIVE_TOPICS, *configured}
