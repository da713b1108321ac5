"""A document is split at its headings into pieces of bounded length."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from threadline.knowledge.documents import MAX_CHUNK, OVERLAP, split_document
from threadline.knowledge.model import Chunk, Document


def pieces(body: str) -> list[Chunk]:
    return split_document(Document("T", "t.md", body))


def test_piece_has_the_path_of_its_headings() -> None:
    body = (
        "Above.\n\n# Plans\n\nAll of them.\n\n## *Starter*\n\nSmall.\n\n### "
        "Limits\n\nFew.\n\nPro\n---\n\nLarge."
    )
    assert [(each.section, each.text) for each in pieces(body)] == [
        ("", "Above."),
        ("Plans", "All of them."),
        ("Plans › *Starter*", "Small."),
        ("Plans › *Starter* › Limits", "Few."),
        ("Plans › Pro", "Large."),
    ]


def test_heading_in_code_or_a_quote_is_none() -> None:
    body = "```\n# not a heading\n```\n\n> # quoted\n\n# Real\n\nText."
    assert [each.section for each in pieces(body)] == ["", "Real"]


def test_headings_alone_are_one_piece_up_to_its_length() -> None:
    assert pieces("# One\n\n## Two") == [Chunk("", "# One\n\n## Two")]
    found = pieces("\n".join(f"# Heading number {number}" for number in range(10_000)))
    assert max(len(each.text) for each in found) <= MAX_CHUNK + OVERLAP
    assert "# Heading number 9999" in found[-1].text


def test_long_section_is_cut_at_sentences_with_an_overlap() -> None:
    sentences = [f"This is sentence number {number} of many." for number in range(200)]
    found = pieces("# Long\n\n" + " ".join(sentences))
    assert len(found) > 3
    assert {each.section for each in found} == {"Long"}
    for one, other in itertools.pairwise(found):
        assert one.text.endswith(".")
        repeated, _, _ = other.text.partition("\n")
        assert one.text.endswith(repeated)
        assert 0 < len(repeated) <= OVERLAP


@given(st.text(st.sampled_from("ab #\n\t-`>.*_é"), max_size=4_000))
def test_no_word_is_lost_and_no_piece_is_too_long(body: str) -> None:
    found = pieces(body)
    assert all(len(each.text) <= MAX_CHUNK + OVERLAP for each in found)
    if "#" not in body and "-" not in body and "=" not in body:
        words = set(" ".join(each.text for each in found).split())
        assert all(word in words or len(word) > MAX_CHUNK // 2 for word in body.split())
