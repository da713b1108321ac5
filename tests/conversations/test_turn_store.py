"""Turns of a conversation read, answer and stop each message once."""

import asyncio
import re
from dataclasses import replace

import pytest
from sqlalchemy import text

from tests.support.conversation_store import (
    REPORTER,
    STRANGER,
    THREAD,
    StoredConversation,
    flags,
    identity,
    mention,
    says,
    stop,
    texts,
    ts,
)
from threadline.conversations.model.conversation import OutcomeKind, Refusal
from threadline.conversations.model.turn_route import Agent, Branch, TurnRoute
from threadline.conversations.store import conversation
from threadline.conversations.store.messages import MessageStore
from threadline.conversations.store.turns import TurnPlan, TurnStore
from threadline.slack.model import FileRef
from threadline.threads.model import IncomingMessage


async def test_message_of_a_turn_is_due_until_the_turn_is_settled(
    talk: StoredConversation,
) -> None:
    await talk.hear(mention(1))
    await talk.take_up(1)
    assert flags(await talk.snapshot()) == (True, True, False)
    snapshot = await talk.settle(1)
    assert (snapshot.turn, snapshot.turn_due, snapshot.unposted_turns) == (1, False, (1,))
    snapshot = await talk.said(1)
    assert (snapshot.turn, snapshot.unposted_turns) == (1, ())


async def test_messages_are_taken_up_in_the_order_in_which_they_were_written(
    talk: StoredConversation,
) -> None:
    await talk.hear(mention(5, "third"))
    await talk.hear(says(1, "first"), says(9, "fourth"))
    await talk.hear(
        says(2, "second", sender_id=STRANGER, files=(FileRef("F1", "a.png", "image/png", 3),))
    )
    taken = await talk.take_up(1)
    assert texts(taken) == ["first", "second", "third", "fourth"]
    assert (taken[1].author_id, taken[1].files, taken[1].said_at) == (
        STRANGER,
        (FileRef("F1", "a.png", "image/png", 3),),
        float(ts(2)),
    )


async def test_step_that_is_retried_takes_up_the_same_messages(talk: StoredConversation) -> None:
    await talk.hear(mention(1, "one"))
    first = await talk.take_up(1)
    await talk.hear(says(2, "two"))
    assert await talk.take_up(1) == first, (
        "an earlier attempt may still store a reply that has not seen it"
    )
    assert texts(await talk.take_up(1, 2)) == ["two"]
    await talk.hear(says(3, "three"))
    assert texts(await talk.take_up(1, 2)) == ["two"]
    assert await talk.take_up(1) == first
    assert flags(await talk.settle(1)) == (True, True, False)
    assert await talk.take_up(1, 3) == [], "the turn is over"
    assert texts(await talk.take_up(2)) == ["three"]


async def test_step_that_found_nothing_finds_nothing_when_retried(
    talk: StoredConversation,
) -> None:
    await talk.hear(mention(1))
    await talk.take_up(1)
    assert await talk.take_up(1, 2) == []
    await talk.hear(says(2, "late"))
    assert await talk.take_up(1, 2) == []
    assert texts(await talk.take_up(1, 3)) == ["late"]


async def test_parallel_attempts_at_a_step_take_up_the_same_messages(
    talk: StoredConversation, other: StoredConversation
) -> None:
    await talk.hear(mention(1), *(says(at, str(at)) for at in range(2, 6)))
    taken = await asyncio.gather(
        *(each.take_up(1) for _ in range(10) for each in (talk, other)),
        *(talk.hear(says(at)) for at in (20, 21)),
    )
    every = [texts(each) for each in taken[:20] if isinstance(each, list)]
    assert len(every) == 20
    assert all(each == every[0] for each in every)
    keys = [each.key for each in (await talk.read()).messages]
    assert len(set(keys)) == len(keys) == len(every[0])


async def test_failed_transaction_takes_nothing_up(talk: StoredConversation) -> None:
    await talk.hear(mention(1, "one"))

    async def fail() -> None:
        async with talk.database.begin() as tx:
            await MessageStore(tx).take_up(THREAD, 1, 1)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await fail()
    await talk.hear(says(2, "two"))
    assert texts(await talk.take_up(1)) == ["one", "two"]


async def test_first_settlement_of_a_turn_is_kept(talk: StoredConversation) -> None:
    await talk.hear(mention(1))
    await talk.take_up(1)
    first = await talk.settle(1, "the first")
    assert await talk.settle(1, "the second", OutcomeKind.FAILED, "really?") == first
    async with talk.database.begin() as tx:
        settled = await TurnStore(tx).settled(THREAD, 1)
        assert await TurnStore(tx).settled(THREAD, 2) is None
    assert settled is not None
    assert (settled.kind, settled.answer, settled.posted_at) == (
        OutcomeKind.ANSWERED,
        "the first",
        None,
    )


async def test_turn_that_runs_is_no_settled_turn(talk: StoredConversation) -> None:
    await talk.hear(mention(1))
    await talk.turn(1, "Which?", kind=OutcomeKind.ASKED, question="Which?")
    await talk.hear(mention(2, "this one"))
    async with talk.database.begin() as tx:
        await TurnStore(tx).begin(THREAD, 2, TurnRoute(Agent.OPERATOR, Branch.D))
        await TurnStore(tx).set_context(THREAD, 2, "Everything.", "", [])
        assert await TurnStore(tx).settled(THREAD, 2) is None
        assert list(await TurnStore(tx).open_questions(THREAD)) == [REPORTER]
    snapshot = await talk.snapshot()
    assert (snapshot.turn, snapshot.unposted_turns, snapshot.open_question) == (1, (), "Which?")
    await talk.store(stop(3))
    assert (await talk.snapshot()).open_question == "", (
        "the person who was asked said to stop, though another turn has begun"
    )
    await talk.settle(2, "It is this one.")
    async with talk.database.begin() as tx:
        plan = await TurnStore(tx).plan(THREAD, 2)
        settled = await TurnStore(tx).settled(THREAD, 2)
    assert plan == TurnPlan(TurnRoute(Agent.OPERATOR, Branch.D))
    assert settled
    assert (settled.kind, settled.answer) == (OutcomeKind.ANSWERED, "It is this one.")


async def test_turn_settled_by_two_workers_has_one_answer(
    talk: StoredConversation, other: StoredConversation
) -> None:
    await talk.hear(mention(1))
    await talk.take_up(1)
    both = await asyncio.gather(
        *(one.settle(1, f"{number}") for number, one in enumerate((talk, other)))
    )
    assert both[0] == both[1]
    assert len(await talk.rows("SELECT 1 FROM conversation_turns")) == 1


async def test_oldest_unposted_answer_comes_first_and_a_silent_turn_has_none(
    talk: StoredConversation,
) -> None:
    for turn in (1, 2, 3):
        await talk.hear(mention(turn, str(turn)))
        await talk.take_up(turn)
        await talk.settle(
            turn,
            "" if turn == 1 else "Done.",
            OutcomeKind.SILENT if turn == 1 else OutcomeKind.ANSWERED,
        )
    snapshot = await talk.snapshot()
    assert snapshot.unposted_turns == (2, 3)
    assert (await talk.said(2)).unposted_turns == (3,)
    assert (await talk.said(3)).unposted_turns == ()
    assert await talk.said(3) == await talk.snapshot()
    async with talk.database.begin() as tx:
        settled = await TurnStore(tx).settled(THREAD, 3)
    assert settled is not None
    assert settled.posted_at


async def test_answer_with_any_characters_is_stored(talk: StoredConversation) -> None:
    await talk.hear(mention(1))
    snapshot = await talk.settle(1, "a\x00b \ud800 🙂", question="which\x00one? " + "x" * 500)
    assert snapshot.open_question == ("whichone? " + "x" * 500)[:200]
    async with talk.database.begin() as tx:
        settled = await TurnStore(tx).settled(THREAD, 1)
    assert settled is not None
    assert settled.answer == "ab ? 🙂"


async def test_question_is_open_until_a_later_turn_answers(talk: StoredConversation) -> None:
    await talk.hear(mention(1))
    assert (
        await talk.turn(1, "Which project?", question="Which project?")
    ).open_question == "Which project?"
    stored = await talk.store(says(2, "the second"))
    assert stored.question_open
    await talk.judge({identity(2): None})
    assert (await talk.turn(2, "", kind=OutcomeKind.SILENT)).open_question == "Which project?"
    await talk.hear(says(3, "PRJ-2"))
    assert (await talk.store(says(3, "PRJ-2"))).question_open, "a lost result is asked for again"
    assert (await talk.turn(3, "Thanks.")).open_question == ""
    assert not (await talk.store(says(4))).question_open


async def test_question_stays_open_over_other_peoples_turns_rules_and_jobs(
    talk: StoredConversation,
) -> None:
    async def open_to() -> set[str]:
        async with talk.database.begin() as tx:
            return set(await TurnStore(tx).open_questions(THREAD))

    for turn, user in enumerate((REPORTER, STRANGER), 1):
        await talk.hear(mention(turn, sender_id=user))
        await talk.turn(turn, "Which?", kind=OutcomeKind.ASKED, question="Which?", user=user)
    assert await open_to() == {REPORTER, STRANGER}
    await talk.hear(mention(3))
    await talk.turn(3, "There is no such RFP.", kind=OutcomeKind.REPLIED_BY_RULE)
    await talk.hear(replace(mention(4), id="T1:JOB-1:run:1"))
    await talk.turn(4, "What a job has asked is answered.")
    assert await open_to() == {REPORTER, STRANGER}
    await talk.hear(mention(5, sender_id=STRANGER))
    await talk.turn(5, user=STRANGER)
    assert await open_to() == {REPORTER}
    await talk.hear(mention(6), replace(mention(7), id="T1:JOB-1:run:2"))
    await talk.turn(6)
    assert await open_to() == set()


async def test_stop_with_nothing_before_it_has_no_effect(talk: StoredConversation) -> None:
    await talk.hear(mention(5))
    assert flags(await talk.hear(stop(2))) == (True, True, False)
    await talk.turn(1)
    assert flags(await talk.hear(stop(9))) == (False, False, False)
    assert flags(await talk.hear(says(8, "said before it, came after"))) == (True, True, False)
    rows = await talk.rows(
        "SELECT turn, step FROM conversation_messages WHERE message_type = 'stop' ORDER BY said_at"
    )
    assert [(row["turn"], row["step"]) for row in rows] == [(0, 0), (1, 0)]


@pytest.mark.parametrize("refused", [None, Refusal.DUPLICATE])
async def test_stop_that_comes_with_its_message_waits_for_the_verdict(
    talk: StoredConversation, refused: Refusal | None
) -> None:
    stored = await talk.store(mention(1), stop(2))
    assert flags(stored.snapshot) == (False, False, False)
    snapshot = await talk.judge({identity(1): refused})
    assert snapshot.stop_due is (refused is None)
    assert snapshot.turn_due is (refused is None)


WHO_STOPS: list[tuple[str, list[IncomingMessage], IncomingMessage, bool]] = [
    ("the asker, alone", [mention(1)], stop(9), True),
    (
        "the asker, where another person writes",
        [mention(1), says(2, sender_id=STRANGER)],
        stop(9),
        True,
    ),
    ("a third person who has not written", [mention(1)], stop(9, sender_id=STRANGER), False),
    (
        "a third person who writes too",
        [mention(1), says(2, sender_id=STRANGER)],
        stop(9, sender_id=STRANGER),
        False,
    ),
    (
        "a third person by a mention",
        [mention(1)],
        stop(9, sender_id=STRANGER, addressed=True),
        True,
    ),
    (
        "a third person by a reaction",
        [mention(1)],
        replace(stop(9, sender_id=STRANGER), text=""),
        True,
    ),
    (
        "another asker",
        [mention(1), mention(2, sender_id=STRANGER)],
        stop(9, sender_id=STRANGER),
        True,
    ),
    ("the asker in another person's thread", [mention(1, root_author_id=STRANGER)], stop(9), True),
    (
        "the author of the thread's root",
        [mention(1, root_author_id=STRANGER)],
        stop(9, sender_id=STRANGER),
        False,
    ),
]


@pytest.mark.parametrize("running", [True, False])
@pytest.mark.parametrize(
    ("before", "said", "stops"), [row[1:] for row in WHO_STOPS], ids=[row[0] for row in WHO_STOPS]
)
async def test_word_to_stop_counts_from_the_asker_or_with_a_mention(
    talk: StoredConversation,
    before: list[IncomingMessage],
    said: IncomingMessage,
    stops: bool,
    running: bool,
) -> None:
    await talk.hear(*before)
    if running:
        await talk.take_up(1)
    stored = await talk.store(said)
    assert stored.snapshot.stop_due is stops
    assert stored.stops_as_messages == (() if stops else (said.id,))
    assert [row["message_type"] for row in await talk.rows(_LAST)] == [
        "stop" if stops else "message"
    ]


_LAST = "SELECT message_type FROM conversation_messages ORDER BY seq DESC LIMIT 1"


async def test_word_to_stop_that_comes_with_its_own_request_counts(
    talk: StoredConversation,
) -> None:
    stored = await talk.store(
        mention(1), says(2, sender_id=STRANGER), stop(3), stop(4, sender_id=STRANGER)
    )
    assert stored.stops_as_messages == (identity(4),)


async def test_asker_of_an_answered_turn_is_a_third_person_of_the_next(
    talk: StoredConversation,
) -> None:
    await talk.hear(mention(1))
    await talk.turn(1)
    await talk.hear(mention(2, sender_id=STRANGER))
    assert (await talk.store(stop(3))).stops_as_messages == (identity(3),)


@pytest.mark.parametrize("together", [True, False])
async def test_word_to_stop_is_no_remark_on_a_later_request(
    talk: StoredConversation, together: bool
) -> None:
    """The catch-up delivers both after the asker's turn, in one batch or in two."""
    await talk.hear(mention(1))
    await talk.turn(1)
    later = mention(3, sender_id=STRANGER)
    if not together:
        await talk.hear(later)
    stored = await talk.store(stop(2), *([later] if together else []))
    assert stored.stops_as_messages == ()


async def test_word_to_stop_where_nothing_is_asked_is_no_remark(talk: StoredConversation) -> None:
    await talk.hear(mention(1), mention(2, sender_id=STRANGER))
    await talk.turn(1)
    stored = await talk.store(stop(9))
    assert (stored.stops_as_messages, flags(stored.snapshot)) == ((), (False, False, False))


async def test_stopped_turn_answers_all_messages_before_the_stop(talk: StoredConversation) -> None:
    await talk.hear(mention(1, "one"))
    await talk.take_up(1)
    await talk.hear(says(2, "two"), stop(3), says(4, "four"))
    assert flags(await talk.snapshot()) == (True, True, True)
    snapshot = await talk.settle(1, "Stopped.", OutcomeKind.STOPPED)
    assert flags(snapshot) == (True, True, False)
    assert texts(await talk.take_up(1, 0)) == ["two"], (
        "messages that the turn took up without a model call"
    )
    assert texts(await talk.take_up(2)) == ["four"]


async def test_turn_stopped_before_it_began_answers_all_before_the_stop(
    talk: StoredConversation,
) -> None:
    await talk.hear(mention(1, "one"), says(2, "two"), stop(3), says(4, "four"))
    assert flags(await talk.settle(1, "Stopped.", OutcomeKind.STOPPED)) == (True, True, False)
    assert texts(await talk.take_up(1, 0)) == ["one", "two"]
    assert texts(await talk.take_up(2)) == ["four"]
    assert flags(await talk.settle(2, "Stopped.", OutcomeKind.STOPPED)) == (False, False, False)
    await talk.hear(says(5), says(6))
    assert flags(await talk.settle(3, "Cancelled.", OutcomeKind.STOPPED)) == (False, False, False)


async def test_stop_is_due_until_every_message_before_it_is_answered(
    talk: StoredConversation,
) -> None:
    await talk.hear(mention(1))
    await talk.take_up(1)
    await talk.hear(stop(2))
    assert flags(await talk.settle(1, "The answer was there already.")) == (False, False, False)
    await talk.hear(says(3))
    await talk.take_up(2)
    await talk.hear(says(4, "four"), stop(5))
    assert flags(await talk.settle(2, "The third is answered.")) == (True, True, True)
    assert flags(await talk.settle(3, "Stopped.", OutcomeKind.STOPPED)) == (False, False, False)


async def test_failed_turn_answers_the_messages_it_has_read_or_else_all(
    talk: StoredConversation,
) -> None:
    await talk.hear(mention(1), says(2))
    assert not (await talk.settle(1, "It failed.", OutcomeKind.FAILED)).turn_due
    await talk.hear(says(3, "three"))
    await talk.take_up(2)
    await talk.hear(says(4, "four"))
    assert (await talk.settle(2, "It failed.", OutcomeKind.FAILED)).turn_due
    assert texts(await talk.take_up(3)) == ["four"]


async def test_silent_failure_leaves_messages_to_the_bot_due(talk: StoredConversation) -> None:
    await talk.hear(mention(1))
    await talk.turn(1)
    await talk.hear(says(2, sender_id=STRANGER), says(3, "three"))
    assert flags(await talk.settle(2, "", OutcomeKind.SILENT)) == (False, False, False)
    await talk.hear(says(4, sender_id=STRANGER), mention(5, "five"))
    assert flags(await talk.settle(3, "", OutcomeKind.SILENT)) == (True, True, False)
    assert texts(await talk.take_up(4)) == ["five"]


_MANY_SHORT = """
WITH made AS (INSERT INTO conversations (team, channel, thread_ts, stored, turn)
              SELECT 'T1', 'C2', n::text, 10, 2 FROM generate_series(1, 300) n RETURNING id),
     settled AS (INSERT INTO conversation_turns (conversation_id, turn, kind, answer, user_id,
                                                 settled_at, posted_at)
                 SELECT id, n, 'answered', 'words', 'U1', now(), now()
                   FROM made, generate_series(1, 2) n)
INSERT INTO conversation_messages (conversation_id, seq, message_id, sender_type, sender_id,
                                   message_type, message_text,
                                   channel, slack_ts, said_at, wants_turn, verdict, turn, step)
SELECT id, n, 'm' || n, 'unknown', 'U1', 'message', 'words', 'C2', n::text, n, true, 'ok', n / 5, 1
FROM made, generate_series(1, 10) n
"""
_ONE_LONG = """
INSERT INTO conversation_messages (conversation_id, seq, message_id, sender_type, sender_id,
                                   message_type, message_text,
                                   channel, slack_ts, said_at, wants_turn, verdict, turn, step)
SELECT c.id, n, 'm' || n, 'unknown', :somebody, 'message', 'words', 'C1', n::text, n, true, 'ok',
       n, 1
FROM conversations c, generate_series(2, 3001) n WHERE c.channel = 'C1'
"""
_SETTLED = """
INSERT INTO conversation_turns (conversation_id, turn, kind, answer, user_id, settled_at,
                                posted_at)
SELECT c.id, n, 'answered', CASE WHEN n % 2 = 0 THEN 'words' ELSE '' END, 'U1', now(),
       CASE WHEN n % 2 = 0 THEN now() END
FROM conversations c, generate_series(2, 3001) n WHERE c.channel = 'C1'
"""


async def test_unused_messages_are_found_by_an_index(talk: StoredConversation) -> None:
    """Check the query's plan, not its time: one person's long thread among many short ones costs
    no reads of unneeded rows.

    Every other of its turns was silent.
    """
    await talk.hear(mention(1))
    await talk.turn(1)
    async with talk.database.begin() as tx:
        await tx.execute(text(_MANY_SHORT))
        await tx.execute(text("ANALYZE conversations, conversation_messages, conversation_turns"))
        await tx.execute(text(_ONE_LONG), {"somebody": REPORTER})
        await tx.execute(text(_SETTLED))
        await tx.execute(
            text("UPDATE conversations SET stored = 3001, turn = 3001 WHERE channel = 'C1'")
        )
    assert flags(await talk.hear(says(4000))) == (True, True, False)
    async with talk.database.begin() as tx:
        where = {"team": THREAD.team, "channel": THREAD.channel, "thread_ts": THREAD.ts}
        given = where | {"messages": 20, "bytes": 1, "added": 1, "summary": 1}
        explained = await tx.execute(
            text(f"EXPLAIN (ANALYZE, COSTS OFF) {conversation._SNAPSHOT.text}"), given
        )
        plan = "\n".join(explained.scalars())
    assert "conversation_messages_unused_idx" in plan
    assert not re.search(r"Rows Removed by Filter: \d{2,}", plan), plan
    assert not re.search(r"actual time=\S+ rows=\d{3,}", plan), plan
