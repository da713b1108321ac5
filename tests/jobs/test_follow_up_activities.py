"""A job's question reaches the conversation in the name of the person who asked for the job."""

from dataclasses import replace

from tests.support.conversation_activities import ConversationActivityScene, make_talk, talk
from threadline.jobs.model import job_question_id
from threadline_devstack.slack.identity import REPORTER

__all__ = ["make_talk", "talk"]


async def test_question_of_a_job_is_answered_once_in_its_thread(
    talk: ConversationActivityScene,
) -> None:
    await talk.said("hello there")
    await talk.answer()
    identity = job_question_id(talk.thread.team, "JOB-1", 1)
    question = replace(
        talk.message("Is the crane on its way?"), id=identity, sender_id=REPORTER, addressed=True
    )
    stored = await talk.said(question)
    assert (stored.snapshot.turn_due, stored.refused) == (True, ())
    assert (await talk.said(question)).snapshot.message_count == stored.snapshot.message_count
    await talk.answer(2)
    assert "Is the crane on its way?" in str(talk.sent())
    assert len(talk.posted()) == 2
