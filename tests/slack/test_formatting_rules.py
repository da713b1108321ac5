"""Texts in Slack: complete, within the limits, without unintended mentions."""

import html
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from threadline.slack import formatting
from threadline.slack.code import split_code
from threadline.slack.model import MAX_TEXT
from threadline.slack.mrkdwn import escape

BROADCAST = re.compile(
    r"<!|<@|(?<![\w.])@(?:channel|here|everyone|group)(?![\w/(-]|[.:]\w)", re.IGNORECASE
)

TOKENS = [
    "<",
    "<!",
    "!channel>",
    "<!here>",
    "<@U1>",
    "<@U2|bo>",
    "<!subteam^S1|@all>",
    "@",
    "channel",
    "here",
    " ",
    "\n",
]
hostile = st.lists(
    st.sampled_from([*TOKENS, "@Everyone", "&lt;", "<b>", "|", ">"]) | st.text(max_size=3)
).map("".join)


def test_escape_covers_slacks_three_characters() -> None:
    assert escape("a < b && c > d") == "a &lt; b &amp;&amp; c &gt; d"


def test_allowed_user_is_mentioned_and_addresses_stay_whole() -> None:
    text = "<@U1|ann> see bob@here.com, > quote, https://x.example/?a=1&b=2"
    assert (
        formatting.escape_mentions(text, {"U1"})
        == "<@U1> see bob@here.com, > quote, https://x.example/?a=1&b=2"
    )


@given(hostile)
@example("<!<!here>channel> <!subteam^S1|@all> <@U2|bo> @channel")
def test_neutralised_text_mentions_no_user_and_stays_the_same(text: str) -> None:
    once = formatting.escape_mentions(text, {"U1"})
    spoken = "".join(part for part, is_code in split_code(once) if not is_code)
    assert not BROADCAST.search(spoken.replace("<@U1>", ""))
    assert "<!" not in once
    assert formatting.escape_mentions(once, {"U1"}) == once


KEPT = [
    '```java\n@Channel("prices")\nvoid on(String price)\n```',
    "```\n@channel\n```",
    "~~~\n@here\n~~~",
    "> ```\n> @everyone\n> ```",
    "```\n@channel\nis never closed",
    "Write `@channel` there.",
    "Write ``a ` @here`` there.",
    "npm i @group/ui @here/be @channel-ui @everyone_else",
    '@Channel("prices") in a sentence',
    "@here.example is a name",
    "ann@here.example",
]
CALLING = [
    "@channel",
    "@here, look",
    "(@everyone)",
    "@CHANNEL!",
    "see @here.",
    "@group: go",
    "`a` @here `b`",
    "` @here",
]


@pytest.mark.parametrize("text", KEPT)
def test_code_and_names_without_a_mention_stay_as_they_are(text: str) -> None:
    assert formatting.escape_mentions(text) == text
    assert "\u2060" not in formatting.escape_all(text)


@pytest.mark.parametrize("text", CALLING)
def test_words_that_mention_a_channel_are_made_inert(text: str) -> None:
    for inert in (
        formatting.escape_mentions(text),
        formatting.escape_all(text),
        formatting.defuse_mentions(text),
    ):
        assert inert == text.replace("@", "@\u2060")


@given(
    st.lists(
        st.sampled_from(["`", "``", "```", "~~~", "\n", "a", "> ", "@here"]), max_size=30
    ).map("".join)
)
def test_parts_of_a_text_are_the_text(text: str) -> None:
    assert "".join(part for part, _ in split_code(text)) == text


def test_notice_keeps_its_mentions_and_may_be_only_a_headline() -> None:
    (called,) = formatting.notice("It is **late**.", mentions=("S1", "U1"))
    assert called.blocks[0]["text"]["text"] == "<!subteam^S1> <@U1>"
    (bare,) = formatting.notice("", headline="Done")
    assert [block["type"] for block in bare.blocks] == ["section"]
    assert bare.text == "Done"


def test_text_that_is_no_id_is_no_mention() -> None:
    assert formatting.mention("!channel") == "!channel"
    assert formatting.mention("U1> <!here") == "U1&gt; &lt;!here"


def test_secret_longer_than_a_message_is_redacted_before_the_cut() -> None:
    key = (
        "-----BEGIN "
        + "PRIVATE KEY-----\n"
        + ("aB3d" * 16 + "\n") * 250
        + "-----END PRIVATE KEY-----"
    )
    [said] = formatting.notice(f"the key is\n{key}\nreally")
    assert "aB3d" not in f"{said.text} {said.blocks}"
    assert "[redacted: private key]" in said.text


@pytest.mark.parametrize("sign", ["word ", "&", "a & b < c > d\n", "<@U1> ", "語", "| a | b |\n"])
@pytest.mark.parametrize("length", [3_990, 4_010, 11_000, 50_000])
def test_text_that_is_longer_than_a_notification_ends_with_a_mark_and_is_whole_in_the_blocks(
    sign: str, length: int
) -> None:
    text = (sign * length)[:length]
    parts = formatting.notice(text)
    for part in parts:
        whole = formatting.text_of_blocks(part)
        assert len(part.text) <= formatting.TEXT_LIMIT
        assert part.text.endswith(" …") or len(part.text) >= len(part.blocks[-1]["text"])
        assert len(whole) <= MAX_TEXT
        assert _signs(html.unescape(whole)) == _signs(html.unescape(part.blocks[-1]["text"]))
    assert _signs(html.unescape(formatting.escape_mentions(text))) == "".join(
        _signs(html.unescape(part.blocks[-1]["text"])) for part in parts
    )


def _signs(text: str) -> str:
    """Return the text without white space and the characters that disarm mentions."""
    return re.sub(r"[\s\u2060]", "", text)


def test_text_of_refused_blocks_has_their_whole_content_and_mentions() -> None:
    [told] = formatting.notice(
        "<!channel> <@U2> **late**, `a < b` & see https://x.example/?a=1&b=2",
        mentions=("S1", "U1"),
    )
    rendered = formatting.Rendered(
        "A headline of its own",
        (*told.blocks, formatting.section(f"*Why:* {escape('<@U3> & <!here>')}"), TABLE),
    )
    text = formatting.text_of_blocks(rendered)
    assert text.startswith("A headline of its own\n\n<!subteam^S1> <@U1>")
    assert [each for each in ("<!channel", "<@U2", "<@U3", "<!here") if each in text] == []
    for each in (
        "**late**",
        "`a &lt; b` &amp; see",
        "https://x.example/?a=1&amp;b=2",
        "*Why:*",
        "| crane | 12 |",
    ):
        assert each in text


TABLE = {
    "type": "table",
    "rows": [
        [{"type": "raw_text", "text": each} for each in row]
        for row in (("part", "days"), ("crane", "12"))
    ],
}
