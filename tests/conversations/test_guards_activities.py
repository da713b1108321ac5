"""Which messages are refused, and what of an answer is posted."""

import json

import pytest
from sqlalchemy import text as sql
from structlog.testing import capture_logs

from tests.support.conversation_activities import ConversationActivityScene, make_talk, talk
from threadline.conversations.contract import Refusal, TalkTurn
from threadline.conversations.model.conversation import OutcomeKind
from threadline_devstack.slack.identity import BYSTANDER

__all__ = ["make_talk", "talk"]


@pytest.mark.parametrize("text", ["NO_REPLY", "NO_REPLY: this is between Ann and Ben."])
async def test_silent_reply_is_not_posted(talk: ConversationActivityScene, text: str) -> None:
    talk.replies(text)
    await talk.said(talk.message("hello", sender_id=BYSTANDER), talk.message("not you", addressed=False))
    async with talk.database.begin() as work:
        await work.tx.execute(sql("UPDATE conversation_messages SET addressed = false"))
    assert (await talk.answer(may_be_silent=True)).kind is OutcomeKind.SILENT
    assert talk.posted() == []
    async with talk.database.begin() as work:
        settled = await work.conversations.settled(talk.thread, 1)
    assert settled
    assert (settled.kind, settled.answer) == (OutcomeKind.SILENT, "")


async def test_word_for_silence_is_never_posted(talk: ConversationActivityScene) -> None:
    talk.replies("NO_REPLY", "NO_REPLY")
    await talk.said("hello there")
    assert (await talk.answer()).kind is OutcomeKind.SPEECHLESS
    [posted] = talk.posted()
    assert "NO_REPLY" not in posted.text


async def test_answer_is_posted_once_with_the_records_of_its_tools(talk: ConversationActivityScene) -> None:
    """Property 7, on the real wire: records are posted as blocks."""
    await talk.said('Create a lamp "Milk".')
    await talk.answer()
    await talk.run(talk.speaking.post_answer, TalkTurn(talk.thread, 1))
    [posted] = talk.posted()
    assert len(posted.blocks) > 1
    assert "N-3" in json.dumps(posted.blocks[1:])


async def test_answer_is_posted_whole_where_details_were_asked_for(talk: ConversationActivityScene) -> None:
    talk.replies("\n\n".join(f"Paragraph {number}. {'word ' * 60}" for number in range(30)))
    await talk.said("tell me")
    await talk.answer()
    assert len(talk.posted()[0].text) <= 2_000
    await talk.said("tell me everything in detail")
    await talk.answer(2)
    whole = "".join(each.text for each in talk.posted()[1:])
    assert "Paragraph 29." in whole


async def test_duplicates_and_too_many_messages_are_refused(talk: ConversationActivityScene) -> None:
    same = [talk.message("hello"), talk.message("hello")]
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


async def test_same_answer_to_two_questions_is_no_duplicate(talk: ConversationActivityScene) -> None:
    talk.replies("Are you sure?")
    for turn in (1, 2):
        talk.at -= 50
        stored = await talk.said("yes")
        assert stored.refused == ()
        await talk.answer(turn)


async def test_unjudged_message_is_judged_when_a_run_begins(talk: ConversationActivityScene) -> None:
    async with talk.database.begin() as work:
        await work.conversations.store(talk.thread, [talk.message("hello"), again := talk.message("hello")])
    opened = await talk.run(talk.thinking.open_conversation, talk.thread)
    assert opened.marks.turn_due
    assert [(each.ts, each.why) for each in opened.refused] == [(again.ts, Refusal.DUPLICATE)]
    rev = opened.marks.rev
    opened = await talk.run(talk.thinking.open_conversation, talk.thread)
    assert (opened.marks.rev, opened.refused) == (rev, ())


async def test_guard_that_fails_lets_messages_pass_and_is_logged(talk: ConversationActivityScene) -> None:
    async with talk.database.begin() as work:
        await work.tx.execute(sql("ALTER TABLE limit_verdicts RENAME TO away"))
    with capture_logs() as logs:
        stored = await talk.said("hello")
    assert stored.marks.turn_due
    assert stored.refused == ()
    assert [each["guard"] for each in logs if each["event"] == "guard_failed_open"] == ["duplicate", "user"]


async def test_secret_in_a_message_reaches_neither_database_nor_model(talk: ConversationActivityScene) -> None:
    token = "gh" + "p_" + "a1B2" * 9
    await talk.said(f"use {token} for it")
    await talk.think()
    assert token not in str(talk.sent())
    assert token not in str(await talk.rows("SELECT * FROM conversation_messages"))
