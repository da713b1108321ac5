"""The quality of a source, and the citation of it in an answer."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from threadline.knowledge.model import DocumentType, Passage, citations
from threadline.knowledge.search import source_quality

UNIT = st.floats(0, 1)


def passage(name: str, score: float = 0.0, authority: float = 1.0) -> Passage:
    return Passage("Title", name, f"{name}.md", DocumentType.FAQ, name, authority, score=score)


def test_quality_is_score_times_authority_of_the_best() -> None:
    assert source_quality([passage("a", 1.0)]) == 1.0
    assert source_quality([passage("a", 0.7, 0.7)]) == 0.49
    assert source_quality([passage("a", 0.0)]) == source_quality([]) == 0.0


@given(
    st.lists(st.builds(passage, st.sampled_from("abcde"), UNIT, UNIT), max_size=6),
    UNIT,
    st.integers(0, 5),
)
def test_quality_is_bounded_and_never_falls_with_better_passages(
    passages: list[Passage], more: float, place: int
) -> None:
    before = source_quality(passages)
    assert 0 <= before <= 1
    assert source_quality([*passages, passage("new", more, more)]) >= before
    if place < len(passages):
        each = passages[place]
        for better in (
            replace(each, authority=max(each.authority, more)),
            replace(each, score=max(each.score, more)),
        ):
            assert source_quality([*passages[:place], better, *passages[place + 1 :]]) >= before


def test_citation_names_title_and_section_once() -> None:
    bare = replace(passage(""), section="")
    assert citations([passage("a"), passage("a", 0.5), bare]) == ["Title – a", "Title"]
