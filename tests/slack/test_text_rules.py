"""The users that a text mentions, the text without a mention, its plain words, and links to
messages.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadline.errors import Permanent
from threadline.slack.text import (
    Permalink,
    mentions_in,
    parse_permalink,
    parse_user_id,
    plain_words,
    without_leading_mention,
)

ROOT = "1700000000.000100"
LATER = "1700000009.000100"
LINK = "https://acme.slack.com/archives"

pieces = st.lists(
    st.sampled_from(
        ["<@U1>", "<@U1|one>", "<@U2>", " ", "\t", "\n", ",", ":", "word", "<", ">", "|", "<@"]
    )
)


@pytest.mark.parametrize(
    ("text", "users"),
    [
        ("<@U1> and <@U2|two>", {"U1", "U2"}),
        ("<@U1", set()),
        ("<\u2060@U1>", set()),
        ("<#C1> <!here> U1", set()),
    ],
)
def test_mentioned_users_are_found(text: str, users: set[str]) -> None:
    assert mentions_in(text) == users


@pytest.mark.parametrize(
    ("text", "user_id"),
    [
        ("U1", "U1"),
        (" W2 ", "W2"),
        ("<@U1>", "U1"),
        ("<@U1|Ana Silva>", "U1"),
        ("@Ana Silva (U1)", "U1"),
        ("Ana (U1)", "U1"),
    ]
    + [
        (other, "")
        for other in (
            "",
            "Ana",
            "u1",
            "@U1",
            "<@U1",
            "<@U1> <@U2>",
            "<@>",
            "<#C1>",
            "C1",
            "U1\nBcc",
        )
    ],
)
def test_user_id_is_read_from_an_id_or_a_mention(text: str, user_id: str) -> None:
    assert parse_user_id(text) == user_id


@given(pieces.map("".join))
def test_mentions_of_only_one_user_are_removed(text: str) -> None:
    left = without_leading_mention(text, "U1", "bot")

    assert "<@U1>" not in left
    assert "<@U1|one>" not in left
    assert left.count("word") == text.count("word")
    assert mentions_in(left) >= mentions_in(text) - {"U1"}


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("<@U1> hello", "hello"),
        ("<@U1|bot>, <@U1>: hello", "hello"),
        ("<@U1> :wave: hello", ":wave: hello"),
        ("hello <@U1>", "hello @bot"),
        (
            "does <@U1> see private channels, or only <@U1>'s own?",
            "does @bot see private channels, or only @bot's own?",
        ),
        ("<@U1> does <@U1> see <@U2>?", "does @bot see <@U2>?"),
        ("<@U2> ask <@U1>", "<@U2> ask @bot"),
        ("<@U1>", ""),
    ],
)
def test_leading_mention_is_left_out_and_others_become_the_name(text: str, left: str) -> None:
    assert without_leading_mention(text, "U1", "bot") == left


@given(st.text())
def test_text_without_the_mention_keeps_its_words(text: str) -> None:
    if "U1" not in mentions_in(text):
        assert without_leading_mention(text, "U1", "bot") == text.strip()


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    "text",
    [
        " " * 40_000,
        "<@" * 20_000,
        "<@U1|" * 8_000,
        "<@U1> " * 6_000,
        "<@U1>" + ":a" * 20_000,
        "\t ," * 13_000,
    ],
)
def test_text_of_40000_characters_is_read_in_time(text: str) -> None:
    """A pattern that restarts at each character would take minutes."""
    assert "<@U1>" not in without_leading_mention(text, "U1", "bot")
    assert mentions_in(text) <= {"U1"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<@U1> *It’s* new: [this](https://a.b)", "it's new: this"),
        ("<@U1|ada> <#C1|bids> <!here> https://a.b/bid", ""),
        ("A & B <c>", "a b c"),
        (":runner: at 10:30, `code` _so_", "at 10:30, code _so_"),
        ("one\n\n two", "one two"),
    ],
)
def test_plain_words_have_no_mentions_addresses_emoji_or_marks(text: str, words: str) -> None:
    assert plain_words(text) == words


@given(st.text())
def test_plain_words_are_in_one_line(text: str) -> None:
    assert "\n" not in plain_words(text)
    assert "  " not in plain_words(text)


@pytest.mark.parametrize(
    ("address", "place"),
    [
        (f"{LINK}/C0123456789/p1700000000000100", Permalink("C0123456789", ROOT, ROOT)),
        (
            f"{LINK}/C1/p1700000009000100?thread_ts=1700000000.000100&cid=C1",
            Permalink("C1", LATER, ROOT),
        ),
        (f"{LINK}/C1/p1700000009000100?thread_ts=nonsense", Permalink("C1", LATER, LATER)),
        ("http://127.0.0.1:8700/archives/D1/p1700000000000100", Permalink("D1", ROOT, ROOT)),
        (f" <{LINK}/G1/p1700000000000100|it> ", Permalink("G1", ROOT, ROOT)),
        (f"[it]({LINK}/G1/p1700000000000100)", Permalink("G1", ROOT, ROOT)),
        ("C1/1700000000.000100", Permalink("C1", ROOT, ROOT)),
        ("C1/p1700000000000100", Permalink("C1", ROOT, ROOT)),
    ],
)
def test_message_is_found_by_its_link_or_by_channel_and_ts(address: str, place: Permalink) -> None:
    assert parse_permalink(address) == place


@given(
    st.text()
    | st.sampled_from(["http://[", "https://a.slack.com/archives/C1/p17", "C1/١٧٠٠٠٠٠٠٠٠.٠٠٠١٠٠"])
)
def test_text_that_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(Permanent, match="permalink"):
        parse_permalink(address)
