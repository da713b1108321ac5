"""Turns of a conversation: what was said is taken up once, answered once, and stopped when somebody says so."""

import asyncio
import re

import pytest
from sqlalchemy import text

from tests.support.conversation_store import (
    REPORTER,
    STRANGER,
    THREAD,
    Talking,
    flags,
    identity,
    mention,
    says,
    stop,
    texts,
    ts,
)
from threadline.conversations import conversation_row
from threadline.conversations import transcript_store as transcripts
from threadline.conversations.contract import Refusal
from threadline.models.model import OutcomeKind
from threadline.threads.messages import FileRef


async def test_what_a_turn_has_taken_up_is_due_until_the_turn_is_settled(talk: Talking) -> None:
    await talk.hear(mention(1))
    await talk.take_up(1)
    assert flags(await talk.marks()) == (True, True, False)
    marks = await talk.settle(1)
    assert (marks.turn, marks.turn_due, marks.unsaid) == (1, False, 1)
    marks = await talk.said(1)
    assert (marks.turn, marks.unsaid) == (1, 0)


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


async def test_of_many_that_take_up_one_step_all_get_the_same(talk: Talking, other: Talking) -> None:
    await talk.hear(mention(1), *(says(at, str(at)) for at in range(2, 6)))
    taken = await asyncio.gather(
        *(each.take_up(1) for _ in range(10) for each in (talk, other)), *(talk.hear(says(at)) for at in (20, 21))
    )
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


async def test_of_two_workers_that_settle_a_turn_one_is_heard(talk: Talking, other: Talking) -> None:
    await talk.hear(mention(1))
    await talk.take_up(1)
    both = await asyncio.gather(*(one.settle(1, f"{number}") for number, one in enumerate((talk, other))))
    assert both[0] == both[1]
    assert len(await talk.rows("SELECT 1 FROM conversation_turns")) == 1


async def test_the_oldest_unsaid_answer_is_said_first_and_a_silent_turn_has_none(talk: Talking) -> None:
    for turn in (1, 2, 3):
        await talk.hear(mention(turn, str(turn)))
        await talk.take_up(turn)
        await talk.settle(turn, "" if turn == 1 else "Done.", OutcomeKind.SILENT if turn == 1 else OutcomeKind.ANSWERED)
    marks = await talk.marks()
    assert (marks.unsaid, marks.unsaid_then) == (2, (3,))
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


async def test_a_failure_of_which_nobody_is_told_answers_for_nobody_who_addressed_the_bot(talk: Talking) -> None:
    await talk.hear(mention(1))
    await talk.turn(1)
    await talk.hear(says(2, sender_id=STRANGER), says(3, "three"))
    assert flags(await talk.settle(2, "", OutcomeKind.SILENT)) == (False, False, False)
    await talk.hear(says(4, sender_id=STRANGER), mention(5, "five"))
    assert flags(await talk.settle(3, "", OutcomeKind.SILENT)) == (True, True, False)
    assert texts(await talk.take_up(4)) == ["five"]


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


_MANY_SHORT = """
WITH made AS (INSERT INTO conversations (team, channel, thread_ts, stored, turn)
              SELECT 'T1', 'C2', n::text, 10, 2 FROM generate_series(1, 300) n RETURNING id),
     settled AS (INSERT INTO conversation_turns (conversation_id, turn, kind, answer, user_id, said_at)
                 SELECT id, n, 'answered', 'words', 'U1', now() FROM made, generate_series(1, 2) n)
INSERT INTO conversation_messages (conversation_id, seq, message_id, sender_type, sender_id, message_type, message_text,
                                   channel, slack_ts, said_at, wakes, verdict, turn, step)
SELECT id, n, 'm' || n, 'unknown', 'U1', 'message', 'words', 'C2', n::text, n, true, 'ok', n / 5, 1
FROM made, generate_series(1, 10) n
"""
_ONE_LONG = """
INSERT INTO conversation_messages (conversation_id, seq, message_id, sender_type, sender_id, message_type, message_text,
                                   channel, slack_ts, said_at, wakes, verdict, turn, step)
SELECT c.id, n, 'm' || n, 'unknown', :somebody, 'message', 'words', 'C1', n::text, n, true, 'ok', n, 1
FROM conversations c, generate_series(2, 3001) n WHERE c.channel = 'C1'
"""
_SETTLED = """
INSERT INTO conversation_turns (conversation_id, turn, kind, answer, user_id, said_at)
SELECT c.id, n, 'answered', CASE WHEN n % 2 = 0 THEN 'words' ELSE '' END, 'U1', CASE WHEN n % 2 = 0 THEN now() END
FROM conversations c, generate_series(2, 3001) n WHERE c.channel = 'C1'
"""


@pytest.mark.parametrize("asked", [conversation_row._MARKS.text, transcripts._CROWDED.text], ids=["marks", "crowded"])
async def test_what_is_unused_is_found_without_reading_what_was_used(talk: Talking, asked: str) -> None:
    """A plan, and no time: of one long thread of one person's among many short ones no row is read that is not wanted.

    Every other of its turns was silent.
    """
    await talk.hear(mention(1))
    await talk.turn(1)
    async with talk.database.begin() as work:
        await work.connection.execute(text(_MANY_SHORT))
        await work.connection.execute(text("ANALYZE conversations, conversation_messages, conversation_turns"))
        await work.connection.execute(text(_ONE_LONG), {"somebody": REPORTER})
        await work.connection.execute(text(_SETTLED))
        await work.connection.execute(text("UPDATE conversations SET stored = 3001, turn = 3001 WHERE channel = 'C1'"))
    assert flags(await talk.hear(says(4000))) == (True, True, False)
    async with talk.database.begin() as work:
        where = {"team": THREAD.team, "channel": THREAD.channel, "thread_ts": THREAD.ts}
        given = where | ({"messages": 20, "bytes": 1, "added": 1, "summary": 1} if ":messages" in asked else {})
        explained = await work.connection.execute(text("EXPLAIN (ANALYZE, COSTS OFF) " + asked), given)
        plan = "\n".join(explained.scalars())
    assert "conversation_messages_unused_idx" in plan
    assert not re.search(r"Rows Removed by Filter: \d{2,}", plan), plan
    assert not re.search(r"actual time=\S+ rows=\d{3,}", plan), plan
