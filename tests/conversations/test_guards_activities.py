"""Guards: the messages that they refuse, and the parts of an answer that are posted."""

import asyncio
import json
from dataclasses import replace

import pytest
from sqlalchemy import text as sql
from structlog.testing import capture_logs

from tests.support.conversation_activities import ConversationActivityScene, Make, make_talk, talk
from tests.support.patience import patient
from threadline.conversations.contract import FinishRequest
from threadline.conversations.model.conversation import ConversationTurn, OutcomeKind, Refusal
from threadline.conversations.store.messages import MessageStore
from threadline.conversations.store.turns import TurnStore
from threadline.errors import Transient
from threadline.slack.model import FileRef
from threadline_devstack.slack.identity import BYSTANDER, GENERAL, REPORTER

__all__ = ["make_talk", "talk"]


@pytest.mark.parametrize("text", ["NO_REPLY", "NO_REPLY: this is between Ann and Ben."])
async def test_silent_reply_is_not_posted(talk: ConversationActivityScene, text: str) -> None:
    talk.replies(text)
    await talk.said(
        talk.message("any news", sender_id=BYSTANDER), talk.message("not you", addressed=False)
    )
    async with talk.database.begin() as tx:
        await tx.execute(sql("UPDATE conversation_messages SET addressed = false"))
    assert (await talk.answer(may_be_silent=True)).kind is OutcomeKind.SILENT
    assert talk.posted() == []
    async with talk.database.begin() as tx:
        settled = await TurnStore(tx).settled(talk.thread, 1)
    assert settled
    assert (settled.kind, settled.answer) == (OutcomeKind.SILENT, "")


async def test_word_for_silence_is_never_posted(talk: ConversationActivityScene) -> None:
    talk.replies("NO_REPLY", "NO_REPLY")
    await talk.said("any news there")
    assert (await talk.answer()).kind is OutcomeKind.NO_ANSWER
    [posted] = talk.posted()
    assert "NO_REPLY" not in posted.text


async def test_answer_is_posted_once_with_the_records_of_its_tools(
    talk: ConversationActivityScene,
) -> None:
    """Property 7, on the real wire: records are posted as blocks."""
    await talk.said('Create a lamp "Milk".')
    await talk.answer()
    await talk.run(talk.activities.post_answer, ConversationTurn(talk.thread, 1))
    [posted] = talk.posted()
    assert len(posted.blocks) > 1
    assert "N-3" in json.dumps(posted.blocks[1:])


async def test_answer_is_posted_whole_where_details_were_asked_for(
    talk: ConversationActivityScene,
) -> None:
    talk.replies("\n\n".join(f"Paragraph {number}. {'word ' * 60}" for number in range(30)))
    await talk.said("tell me")
    await talk.answer()
    assert len(talk.posted()[0].text) <= 2_000
    await talk.said("tell me everything in detail")
    await talk.answer(2)
    whole = "".join(each.text for each in talk.posted()[1:])
    assert "Paragraph 29." in whole


async def test_duplicates_and_too_many_messages_are_refused(
    talk: ConversationActivityScene,
) -> None:
    same = [talk.message("any news"), talk.message("any news")]
    stored = await talk.said(*same)
    assert [each.why for each in stored.refused] == [Refusal.DUPLICATE]
    flood = []
    for number in range(12):
        flood.append(talk.message(f"remark {number}"))
        talk.at -= 59
    stored = await talk.said(*flood)
    assert [each.why for each in stored.refused] == [Refusal.THROTTLED_FIRST, Refusal.THROTTLED]
    rows = await talk.rows("SELECT verdict, wants_turn FROM conversation_messages ORDER BY seq")
    assert [each["verdict"] for each in rows].count("ok") == 11
    assert all(each["wants_turn"] == (each["verdict"] == "ok") for each in rows)


async def test_same_answer_to_two_questions_is_no_duplicate(
    talk: ConversationActivityScene,
) -> None:
    talk.replies("Are you sure?")
    for turn in (1, 2):
        talk.at -= 50
        stored = await talk.said("yes")
        assert stored.refused == ()
        await talk.answer(turn)


async def test_unjudged_message_is_judged_when_a_run_begins(
    talk: ConversationActivityScene,
) -> None:
    async with talk.database.begin() as tx:
        await MessageStore(tx).store(
            talk.thread, [talk.message("any news"), again := talk.message("any news")]
        )
    opened = await talk.opened()
    assert opened.snapshot.turn_due
    assert [(each.ts, each.why) for each in opened.refused] == [(again.ts, Refusal.DUPLICATE)]
    rev = opened.snapshot.rev
    opened = await talk.opened()
    assert (opened.snapshot.rev, opened.refused) == (rev, ())


async def test_message_that_was_deleted_and_sent_again_is_answered(
    talk: ConversationActivityScene,
) -> None:
    first = talk.message("any news")
    again = talk.message("any news")
    await talk.said(first)
    await talk.said(talk.deletion(first))
    stored = await talk.said(again)
    assert (stored.refused, stored.snapshot.turn_due) == ((), True)


@pytest.mark.parametrize(("apart", "refused"), [(119, True), (120, False)])
async def test_same_words_are_a_duplicate_within_two_minutes(
    talk: ConversationActivityScene, apart: float, refused: bool
) -> None:
    await talk.said("any news")
    talk.at += apart - 60
    assert bool((await talk.said("any news")).refused) is refused


@pytest.mark.parametrize("at_once", [True, False])
async def test_same_words_again_and_again_are_answered_every_two_minutes(
    talk: ConversationActivityScene, at_once: bool
) -> None:
    said = []
    for _ in range(4):
        said.append(talk.message("any news"))
        talk.at += 110 - 60
    batches = [said] if at_once else [[each] for each in said]
    refused = {each.ts for batch in batches for each in (await talk.said(*batch)).refused}
    assert [each.ts in refused for each in said] == [False, True, False, True]


async def test_same_words_with_another_file_or_by_somebody_else_are_no_duplicate(
    talk: ConversationActivityScene,
) -> None:
    for number in range(2):
        file = FileRef(f"F{number}", "log.txt", "text/plain", 1)
        assert (await talk.said(talk.message("look", files=(file,)))).refused == ()
    assert (await talk.said(talk.message("look", sender_id=BYSTANDER))).refused == ()


async def test_forwarding_of_different_messages_is_no_duplicate(
    talk: ConversationActivityScene,
) -> None:
    for words in ("one", "two"):
        forwarded = f"[Forwarded message by Bob]\n> {words}"
        assert (await talk.said(talk.message("", forwarded=forwarded))).refused == ()
    again = talk.message("", forwarded="[Forwarded message by Bob]\n> two")
    assert (await talk.said(again)).refused != ()


async def test_call_of_the_bot_in_the_words_of_an_aside_is_no_duplicate(
    talk: ConversationActivityScene,
) -> None:
    await talk.said(
        "any news", talk.message("what does it cost?", sender_id=BYSTANDER, addressed=False)
    )
    assert (await talk.said(talk.message("what does it cost?", sender_id=BYSTANDER))).refused == ()


async def test_workers_with_the_same_batch_refuse_the_same_messages(make_talk: Make) -> None:
    """Ten requests, one of them repeated, and two too many."""
    one = make_talk()
    two = make_talk()
    words = [*map(str, range(1, 11)), "1", "a", "b"]
    batch = []
    for each in words:
        batch.append(one.message(each))
        one.at -= 58
    told = await asyncio.gather(one.said(*batch), two.said(*batch))
    refused = (await two.said(*batch)).refused
    assert [each.refused for each in told] == [refused, refused]
    assert [each.why for each in refused] == [
        Refusal.DUPLICATE,
        Refusal.THROTTLED_FIRST,
        Refusal.THROTTLED,
    ]


async def test_batches_of_two_threads_do_not_wait_for_each_other(make_talk: Make) -> None:
    """Two people write in both threads, in opposite orders."""
    one = make_talk()
    two = make_talk()
    root = one.slack.workspace.post(GENERAL, REPORTER, "Good evening")
    two.thread = replace(two.thread, ts=root.ts)
    people = (REPORTER, BYSTANDER)
    for number in range(4):
        first = [one.message(f"one {number}", sender_id=each) for each in people]
        second = [two.message(f"two {number}", sender_id=each) for each in reversed(people)]
        stored = await asyncio.wait_for(
            asyncio.gather(one.said(*first), two.said(*second)), patient(20)
        )
        assert [each.refused for each in stored] == [(), ()]


async def test_throttled_message_that_is_sent_again_later_is_no_duplicate(
    talk: ConversationActivityScene,
) -> None:
    flood = []
    for number in range(11):
        flood.append(talk.message(f"remark {number}"))
        talk.at -= 59
    assert [each.why for each in (await talk.said(*flood)).refused] == [Refusal.THROTTLED_FIRST]
    talk.at += 70
    assert (await talk.said("remark 10")).refused == ()


async def test_words_that_answered_a_question_may_be_said_again(
    talk: ConversationActivityScene,
) -> None:
    talk.replies("Are you sure?", "It is done.")
    await talk.said("delete the lamp")
    await talk.answer()
    talk.at -= 50
    assert (await talk.said("yes")).refused == ()
    await talk.answer(2)
    talk.at -= 50
    stored = await talk.said("yes")
    assert (stored.refused, stored.snapshot.turn_due) == ((), True)


async def test_guards_that_fail_let_messages_pass_and_are_logged(
    talk: ConversationActivityScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "threadline.conversations.store.messages._DUPLICATES", sql("SELECT nonsense")
    )
    async with talk.database.begin() as tx:
        await tx.execute(sql("ALTER TABLE rate_limit_events RENAME TO away"))
    with capture_logs() as logs:
        stored = await talk.said("any news")
    assert stored.snapshot.turn_due
    assert stored.refused == ()
    assert [each["guard"] for each in logs if each["event"] == "guard_failed_open"] == [
        "duplicate",
        "user",
    ]


async def test_secret_in_a_message_reaches_neither_database_nor_model(
    talk: ConversationActivityScene,
) -> None:
    token = "gh" + "p_" + "a1B2" * 9
    await talk.said(f"use {token} for it")
    await talk.think()
    assert token not in str(talk.sent())
    assert token not in str(await talk.rows("SELECT * FROM conversation_messages"))


async def test_turn_that_slack_does_not_take_is_in_the_transcript_all_the_same(
    talk: ConversationActivityScene,
) -> None:
    """A run that starts again posts the answer, and checks nothing else."""
    await talk.said("How many lamps are there?")
    await talk.begin()
    talk.slack.faults.fail_before("chat.postMessage")
    await talk.run(
        talk.activities.finish_turn,
        FinishRequest(talk.thread, 1, OutcomeKind.STOPPED, "I stopped."),
    )
    with pytest.raises(Transient):
        await talk.post()
    told = dict(await talk.transcript())
    assert "I stopped." in told["f:1"].content
    assert any(key.startswith("u:") for key in told)
