"""Slack's mrkdwn is decoded once, and no typed text becomes a live token."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadline.slack.formatting import escape_all, escape_mentions
from threadline.slack.mrkdwn import WORD_JOINER, decode, escape, to_markdown
from threadline.slack.names import plain_tokens
from threadline.slack.text import mentions_in

J = WORD_JOINER
TEXTS: list[tuple[str, str]] = [
    # Characters of people.
    ("R&amp;D", "R&D"),
    ("a &lt; b &amp;&amp; c &gt; d", "a < b && c > d"),
    ("&amp;lt;b&amp;gt;", "&lt;b&gt;"),
    ("&amp;amp;", "&amp;"),
    ("List&lt;String&gt;", "List<String>"),
    ("&lt;!-- a comment --&gt;", "<!-- a comment -->"),
    ("List&lt;@NonNull String&gt;", "List<@NonNull String>"),
    ("&nbsp; &quot;", "&nbsp; &quot;"),
    ("AT&T and <b>", "AT&T and <b>"),
    # Characters of people that look like a token.
    ("&lt;@U1&gt;", f"<{J}@U1>"),
    ("&lt;@U1|bob&gt;", f"<{J}@U1|bob>"),
    ("&lt;#C1|general&gt;", f"<{J}#C1|general>"),
    (
        "&lt;!here&gt; &lt;!channel&gt; &lt;!everyone&gt;",
        f"<{J}!here> <{J}!channel> <{J}!everyone>",
    ),
    ("&lt;!subteam^S1&gt;", f"<{J}!subteam^S1>"),
    ("&amp;lt;@U1&amp;gt;", "&lt;@U1&gt;"),
    ("<@U1&gt;", f"<{J}@U1>"),
    # Live tokens.
    ("<@U1> and <@W2|bob>", "<@U1> and <@W2|bob>"),
    ("<#C1|general> <!subteam^S1|@devs> <!here>", "<#C1|general> <!subteam^S1|@devs> <!here>"),
    ("at <!date^1392734382^{date_short}|Feb 18, 2014 PST>", "at Feb 18, 2014 PST"),
    ("at <!date^1392734382^{date}^https://e.org|Feb 18>", "at Feb 18"),
    # Links.
    ("<https://e.org>", "https://e.org"),
    ("<https://e.org/?a=1&amp;b=2>", "https://e.org/?a=1&b=2"),
    ("<https://e.org/a|the page>", "[the page](https://e.org/a)"),
    ("<https://e.org/a?x=1&amp;y=2|R&amp;D>", "[R&D](https://e.org/a?x=1&y=2)"),
    ("<http://e.org|e.org>", "http://e.org"),
    ("<https://e.org/|https://e.org>", "https://e.org/"),
    ("<https://e.org/a_(b)|a [b]>", r"[a \[b\]](https://e.org/a_%28b%29)"),
    ("<mailto:ana@e.org|ana@e.org>", "ana@e.org"),
    ("<mailto:ana@e.org|write me>", "[write me](mailto:ana@e.org)"),
    ("<tel:+4930123|+4930123>", "+4930123"),
    # Code keeps the shown characters, and mentions no user.
    ("`a &lt; b`", "`a < b`"),
    ("```if (a &lt; b &amp;&amp; c) {}```", "```if (a < b && c) {}```"),
    ("`<https://e.org/a>`", "`https://e.org/a`"),
    ("```curl <http://e.org|e.org>```", "```curl e.org```"),
    ("`<@U1>` hello", f"`<{J}@U1>` hello"),
    ("```\n<@U1> <!here>\n```", f"```\n<{J}@U1> <{J}!here>\n```"),
    ("```a\nb``` <@U1>", "```a\nb``` <@U1>"),
    ("``` never closed <@U1>", "``` never closed <@U1>"),
    ("it's ` not closed\n<@U1>", "it's ` not closed\n<@U1>"),
    # Damaged.
    ("<", "<"),
    ("<>", "<>"),
    ("<|>", "<|>"),
    ("", ""),
]


@pytest.mark.parametrize(("text", "read"), TEXTS)
def test_text_is_read_as_people_see_it(text: str, read: str) -> None:
    assert decode(text) == read


@given(st.text(alphabet=st.sampled_from("<>&@#!|UC1here ;ltgamp`\n")) | st.text())
def test_escaped_text_reads_as_it_was_typed_and_mentions_no_user(typed: str) -> None:
    read = decode(escape(typed))

    assert read.replace(J, "") == typed.replace(J, "")
    assert not mentions_in(read)


@given(st.text(alphabet=st.sampled_from("<>&@#!|UC1here ;ltgamp`\n")))
def test_typed_text_that_is_written_again_mentions_no_user(typed: str) -> None:
    read = decode(escape(typed))

    for written in (escape_mentions(read), escape_all(read)):
        assert not mentions_in(written)
        assert "<!" not in written


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    "piece", ["<", "<@", "`", "```", "&lt;", "<https://e.org|", "<!", "&", "<@U1|", " "]
)
def test_40000_characters_are_read_in_time(piece: str) -> None:
    decode(piece * (40_000 // len(piece)))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<@U1> and <@U2|bob>", "@Ana and @bob"),
        ("<@U3>", "@U3"),
        ("<#C1|general> <#C2> <#C3|>", "#general #C2 #C3"),
        ("<!subteam^S1|@devs> <!subteam^S2> <!here>", "@devs @S2 @here"),
        (
            "<https://e.org/a|the page> <https://e.org>",
            "[the page](https://e.org/a) https://e.org",
        ),
        (
            "<!-- a comment --> <b> a < b > c <@NonNull>",
            "<!-- a comment --> <b> a < b > c <@NonNull>",
        ),
    ],
)
def test_tokens_become_names(text: str, shown: str) -> None:
    assert plain_tokens(text, {"U1": "Ana"}) == shown


def test_kept_mentions_stay_live() -> None:
    assert plain_tokens("<@U1> <@U2>", {"U1": "Ana"}, kept={"U1"}) == "<@U1> @U2"


MARKDOWN: list[tuple[str, str]] = [
    ("*bold* _italic_ ~struck~", "**bold** _italic_ ~~struck~~"),
    ("*two words*, and *more*", "**two words**, and **more**"),
    ("2*3*4 and a * b * c", "2*3*4 and a * b * c"),
    ("**already**", "**already**"),
    ("snake_case ~/bin", "snake_case ~/bin"),
    ("`*not bold*` *bold*", "`*not bold*` **bold**"),
    ("[the *page*](https://e.org/a*b*c)", "[the **page**](https://e.org/a*b*c)"),
    ("see ```a\nb``` there", "see \n```\na\nb\n```\n there"),
    ("```\n*x*\n```", "```\n*x*\n```"),
    ("# not a heading\n#42 is broken", "\\# not a heading\n#42 is broken"),
    ("a title\n---\nwords", "a title\n\\---\nwords"),
    ("> quoted *bold*", "> quoted **bold**"),
    ("• one\n• two", "• one\n• two"),
]


@pytest.mark.parametrize(("text", "markdown"), MARKDOWN)
def test_words_of_people_read_the_same_as_markdown(text: str, markdown: str) -> None:
    assert to_markdown(text) == markdown


@pytest.mark.timeout(10)
@pytest.mark.parametrize("piece", ["*a", "~a", "`a", "# ", "```", "* ", "-"])
def test_40000_characters_become_markdown_in_time(piece: str) -> None:
    to_markdown(piece * (40_000 // len(piece)))
