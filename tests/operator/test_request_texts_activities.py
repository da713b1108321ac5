"""Which of what was said a turn goes by when it begins: whose words, in which order, and what is an answer."""

from dataclasses import replace

import pytest

from tests.operator.test_begin_turn_activities import CITY, HARBOUR, answered, desk, ended, plan, said
from tests.support.conversation_activities import Talking, make_talk, talk
from threadline.conversations.contract import ThinkRequest
from threadline.models.model import Outcome, OutcomeKind, ToolChoice
from threadline.operator.model.routing import Agent
from threadline.operator.model.scope import Branch
from threadline.threads import addressing, messages
from threadline.threads.messages import IncomingMessage
from threadline_devstack.slack.identity import DEVELOPER, TEAM

__all__ = ["desk", "make_talk", "talk"]

ASK = "add to journal: they called"


def overheard(desk: Talking, words: str) -> IncomingMessage:
    return desk.message(words, sender_id=DEVELOPER, addressed=False)


def mine(desk: Talking, words: str) -> IncomingMessage:
    """By the one who asks elsewhere in the test, without a mention."""
    return desk.message(words, addressed=False)


def edited(original: IncomingMessage, words: str) -> IncomingMessage:
    version = f"{float(original.ts) + 1_000:.6f}"
    identity = addressing.edit_id(TEAM, original.channel, original.ts, version)
    return replace(original, id=identity, kind=messages.EDIT, text=words, correction_of=original.id, version=version)


def by_job(desk: Talking, words: str, run: int = 1) -> IncomingMessage:
    return desk.message(words, id=addressing.job_question_id(TEAM, "JOB-1", run))


async def bound(desk: Talking) -> list[str]:
    return [row["record_id"] for row in await desk.rows("SELECT record_id FROM thread_bindings")]


async def asked(desk: Talking, turn: int = 1) -> None:
    """The bot has asked which RFP a request is about."""
    await desk.said(ASK)
    await ended(desk, await desk.begin(turn), turn)
    assert "Which RFP" in said(desk)


async def begun(desk: Talking, turn: int, *words: str | IncomingMessage) -> tuple[str, int, str]:
    """What a turn is about, what it goes on with, and how it ends, if it does before the loop."""
    await desk.said(*words)
    ends = (await desk.begin(turn)).ends
    route = (await plan(desk, turn)).route
    return route.scope.rfp_id, route.resumes, ends.value if ends else ""


async def test_what_people_say_to_each_other_binds_nothing_and_is_no_request(desk: Talking) -> None:
    about = await begun(desk, 1, overheard(desk, f"link {CITY}"), overheard(desk, f"{HARBOUR} is lost"), ASK)
    assert about == ("", 0, "asked")
    assert await bound(desk) == []
    async with desk.database.begin() as work:
        assert await work.turn_plans.said_in(desk.thread, 1) == [ASK]


async def test_what_somebody_wrote_before_calling_the_bot_belongs_to_their_request(desk: Talking) -> None:
    words = (overheard(desk, "hi"), mine(desk, f"{CITY} was lost"), mine(desk, f"<@U9> see {HARBOUR}"))
    assert await begun(desk, 1, *words, "put that into the journal, please") == (CITY, 0, "")


async def test_an_edit_of_an_old_message_is_no_new_word(desk: Talking) -> None:
    first = desk.message(f"link {CITY}")
    await desk.said(first)
    await ended(desk, await desk.begin(), 1)
    await desk.said(f"link {HARBOUR}")
    await ended(desk, await desk.begin(2), 2)
    about = await begun(desk, 3, edited(first, f"link {CITY}."), "update the rfp: status won")
    assert about == (HARBOUR, 0, "")
    assert await bound(desk) == [HARBOUR]
    assert (await plan(desk, 3)).route.notes == ()


async def test_a_request_counts_with_the_rfp_that_its_thread_had_when_it_was_said(desk: Talking) -> None:
    assert (await begun(desk, 1, f"link {CITY}", "update the rfp: status won", f"link {HARBOUR}")) == (CITY, 0, "")
    notes = (await plan(desk)).route.notes
    assert notes[-1] == f"Your earlier request is about `{CITY}`."
    assert await bound(desk) == [HARBOUR]


async def test_requests_before_and_behind_a_link_are_not_done_in_one(desk: Talking) -> None:
    words = (f"link {CITY}", "status won", f"link {HARBOUR}", "and status lost")
    assert await begun(desk, 1, *words) == ("", 0, "told")
    await ended(desk, await desk.begin(), 1)
    assert "I did nothing else that you asked for" in said(desk)
    assert await bound(desk) == [HARBOUR]


@pytest.mark.parametrize("link", ["link rfp_xyz788", "link rfp_..."])
async def test_a_link_that_is_refused_ends_the_turn_with_what_was_asked_beside_it(desk: Talking, link: str) -> None:
    words = (f"link {CITY}", link, "update the rfp: status won")
    assert await begun(desk, 1, *words) == ("", 0, "told")
    await ended(desk, await desk.begin(), 1)
    assert "I did nothing else that you asked for" in said(desk)


async def test_a_link_that_is_made_right_at_once_goes_on(desk: Talking) -> None:
    words = (f"link {CITY}", "link rfp_xyz788", "update the rfp: status won", f"link {HARBOUR}")
    assert await begun(desk, 1, *words) == (HARBOUR, 0, "")


@pytest.mark.parametrize("question", [f"Look into {CITY} again and tell me more.", f"link {CITY}"])
async def test_what_a_job_asks_is_no_answer_and_binds_nothing(desk: Talking, question: str) -> None:
    await asked(desk)
    assert await begun(desk, 2, by_job(desk, question)) == (CITY, 0, "")
    await answered(desk, 2)
    assert await bound(desk) == []
    assert await begun(desk, 3, by_job(desk, f"again: {CITY}", 2), HARBOUR) == (HARBOUR, 1, "")


async def test_among_several_people_the_answer_needs_no_mention(desk: Talking) -> None:
    await desk.said(overheard(desk, "hello all"), ASK)
    await ended(desk, await desk.begin(), 1)
    calls = mine(desk, f"<@U9> is it {CITY}?")
    stored = await desk.said(calls)
    assert not stored.marks.addressed_due
    stored = await desk.said(mine(desk, CITY))
    assert stored.marks.addressed_due
    assert not stored.overheard
    assert await begun(desk, 2) == (CITY, 1, "")


async def test_a_silent_turn_leaves_the_request_open(desk: Talking) -> None:
    await asked(desk)
    await desk.said(mine(desk, "<@U9> which one was it?"))
    await desk.begin(2)
    await desk.settle(Outcome(OutcomeKind.SILENT, ""), 2)
    assert await begun(desk, 3, CITY) == (CITY, 1, "")


async def test_a_word_to_stop_ends_the_wait_for_an_answer(desk: Talking) -> None:
    await asked(desk)
    stored = await desk.said(desk.message("stop", kind=messages.STOP, sender_id=DEVELOPER))
    assert stored.marks.question, "somebody else's word"
    stored = await desk.said(desk.message("stop", kind=messages.STOP))
    assert stored.marks.question == ""
    assert await begun(desk, 2, f"I like {CITY}") == (CITY, 0, "")


async def test_never_mind_is_no_answer(desk: Talking) -> None:
    await asked(desk)
    assert (await begun(desk, 2, "never mind"))[1] == 0


async def test_who_has_said_to_stop_before_the_turn_is_asked_nothing(desk: Talking) -> None:
    before = (desk.message(f"link {CITY}"), desk.message(ASK))
    about = await begun(desk, 1, *before, desk.message("stop", kind=messages.STOP), "what can you do?")
    assert about == ("", 0, "")
    assert await bound(desk) == []
    await desk.settle(Outcome(OutcomeKind.STOPPED, "I have stopped."), 1)
    async with desk.database.begin() as work:
        left = await work.conversations.unused(desk.thread)
    assert [each.text for each in left] == ["what can you do?"]


async def test_an_answer_that_is_deleted_or_missing_is_asked_for_again(desk: Talking) -> None:
    await asked(desk)
    assert await begun(desk, 2, "") == ("", 1, "asked")
    await ended(desk, await desk.begin(2), 2)
    assert "Which RFP" in said(desk)
    assert await begun(desk, 3, CITY) == (CITY, 2, "")


async def test_where_is_no_answer_and_leaves_the_request_open(desk: Talking) -> None:
    await asked(desk)
    assert await begun(desk, 2, "where?") == ("", 0, "told")
    await ended(desk, await desk.begin(2), 2)
    assert await begun(desk, 3, CITY) == (CITY, 1, "")


async def test_what_is_about_the_thread_waits_for_the_turn_behind_the_one_under_way(desk: Talking) -> None:
    await desk.said("Good morning")
    await desk.begin()
    await desk.think()
    await desk.said("one more thing", f"link {HARBOUR}", "update the rfp: status won")
    await desk.think(step=2)
    assert "one more thing" in str(desk.sent())
    assert HARBOUR not in str(desk.sent())
    assert "status won" not in str(desk.sent())
    marks = await desk.settle(Outcome(OutcomeKind.SUMMARISED, "Done."), 1)
    assert marks.turn_due
    assert await begun(desk, 2) == (HARBOUR, 0, "")
    assert await bound(desk) == [HARBOUR]


async def test_what_is_about_another_rfp_waits_while_the_operator_is_at_one(desk: Talking) -> None:
    assert await begun(desk, 1, f"status of {CITY}") == (CITY, 0, "")
    await desk.said(f"due date of {CITY}, too", f"and of {HARBOUR}", "thanks")
    request = ThinkRequest(desk.thread, 1, 2, ToolChoice.AUTO, Agent.OPERATOR)
    await desk.run(desk.thinking.think, request)
    async with desk.database.begin() as work:
        taken = await work.conversations.take_up(desk.thread, 1, 2)
    assert [each.text for each in taken] == [f"due date of {CITY}, too"]
    assert (await desk.settle(Outcome(OutcomeKind.SUMMARISED, "Done."), 1)).turn_due
    assert await begun(desk, 2) == (HARBOUR, 0, "")


async def test_a_deleted_rfp_of_the_thread_is_told_once_and_only_where_it_matters(desk: Talking) -> None:
    await desk.said(f"link {CITY}")
    await ended(desk, await desk.begin(), 1)
    async with desk.database.begin() as work:
        await work.rfps.delete(TEAM, CITY)
    assert await begun(desk, 2, f"status of {HARBOUR}") == (HARBOUR, 0, "")
    assert (await plan(desk, 2)).route.notes == ()
    await answered(desk, 2)
    await desk.said("where?", "what can you do?")
    await desk.begin(3)
    route = (await plan(desk, 3)).route
    assert (route.branch, len(route.notes)) == (Branch.A, 1)


async def test_a_thread_is_told_that_its_rfp_was_deleted_and_cannot_be_bound_to_it_again(desk: Talking) -> None:
    await desk.said(f"link {CITY}")
    await ended(desk, await desk.begin(), 1)
    async with desk.database.begin() as work:
        await work.rfps.delete(TEAM, CITY)
    await desk.said("where?")
    await ended(desk, await desk.begin(2), 2)
    gone = f"This thread is bound to an RFP that no longer exists: {CITY} was deleted. Bind it to another one."
    assert said(desk) == gone
    await desk.said(f"link {CITY}")
    await ended(desk, await desk.begin(3), 3)
    assert said(desk).startswith(f"{CITY[:1].upper()}{CITY[1:]} was deleted; ")
    assert said(desk).endswith("Nothing was done.")
    await desk.said(f"link {HARBOUR}")
    await ended(desk, await desk.begin(4), 4)
    assert said(desk).endswith(f"It was bound to `{CITY}` before.")
