"""A model that is away is waited for; one that fails for good ends the turn with a message."""

import pytest
from temporalio.exceptions import ApplicationError

from tests.support.conversation_scene import conversation
from tests.support.scripted_model import AWAY, Reply, calls
from tests.support.temporal import skipping_time
from threadline.conversations.model import answers
from threadline.conversations.model.conversation import (
    ConversationLimits,
    Execution,
    NoticeReason,
    OutcomeKind,
)
from threadline.conversations.turn import MODEL_AWAY as GIVEN_UP
from threadline.db.engine import Database
from threadline.errors import Permanent, Transient
from threadline.models.model import ModelReply
from threadline.tools.model import ToolStatus

CREATED = Execution("create:1", "create", ToolStatus.OK, "done")
LOST = ApplicationError("The worker was shut down.", type="WorkerShutdown", non_retryable=True)
PATIENCE = ConversationLimits(model_patience=600)


@pytest.mark.records("talk_model_comes_back")
async def test_a_model_that_is_away_for_long_is_waited_for_and_the_person_gets_one_notice(
    database: Database,
) -> None:
    async with conversation(
        database, *[AWAY] * 8, ModelReply("There I am."), server=skipping_time
    ) as scene:
        await scene.say("any news")
        await scene.until(lambda: scene.words, "the person is told")
        await scene.later(minutes=50)
        assert await scene.until_said(1) == "There I am."
        assert scene.words == [(NoticeReason.MODEL_AWAY, "1")]
        assert [(request.turn, request.step) for request in scene.asked] == [
            (1, step) for step in range(1, 10)
        ]
        assert (scene.settlement(1).answer_step, scene.settlement(1).model_calls) == (9, 1)
        timers = [
            event.timer_started_event_attributes.start_to_fire_timeout.ToSeconds()
            for event in await scene.events()
            if event.HasField("timer_started_event_attributes")
        ]
        assert timers[:8] == [30, 60, 120, 240, 300, 300, 300, 300]


@pytest.mark.records("talk_model_stays_away")
async def test_a_model_that_stays_away_is_given_up_and_asked_again_for_the_next_message(
    database: Database,
) -> None:
    """Messages that came meanwhile are given up as well, without a second notice."""
    script: list[Reply] = [calls("create:1"), *[AWAY] * 6, ModelReply("Now.")]
    async with conversation(database, *script, limits=PATIENCE, server=skipping_time) as scene:
        await scene.say("create one")
        await scene.until_known("waiting for the model")
        await scene.say("and one more")
        await scene.until_stored(2)
        await scene.later(minutes=11)
        await scene.until_said(1)
        assert await scene.answers() == {1: answers.failure_text(GIVEN_UP, [CREATED])}
        assert (await scene.until_settled(1)).kind is OutcomeKind.FAILED
        assert len(scene.asked) == 7, "the last attempt comes when the patience ends"
        await scene.until_idle()
        assert await scene.prompts() == [(1, "create one"), (1, "and one more")]
        assert (list(scene.said), scene.words) == ([1], [(NoticeReason.MODEL_AWAY, "1")])
        assert await scene.ask("and now?") == "Now."


async def test_each_absence_of_the_model_gets_its_own_wait(database: Database) -> None:
    script: list[Reply] = [*[AWAY] * 4, calls("create:1"), *[AWAY] * 4, ModelReply("There.")]
    async with conversation(database, *script, limits=PATIENCE, server=skipping_time) as scene:
        await scene.say("create one")
        await scene.later(minutes=20)
        assert await scene.until_said(1) == "There."
        assert scene.words == [(NoticeReason.MODEL_AWAY, "1")], "one message is enough"


async def test_short_fault_of_the_model_causes_no_notice(database: Database) -> None:
    """The activity's own retries cover it."""
    script = Transient("busy"), Transient("busy", retry_after=3), ModelReply("There.")
    async with conversation(database, *script, server=skipping_time) as scene:
        await scene.say("any news")
        await scene.later(seconds=20)
        assert await scene.until_said(1) == "There."
        assert scene.words == []


@pytest.mark.records("talk_fault_stays")
@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (Permanent("The model's API refused the key: check OPENAI_API_KEY."), "refused the key"),
        (KeyError("/var/lib/threadline/sk-123"), answers.GENERIC_FAILURE),
    ],
)
async def test_a_fault_that_stays_ends_the_turn_in_words_for_people(
    database: Database, fault: Exception, told: str
) -> None:
    async with conversation(database, *[fault] * 10, server=skipping_time) as scene:
        await scene.say("any news")
        await scene.later(minutes=1)
        assert told in await scene.until_said(1)
        assert (await scene.until_settled(1)).kind is OutcomeKind.FAILED
        assert scene.words == []
        await scene.until_idle()


async def test_model_call_that_loses_every_worker_is_given_up(database: Database) -> None:
    async with conversation(database, *[LOST] * 20, server=skipping_time) as scene:
        await scene.say("any news")
        await scene.later(minutes=10)
        assert await scene.until_said(1) == answers.GENERIC_FAILURE
        assert len(scene.asked) == 3


async def test_reply_whose_call_was_lost_is_used_and_the_model_not_asked_again(
    database: Database,
) -> None:
    async def lost() -> None:
        raise LOST

    script = calls("create:1"), ModelReply("It is there.")
    async with conversation(database, *script, server=skipping_time) as scene:
        scene.steps.after["think"] = [lost, lost]
        await scene.say("create one")
        await scene.later(minutes=2)
        assert await scene.until_said(1) == "It is there."
        assert ([request.step for request in scene.asked], scene.ran) == ([1, 2], ["create:1"])


@pytest.mark.slow
async def test_terminated_run_goes_on_after_the_steps_without_a_model(database: Database) -> None:
    script = AWAY, calls("create:1"), ModelReply("All is done.")
    async with conversation(database, *script, server=skipping_time) as scene:
        scene.steps.before["act"] = [scene.hang] * 5
        await scene.say("create one")
        await scene.until_known("waiting for the model")
        await scene.later(seconds=31)
        await scene.hanging.wait()
        await scene.handle.terminate("by hand")
        scene.steps.before["act"].clear()
        assert await scene.ask("any news?") == "All is done."
        assert [request.step for request in scene.asked] == [1, 2, 3]
        assert await scene.prompts() == [(1, "create one"), (1, "any news?")]


async def test_long_transcript_is_summarised_before_the_turn(database: Database) -> None:
    async with conversation(
        database, ModelReply("First."), ModelReply("Second."), ModelReply("Third.")
    ) as scene:
        for text, turn in (("one", 1), ("two", 2)):
            await scene.say(text)
            await scene.until_said(turn)
        await scene.crowd()
        assert scene.model.summarised == 0
        assert await scene.ask("three") == "Third."
        assert await scene.costs("summarise") == [3]
        assert scene.names("think") == ["think"] * 3


async def test_failed_summary_does_not_prevent_the_answer(database: Database) -> None:
    async with conversation(
        database, ModelReply("Hello."), ModelReply("There."), server=skipping_time
    ) as scene:
        await scene.ask("any news")
        await scene.crowd()
        scene.model.summaries = [Transient("The model is overloaded.")] * 5
        await scene.say("and now?")
        await scene.later(seconds=30)
        assert await scene.until_said(2) == "There."
        assert scene.model.summarised == 2, "two attempts"
