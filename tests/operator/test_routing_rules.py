"""Which message is an answer to what the bot has asked, and which a request of its own."""

import pytest

from threadline.operator.model import routing
from threadline.threads import addressing

ID = "rfp_abc123"


@pytest.mark.parametrize(
    "answer",
    ["", ID, f"{ID}?", f" *{ID}*, `rfp_2`?!", f"it's {ID}", "a journal entry", "the opportunity state, please", "yes"],
)
def test_an_id_and_what_names_no_rfp_of_its_own_are_answers(answer: str) -> None:
    assert not routing.carries_request(answer)


@pytest.mark.parametrize(
    "request_",
    ["what can you do?", "???", f"is it {ID}?", f"update rfp {ID}", "search for new tenders", "list the proposals"],
)
def test_a_question_a_search_and_a_change_of_a_named_rfp_are_requests(request_: str) -> None:
    assert routing.carries_request(request_)


@pytest.mark.parametrize(
    "answer",
    ["new rfp", "A new RFP, please.", "it's new", "no, it's brand new", "a *brand-new* one", "new rfp from Riga"],
)
def test_who_says_that_it_is_new_answers(answer: str) -> None:
    assert not routing.carries_request(answer)


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ("Do you mean the job list or the list of RFPs?", "the job list"),
        ("Shall I search for it, or wait until you know the id?", "search for it"),
        ("Is it a client's RFP, or our agent jobs?", "agent jobs, please"),
    ],
)
def test_a_few_words_that_the_question_offers_are_an_answer_and_a_request_to_any_other(asked: str, answer: str) -> None:
    assert not routing.carries_request(answer, asked)
    assert routing.carries_request(answer, "Which client is this about?")


@pytest.mark.parametrize(
    "request_",
    [
        "create a new rfp",
        "new rfp: create it",
        "the new rfp?",
        "upload this",
        "we have a brand new one from Riga, and it is due on Friday",
        "search for new tenders",
    ],
)
def test_who_asks_for_something_new_has_a_request(request_: str) -> None:
    assert routing.carries_request(request_, "Which RFP is this about? Include an id like `rfp_...`")


def test_what_a_job_asks_is_known_by_its_id() -> None:
    assert addressing.is_job_question(addressing.job_question_id("T1", "JOB-1", 2))
    assert not addressing.is_job_question(addressing.message_id("T1", "C1", "1700000000.000000"))
    assert not addressing.is_job_question(addressing.stop_id("T1", "C1", "1.0", "U1", "2.0"))
