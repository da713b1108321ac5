"""Conversations: what is stored wakes a turn once it is judged, is used once, and is answered once."""

import asyncio
import itertools
import re

import pytest
from sqlalchemy import text

from tests.db.talking import (
    REPORTER,
    STRANGER,
    THREAD,
    Talking,
    deletion,
    edit,
    identity,
    mention,
    says,
    stop,
    texts,
    ts,
)
from threadline.contracts.conversation import Refusal, Refused
from threadline.db import conversation_row
from threadline.db.engine import Database
from threadline.domain import messages
from threadline.domain.addressing import Thread
from threadline.domain.conversation import ConversationMarks
from threadline.domain.dialogue import OutcomeKind, Usage
from threadline.domain.errors import ConversationNotFound
from threadline.domain.limits import Verdict
from threadline.domain.messages import FileRef


@pytest.fixture
def talk(database: Database) -> Talking:
    return Talking(database)


def flags(marks: ConversationMarks) -> tuple[bool, bool, bool]:
    return marks.turn_due, marks.addressed_due, marks.stop_due


async def test_a_thread_that_nobody_addressed_stores_nothing_and_stays_unfollowed(talk: Talking) -> None:
    batch = (says(1, "a chat"), edit(0, "new words", 2), deletion(0), stop(3))
    stored = await talk.store(*batch)
    assert (stored.marks, stored.unjudged, stored.quarantined) == (ConversationMarks(), (), ())
    assert await talk.rows("SELECT 1 FROM conversation_messages") == []
    async with talk.database.begin() as work:
        assert not await work.conversations.is_followed(THREAD.team, THREAD.channel, THREAD.ts)


async def test_a_word_to_stop_opens_nothing(talk: Talking) -> None:
    assert not (await talk.store(says(1, "stop", kind=messages.STOP, addressed=True))).marks.opened


async def test_the_first_addressed_message_opens_and_what_came_with_it_is_kept(talk: Talking) -> None:
    stored = await talk.store(says(2, "and this"), mention(1, "hi"))
    assert (stored.marks.opened, stored.marks.stored, stored.marks.turn_due) == (True, 2, False)
    assert [(each.text, each.user_id, each.ts) for each in stored.unjudged] == [
        ("hi", REPORTER, ts(1)),
        ("and this", REPORTER, ts(2)),
    ]
    assert stored.unjudged[0].said_at == float(ts(1))
    async with talk.database.begin() as work:
        follows = work.conversations.is_followed
        assert await follows(THREAD.team, THREAD.channel, THREAD.ts)
        assert not await follows("T2", THREAD.channel, THREAD.ts)
        assert not await follows(THREAD.team, THREAD.channel, ts(1))


async def test_what_is_stored_is_due_once_it_is_judged(talk: Talking) -> None:
    before = (await talk.store(mention(1))).marks
    marks = await talk.judge({identity(1): None})
    assert flags(before) == (False, False, False)
    assert flags(marks) == (True, True, False)
    assert marks.rev > before.rev
    assert await talk.marks() == marks


async def test_a_message_is_judged_once_and_the_first_verdict_stands(talk: Talking) -> None:
    await talk.store(mention(1), says(2), says(3))
    first = {identity(1): None, identity(2): Refusal.DUPLICATE, identity(3): Refusal.THROTTLED_FIRST}
    await talk.judge(first)
    marks = await talk.judge(dict.fromkeys(reversed(first), Refusal.THROTTLED) | {identity(2): None})
    assert flags(marks) == (True, True, False)
    assert (await talk.store(mention(1), says(2))).unjudged == ()
    assert texts(await talk.take_up(1)) == ["hello"]
    async with talk.database.begin() as work:
        refused = await work.conversations.refused(THREAD, [identity(at) for at in (1, 2, 3, 4)])
    assert refused == (
        Refused("C1", ts(2), REPORTER, Refusal.DUPLICATE),
        Refused("C1", ts(3), REPORTER, Refusal.THROTTLED_FIRST),
    )


async def test_what_an_earlier_try_stored_and_did_not_judge_is_judged_by_the_next(talk: Talking) -> None:
    first = await talk.store(mention(1), says(2))
    again = await talk.store(mention(1), says(2))
    assert again.unjudged == first.unjudged
    assert again.marks.stored == 2
    await talk.judge({identity(1): None})
    assert [each.message_id for each in (await talk.store(says(3))).unjudged] == [identity(2), identity(3)]


async def test_of_fifty_stores_of_one_batch_by_two_workers_each_message_is_stored_once(
    talk: Talking, database_url: str
) -> None:
    other = Talking(Database(database_url))
    batch = (mention(1), *(says(at, str(at)) for at in range(2, 12)), edit(2, "better", 5), deletion(3), stop(20))
    try:
        stored = await asyncio.gather(*(each.store(*batch) for _ in range(25) for each in (talk, other)))
    finally:
        await other.database.dispose()
    rows = await talk.rows("SELECT seq, message_id FROM conversation_messages ORDER BY seq")
    assert [row["seq"] for row in rows] == list(range(1, 15))
    assert {row["message_id"] for row in rows} == {each.id for each in batch}
    assert {each.marks.stored for each in stored} == {14}
    assert len({each.marks.rev for each in stored}) == 50
    assert len(await talk.rows("SELECT 1 FROM conversations")) == 1


async def test_two_workers_that_judge_differently_leave_one_verdict(talk: Talking, database_url: str) -> None:
    other = Talking(Database(database_url))
    await talk.store(mention(1), *(says(at) for at in range(2, 10)))
    ids = [identity(at) for at in range(1, 10)]
    verdicts: tuple[Refusal | None, ...] = (None, Refusal.DUPLICATE)
    try:
        await asyncio.gather(
            *(one.judge(dict.fromkeys(ids, verdict)) for one, verdict in zip((talk, other), verdicts, strict=True))
        )
    finally:
        await other.database.dispose()
    [row] = await talk.rows("SELECT DISTINCT verdict, wakes FROM conversation_messages")
    assert row["wakes"] == (row["verdict"] == "ok")


async def test_two_workers_that_are_given_one_batch_refuse_the_same_of_it(talk: Talking, database_url: str) -> None:
    """The guards as the activity asks them: ten requests, one of them again, and two too many."""
    other = Talking(Database(database_url))
    batch = (mention(1, "1"), *(says(at, str(at)) for at in range(2, 11)), says(20, "1"), says(21, "a"), says(22, "b"))

    async def guarded(worker: Talking) -> tuple[Refused, ...]:
        verdicts: dict[str, Refusal | None] = {}
        for each in (await worker.store(*batch)).unjudged:
            given = (each.user_id, each.text, each.message_id, each.said_at)
            async with worker.database.begin() as work:
                again = await work.limits.is_duplicate(THREAD, *given)
            async with worker.database.begin() as work:
                often = await work.limits.of_user(THREAD.team, each.user_id, each.message_id, each.said_at)
            refusal = Refusal.DUPLICATE if again else None if often is Verdict.OK else Refusal(often.value)
            verdicts[each.message_id] = refusal
        await worker.judge(verdicts)
        async with worker.database.begin() as work:
            return await work.conversations.refused(THREAD, [each.id for each in batch])

    try:
        one, two = await asyncio.gather(guarded(talk), guarded(other))
        three = await guarded(other)
    finally:
        await other.database.dispose()
    assert one == two == three
    assert [(each.ts, each.why) for each in one if each.why is Refusal.DUPLICATE] == [(ts(20), Refusal.DUPLICATE)]
    assert len(one) == 3
    assert len(await talk.take_up(1)) == 10


async def test_a_persons_thread_of_their_own_is_meant_for_the_bot_until_another_writes(talk: Talking) -> None:
    await talk.hear(mention(1))
    await talk.turn(1)
    assert flags(await talk.hear(says(2, "and the second one?"))) == (True, True, False)
    await talk.turn(2)
    assert flags(await talk.hear(says(3, "what do you think?", sender_id=STRANGER))) == (True, False, False)
    assert flags(await talk.hear(mention(4, sender_id=STRANGER))) == (True, True, False)
    await talk.turn(3)
    assert flags(await talk.hear(says(5))) == (True, False, False)


async def test_what_a_turn_has_taken_up_is_due_until_the_turn_is_settled(talk: Talking) -> None:
    await talk.hear(mention(1))
    await talk.take_up(1)
    assert flags(await talk.marks()) == (True, True, False)
    marks = await talk.settle(1)
    assert (marks.turn, marks.turn_due, marks.unsaid) == (1, False, 1)
    marks = await talk.said(1)
    assert (marks.turn, marks.unsaid) == (1, 0)


@pytest.mark.parametrize(
    ("message", "wakes"),
    [
        (mention(2, ""), True),
        (says(2, ""), False),
        (says(2, " \n\t"), False),
        (says(2, "", files=(FileRef("F1", "a.png"),)), True),
        (says(2, "??"), True),
    ],
)
async def test_a_message_with_nothing_to_answer_wakes_nobody(
    talk: Talking, message: messages.IncomingMessage, wakes: bool
) -> None:
    await talk.hear(mention(1))
    await talk.turn(1)
    stored = await talk.store(message)
    assert bool(stored.unjudged) is wakes
    assert (await talk.judge({message.id: None})).turn_due is wakes


async def test_corrections_wake_nobody(talk: Talking) -> None:
    await talk.hear(mention(1))
    await talk.turn(1)
    stored = await talk.store(edit(1, "better", 5), deletion(1), messages.parse([1, 2]))
    assert stored.unjudged == ()
    assert flags(stored.marks) == (False, False, False)


async def test_what_is_taken_up_is_in_the_order_in_which_it_was_said(talk: Talking) -> None:
    await talk.hear(mention(5, "third"))
    await talk.hear(says(1, "first"), says(9, "fourth"))
    await talk.hear(says(2, "second", sender_id=STRANGER, files=(FileRef("F1", "a.png", "image/png", 3),)))
    taken = await talk.take_up(1)
    assert texts(taken) == ["first", "second", "third", "fourth"]
    assert (taken[1].author_id, taken[1].files, taken[1].said_at) == (
        STRANGER,
        (FileRef("F1", "a.png", "image/png", 3),),
        float(ts(2)),
    )


async def test_taking_up_again_gives_the_same_and_what_came_since_waits_for_the_next_step(talk: Talking) -> None:
    await talk.hear(mention(1, "one"))
    first = await talk.take_up(1)
    await talk.hear(says(2, "two"))
    assert await talk.take_up(1) == first, "an earlier try may still come to a reply that has not seen it"
    assert texts(await talk.take_up(1, 2)) == ["two"]
    await talk.hear(says(3, "three"))
    assert texts(await talk.take_up(1, 2)) == ["two"]
    assert await talk.take_up(1) == first
    assert flags(await talk.settle(1)) == (True, True, False)
    assert await talk.take_up(1, 3) == [], "the turn is over"
    assert texts(await talk.take_up(2)) == ["three"]


async def test_a_step_that_found_nothing_finds_nothing_when_it_is_tried_again(talk: Talking) -> None:
    await talk.hear(mention(1))
    await talk.take_up(1)
    assert await talk.take_up(1, 2) == []
    await talk.hear(says(2, "late"))
    assert await talk.take_up(1, 2) == []
    assert texts(await talk.take_up(1, 3)) == ["late"]


async def test_of_many_that_take_up_one_step_all_get_the_same(talk: Talking, database_url: str) -> None:
    other = Talking(Database(database_url))
    await talk.hear(mention(1), *(says(at, str(at)) for at in range(2, 6)))
    try:
        taken = await asyncio.gather(
            *(each.take_up(1) for _ in range(10) for each in (talk, other)), *(talk.hear(says(at)) for at in (20, 21))
        )
    finally:
        await other.database.dispose()
    every = [texts(each) for each in taken[:20] if isinstance(each, list)]
    assert len(every) == 20
    assert all(each == every[0] for each in every)
    keys = [each.key for each in (await talk.read()).messages]
    assert len(set(keys)) == len(keys) == len(every[0])


async def test_a_transaction_that_fails_has_taken_nothing_up(talk: Talking) -> None:
    await talk.hear(mention(1, "one"))

    async def fail() -> None:
        async with talk.database.begin() as work:
            await work.conversations.take_up(THREAD, 1, 1)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await fail()
    await talk.hear(says(2, "two"))
    assert texts(await talk.take_up(1)) == ["one", "two"]


async def test_the_first_word_about_a_turn_stands(talk: Talking) -> None:
    await talk.hear(mention(1))
    await talk.take_up(1)
    first = await talk.settle(1, "the first")
    assert await talk.settle(1, "the second", OutcomeKind.FAILED, "really?") == first
    async with talk.database.begin() as work:
        settled = await work.conversations.settled(THREAD, 1)
        assert await work.conversations.settled(THREAD, 2) is None
    assert settled is not None
    assert (settled.kind, settled.answer, settled.said) == (OutcomeKind.ANSWERED, "the first", False)


async def test_of_two_workers_that_settle_a_turn_one_is_heard(talk: Talking, database_url: str) -> None:
    other = Talking(Database(database_url))
    await talk.hear(mention(1))
    await talk.take_up(1)
    try:
        both = await asyncio.gather(*(one.settle(1, f"{number}") for number, one in enumerate((talk, other))))
    finally:
        await other.database.dispose()
    assert both[0] == both[1]
    assert len(await talk.rows("SELECT 1 FROM conversation_turns")) == 1


async def test_the_oldest_unsaid_answer_is_said_first_and_a_silent_turn_has_none(talk: Talking) -> None:
    for turn in (1, 2, 3):
        await talk.hear(mention(turn, str(turn)))
        await talk.take_up(turn)
        await talk.settle(turn, "" if turn == 1 else "Done.", OutcomeKind.SILENT if turn == 1 else OutcomeKind.ANSWERED)
    assert (await talk.marks()).unsaid == 2
    assert (await talk.said(2)).unsaid == 3
    assert (await talk.said(3)).unsaid == 0
    assert await talk.said(3) == await talk.marks()
    async with talk.database.begin() as work:
        settled = await work.conversations.settled(THREAD, 3)
    assert settled is not None
    assert settled.said


async def test_an_answer_of_any_characters_is_kept(talk: Talking) -> None:
    await talk.hear(mention(1))
    marks = await talk.settle(1, "a\x00b \ud800 🙂", question="which\x00one? " + "x" * 500)
    assert marks.question == ("whichone? " + "x" * 500)[:200]
    async with talk.database.begin() as work:
        settled = await work.conversations.settled(THREAD, 1)
    assert settled is not None
    assert settled.answer == "ab ? 🙂"


async def test_a_question_is_open_until_a_turn_answers_something_else(talk: Talking) -> None:
    await talk.hear(mention(1))
    assert (await talk.turn(1, "Which project?", question="Which project?")).question == "Which project?"
    stored = await talk.store(says(2, "the second"))
    assert stored.question_open
    await talk.judge({identity(2): None})
    assert (await talk.turn(2, "", kind=OutcomeKind.SILENT)).question == "Which project?"
    await talk.hear(says(3, "PRJ-2"))
    assert (await talk.store(says(3, "PRJ-2"))).question_open, "a lost result is asked for again"
    assert (await talk.turn(3, "Thanks.")).question == ""
    assert not (await talk.store(says(4))).question_open


async def test_a_stop_with_nothing_before_it_is_over_at_once(talk: Talking) -> None:
    await talk.hear(mention(5))
    assert flags(await talk.hear(stop(2))) == (True, True, False)
    await talk.turn(1)
    assert flags(await talk.hear(stop(9))) == (False, False, False)
    assert flags(await talk.hear(says(8, "said before it, came after"))) == (True, True, False)
    rows = await talk.rows("SELECT turn, step FROM conversation_messages WHERE message_type = 'stop' ORDER BY said_at")
    assert [(row["turn"], row["step"]) for row in rows] == [(0, 0), (1, 0)]


@pytest.mark.parametrize("refused", [None, Refusal.DUPLICATE])
async def test_a_stop_that_comes_with_what_it_stops_waits_for_the_verdict(
    talk: Talking, refused: Refusal | None
) -> None:
    stored = await talk.store(mention(1), stop(2))
    assert flags(stored.marks) == (False, False, False)
    marks = await talk.judge({identity(1): refused})
    assert marks.stop_due is (refused is None)
    assert marks.turn_due is (refused is None)


async def test_a_stopped_turn_answers_all_that_was_said_before_the_stop(talk: Talking) -> None:
    await talk.hear(mention(1, "one"))
    await talk.take_up(1)
    await talk.hear(says(2, "two"), stop(3), says(4, "four"))
    assert flags(await talk.marks()) == (True, True, True)
    marks = await talk.settle(1, "Stopped.", OutcomeKind.STOPPED)
    assert flags(marks) == (True, True, False)
    assert texts(await talk.take_up(1, 0)) == ["two"], "what the turn took up without a thought"
    assert texts(await talk.take_up(2)) == ["four"]


async def test_a_turn_that_was_stopped_before_it_thought_answers_what_the_stop_was_about(talk: Talking) -> None:
    await talk.hear(mention(1, "one"), says(2, "two"), stop(3), says(4, "four"))
    assert flags(await talk.settle(1, "Stopped.", OutcomeKind.STOPPED)) == (True, True, False)
    assert texts(await talk.take_up(1, 0)) == ["one", "two"]
    assert texts(await talk.take_up(2)) == ["four"]


async def test_a_turn_that_was_cancelled_before_it_thought_answers_everything(talk: Talking) -> None:
    await talk.hear(mention(1, "one"), says(2, "two"))
    assert flags(await talk.settle(1, "Stopped.", OutcomeKind.STOPPED)) == (False, False, False)


async def test_a_stop_that_came_too_late_for_its_turn_is_over_with_it(talk: Talking) -> None:
    await talk.hear(mention(1))
    await talk.take_up(1)
    await talk.hear(stop(2))
    assert flags(await talk.settle(1, "The answer was there already.")) == (False, False, False)


async def test_a_stop_stays_due_for_what_the_turn_did_not_answer(talk: Talking) -> None:
    await talk.hear(mention(1))
    await talk.take_up(1)
    await talk.hear(says(2, "two"), stop(3))
    assert flags(await talk.settle(1, "The first is done.")) == (True, True, True)
    assert flags(await talk.settle(2, "Stopped.", OutcomeKind.STOPPED)) == (False, False, False)


async def test_a_turn_that_failed_before_it_thought_answers_everything_else_what_it_has_read(talk: Talking) -> None:
    await talk.hear(mention(1), says(2))
    assert not (await talk.settle(1, "It failed.", OutcomeKind.FAILED)).turn_due
    await talk.hear(says(3, "three"))
    await talk.take_up(2)
    await talk.hear(says(4, "four"))
    assert (await talk.settle(2, "It failed.", OutcomeKind.FAILED)).turn_due
    assert texts(await talk.take_up(3)) == ["four"]


ORDERS = list(itertools.permutations(("original", "first edit", "second edit")))


@pytest.mark.parametrize("order", ORDERS)
async def test_a_message_is_taken_up_in_its_newest_wording_in_any_order_of_arrival(
    talk: Talking, order: tuple[str, ...]
) -> None:
    which = {"original": says(2, "v0"), "first edit": edit(2, "v1", 5), "second edit": edit(2, "v2", 50)}
    await talk.hear(mention(1, "hi"))
    for name in order:
        await talk.hear(which[name])
    assert texts(await talk.take_up(1)) == ["hi", "v2"]
    assert await talk.take_up(1, 2) == [], "the edits are shown with their original"


async def test_an_edit_brings_its_files(talk: Talking) -> None:
    await talk.hear(mention(1, "hi", files=(FileRef("F1"),)), edit(1, "hi!", 5))
    await talk.hear(says(2, "look", files=(FileRef("F1"),)), edit(2, "look here", 5, files=(FileRef("F2"),)))
    assert [each.files for each in await talk.take_up(1)] == [(FileRef("F1"),), (FileRef("F2"),)]


async def test_an_edit_of_what_the_model_has_read_is_shown_to_it_once_in_its_newest_wording(talk: Talking) -> None:
    await talk.hear(mention(1, "three days"))
    await talk.take_up(1)
    marks = await talk.hear(edit(1, "four days", 5), edit(1, "five days", 9))
    assert marks.turn_due
    [shown] = await talk.take_up(1, 2)
    assert (shown.text, shown.corrects, shown.author_id) == ("five days", identity(1), REPORTER)
    assert await talk.take_up(1, 2) == [shown]
    await talk.settle(1)
    await talk.hear(edit(1, "four and a half", 7))
    await talk.hear(says(2, "next"))
    assert texts(await talk.take_up(2)) == ["next"], "an edit that was overtaken by a newer one"


@pytest.mark.parametrize("order", list(itertools.permutations(("original", "edit", "deletion"))))
async def test_what_is_deleted_before_it_is_taken_up_is_gone_in_any_order_of_arrival(
    talk: Talking, order: tuple[str, ...]
) -> None:
    which = {"original": says(2, "secret"), "edit": edit(2, "still secret", 5), "deletion": deletion(2)}
    await talk.hear(mention(1, "hi"))
    await talk.turn(1)
    for name in order:
        marks = await talk.hear(which[name])
    assert flags(marks) == (False, False, False)
    assert await talk.take_up(2) == []
    assert await talk.rows("SELECT 1 FROM conversation_messages WHERE message_text LIKE '%secret%'") == []


async def test_a_deletion_takes_the_names_of_the_files_along(talk: Talking) -> None:
    await talk.hear(mention(1, "", files=(FileRef("F1", "secret.txt"),)), deletion(1))
    assert await talk.rows("SELECT 1 FROM conversation_messages WHERE files::text LIKE '%secret%'") == []


async def test_a_deletion_before_the_verdict_leaves_nothing_to_judge(talk: Talking) -> None:
    await talk.store(mention(1))
    assert (await talk.store(deletion(1))).unjudged == ()
    assert not (await talk.judge({identity(1): None})).turn_due


async def test_what_is_deleted_after_it_was_taken_up_is_redacted_for_the_model(talk: Talking) -> None:
    await talk.hear(mention(1, "my secret"), says(2, "and more"))
    await talk.take_up(1)
    await talk.hear(edit(1, "still secret", 5))
    await talk.take_up(1, 2)
    assert (await talk.hear(deletion(1))).turn_due, "the turn is under way"
    read = (await talk.read()).messages
    assert [each.message.content for each in read] == [
        "(deleted by its author)",
        "and more",
        "(deleted by its author)",
    ]
    assert [each.message.author for each in read] == [REPORTER] * 3
    assert texts(await talk.take_up(1)) == ["(deleted by its author)", "and more"]
    for table, column in (("transcript", "body"), ("conversation_messages", "message_text")):
        assert await talk.rows(f"SELECT 1 FROM {table} WHERE {column} LIKE '%secret%'") == []  # noqa: S608 - from above


@pytest.mark.parametrize(("at", "kept"), [(1, ""), (2, "It is about a secret.")])
async def test_a_summary_that_may_tell_of_what_is_deleted_is_made_anew(talk: Talking, at: int, kept: str) -> None:
    await talk.hear(mention(1, "my secret"), says(2, "and more"))
    await talk.take_up(1)
    async with talk.database.begin() as work:
        await work.transcripts.summarise(THREAD, "It is about a secret.", 1)
    await talk.hear(deletion(at))
    read = await talk.read()
    assert read.summary == kept
    assert [each.place for each in read.messages] == ([2] if kept else [1, 2])


@pytest.mark.parametrize("bad", ["nul \x00 byte", "half \ud800 pair"])
async def test_a_row_that_postgres_refuses_is_quarantined_and_holds_nothing_up(talk: Talking, bad: str) -> None:
    batch = (mention(1), says(2, bad), says(3, "after"))
    stored = await talk.store(*batch)
    assert (stored.marks.stored, len(stored.quarantined), len(stored.unjudged)) == (3, 1, 2)
    again = await talk.store(*batch)
    assert (again.marks.stored, again.quarantined) == (3, ())
    async with talk.database.begin() as work:
        [kept] = await work.quarantine.messages(10)
        assert (await work.quarantine.count()).count == 1
    assert (kept.thread, kept.bug_id, kept.message_id) == (THREAD, "", stored.quarantined[0])
    assert kept.error.startswith("the database refused this message")


@pytest.mark.parametrize(
    "unstorable",
    [{"id": "a\x00b"}, {"id": "x\ud800"}, {"channel": "\x00"}, {"version": "1\x00"}, {"files": (FileRef("\x00"),)}],
)
async def test_no_field_of_a_message_can_wedge_a_thread(talk: Talking, unstorable: dict[str, str]) -> None:
    await talk.hear(mention(1, "hi"))
    marks = await talk.hear(says(2, **unstorable), says(3, "after"))
    assert marks.stored == 3
    assert texts(await talk.take_up(1))[-1] == "after"


async def test_what_is_unreadable_is_kept_in_a_thread_without_a_conversation(talk: Talking) -> None:
    stored = await talk.store(messages.parse([{"no": "id"}]))
    assert len(stored.quarantined) == 1
    assert not stored.marks.opened
    async with talk.database.begin() as work:
        assert [each.thread for each in await work.quarantine.messages(10)] == [THREAD]


async def test_a_turn_resumes_after_every_result_was_lost(talk: Talking) -> None:
    """Each step is done twice, as after a crash between its commit and its result, and says the same."""
    batch = (mention(1, "one"), says(2, "two"), stop(0))
    assert (await talk.store(*batch)).unjudged == (await talk.store(*batch)).unjudged
    verdicts = {identity(1): None, identity(2): Refusal.DUPLICATE}
    first, again = await talk.judge(verdicts), await talk.judge(verdicts)
    assert flags(first) == flags(again) == (True, True, False)
    assert await talk.take_up(1) == await talk.take_up(1)
    assert await talk.settle(1, "Done.") == await talk.settle(1, "Done.")
    first, again = await talk.said(1), await talk.said(1)
    assert (first.turn, first.unsaid) == (again.turn, again.unsaid) == (1, 0)
    assert again.rev > first.rev


async def test_what_calls_of_the_model_cost_adds_up(talk: Talking) -> None:
    await talk.hear(mention(1))
    usage = Usage("gpt\x00-x", 100, 40, 20, 10, 0.25)
    for step, purpose in ((1, "think"), (1, "summarise"), (2, "think")):
        async with talk.database.begin() as work:
            await work.conversations.spent(THREAD, 1, step, purpose, usage, 1_234)
    assert (await talk.marks()).cost_usd == 0.75
    rows = await talk.rows("SELECT * FROM model_calls ORDER BY id")
    assert [(row["step"], row["purpose"]) for row in rows] == [(1, "think"), (1, "summarise"), (2, "think")]
    kept = {name: rows[0][name] for name in ("model", "input_tokens", "cached_tokens", "output_tokens", "milliseconds")}
    assert kept == {
        "model": "gpt-x",
        "input_tokens": 100,
        "cached_tokens": 40,
        "output_tokens": 20,
        "milliseconds": 1_234,
    }


async def test_where_nothing_is_stored_there_is_nothing_to_change(talk: Talking) -> None:
    for change in (talk.take_up(1), talk.settle(1), talk.said(1), talk.judge({}), talk.append()):
        with pytest.raises(ConversationNotFound):
            await change


async def test_a_reaction_is_about_the_thread_of_its_message(talk: Talking) -> None:
    await talk.hear(mention(0), says(1))
    await talk.turn(1)
    async with talk.database.begin() as work:
        for key, at in ((f"talk:{THREAD.key}:turn:1", 2), ("BUG-1:turn:1:findings", 3)):
            await work.posts.claim(key, "", "answer", THREAD.channel, THREAD.ts, 0.0, 1.0)
            await work.posts.done(key, ts(at))
    async with talk.database.begin() as work:
        of = work.conversations.thread_of_message
        found = {at: await of(THREAD.team, THREAD.channel, ts(at)) for at in range(5)}
        assert found == {0: THREAD, 1: THREAD, 2: THREAD, 3: None, 4: None}
        for at in (1, 2):
            assert await of("T2", THREAD.channel, ts(at)) is None
            assert await of(THREAD.team, "C2", ts(at)) is None


async def test_old_conversations_are_forgotten_in_steps_and_young_ones_kept(database: Database) -> None:
    talks = [Talking(database, Thread("T1", "C1", ts(number))) for number in range(5)]
    for number, talk in enumerate(talks):
        await talk.hear(mention(number, "secret words"))
        await talk.turn(1, "a secret answer")
        async with database.begin() as work:
            await work.conversations.spent(talk.thread, 1, 1, "think", Usage("gpt-x"), 1)
            await work.transcripts.summarise(talk.thread, "secret", 1)
        await talk.do("UPDATE conversations SET last_at = to_timestamp(:n) WHERE id = :n + 1", n=number)
    async with database.begin() as work:
        assert [await work.conversations.prune(3, 2) for _ in range(3)] == [2, 1, 0]
    assert [(await talk.marks()).opened for talk in talks] == [False, False, False, True, True]
    for table in ("conversation_messages", "transcript", "conversation_turns", "model_calls"):
        assert len(await talks[0].rows(f"SELECT 1 FROM {table}")) == 2, table  # noqa: S608 - from above
    assert len(await talks[0].rows("SELECT 1 FROM conversations WHERE summary <> ''")) == 2


async def test_a_conversation_that_begins_anew_never_meets_the_keys_of_the_forgotten_one(talk: Talking) -> None:
    await talk.hear(mention(1, "before"))
    await talk.turn(1, "Which?", question="Which?")
    before = await talk.marks()
    async with talk.database.begin() as work:
        assert await work.conversations.prune(before=2_000_000_000_000.0) == 1
        assert not await work.conversations.is_followed(THREAD.team, THREAD.channel, THREAD.ts)
    assert await talk.marks() == ConversationMarks()
    assert (await talk.store(says(2, "not to the bot"))).marks == ConversationMarks()
    marks = await talk.hear(mention(3, "after"))
    assert (marks.opened, marks.stored, marks.turn, marks.question) == (True, 1, 1, "")
    assert marks.rev > before.rev
    assert texts(await talk.take_up(2)) == ["after"]
    assert [each.place for each in (await talk.read()).messages] == [1]


async def test_what_is_unused_is_found_without_reading_what_was_used(talk: Talking) -> None:
    """A plan, and no time: in a thread of 3,000 used messages the rows that are read are those that are unused."""
    await talk.hear(mention(1))
    await talk.turn(1)
    await talk.do("""
        INSERT INTO conversation_messages (conversation_id, seq, message_id, sender_type, sender_id, message_type,
                                           message_text, channel, slack_ts, said_at, wakes, verdict, turn, step)
        SELECT 1, n, 'm' || n, 'unknown', 'U' || n, 'message', 'words', 'C1', n::text, n, true, 'ok', 1, 1
        FROM generate_series(2, 3001) n
    """)
    await talk.do("UPDATE conversations SET stored = 3001")
    await talk.hear(says(2))
    async with talk.database.begin() as work:
        await work.connection.execute(text("ANALYZE conversation_messages"))
        asked = text("EXPLAIN (ANALYZE, COSTS OFF) " + conversation_row._MARKS.text)
        where = {"team": THREAD.team, "channel": THREAD.channel, "thread_ts": THREAD.ts}
        plan = "\n".join((await work.connection.execute(asked, where)).scalars())
    assert "conversation_messages_unused_idx" in plan
    assert not re.search(r"Rows Removed by Filter: \d{2,}", plan), plan
