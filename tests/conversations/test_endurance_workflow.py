"""What a conversation lives through: lost workers and results, storms, its own next run; none of it costs a message."""

import asyncio
from collections import Counter

import pytest
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.exceptions import ApplicationError
from temporalio.worker import Replayer

from tests.support.conversation_memory import Desk, calls
from tests.support.conversation_workflow import ANNA, BEN, Talking, talking
from tests.support.temporal import real_time, skipping_time, until
from threadline.conversations.contract import ActRequest, Refusal, ThinkRequest
from threadline.conversations.model.conversation import ConversationLimits
from threadline.models.model import ModelReply, OutcomeKind
from threadline.threads.addressing import Thread
from threadline.wiring.temporal import WORKFLOWS, workflow_runner

pytestmark = pytest.mark.slow


async def _lost() -> None:
    """What was written stays, and nobody hears of it."""
    raise ApplicationError("The answer was lost.")


EVERY_STEP = ("store_messages", "think", "act", "settle_turn", "post_answer")


@pytest.mark.parametrize("name", EVERY_STEP)
async def test_a_result_that_was_lost_is_taken_over_and_nothing_is_done_twice(name: str) -> None:
    async with talking(calls("create:1"), ModelReply("It is there."), server=skipping_time) as talk:
        talk.desk.hooks[name] = [_lost]
        await talk.say("create one")
        await talk.later(seconds=10)
        assert await talk.until_said(1) == "It is there."
        assert (len(talk.desk.asked), talk.desk.ran, talk.desk.prompts) == (2, ["create:1"], [(1, "create one")])
        await talk.until_known("Idle since ")
        assert talk.desk.turn == 1


async def test_a_turn_whose_worker_was_lost_goes_on_where_it_was() -> None:
    acting, lost = asyncio.Event(), asyncio.Event()

    async def second(_: ActRequest) -> str:
        if not lost.is_set():
            acting.set()
            await asyncio.Event().wait()
        return "done"

    script = calls("create:1"), calls("update:1"), ModelReply("Both are done.")
    async with real_time() as environment:
        talk = Talking(environment, Desk(list(script), {"update": second}), Thread("T1", "C1", "1.0"))
        async with talk.working():
            await talk.say("create one and update it")
            await acting.wait()
        lost.set()
        async with talk.working():
            assert await talk.until_said(1) == "Both are done."
    assert [request.step for request in talk.desk.asked] == [1, 2, 3]
    assert talk.desk.ran == ["create:1", "update:1", "update:1"], "what had not ended was begun again, and nothing else"


async def test_a_run_that_was_terminated_in_mid_turn_is_carried_on_by_the_next_message() -> None:
    acting = asyncio.Event()

    async def never(_: ActRequest) -> str:
        acting.set()
        await asyncio.Event().wait()
        raise AssertionError

    script = calls("create:1"), calls("hang:1"), ModelReply("All is done.")
    async with talking(*script, tools={"hang": never}, server=real_time) as talk:
        await talk.say("create one")
        await acting.wait()
        await talk.handle.terminate("by hand")
        del talk.desk.tools["hang"]
        await talk.say("hello?")
        assert await talk.until_said(1) == "All is done."
        assert [request.step for request in talk.desk.asked] == [1, 2, 3]
        assert Counter(talk.desk.ran) == {"create:1": 1, "hang:1": 2}
        assert talk.desk.prompts == [(1, "create one"), (1, "hello?")]


async def test_an_answer_that_a_terminated_run_did_not_post_is_said_first() -> None:
    settled = asyncio.Event()

    async def stay() -> None:
        settled.set()
        await asyncio.Event().wait()

    async with talking(ModelReply("First."), ModelReply("Second."), server=real_time) as talk:
        talk.desk.hooks["settle_turn"] = [stay]
        await talk.say("one")
        await settled.wait()
        await talk.handle.terminate("by hand")
        await talk.say("two")
        assert await talk.until_said(2) == "Second."
        assert talk.desk.said == {1: "First.", 2: "Second."}
        assert list(talk.desk.said) == [1, 2]


def _answers(desk: Desk) -> Counter[str]:
    return Counter(text for _, text in desk.prompts)


async def test_a_storm_over_runs_that_continue_as_new_is_answered_once_each() -> None:
    async def slow(_: ThinkRequest) -> ModelReply:
        await asyncio.sleep(0.05)
        return calls("look:1", read_only=True) if len(talk.desk.asked) % 3 == 1 else ModelReply("Yes.")

    limits = ConversationLimits(history_events=30)
    async with talking(*[slow] * 200, limits=limits, server=real_time) as talk:
        said = [talk.message(f"{number}", ANNA if number % 2 else BEN) for number in range(120)]
        for start in range(0, len(said), 6):
            burst = said[start : start + 6]
            await asyncio.gather(*(talk.send(message) for message in [*burst, burst[0]]))
        await talk.until_stored(len(said))
        await talk.until(lambda: not talk.desk.marks().turn_due, "everything is answered")
        await talk.until_known("Idle since ")
        assert _answers(talk.desk) == Counter(message.text for message in said)
        assert sorted(talk.desk.said) == list(range(1, talk.desk.turn + 1))
        assert len(talk.desk.asked) == len(talk.desk.transcript), "no reply was paid twice"
        started = (await talk.handle.fetch_history()).events[0].workflow_execution_started_event_attributes
        assert started.continued_execution_run_id, "it went through several runs"


async def test_a_word_that_slack_does_not_take_holds_no_run_up_and_the_next_one_says_it() -> None:
    async def never() -> None:
        await asyncio.Event().wait()

    async def continued() -> bool:
        events = (await talk.handle.fetch_history()).events
        return bool(events[0].workflow_execution_started_event_attributes.continued_execution_run_id)

    async with talking(limits=ConversationLimits(history_events=40), server=real_time) as talk:
        talk.desk.judge = lambda message: Refusal.THROTTLED_FIRST if message.text == "much" else None
        talk.desk.hooks["post_word"] = [never]
        await talk.say("hello")
        await talk.until_said(1)
        await talk.say("much")
        await talk.until(lambda: not talk.desk.hooks["post_word"], "the word is on its way")
        for turn in range(2, 6):
            await talk.say("and this?")
            await talk.until_said(turn)
        await until(continued, "the run continues as new")
        await talk.until(lambda: talk.desk.words, "the writer is told")
        assert len(talk.desk.words) == 1


async def test_what_comes_while_a_run_completes_is_answered() -> None:
    limits = ConversationLimits(quiet=0)
    async with talking(limits=limits, server=real_time) as talk:
        runs = set()
        for number in range(25):
            await talk.say(f"{number}")
            runs.add((await talk.handle.describe()).run_id)
            await talk.until(lambda sent=number + 1: len(talk.desk.prompts) == sent, "it is read")  # type: ignore[misc]
            await talk.until(lambda: not talk.desk.marks().unsaid, "it is answered, and the run about to end")
            if number % 5 == 0:
                assert await talk.handle.result() == "quiet", "on a busy machine the others may all come before the end"
        assert await talk.handle.result() == "quiet"
        assert _answers(talk.desk) == Counter(str(number) for number in range(25))
        assert sorted(talk.desk.said) == list(range(1, talk.desk.turn + 1))
        assert len(runs) > 1, "some came too late for their run"


async def test_a_model_that_asks_for_the_same_call_for_ever_gets_an_end() -> None:
    async with talking(*[calls("look:1")] * 50) as talk:
        await talk.say("look")
        await talk.until_said(1)
        assert talk.desk.settled[1].kind is OutcomeKind.SUMMARISED
        assert talk.desk.ran == ["look:1"]
        assert len(talk.desk.asked) <= 6


async def test_two_megabytes_of_output_add_less_than_20_kb_to_the_history() -> None:
    async def much(_: ActRequest) -> str:
        return "x" * 1024 * 1024

    long = ModelReply("A long story. " * 5_000)
    async with talking(ModelReply("Hello."), calls("read:1"), calls("read:2"), long, tools={"read": much}) as talk:
        await talk.say("hello")
        await talk.until_said(1)
        await talk.until_known("Idle since ")
        before = await _size(talk)
        await talk.say("read it all")
        assert await talk.until_said(2) == long.text
        await talk.until_known("Idle since ")
        assert await _size(talk) - before < 20_000


async def _size(talk: Talking) -> int:
    return sum(event.ByteSize() for event in (await talk.handle.fetch_history()).events)


async def test_a_conversation_replays() -> None:
    script = calls("look:1", "look:2", read_only=True), calls("create:1"), ModelReply("Done. Anything else?")
    async with talking(*script, ModelReply("Bye."), server=skipping_time) as talk:
        await talk.say("create one")
        await talk.until_said(1)
        await talk.say("no")
        await talk.until_said(2)
        await talk.later(hours=25)
        assert await talk.handle.result() == "quiet"
        history = await talk.handle.fetch_history()
    replayer = Replayer(workflows=WORKFLOWS, data_converter=pydantic_data_converter, workflow_runner=workflow_runner())
    await replayer.replay_workflow(history)


async def test_a_fault_in_a_step_fails_the_task_and_never_the_run() -> None:
    async def broken() -> None:
        raise ApplicationError("nobody foresaw this", non_retryable=True)

    async def suspended() -> bool:
        events = (await talk.handle.fetch_history()).events
        failures = [each.workflow_task_failed_event_attributes.failure.message for each in events]
        return any("no answer for" in message for message in failures)

    async with talking() as talk:
        talk.desk.hooks["settle_turn"] = [broken]
        await talk.say("hello")
        await until(suspended, "the workflow's task fails")
