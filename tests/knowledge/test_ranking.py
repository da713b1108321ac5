"""One order from several, and how good a source is: bounded, and never less for more."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from threadline.knowledge.model import DocumentType, Passage, citations
from threadline.knowledge.ranking import fused, likeness, quality

UNIT = st.floats(0, 1)
PASSAGES = st.lists(
    st.builds(
        Passage,
        st.just("T"),
        st.sampled_from("abcde"),
        st.just("s"),
        st.sampled_from(DocumentType),
        st.just("x"),
        UNIT,
        score=UNIT,
    ),
    max_size=6,
)


def passage(name: str, score: float = 0.0, authority: float = 1.0) -> Passage:
    return Passage("Title", name, f"{name}.md", DocumentType.FAQ, name, authority, score=score)


def test_what_is_good_in_both_rankings_comes_before_what_is_first_in_one() -> None:
    words = [passage("a", 0.9), passage("b", 0.4)]
    meanings = [passage("c", 0.8), passage("b", 0.6)]
    found = fused([words, meanings], 3)
    assert [each.section for each in found] == ["b", "a", "c"]
    assert [each.score for each in found] == [0.6, 0.9, 0.8]
    assert len(fused([words, meanings], 1)) == 1


def test_quality_is_one_for_a_full_match_of_full_authority_and_nothing_for_nothing() -> None:
    assert quality([passage("a", 1.0)]) == 1.0
    assert quality([passage("a", 0.7, 0.7)]) == 0.49
    assert quality([passage("a", 0.0)]) == quality([]) == 0.0


@given(PASSAGES, UNIT, st.integers(0, 5))
def test_quality_is_bounded_and_never_less_for_more(passages: list[Passage], more: float, place: int) -> None:
    before = quality(passages)
    assert 0 <= before <= 1
    assert quality([*passages, passage("new", more)]) >= before
    if place < len(passages):
        each = passages[place]
        for better in (
            replace(each, authority=max(each.authority, more)),
            replace(each, score=max(each.score, more)),
        ):
            assert quality([*passages[:place], better, *passages[place + 1 :]]) >= before


@given(st.floats(-1, 1), st.floats(-1, 1))
def test_likeness_is_bounded_and_grows_with_the_cosine(one: float, other: float) -> None:
    assert 0 <= likeness(one) <= 1
    assert (likeness(one) <= likeness(other)) or one > other


def test_a_citation_names_title_and_section_once() -> None:
    bare = replace(passage(""), section="")
    assert citations([passage("a"), passage("a", 0.5), bare]) == ["Title – a", "Title"]
