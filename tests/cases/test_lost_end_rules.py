"""A restored database may not contain the end of a case: the closing post in the report's thread
tells it.
"""

import pytest

from threadline.cases.catch_up import CaseThreads
from threadline.cases.model import CLOSING
from threadline.slack.model import Thread
from threadline.threads.basis import LostPost
from threadline.threads.model import CLOSE_REQUESTED, MessageKind, SenderType

REPORT = Thread("T1", "C1", "1.000001")
ELSEWHERE = Thread("T1", "C2", "2.000002")


def post(kind: str, subject: str) -> LostPost:
    return LostPost("9.000009", "BUG-1:closing:1:C1", kind, subject, frozenset({REPORT.ts}), 1, 1)


def test_the_closing_post_closes_the_case_at_its_time_as_an_admin_would() -> None:
    end = CaseThreads().lost_end(REPORT, post(CLOSING, REPORT.key))
    assert end
    assert end.start
    [message] = end.start.signal_args
    assert end.start.signal == CLOSE_REQUESTED
    assert end.start.argument.thread == REPORT
    assert (message.kind, message.sender_type, message.ts) == (
        MessageKind.CLOSE,
        SenderType.ADMIN,
        "9.000009",
    )
    assert message.id == end.id
    assert end.at == ("9.000009", "")


@pytest.mark.parametrize(
    ("kind", "subject", "where"),
    [
        ("findings", REPORT.key, REPORT),
        (CLOSING, REPORT.key, ELSEWHERE),  # in the developers' thread, which gets the same post
        (CLOSING, ELSEWHERE.key, REPORT),
    ],
)
def test_other_posts_close_nothing(kind: str, subject: str, where: Thread) -> None:
    assert CaseThreads().lost_end(where, post(kind, subject)) is None
