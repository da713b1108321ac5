"""A document is read with its front matter, or refused in one sentence."""

from datetime import date

import pytest

from threadline.knowledge.documents import MAX_FILE_BYTES, UnreadableSource, parse_document
from threadline.knowledge.model import MAX_CHARACTERS, DocumentTerms, DocumentType

_LINES = (f"a{depth}: &a{depth} [{', '.join([f'*a{depth - 1}'] * 9)}]" for depth in range(1, 10))
LAUGHS = "\n".join(["---", "a0: &a0 [ha]", *_LINES, "title: *a9", "---", "Text."]).encode()


def test_front_matter_gives_title_type_authority_and_dates() -> None:
    words = (
        "title: Prices 2026\ntype: Pricing\nauthority: 0.9\neffective: 2026-01-01\nexpires: "
        "2026-12-31"
    )
    document = parse_document(
        "kb/prices.md", f"---\n{words}\n---\n\n# Heading\n\nText.\n".encode()
    ).document
    assert (document.title, document.source, document.body) == (
        "Prices 2026",
        "kb/prices.md",
        "# Heading\n\nText.",
    )
    assert document.terms == DocumentTerms(
        DocumentType.PRICING, 0.9, date(2026, 1, 1), date(2026, 12, 31)
    )


@pytest.mark.parametrize(
    ("given", "terms"),
    [
        ("", DocumentTerms(DocumentType.PRODUCT, 0.7)),
        ("type: policy", DocumentTerms(DocumentType.POLICY, 1.0)),
        ("author: somebody", DocumentTerms(DocumentType.PRODUCT, 0.7)),
    ],
)
def test_authority_follows_from_the_type_if_not_given(given: str, terms: DocumentTerms) -> None:
    assert parse_document("a.md", f"---\n{given}\n---\nText.".encode()).document.terms == terms


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
def test_title_comes_from_front_matter_heading_or_file_name(
    content: str, title: str, body: str
) -> None:
    document = parse_document("kb/opening-hours.md", content.encode()).document
    assert (document.title, document.body) == (title, body)


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        # Values that site generators, wikis and catalogues write under these keys.
        ("type: learn", "`type` of kb/a.md is 'learn': taken as product"),
        ("type: tutorial\nlayout: doc", "'tutorial': taken as product"),
        ("type: [guide, faq]", "taken as product"),
        ("type: {name: post}", "taken as product"),
        ("type: 3", "'3': taken as product"),
        (
            "authority: docs-team",
            "`authority` of kb/a.md is 'docs-team': taken as that of its type",
        ),
        ("authority: true", "'True': taken as that of its type"),
        ("lang: [en, de]", "`lang` of kb/a.md is \"['en', 'de']\": taken as the default"),
        ("lang: the one of our office", "taken as the default"),
    ],
)
def test_front_matter_of_another_program_is_passed_over_with_a_notice(
    given: str, taken: str
) -> None:
    parsed = parse_document("kb/a.md", f"---\n{given}\n---\nText.".encode(), "german")
    [notice] = parsed.notices
    assert taken in notice
    assert parsed.document.terms == DocumentTerms(DocumentType.PRODUCT, 0.7)
    assert parsed.document.language == "german"


@pytest.mark.parametrize(
    ("given", "language"),
    [
        ("title: A", "english"),
        ("lang: de", "german"),
        ("lang: de-AT", "german"),
        ("lang: pt_BR", "portuguese"),
        ("lang: German", "german"),
        ("lang: no", "norwegian"),
        ("lang: zh-CN", "simple"),
        ("lang: ja", "simple"),
    ],
)
def test_language_comes_from_front_matter_or_is_the_default(given: str, language: str) -> None:
    parsed = parse_document("a.md", f"---\n{given}\n---\nText.".encode())
    assert (parsed.document.language, parsed.notices) == (language, ())


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"\x89PNG\xff", "kb/a.md is not UTF-8 text"),
        (rb"{\rtf1\ansi Prices\par}", "kb/a.md is a Rich Text file"),
        (b"<!DOCTYPE html><html><p>Prices", "kb/a.md is a web page"),
        (b"Received: from mail.example.com", "kb/a.md is a saved email"),
        (b"x" * (MAX_FILE_BYTES + 1), "kb/a.md is larger than 20 MB"),
        (b"x" * (MAX_CHARACTERS + 1), "split it"),
        (b"---\ntitle: A\n---\n \n", "kb/a.md has no text"),
        (b"---\ntype: [\n---\nText.", "not valid YAML"),
        (b"---\n" + b"[" * 1_000 + b"\n---\nText.", "not valid YAML"),
        (b"---\neffective: 2026-13-45\n---\nText.", "not valid YAML"),
        (b"---\n!!python/object/apply:os.getcwd []\n---\nText.", "not valid YAML"),
        (b"---\njust words\n---\nText.", "not a list of keys"),
        (b"---\ntitle: A\nText.", "does not close its front matter"),
        (b"---\nauthority: 2\n---\nText.", "a number from 0 to 1"),
        (b"---\nauthority: .nan\n---\nText.", "a number from 0 to 1"),
        (b"---\ntitle: !!timestamp soon\n---\nText.", "cannot be read"),
        (b"---\nauthority: !!bool perhaps\n---\nText.", "cannot be read"),
        (b"---\nauthority: !!int ''\n---\nText.", "cannot be read"),
        (b"---\ntitle: 0x" + b"f" * 5_000 + b"\n---\nText.", "cannot be read"),
        (b"---\n? 0x" + b"f" * 5_000 + b"\n: a\n---\nText.", "cannot be read"),
        (LAUGHS, "uses aliases"),
        (b"---\nexpires: soon\n---\nText.", "write a date as 2026-01-31"),
        (
            b"---\neffective: 2026-02-01\nexpires: 2026-01-01\n---\nText.",
            "expires before it is effective",
        ),
    ],
)
def test_unreadable_file_is_refused_in_one_line(content: bytes, says: str) -> None:
    with pytest.raises(UnreadableSource, match=says) as refused:
        parse_document("kb/a.md", content)
    assert "\n" not in str(refused.value)
