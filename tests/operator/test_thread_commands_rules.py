"""What is said about a thread itself is read by rule, and only when nothing else is said."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadline.operator.model.thread_commands import Link, Where, thread_command

BOT = "U0BOT"


@pytest.mark.parametrize(
    "text",
    [
        "link rfp_abc123",
        "bind rfp_abc123",
        "Link RFP_ABC123.",
        "  BIND   rfp_abc123 !",
        "`link rfp_abc123`",
        "link `rfp_abc123`",
        "*link* _rfp_abc123_",
        "_link rfp_abc123_",
        "```\nlink rfp_abc123\n```",
        "link <https://rfps.example/rfp_abc123|rfp_abc123>",
        "link <https://rfps.example/rfp_abc123>",
        "link <https://rfps.example/rfps/RFP_abc123/state|here>.",
    ],
)
def test_a_thread_is_linked_by_the_whole_message(text: str) -> None:
    for said in (text, f"<@{BOT}> {text}", f"<@{BOT}|threadline>, {text}"):
        assert thread_command(said, BOT) == Link("rfp_abc123")
    assert thread_command(text) == Link("rfp_abc123")


@pytest.mark.parametrize("text", ["where", "where?", "Where?", "WHERE ?", "`where`", "_where?_", "where??", "where."])
def test_where_is_asked_by_the_whole_message(text: str) -> None:
    for said in (text, f"<@{BOT}> {text}", f"<@{BOT}>: {text}"):
        assert thread_command(said, BOT) == Where()
    assert thread_command(text) == Where()


@pytest.mark.parametrize("text", ["link rfp_...", "bind rfp_…", "link rfp_answer.pdf", "link rfp_a/b", "link rfp_."])
def test_what_can_be_no_id_is_told_from_one_that_is_unknown(text: str) -> None:
    assert thread_command(text) == Link("")
    assert thread_command("link rfp_unheard_of") == Link("rfp_unheard_of")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "link",
        "link it",
        "link abc123",
        "link rfp abc123",
        "unlink rfp_abc123",
        "linking rfp_abc123",
        "link rfp_abc123 rfp_xyz789",
        "link rfp_abc123 please",
        "please link rfp_abc123",
        "link rfp_abc123 to the board meeting",
        "link: rfp_abc123",
        "link <https://rfps.example/compare?a=rfp_a1&amp;b=rfp_b2>",
        "link <https://rfps.example/>",
        "rfp_abc123",
        "where is the file?",
        "where are we",
        "somewhere",
        "anywhere?",
        "where\nlink rfp_abc123",
        "<@U2> where?",
        "<@U0BOT> <@U2> link rfp_abc123",
        "<!here> where?",
        "<!subteam^S1|@bids> link rfp_abc123",
    ],
)
def test_anything_else_is_a_request_like_any_other(text: str) -> None:
    assert thread_command(text, BOT) is None


def test_who_the_bot_is_has_to_be_known_for_its_mention_not_to_count() -> None:
    assert thread_command(f"<@{BOT}> where?") is None


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    found = thread_command(text, BOT)
    assert found is None or isinstance(found, Link | Where)


@pytest.mark.timeout(10)
@pytest.mark.parametrize("piece", ["link ", "<", "link rfp_", "where ", "?", "link <https:", " "])
def test_forty_thousand_characters_cost_no_more_than_others(piece: str) -> None:
    assert not isinstance(thread_command(piece * (40_000 // len(piece)), BOT), Link)
