"""The effect of each kind of message on its case, decided once, when it is stored."""

from dataclasses import replace
from decimal import Decimal

import pytest

from tests.support.case_store import REPORTER, STRANGER, close, edit, report, said, ts
from threadline.cases.effects import CaseFacts, Effect, as_stored, effect_of
from threadline.cases.model import CaseLimits, CaseStatus, wait_in
from threadline.slack.model import FileRef
from threadline.threads.model import IncomingMessage, MessageKind, SenderType

OPEN = CaseFacts(CaseStatus.INVESTIGATING, REPORTER)
ASKED = CaseFacts(CaseStatus.AWAITING_REPORTER, REPORTER, has_asked=True)
ENDED = CaseFacts(CaseStatus.RESOLVED, REPORTER, closed_until=Decimal(ts(5)))
BY_APP = CaseFacts(CaseStatus.INVESTIGATING, "B1")

CANCEL = said(9, "cancel", kind=MessageKind.CLOSE)
BY_ADMIN = said(9, "cancel", kind=MessageKind.CLOSE, by=SenderType.ADMIN)
BY_DEVELOPER = said(9, "never mind", kind=MessageKind.CLOSE, by=SenderType.DEVELOPER)
WITH_REASON = said(9, "please ignore, it was my VPN", kind=MessageKind.CLOSE)
SHOT = FileRef("F1", "shot.png", "image/png", 1)

CLOSES = Effect(spoken=True, wants_turn=True, closes=True, turn=None)
CLOSES_UNSEEN = Effect(spoken=False, wants_turn=True, closes=True, turn=None)
KEEPS_OPEN = Effect(spoken=True, wants_turn=True, closes=False, turn=None)
ASKS = Effect(spoken=True, wants_turn=True, closes=None, turn=None)
NOTHING = Effect(spoken=True, wants_turn=False, closes=None, turn=None)
ANSWERED = Effect(spoken=True, wants_turn=False, closes=None, turn=0)
UNSEEN = Effect(spoken=False, wants_turn=False, closes=None, turn=None)

EFFECTS = [
    ("a report", OPEN, report(), KEEPS_OPEN),
    ("a reporter's message", OPEN, said(9), KEEPS_OPEN),
    ("an edit", OPEN, edit(9, "never mind", 10), UNSEEN),
    ("a developer's message", OPEN, said(9, by=SenderType.DEVELOPER), ASKS),
    ("a developer's never mind", OPEN, BY_DEVELOPER, ASKS),
    ("the reporter's never mind", OPEN, close(9), CLOSES),
    ("an admin's close", OPEN, BY_ADMIN, CLOSES_UNSEEN),
    ("a bare cancel without a question", OPEN, CANCEL, CLOSES),
    ("a bare cancel after a question", ASKED, CANCEL, KEEPS_OPEN),
    ("a never mind after a question", ASKED, close(9), CLOSES),
    ("a close with a reason", OPEN, WITH_REASON, CLOSES),
    ("a close with a reason after a question", ASKED, WITH_REASON, CLOSES),
    ("a late close with a reason", ENDED, said(9, WITH_REASON.text), NOTHING),
    ("an admin's close after a question", ASKED, BY_ADMIN, CLOSES_UNSEEN),
    ("a message after the end", ENDED, said(9, "it is back"), KEEPS_OPEN),
    ("a late never mind", ENDED, close(9), NOTHING),
    ("a developer's late never mind", ENDED, BY_DEVELOPER, NOTHING),
    ("thanks after the end", ENDED, said(9, "many thanks"), NOTHING),
    ("an emoji after the end", ENDED, said(9, ":tada:"), NOTHING),
    ("thanks with a file", ENDED, said(9, "thanks", files=(SHOT,)), KEEPS_OPEN),
    ("a message from before the close that arrives after it", ENDED, said(4), ANSWERED),
    (
        "an unknown author who is the reporter",
        OPEN,
        said(9, by=SenderType.UNKNOWN, sender_id=REPORTER),
        KEEPS_OPEN,
    ),
    ("thanks with a picture", OPEN, said(9, "thanks", files=(SHOT,)), KEEPS_OPEN),
    ("an emoji as an answer", ASKED, said(9, ":+1:"), KEEPS_OPEN),
    ("a mention as an answer", ASKED, said(9, "<@U77> knows"), KEEPS_OPEN),
    ("a report of one emoji", OPEN, report(":fire:"), KEEPS_OPEN),
    ("an answer for an app", BY_APP, said(9, by=SenderType.UNKNOWN), KEEPS_OPEN),
]


@pytest.mark.parametrize(
    ("case", "message", "effect"),
    [row[1:] for row in EFFECTS],
    ids=[row[0] for row in EFFECTS],
)
def test_message_has_the_effect_that_its_case_gives_it(
    case: CaseFacts, message: IncomingMessage, effect: Effect
) -> None:
    stored = as_stored(message, case)
    assert stored
    assert stored.sender_type != SenderType.UNKNOWN
    assert effect_of(stored, case) == effect


WORDS = [
    ("great, thanks!", NOTHING, NOTHING),
    ("Vielen Dank", NOTHING, NOTHING),
    (":+1:", NOTHING, NOTHING),
    ("hi!", NOTHING, NOTHING),
    ("<@U77> lunch?", NOTHING, KEEPS_OPEN),
    ("hey <@U77|dana>, your call", NOTHING, KEEPS_OPEN),
    ("<@U77> <@U78> please take it", NOTHING, KEEPS_OPEN),
    ("<@U77> says it is the cache. Can you check?", ASKS, KEEPS_OPEN),
    ("<@U77> and I see it on iOS too", ASKS, KEEPS_OPEN),
    ("<@U77> can review it, please prepare a fix", ASKS, KEEPS_OPEN),
    ("status? <@U77> wants to know", ASKS, KEEPS_OPEN),
    ("ok", ASKS, KEEPS_OPEN),
    ("ok, thanks", ASKS, KEEPS_OPEN),
    ("It works now, thanks!", ASKS, KEEPS_OPEN),
    ("thanks, but it is slow", ASKS, KEEPS_OPEN),
    ("how is it going?", ASKS, KEEPS_OPEN),
    ("whats up", ASKS, KEEPS_OPEN),
    ("wie gehts", ASKS, KEEPS_OPEN),
    ("???", ASKS, KEEPS_OPEN),
    ("yes", ASKS, KEEPS_OPEN),
]


@pytest.mark.parametrize(
    ("words", "by_developer", "by_reporter"), WORDS, ids=lambda each: str(each)
)
def test_words_that_need_no_answer_start_no_turn(
    words: str, by_developer: Effect, by_reporter: Effect
) -> None:
    developer = said(9, words, by=SenderType.DEVELOPER)
    assert effect_of(developer, OPEN) == by_developer
    assert effect_of(said(9, words), OPEN) == by_reporter
    assert effect_of(replace(developer, addressed=True), OPEN) == ASKS


@pytest.mark.parametrize(
    "words", ["<@U77> it is broken again", "how is it going?", "ok, thanks, but it is back"]
)
def test_words_after_the_end_reopen_the_case(words: str) -> None:
    assert effect_of(said(9, words), ENDED) == KEEPS_OPEN


def test_message_of_a_third_party_is_ignored() -> None:
    assert as_stored(said(9, by=SenderType.UNKNOWN, sender_id=STRANGER), OPEN) is None


def test_only_a_question_and_findings_wait_and_findings_not_after_an_escalation() -> None:
    limits = CaseLimits(reporter_timeout=5, developer_timeout=7)

    def waits(*, escalated: bool) -> dict[CaseStatus, float]:
        times = {each: wait_in(each, limits, escalated=escalated) for each in CaseStatus}
        return {status: time for status, time in times.items() if time}

    question = {CaseStatus.AWAITING_REPORTER: 5}
    assert waits(escalated=False) == question | {CaseStatus.PENDING_VERIFICATION: 7}
    assert waits(escalated=True) == question
