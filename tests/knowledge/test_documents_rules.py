"""A document is read with its front matter, or refused in one sentence."""

from datetime import date

import pytest

from threadline.knowledge.documents import MAX_FILE_BYTES, UnreadableSource, parse_document
from threadline.knowledge.model import MAX_CHARACTERS, DocumentTerms, DocumentType

_LINES = (f"a{depth}: &a{depth} [{', '.join([f'*a{depth - 1}'] * 9)}]" for depth in range(1, 10))
LAUGHS = "\n".join(["---", "a0: &a0 [ha]", *_LINES, "title: *a9", "---", "Text."]).encode()


def test_front_matter_gives_title_type_authority_and_dates() -> None:
    words = "title: Prices 2026\ntype: Pricing\nauthority: 0.9\neffective: 2026-01-01\nexpires: 2026-12-31"
    document = parse_document("kb/prices.md", f"---\n{words}\n---\n\n# Heading\n\nText.\n".encode())
    assert (document.title, document.source, document.body) == ("Prices 2026", "kb/prices.md", "# Heading\n\nText.")
    assert document.terms == DocumentTerms(DocumentType.PRICING, 0.9, date(2026, 1, 1), date(2026, 12, 31))


@pytest.mark.parametrize(
    ("given", "terms"),
    [
        ("", DocumentTerms(DocumentType.PRODUCT, 0.7)),
        ("type: policy", DocumentTerms(DocumentType.POLICY, 1.0)),
        ("author: somebody", DocumentTerms(DocumentType.PRODUCT, 0.7)),
    ],
)
def test_authority_follows_from_the_type_if_not_given(given: str, terms: DocumentTerms) -> None:
    assert parse_document("a.md", f"---\n{given}\n---\nText.".encode()).terms == terms


@pytest.mark.parametrize(
    ("content", "title", "body"),
    [
        ("# Days off\n\nAsk.", "Days off", "Ask."),
        ("Ask.", "opening hours", "Ask."),
        ("# Only a heading", "Only a heading", "# Only a heading"),
        ("---\ntitle: Days off\n---\n# Days off\n\nAsk.", "Days off", "Ask."),
        ("\ufeff---\r\ntitle: 7\r\n---\r\nAsk.\r\nTwice.", "7", "Ask.\nTwice."),
        ("---\n\nA rule above a text.", "opening hours", "---\n\nA rule above a text."),
    ],
)
def test_title_comes_from_front_matter_heading_or_file_name(content: str, title: str, body: str) -> None:
    document = parse_document("kb/opening-hours.md", content.encode())
    assert (document.title, document.body) == (title, body)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"\x89PNG\xff", "kb/a.md is not UTF-8 text"),
        (b"x" * (MAX_FILE_BYTES + 1), "kb/a.md is larger than 20 MB"),
        (b"x" * (MAX_CHARACTERS + 1), "split it"),
        (b"---\ntitle: A\n---\n \n", "kb/a.md has no text"),
        (b"---\ntype: [\n---\nText.", "not valid YAML"),
        (b"---\n" + b"[" * 1_000 + b"\n---\nText.", "not valid YAML"),
        (b"---\neffective: 2026-13-45\n---\nText.", "not valid YAML"),
        (b"---\n!!python/object/apply:os.getcwd []\n---\nText.", "not valid YAML"),
        (b"---\njust words\n---\nText.", "not a list of keys"),
        (b"---\ntitle: A\nText.", "does not close its front matter"),
        (b"---\ntype: rumour\n---\nText.", "pricing, policy, sop, faq, product"),
        (b"---\nauthority: 2\n---\nText.", "a number from 0 to 1"),
        (b"---\nauthority: .nan\n---\nText.", "a number from 0 to 1"),
        (b"---\ntitle: !!timestamp soon\n---\nText.", "cannot be read"),
        (b"---\nauthority: !!bool perhaps\n---\nText.", "cannot be read"),
        (b"---\nauthority: !!int ''\n---\nText.", "cannot be read"),
        (b"---\ntitle: 0x" + b"f" * 5_000 + b"\n---\nText.", "cannot be read"),
        (b"---\n? 0x" + b"f" * 5_000 + b"\n: a\n---\nText.", "cannot be read"),
        (LAUGHS, "uses aliases"),
        (b"---\nexpires: soon\n---\nText.", "write a date as 2026-01-31"),
        (b"---\neffective: 2026-02-01\nexpires: 2026-01-01\n---\nText.", "expires before it is effective"),
    ],
)
def test_unreadable_file_is_refused_in_one_line(content: bytes, says: str) -> None:
    with pytest.raises(UnreadableSource, match=says) as refused:
        parse_document("kb/a.md", content)
    assert "\n" not in str(refused.value)
