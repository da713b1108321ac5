"""A turn ends early: somebody says to stop, or the admin cancels the workflow."""

import asyncio

import pytest
from temporalio.client import WorkflowExecutionStatus

from tests.support.conversation_scene import BEN, conversation
from tests.support.scripted_model import AWAY, calls
from tests.support.temporal import skipping_time
from threadline.conversations.activities import NOTHING_TO_STOP_REACTION, RECEIVED_REACTION
from threadline.conversations.contract import ThinkRequest
from threadline.conversations.model import answers
from threadline.conversations.model.conversation import ConversationLimits, Execution, OutcomeKind
from threadline.db.engine import Database
from threadline.models.model import ModelReply
from threadline.threads.model import MessageKind
from threadline.tools.model import ToolStatus

NOTHING_DONE = answers.stopped_text([])
CREATED = Execution("create:1", "create", ToolStatus.OK, "done")
ONE_DONE = answers.stopped_text([CREATED])


async def test_stop_that_comes_with_its_message_ends_the_turn_at_once(database: Database) -> None:
    async with conversation(database) as scene:
        scene.steps.after["store_messages"] = [scene.stop]
        assert await scene.ask("create one") == NOTHING_DONE
        assert scene.asked == []
        assert (await scene.until_settled(1)).kind is OutcomeKind.STOPPED
        assert set(scene.marked) <= {RECEIVED_REACTION}, "the stop has an answer"
        assert await scene.ask("now create one") == "Done."


async def test_stop_while_the_model_thinks_runs_none_of_its_calls(database: Database) -> None:
    async def think(_: ThinkRequest) -> ModelReply:
        await scene.stop_heard()
        return calls("create:1")

    async with conversation(database, think) as scene:
        assert await scene.ask("create one") == NOTHING_DONE
        assert scene.ran == []


@pytest.mark.records("talk_stopped_between_calls")
async def test_a_stop_while_a_tool_runs_ends_the_turn_after_it_with_an_account(
    database: Database,
) -> None:
    async def create(_: object) -> str:
        await scene.stop_heard()
        return "done"

    async with conversation(
        database, calls("create:1", "create:2"), tools={"create": create}
    ) as scene:
        await scene.ask("create two")
        assert await scene.answers() == {1: ONE_DONE}
        assert scene.ran == ["create:1"], "the second was not begun"
        assert len(scene.asked) == 1


@pytest.mark.parametrize("begun", [True, False])
async def test_stop_with_nothing_to_stop_gets_a_reaction(database: Database, begun: bool) -> None:
    async with conversation(database) as scene:
        if begun:
            await scene.say("any news")
            await scene.until_said(1)
            await scene.until_idle()
        await scene.send(scene.message("stop", kind=MessageKind.STOP, addressed=False))
        stop = scene.message("stop", kind=MessageKind.STOP)
        await scene.send(stop)
        await scene.until(
            lambda: NOTHING_TO_STOP_REACTION in scene.marked, "the stop gets a reaction"
        )
        assert scene.marked[NOTHING_TO_STOP_REACTION] == [stop.ts]
        assert list(scene.said) == ([1] if begun else [])


@pytest.mark.records("talk_stopped_while_thinking")
@pytest.mark.slow
async def test_a_model_that_does_not_answer_gets_half_a_minute_after_a_stop(
    database: Database,
) -> None:
    async def nothing() -> None: ...

    async with conversation(database, calls("create:1"), server=skipping_time) as scene:
        scene.steps.before["think"] = [nothing, *[scene.hang] * 5]
        await scene.say("create one")
        await scene.hanging.wait()
        await scene.stop_heard()
        assert 1 not in scene.said
        for _ in range(
            2
        ):  # the server skips no time while an activity runs, and a call ends after half a minute
            await scene.later(seconds=16)
        await scene.until_said(1)
        assert await scene.answers() == {1: ONE_DONE}


@pytest.mark.records("talk_stopped_while_model_away")
async def test_a_stop_while_the_model_is_away_ends_the_turn_at_once(database: Database) -> None:
    async with conversation(database, *[AWAY] * 50) as scene:
        await scene.say("create one")
        await scene.until_known("Working: waiting for the model since ")
        await scene.stop()
        assert await scene.until_said(1) == NOTHING_DONE
        assert len(scene.asked) == 1


async def test_no_model_is_asked_after_a_stop_during_the_summary(database: Database) -> None:
    summarised = asyncio.Event()

    async def summarise() -> None:
        scene.hanging.set()
        await summarised.wait()

    async with conversation(database, ModelReply("Hello.")) as scene:
        await scene.ask("any news")
        await scene.crowd()
        scene.model.summaries = [summarise]
        await scene.say("and now?")
        await scene.hanging.wait()
        await scene.stop_heard()
        summarised.set()
        assert await scene.until_said(2) == NOTHING_DONE
        assert len(scene.asked) == 1


@pytest.mark.records("talk_cancelled")
async def test_a_cancelled_run_stores_its_messages_says_that_it_stops_and_ends(
    database: Database,
) -> None:
    async with conversation(database, calls("create:1")) as scene:
        scene.model.replies += [scene.hang, ModelReply("Here I am.")]
        await scene.say("create one")
        await scene.hanging.wait()
        await scene.say("and another")
        await scene.handle.cancel()
        assert await scene.handle.result() == "cancelled"
        cancelled = {
            1: answers.stopped_text([CREATED], by_admin=True),
            2: answers.stopped_text([], by_admin=True),
        }
        assert await scene.answers() == cancelled, "authors of unread messages are told as well"
        assert list(scene.said) == [1, 2]
        assert (await scene.handle.describe()).status is WorkflowExecutionStatus.COMPLETED
        assert await scene.ask("are you there?") == "Here I am."


async def test_a_cancelled_run_reports_the_tool_calls_made_by_then(database: Database) -> None:
    async def create(_: object) -> str:
        await scene.handle.cancel()
        return "done"

    async with conversation(database, calls("create:1"), tools={"create": create}) as scene:
        await scene.say("create one")
        assert await scene.handle.result() == "cancelled"
        assert await scene.answers() == {1: answers.stopped_text([CREATED], by_admin=True)}


@pytest.mark.parametrize("history_events", [0, 20], ids=["ended", "continued as new"])
@pytest.mark.usefixtures("activation_order")
async def test_message_after_the_end_of_a_cancelled_run_is_answered(
    database: Database, history_events: int
) -> None:
    async def nothing() -> None: ...

    async def late() -> None:
        await scene.say("and what about this?")
        await scene.until_stored(3)

    limits = ConversationLimits(max_history_events=history_events)
    async with conversation(database, limits=limits) as scene:
        scene.model.replies += [scene.hang, ModelReply("Here I am.")]
        scene.steps.after["finish_turn"] = [nothing, late]
        await scene.say("create one")
        await scene.hanging.wait()
        await scene.say("and another")
        await scene.until_stored(2)
        await scene.handle.cancel()
        assert await scene.until_said(3) == "Here I am."
        assert (await scene.prompts())[-1] == (3, "and what about this?")
        await scene.until_idle()


async def test_message_in_the_inbox_of_a_cancelled_run_is_answered_by_the_next(
    database: Database,
) -> None:
    """By then no stored message of the run needs a turn."""

    async def nothing() -> None: ...

    async def thumb() -> None:
        await scene.thumb("+1", BEN)

    async def idle() -> bool:
        return not (await scene.handle.query("state"))["doing"]

    async def stored() -> None:
        batch = scene.requests("store_messages")[-1].messages
        if not any(each.kind == MessageKind.REACTION_ADDED for each in batch):
            return
        thumbs.append(len(batch))
        if len(thumbs) == 1:
            await scene.until(idle, "the last turn of the cancelled run is over")
            await thumb()
        elif len(thumbs) == 2:
            await scene.say("and what about this?")

    thumbs: list[int] = []
    limits = ConversationLimits(max_history_events=20)
    async with conversation(database, limits=limits) as scene:
        scene.model.replies += [scene.hang, ModelReply("Here I am.")]
        scene.steps.after["finish_turn"] = [nothing, thumb]
        scene.steps.after["store_messages"] = [stored] * 20
        await scene.say("create one")
        await scene.hanging.wait()
        await scene.say("and another")
        await scene.until_stored(2)
        await scene.handle.cancel()
        assert await scene.until_said(3) == "Here I am."


async def test_cancel_of_an_idle_run_says_nothing(database: Database) -> None:
    async with conversation(database) as scene:
        await scene.ask("any news")
        await scene.until_idle()
        await scene.handle.cancel()
        assert await scene.handle.result() == "cancelled"
        assert list(scene.said) == [1]
