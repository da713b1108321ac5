"""A message to the operator is parsed for its bounds, thread commands, answers, and words that
call for a source.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadline.conversations.model.turn_route import choose_route
from threadline.jobs.model import is_job_question, job_question_id
from threadline.operator.context import TEAM_PHRASES, TEAM_WORDS, mentions_team
from threadline.operator.memory import fact_to_remember
from threadline.operator.model.routing import (
    MAX_QUESTION,
    LinkCommand,
    WhereCommand,
    is_new_request,
    normalise_question,
    parse_thread_command,
    truncate_question,
    truncation_notice,
)
from threadline.threads.model import message_id, stop_id


def question(text: str) -> str:
    return truncate_question(normalise_question(text))


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("  How   does\tit\u00a0stand? ", "How does it stand?"),
        ("Please:\r\n -  one \r\n -  two\n\n\n\n\nThanks\n", "Please:\n- one\n- two\n\nThanks"),
        ("rfp_\u200babc\ufeff123", "rfp_abc123"),
        ("👩\u200d💻", "👩\u200d💻"),
    ],
)
def test_white_space_is_normalised_and_a_list_stays_a_list(text: str, kept: str) -> None:
    assert question(text) == kept


@pytest.mark.parametrize("text", ["", " \n\u200b\t", "<@U0BOT> <@U1|ada>"])
def test_message_without_a_question_is_marked_so(text: str) -> None:
    assert choose_route(text).missing == "missing_question"


def test_long_question_is_cut_at_a_word() -> None:
    assert question("word " * 2_000) == ("word " * 1_000).strip()
    for gap in (" ", "\n"):
        assert question("w" * (MAX_QUESTION - 3) + f"{gap}and more") == "w" * (MAX_QUESTION - 3)
    assert len(question(f"{'v' * 3_000} {'w' * (MAX_QUESTION - 3_001)} more")) == MAX_QUESTION
    assert question("w" * MAX_QUESTION + "x") == "w" * MAX_QUESTION
    assert "5,000" in truncation_notice()


def test_link_is_left_out_rather_than_cut_in_two() -> None:
    words = "word " * 994
    assert question(f"{words}<https://a.example/b|a label of some words>") == words.strip()
    assert question(f"a < b {'word ' * 1_000}").startswith("a < b word")


@given(
    st.text()
    | st.text(alphabet=" \n<>ab", min_size=1, max_size=12).map(lambda piece: piece * MAX_QUESTION)
)
def test_any_text_becomes_a_bounded_beginning_of_itself(text: str) -> None:
    found = question(text)
    whole = normalise_question(text)
    assert bool(whole) == bool(found)
    assert len(found) <= MAX_QUESTION
    assert whole.startswith(found)
    assert normalise_question(found) == found


@pytest.mark.parametrize(
    "text",
    [
        "link rfp_abc123",
        "  BIND   rfp_abc123 !",
        "Link RFP_ABC123.",
        "link `rfp_abc123`",
        "please link rfp_abc123",
        "Link to rfp_abc123",
        "link with rfp_abc123",
        "link this to rfp_abc123",
        "bind it to rfp_abc123 please",
        "Link this thread to rfp_abc123, thanks!",
        "Could you please bind this conversation with rfp_abc123?",
        "I want to link rfp_abc123",
        "ok, now link rfp_abc123 instead",
        "please link this to <https://rfps.example/rfp_abc123|rfp_abc123>, thanks",
        "*link* _rfp_abc123_",
        "_link rfp_abc123_",
        "```\nlink rfp_abc123\n```",
        "link <https://rfps.example/rfp_abc123|rfp_abc123>",
        "link <https://rfps.example/rfp_abc123>",
        "link <https://rfps.example/rfps/RFP_abc123/state|here>.",
    ],
)
def test_link_is_read_when_it_is_the_whole_message(text: str) -> None:
    assert parse_thread_command(text) == LinkCommand("rfp_abc123")


@pytest.mark.parametrize(
    "text", ["where", "Where?", "WHERE ?", "`where`", "_where?_", "where??", "where."]
)
def test_where_is_read_when_it_is_the_whole_message(text: str) -> None:
    assert parse_thread_command(text) == WhereCommand()
    assert parse_thread_command(f"<@U2> {text}") is None


def test_link_to_an_impossible_id_differs_from_one_to_an_unknown_id() -> None:
    for text in (
        "link rfp_...",
        "bind rfp_…",
        "link rfp_answer.pdf",
        "link rfp_a/b",
        "link rfp_.",
    ):
        assert parse_thread_command(text) == LinkCommand("")
    assert parse_thread_command("link rfp_unheard_of") == LinkCommand("rfp_unheard_of")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "link",
        "link abc123",
        "link rfp abc123",
        "unlink rfp_abc123",
        "linking rfp_abc123",
        "link rfp_abc123 rfp_xyz789",
        "link rfp_abc123 to the board meeting",
        "link the document to rfp_abc123",
        "send me a link to rfp_abc123",
        "what does this thread link to rfp_abc123 for?",
        "do not link rfp_abc123",
        "please link",
        "link: rfp_abc123",
        "link <https://rfps.example/compare?a=rfp_a1&amp;b=rfp_b2>",
        "link <https://rfps.example/>",
        "where is the file?",
        "anywhere?",
        "where\nlink rfp_abc123",
        "<@U2> where?",
        "<@U0BOT> <@U2> link rfp_abc123",
        "<!here> where?",
        "<!subteam^S1|@bids> link rfp_abc123",
    ],
)
def test_anything_else_is_no_thread_command(text: str) -> None:
    assert parse_thread_command(text) is None


@given(st.text())
def test_any_text_is_read_as_a_command_or_none(text: str) -> None:
    found = parse_thread_command(text)
    assert found is None or isinstance(found, LinkCommand | WhereCommand)


@pytest.mark.timeout(10)
def test_forty_thousand_characters_are_read_in_time() -> None:
    for piece in ("link ", "<", "link rfp_", "where ", "?", "link <https:", " "):
        assert not isinstance(parse_thread_command(piece * (40_000 // len(piece))), LinkCommand)


@pytest.mark.parametrize(
    ("text", "asked", "is_request"),
    [
        ("", "", False),
        ("rfp_abc123?", "", False),
        (" *rfp_abc123*, `rfp_2`?!", "", False),
        ("it's rfp_abc123", "", False),
        ("a journal entry", "", False),
        ("yes", "", False),
        ("new rfp", "", False),
        ("no, it's brand new", "", False),
        ("a *brand-new* one", "", False),
        ("new rfp from Riga", "", False),
        ("what can you do?", "", True),
        ("???", "", True),
        ("is it rfp_abc123?", "", True),
        ("update rfp rfp_abc123", "", True),
        ("search for new tenders", "", True),
        ("list the proposals", "", True),
        ("the job list", "Do you mean the job list or the list of RFPs?", False),
        ("the job list", "Which client is this about?", True),
        ("agent jobs, please", "Is it a client's RFP, or our agent jobs?", False),
        ("agent jobs, please", "Which client is this about?", True),
        ("create a new rfp", "Which RFP is this about?", True),
        ("new rfp: create it", "Which RFP is this about?", True),
        ("the new rfp?", "Which RFP is this about?", True),
        ("upload this", "Which RFP is this about?", True),
        (
            "we have a brand new one from Riga, and it is due on Friday",
            "Which RFP is this about?",
            True,
        ),
    ],
)
def test_request_of_its_own_is_distinguished_from_an_answer(
    text: str, asked: str, is_request: bool
) -> None:
    assert is_new_request(text, asked) is is_request


def test_question_of_a_job_is_known_by_its_id() -> None:
    assert is_job_question(job_question_id("T1", "JOB-1", 2))
    assert not is_job_question(message_id("T1", "C1", "1700000000.000000"))
    assert not is_job_question(stop_id("T1", "C1", "1.0", "U1", "2.0"))


def test_words_that_call_for_the_team() -> None:
    asking = [f"Tell me about the {word} for this" for word in TEAM_WORDS]
    asking += [f"{phrase} write Rust?" for phrase in TEAM_PHRASES]
    for text in (*asking, "WHO CAN do it", "our Team's skills", "the capabilities of Ann"):
        assert mentions_team(text), text
    for text in (
        "What's the status?",
        "the steam engine",
        "rfp_team1 is due",
        "",
        "a biofuel bid",
    ):
        assert not mentions_team(text), text


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("remember that Acme wants PDF only", "Acme wants PDF only"),
        ("Please remember: invoices go to Ann", "invoices go to Ann"),
        ("remember to call Acme", ""),
        ("Do you remember that thing?", ""),
        ("remember", ""),
    ],
)
def test_fact_to_remember_is_found(text: str, what: str) -> None:
    assert fact_to_remember(text) == what
