"""Absences that are Slack's forgetting, and the gap of a person's deletion: only the gap is
believed.
"""

from dataclasses import replace

import pytest

from threadline.threads.absence import (
    MAX_IN_CHANNEL,
    MAX_IN_THREAD,
    MAX_IN_WORKSPACE,
    MIN_LOOKS,
    Absence,
    Verdict,
    is_evidence,
    judge,
)

DELETED = Absence(
    looks=MIN_LOOKS,
    is_root=False,
    thread_is_whole=True,
    older_is_shown=True,
    newer_is_shown=True,
    in_thread=1,
    in_channel=1,
    in_workspace=1,
)
"""One reply is missing between others, in two passes."""
REPORT = replace(DELETED, is_root=True, thread_is_whole=False)
"""A report without replies is missing: then Slack finds no thread."""

BELIEVED = {
    "a reply that was deleted": DELETED,
    "a report without replies that was deleted": REPORT,
    "an answer of three messages that was deleted": replace(
        DELETED, in_thread=3, in_channel=3, in_workspace=3
    ),
    "a third look, since it could not be sent at the second": replace(DELETED, looks=3),
    "as many as a channel may lose in a day": replace(
        DELETED, in_channel=MAX_IN_CHANNEL, in_workspace=MAX_IN_CHANNEL
    ),
    "as many as a workspace may lose in a day": replace(DELETED, in_workspace=MAX_IN_WORKSPACE),
}
WAITING = {
    "the first look": replace(DELETED, looks=1),
    "the first look at a report": replace(REPORT, looks=1),
    "a page that breaks off once": replace(DELETED, looks=1, thread_is_whole=False),
    "a workspace that answers nothing once": replace(
        DELETED,
        looks=1,
        older_is_shown=False,
        newer_is_shown=False,
        in_thread=50,
        in_channel=400,
        in_workspace=900,
    ),
}
DOUBTED = {
    "a retention policy of the workspace": replace(DELETED, older_is_shown=False, in_workspace=9),
    "a retention policy of one channel": replace(DELETED, older_is_shown=False),
    "the 90 days of a free plan": replace(REPORT, older_is_shown=False),
    "a retention policy of another company in a shared channel": replace(
        DELETED, older_is_shown=False
    ),
    "a sandbox that was reset and is empty": replace(
        REPORT, older_is_shown=False, newer_is_shown=False
    ),
    "a sandbox that was reset, and people go on": replace(REPORT, older_is_shown=False),
    "a token of another workspace with the same channel": replace(
        REPORT, older_is_shown=False, newer_is_shown=False
    ),
    "a channel whose history is hidden from a bot that came back": replace(
        DELETED, older_is_shown=False
    ),
    "a workspace that was set back to yesterday": replace(DELETED, newer_is_shown=False),
    "a clock that was moved forward": replace(DELETED, newer_is_shown=False, looks=9),
    "a list without its last page": replace(DELETED, thread_is_whole=False),
    "a thread that is not found, with replies": replace(REPORT, in_thread=2),
    "a reply in a thread that is not found": replace(DELETED, thread_is_whole=False, in_thread=1),
    "a page missing in the middle of a thread": replace(DELETED, in_thread=MAX_IN_THREAD + 1),
    "a page missing in the middle of a channel": replace(REPORT, in_channel=MAX_IN_CHANNEL + 1),
    "a few messages of each of many threads": replace(
        DELETED, in_thread=2, in_channel=MAX_IN_CHANNEL + 2
    ),
    "one message of each of many channels": replace(DELETED, in_workspace=MAX_IN_WORKSPACE + 1),
}


@pytest.mark.parametrize("absence", BELIEVED.values(), ids=BELIEVED)
def test_gap_that_a_person_left_is_believed(absence: Absence) -> None:
    judgement = judge(absence)
    assert (judgement.verdict, judgement.reason) == (Verdict.BELIEVED, "")


@pytest.mark.parametrize("absence", WAITING.values(), ids=WAITING)
def test_first_look_decides_nothing(absence: Absence) -> None:
    assert judge(absence).verdict is Verdict.WAITING


@pytest.mark.parametrize("absence", DOUBTED.values(), ids=DOUBTED)
def test_forgotten_message_is_no_deletion(absence: Absence) -> None:
    judgement = judge(absence)
    assert judgement.verdict is Verdict.DOUBTED
    assert judgement.reason


@pytest.mark.parametrize(
    ("message", "counts"),
    [
        ({"user": "U1"}, True),
        ({"user": "U1", "team": "T1"}, True),
        ({"user": "U1", "subtype": "file_share"}, True),
        ({"user": "U1", "bot_id": "B1", "subtype": "bot_message"}, True),
        ({"user": "U1", "team": "T1", "user_team": "T2"}, False),
        ({"user": "U1", "team": "T2"}, False),
        ({"user": "U1", "subtype": "channel_join"}, False),
        ({"user": "U1", "subtype": "channel_topic"}, False),
        ({"user": "USLACKBOT"}, False),
        ({"user": "USLACKBOT", "subtype": "tombstone"}, False),
    ],
)
def test_only_our_own_people_and_apps_are_evidence(message: dict[str, str], counts: bool) -> None:
    assert is_evidence(message, "T1") is counts
