"""What ends a turn before its time: a word to stop, a Cancel, a model that is away or will never answer."""

import asyncio

import pytest
from temporalio.client import WorkflowExecutionStatus
from temporalio.exceptions import ApplicationError

from tests.support.conversation_memory import AWAY, calls
from tests.support.conversation_workflow import Talking, talking
from tests.support.temporal import real_time, skipping_time, until
from threadline.conversations.contract import ThinkRequest, WordKind
from threadline.conversations.model import answers
from threadline.conversations.model.conversation import ConversationLimits
from threadline.conversations.step_failures import AWAY as GIVEN_UP
from threadline.errors import Permanent, Transient
from threadline.models.model import Execution, ExecutionStatus, ModelReply, OutcomeKind
from threadline.threads import messages

NOTHING_DONE = answers.stopped([])
CREATED = Execution("create:1", "create", ExecutionStatus.OK, "done")
ONE_DONE = answers.stopped([CREATED])


async def _stop(talk: Talking) -> None:
    """Say it, and wait until the workflow has heard it."""
    stored = len(talk.desk.rows)
    await talk.stop()

    async def heard() -> bool:
        return int((await talk.handle.query("state"))["pending"]) == 0

    await talk.until_stored(stored + 1)
    await until(heard, "the stop is stored")


async def test_a_stop_that_comes_with_its_message_ends_the_turn_before_it_begins() -> None:
    async def stop() -> None:
        await talk.stop()

    async with talking() as talk:
        talk.desk.hooks["store_messages"] = [stop]
        await talk.say("create one")
        assert await talk.until_said(1) == NOTHING_DONE
        assert talk.desk.asked == []
        assert talk.desk.settled[1].kind is OutcomeKind.STOPPED
        assert {marker.name for marker in talk.desk.markers} <= {"eyes"}, "it has an answer"
        await talk.say("now create one")
        assert await talk.until_said(2) == "Done."


async def test_a_stop_while_the_model_thinks_lets_it_finish_and_runs_none_of_its_calls() -> None:
    async def think(_: ThinkRequest) -> ModelReply:
        await _stop(talk)
        return calls("create:1")

    async with talking(think) as talk:
        await talk.say("create one")
        assert await talk.until_said(1) == NOTHING_DONE
        assert talk.desk.ran == []


async def test_a_stop_while_a_tool_runs_ends_the_turn_after_it_with_an_account() -> None:
    async def create(_: object) -> str:
        await _stop(talk)
        return "done"

    async with talking(calls("create:1", "create:2"), tools={"create": create}) as talk:
        await talk.say("create two")
        assert await talk.until_said(1) == ONE_DONE
        assert talk.desk.ran == ["create:1"], "the second was not begun any more"
        assert len(talk.desk.asked) == 1


@pytest.mark.parametrize("begun", [True, False])
async def test_a_stop_that_was_meant_for_the_bot_and_finds_nothing_to_stop_gets_a_sign(begun: bool) -> None:
    async with talking() as talk:
        if begun:
            await talk.say("hello")
            await talk.until_said(1)
            await talk.until_known("Idle since ")
        await talk.send(talk.message("stop", kind=messages.STOP, addressed=False))
        stop = talk.message("stop", kind=messages.STOP)
        await talk.send(stop)
        await talk.until(lambda: any(marker.name == "ok_hand" for marker in talk.desk.markers), "it gets a sign")
        signs = [marker.items for marker in talk.desk.markers if marker.name != "eyes"]
        assert signs == [((stop.channel, stop.ts),)]
        assert list(talk.desk.said) == ([1] if begun else [])


@pytest.mark.slow
async def test_a_model_that_does_not_answer_gets_half_a_minute_after_a_stop() -> None:
    thinking = asyncio.Event()

    async def hang(_: ThinkRequest) -> ModelReply:
        thinking.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with talking(calls("create:1"), *[hang] * 5, server=skipping_time) as talk:
        await talk.say("create one")
        await thinking.wait()
        await _stop(talk)
        assert 1 not in talk.desk.said
        await talk.later(seconds=31)
        assert await talk.until_said(1) == ONE_DONE


async def test_a_stop_while_the_model_is_away_ends_the_turn_at_once() -> None:
    async with talking(*[AWAY] * 50) as talk:
        await talk.say("create one")
        await talk.until_known("Working: waiting for the model since ")
        await talk.stop()
        assert await talk.until_said(1) == NOTHING_DONE
        assert len(talk.desk.asked) == 1


async def test_a_model_that_is_away_for_long_is_waited_for_and_the_person_is_told_once() -> None:
    async with talking(*[AWAY] * 8, ModelReply("There I am."), server=skipping_time) as talk:
        await talk.say("hello")
        await talk.until(lambda: talk.desk.words, "the person is told")
        await talk.later(minutes=50)
        assert await talk.until_said(1) == "There I am."
        assert [(word.kind, word.about) for word in talk.desk.words] == [(WordKind.MODEL_AWAY, "1")]
        assert [(request.turn, request.step) for request in talk.desk.asked] == [(1, step) for step in range(1, 10)]
        assert (talk.desk.settled[1].answered_at, talk.desk.settled[1].model_calls) == (9, 1)
        timers = [
            event.timer_started_event_attributes.start_to_fire_timeout.ToSeconds()
            for event in (await talk.handle.fetch_history()).events
            if event.HasField("timer_started_event_attributes")
        ]
        assert timers[:8] == [30, 60, 120, 240, 300, 300, 300, 300]


async def test_what_is_said_while_the_model_is_away_is_in_the_call_that_it_answers() -> None:
    async with talking(AWAY, ModelReply("Both."), server=skipping_time) as talk:
        await talk.say("one")
        await talk.until_known("waiting for the model")
        await talk.say("two")
        await talk.until_stored(2)
        await talk.later(minutes=1)
        assert await talk.until_said(1) == "Both."
        assert talk.desk.prompts == [(1, "one"), (1, "two")]


async def test_a_model_that_stays_away_is_given_up_with_an_account_and_asked_again_for_the_next_message() -> None:
    limits = ConversationLimits(model_patience=600)
    async with talking(calls("create:1"), *[AWAY] * 6, ModelReply("Now."), server=skipping_time) as talk:
        talk.desk.limits = limits
        await talk.say("create one")
        await talk.later(minutes=11)
        answer = await talk.until_said(1)
        assert answer == answers.failed(GIVEN_UP, [CREATED])
        assert talk.desk.settled[1].kind is OutcomeKind.FAILED
        assert len(talk.desk.asked) == 7, "the last try is when the patience ends"
        await talk.say("and now?")
        assert await talk.until_said(2) == "Now."


async def test_each_absence_of_the_model_has_its_own_patience() -> None:
    limits = ConversationLimits(model_patience=600)
    async with talking(
        *[AWAY] * 4, calls("create:1"), *[AWAY] * 4, ModelReply("There."), limits=limits, server=skipping_time
    ) as talk:
        await talk.say("create one")
        await talk.later(minutes=20)
        assert await talk.until_said(1) == "There."
        assert [word.kind for word in talk.desk.words] == [WordKind.MODEL_AWAY], "one word is enough"


async def test_a_fault_that_is_over_soon_is_nobodys_business() -> None:
    """The activity's own attempts get over it."""
    async with talking(
        Transient("busy"), Transient("busy", retry_after=3), ModelReply("There."), server=skipping_time
    ) as talk:
        await talk.say("hello")
        await talk.later(seconds=20)
        assert await talk.until_said(1) == "There."
        assert talk.desk.words == []


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (Permanent("My key for the language model is not accepted. Please tell the operators."), None),
        (KeyError("/var/lib/threadline/sk-123"), answers.TROUBLE),
    ],
)
async def test_a_fault_that_stays_ends_the_turn_in_words_for_people(fault: Exception, told: str | None) -> None:
    async with talking(*[fault] * 10, server=skipping_time) as talk:
        await talk.say("hello")
        await talk.later(minutes=1)
        assert await talk.until_said(1) == (told or str(fault))
        assert talk.desk.settled[1].kind is OutcomeKind.FAILED
        assert talk.desk.words == []
        await talk.until_known("Idle since ")


async def test_a_call_of_the_model_that_loses_every_worker_is_given_up_soon() -> None:
    lost = ApplicationError("The worker was shut down.", type="WorkerShutdown", non_retryable=True)
    async with talking(*[lost] * 20, server=skipping_time) as talk:
        await talk.say("hello")
        await talk.later(minutes=10)
        assert await talk.until_said(1) == answers.TROUBLE
        assert len(talk.desk.asked) == 3


async def test_a_cancel_in_the_ui_stores_what_came_says_that_it_stops_and_ends() -> None:
    thinking = asyncio.Event()

    async def hang(_: ThinkRequest) -> ModelReply:
        thinking.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with talking(calls("create:1"), hang, ModelReply("Here I am."), server=real_time) as talk:
        await talk.say("create one")
        await thinking.wait()
        await talk.say("and another")
        await talk.handle.cancel()
        assert await talk.handle.result() == "cancelled"
        cancelled = {1: answers.stopped([CREATED], by_operator=True), 2: answers.stopped([], by_operator=True)}
        assert talk.desk.said == cancelled, "who was not heard yet is told, too"
        assert (await talk.handle.describe()).status is WorkflowExecutionStatus.COMPLETED
        await talk.say("are you there?")
        assert await talk.until_said(3) == "Here I am."


@pytest.mark.parametrize("history_events", [0, 20], ids=["ended", "continued as new"])
async def test_what_is_said_after_the_last_word_of_a_cancelled_run_is_answered_by_the_next(history_events: int) -> None:
    thinking = asyncio.Event()

    async def hang(_: ThinkRequest) -> ModelReply:
        thinking.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def nothing() -> None: ...

    async def late() -> None:
        await talk.say("and what about this?")
        await talk.until_stored(3)

    limits = ConversationLimits(history_events=history_events)
    async with talking(hang, ModelReply("Here I am."), limits=limits, server=real_time) as talk:
        talk.desk.hooks["post_answer"] = [nothing, late]
        await talk.say("create one")
        await thinking.wait()
        await talk.say("and another")
        await talk.until_stored(2)
        await talk.handle.cancel()
        assert await talk.until_said(3) == "Here I am."
        assert talk.desk.prompts[-1] == (3, "and what about this?")
        await talk.until_known("Idle since ")


async def test_a_cancel_when_nothing_is_under_way_ends_without_a_word() -> None:
    async with talking(server=real_time) as talk:
        await talk.say("hello")
        await talk.until_said(1)
        await talk.until_known("Idle since ")
        await talk.handle.cancel()
        assert await talk.handle.result() == "cancelled"
        assert list(talk.desk.said) == [1]
