"""Which message is an answer to what the bot has asked, and which a request of its own."""

import pytest

from threadline.domain import addressing, routing

ID = "rfp_abc123"


@pytest.mark.promise("operator:pending:resumed")
@pytest.mark.parametrize(
    "answer",
    ["", ID, f"{ID}?", f" *{ID}*, `rfp_2`?!", f"it's {ID}", "a journal entry", "the opportunity state, please", "yes"],
)
def test_an_id_and_what_names_no_rfp_of_its_own_are_answers(answer: str) -> None:
    assert not routing.carries_request(answer)


@pytest.mark.promise("operator:pending:resumed")
@pytest.mark.parametrize(
    "request_",
    ["what can you do?", "???", f"is it {ID}?", f"update rfp {ID}", "search for new tenders", "list the proposals"],
)
def test_a_question_a_search_and_a_change_of_a_named_rfp_are_requests(request_: str) -> None:
    assert routing.carries_request(request_)


def test_what_a_job_asks_is_known_by_its_id() -> None:
    assert addressing.is_job_question(addressing.job_question_id("T1", "JOB-1", 2))
    assert not addressing.is_job_question(addressing.message_id("T1", "C1", "1700000000.000000"))
    assert not addressing.is_job_question(addressing.stop_id("T1", "C1", "1.0", "U1", "2.0"))
