"""The facts by which a post is recognised after a restore: a table of the posts that Slack shows
and those that are about to be sent.
"""

from dataclasses import dataclass, field

import pytest

from threadline.slack.model import Thread
from threadline.threads.basis import MAX_READ, Basis, LostPost, find_made, lost_post

ABOUT = Thread("T1", "C1", "1.000001").key
KEY = "conversation:T1:C1:1.000001:turn:2"


def shown(
    key: str, ts: str, *read: str, kind: str = "answer", about: str = ABOUT, part: str = "1/1"
) -> LostPost:
    payload = {"key": key, "says": kind, "about": about, "read": " ".join(read), "part": part}
    post = lost_post(ts, payload)
    assert post
    return post


@dataclass(frozen=True)
class Case:
    asked: tuple[str, ...]
    posts: list[LostPost]
    found: str
    read: tuple[str, ...] = ()
    part: int = 1
    in_channel: bool = False
    kind: str = field(default="answer")


TURN_2 = "turn:2"
TURN_3 = "turn:3"
CASES = {
    "the same turn about the same message": Case(("2.0",), [shown(KEY, "9.1", "2.0")], "9.1"),
    "nothing is shown": Case(("2.0",), [], ""),
    "another turn under the same number": Case(("5.0",), [shown(KEY, "9.1", "2.0")], ""),
    "a new message beside an answered one": Case(("2.0", "5.0"), [shown(KEY, "9.1", "2.0")], ""),
    "two turns became one": Case(
        ("2.0", "3.0"), [shown(TURN_2, "9.1", "2.0"), shown(TURN_3, "9.2", "3.0")], "9.2"
    ),
    "one turn became two: the first": Case(("2.0",), [shown(TURN_2, "9.1", "3.0", "2.0")], "9.1"),
    "one turn became two: the second": Case(("3.0",), [shown(TURN_2, "9.1", "3.0", "2.0")], "9.1"),
    "the first that has read it": Case(
        ("2.0",), [shown(TURN_3, "9.2", "3.0", "2.0"), shown(TURN_2, "9.1", "2.0")], "9.1"
    ),
    "a question is no answer": Case(("2.0",), [shown(KEY, "9.1", "2.0", kind="question")], ""),
    "the root of another thread under the same case number": Case(
        ("2.0",), [shown(KEY, "9.1", "2.0", about="T1:C1:7.000001")], ""
    ),
    "the second part": Case(
        ("2.0",),
        [shown(KEY, "9.1", "2.0", part="1/2"), shown(f"{KEY}#2", "9.2", "2.0", part="2/2")],
        "9.2",
        part=2,
    ),
    "a longer answer than the lost one": Case(("2.0",), [shown(KEY, "9.1", "2.0")], "9.1", part=2),
    "the second part was never sent": Case(("2.0",), [shown(KEY, "9.1", "2.0", part="1/2")], ""),
    "the first part of a root": Case(
        ("2.0",), [shown(KEY, "9.1", "2.0", part="1/2")], "9.1", in_channel=True
    ),
    "it answers no message: the same key": Case(
        (), [shown(KEY, "9.1", "2.0")], "9.1", read=("2.0",)
    ),
    "it answers no message: another key": Case(
        (), [shown(TURN_3, "9.1", "2.0")], "", read=("2.0",)
    ),
    "it answers no message, and read more": Case(
        (), [shown(KEY, "9.1", "2.0")], "", read=("3.0", "2.0")
    ),
    "it has read nothing": Case((), [shown(KEY, "9.1")], ""),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_post_is_found_if_all_its_messages_were_answered(case: Case) -> None:
    basis = Basis(case.kind, ABOUT, case.asked, case.read or case.asked)
    assert find_made(case.posts, basis, KEY, case.part, in_channel=case.in_channel) == case.found


def test_metadata_reads_back_as_it_was_written() -> None:
    basis = Basis("findings", ABOUT, ("2.0",), ("2.0", "1.0"))
    post = lost_post("9.1", {"key": KEY, **basis.metadata(2, 3)})
    assert post == LostPost("9.1", KEY, "findings", ABOUT, frozenset({"1.0", "2.0"}), 2, 3)


def test_metadata_stays_small() -> None:
    many = tuple(f"17000{number:05d}.123456" for number in range(200))
    assert len(str(Basis("answer", ABOUT, many, many).metadata(1, 1))) < MAX_READ * 20 + 200


@pytest.mark.parametrize(
    "payload", [{}, {"key": KEY}, {"says": "answer"}, {"says": "answer", "part": "x/y"}]
)
def test_a_post_without_a_basis_is_none(payload: dict[str, str]) -> None:
    assert lost_post("9.1", payload) is None
