"""What a job asks in somebody's name is taken up by the conversation like any word of theirs."""

from dataclasses import replace

from tests.support.conversation_activities import Talking, make_talk, talk
from threadline.threads import addressing
from threadline_devstack.slack.identity import REPORTER

__all__ = ["make_talk", "talk"]


async def test_a_question_in_somebodys_name_is_answered_once_in_their_thread(talk: Talking) -> None:
    await talk.said("hello there")
    await talk.answer()
    identity = addressing.job_question_id(talk.thread.team, "JOB-1", 1)
    question = replace(talk.message("Is the crane on its way?"), id=identity, sender_id=REPORTER, addressed=True)
    stored = await talk.said(question)
    assert (stored.marks.turn_due, stored.refused) == (True, ())
    again = await talk.said(question)
    assert again.marks.stored == stored.marks.stored
    await talk.answer(2)
    assert "Is the crane on its way?" in str(talk.sent())
    assert len(talk.posted()) == 2
