"""What a document is called, where nobody has said it."""

import pytest

from threadline.rfps.document_title import title_of


@pytest.mark.parametrize(
    ("text", "name", "title"),
    [
        ("Request for Proposals\nA crane", "x.pdf", "Request for Proposals"),
        ("# **A crane** for us", "x.md", "A crane** for us"),
        ("Page 1 of 7\nDraft 3 of May\n12. 3. 2026\n\nA crane for the harbour", "x.pdf", "A crane for the harbour"),
        ("CRANE\n" + "word " * 100, "the_big-crane.v2.pdf", "the big crane.v2"),
        ("", "brief", "brief"),
        ("", "___", "Untitled"),
        ("", "x" * 500, "x" * 150),
    ],
)
def test_a_title_is_the_first_line_that_reads_like_one_else_the_name(text: str, name: str, title: str) -> None:
    assert title_of(text, name) == title
