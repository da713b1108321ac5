"""A conversation answers each message once, in as few turns as possible, and ends when the thread
is silent.
"""

import asyncio
from typing import Any

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.client import WorkflowExecutionStatus
from temporalio.common import RawValue

from tests.support.conversation_scene import BEN, HANDOVERS, conversation
from tests.support.scripted_model import SILENT, calls
from tests.support.temporal import skipping_time
from threadline.conversations.activities import NOTHING_TO_STOP_REACTION, RECEIVED_REACTION
from threadline.conversations.contract import ThinkRequest
from threadline.conversations.model import answers
from threadline.conversations.model.conversation import (
    ConversationLimits,
    Execution,
    NoticeReason,
    OutcomeKind,
)
from threadline.conversations.store.messages import MessageStore
from threadline.db.engine import Database
from threadline.errors import Permanent
from threadline.models.model import ModelReply, ToolKind
from threadline.threads.model import INCOMING_MESSAGE, MessageKind
from threadline.tools.model import ToolStatus


def summaries(events: list[Any]) -> list[str]:
    """The summary of each activity in Temporal's UI, in order."""
    return [
        event.user_metadata.summary.data.decode().strip('"')
        for event in events
        if event.HasField("activity_task_scheduled_event_attributes")
    ]


@pytest.mark.records("talk_with_tools")
async def test_a_mention_is_thought_about_acted_on_and_answered(database: Database) -> None:
    script = (
        calls("estimates.getProjectDetails", says="I look it up."),
        ModelReply("It costs 100."),
    )
    async with conversation(database, *script) as scene:
        said = await scene.say("what does it cost?")
        assert await scene.until_said(1) == "It costs 100."
        assert await scene.prompts() == [(1, "what does it cost?")]
        assert (await scene.until_settled(1)).kind is OutcomeKind.ANSWERED
        assert (scene.settlement(1).answer_step, scene.settlement(1).text) == (2, "")
        await scene.until(
            lambda: scene.marked == {RECEIVED_REACTION: [said.ts]}, "the message is marked"
        )
        shown = summaries(await scene.events())
        assert shown == [
            "store 1 messages",
            "begin the turn",
            "decide what to do",
            "think 1",
            "tool estimates.getProjectDetails",
            "think 2",
            "finish turn 1: answered",
            "answer turn 1",
        ]


async def test_slack_and_temporal_show_what_the_bot_does(database: Database) -> None:
    working = asyncio.Event()

    async def slow(_: object) -> str:
        await working.wait()
        return "done"

    script = calls("estimates.getProjectDetails"), ModelReply("Which project?")
    async with conversation(
        database, *script, tools={"estimates.getProjectDetails": slow}
    ) as scene:
        await scene.say("what does it cost?")
        await scene.until_known("Working: running estimates.getProjectDetails")
        await scene.until(lambda: scene.status == "using get project details", "Slack shows it")
        assert (await scene.handle.query("state"))["state"] == "working"
        working.set()
        await scene.until_known("Waiting for a person: Which project?")
        assert scene.status == ""
        assert (await scene.handle.query("state"))["state"] == "awaiting_person"
        await scene.say("the second one")
        await scene.until_idle()
        assert (await scene.handle.query("state"))["state"] == "idle"


async def test_message_is_read_by_the_next_model_call_or_the_next_turn(database: Database) -> None:
    async def add(_: object) -> str:
        await scene.say("and make it two")
        await scene.until_stored(2)
        return "done"

    async def answer(_: ThinkRequest) -> ModelReply:
        await scene.say("and another thing")
        await scene.until_stored(3)
        return ModelReply("First.")

    script = calls("create"), answer, ModelReply("Second.")
    async with conversation(database, *script, tools={"create": add}) as scene:
        await scene.say("create one")
        assert (await scene.until_said(1), await scene.until_said(2)) == ("First.", "Second.")
        assert await scene.prompts() == [
            (1, "create one"),
            (1, "and make it two"),
            (2, "and another thing"),
        ]
        assert len(scene.asked) == 3


async def test_burst_of_messages_is_one_turn_and_each_signal_counts_once(
    database: Database,
) -> None:
    async def two_more() -> None:
        await scene.say("second")
        await scene.say("third")

    async with conversation(database, ModelReply("All three.")) as scene:
        scene.steps.after["store_messages"] = [two_more]
        first = scene.message("first")
        await asyncio.gather(*(scene.send(first) for _ in range(3)))
        await scene.until_said(1)
        burst = [(1, "first"), (1, "second"), (1, "third")]
        assert await scene.prompts() == burst
        assert len(scene.asked) == 1
        await scene.until(
            lambda: len(scene.marked.get(RECEIVED_REACTION, ())) == 3, "they are marked"
        )
        await scene.send(first)
        await scene.ask("and now?")
        assert await scene.prompts() == [*burst, (2, "and now?")]


@pytest.mark.records("talk_too_much")
async def test_refused_messages_are_marked_and_their_author_gets_one_notice(
    database: Database,
) -> None:
    async def all_read() -> bool:
        return len(await scene.prompts()) >= 10

    async with conversation(database) as scene:
        await scene.ask("0")
        again = scene.message("0", apart=1)
        more = [scene.message(f"number {number}", apart=1) for number in range(1, 12)]
        for message in (again, *more):
            await scene.send(message)
        await scene.until(lambda: sum(map(len, scene.marked.values())) == 13, "all are marked")
        assert (scene.marked["repeat"], scene.marked["hourglass"]) == (
            [again.ts],
            [more[9].ts, more[10].ts],
        )
        await scene.until(lambda: scene.words, "the author is told")
        await scene.until(all_read, "the accepted messages are read")
        await scene.until_idle()
        assert scene.words == [(NoticeReason.THROTTLED, more[9].ts)]
        assert [text for _, text in await scene.prompts()] == [
            "0",
            *(each.text for each in more[:9]),
        ]


async def test_author_of_a_message_refused_in_an_earlier_run_gets_a_notice(
    database: Database,
) -> None:
    """The run ended after it stored a message and before it judged it."""

    async with conversation(database) as scene:
        await scene.ask("0")
        many = [scene.message(f"number {number}", apart=1) for number in range(10)]
        async with scene.database.begin() as tx:
            await MessageStore(tx).store(scene.thread, many)
        await scene.handle.terminate("by hand")
        await scene.say("any news there")
        last = many[-1].ts
        await scene.until(
            lambda: scene.words == [(NoticeReason.THROTTLED, last)], "who wrote too much is told"
        )
        await scene.until(lambda: scene.marked.get("hourglass") == [last], "the message is marked")


@pytest.mark.records("talk_for_nobody")
async def test_an_unaddressed_thread_is_left_alone(database: Database) -> None:
    async with conversation(database) as scene:
        await scene.say("does anybody know?", addressed=False)
        assert await scene.handle.result() == "ignored"
        assert (scene.asked, scene.marked, scene.said) == ([], {}, {})


async def test_read_only_calls_of_one_reply_run_in_parallel(database: Database) -> None:
    async def look(_: object) -> str:
        await scene.until(lambda: scene.most_under_way > 1, "another call runs beside it")
        return "looked"

    wanted = [f"look:{number}" for number in range(20)]
    async with conversation(database, calls(*wanted), tools={"look": look}) as scene:
        await scene.ask("look at all of them")
        assert sorted(scene.ran) == sorted(wanted)
        assert [len(each.calls) for each in scene.requests("act")] == [10, 10]
        assert scene.most_under_way <= 10


async def test_a_stop_during_a_group_of_calls_begins_no_further_group(database: Database) -> None:
    async def look(_: object) -> str:
        if not stopping:
            stopping.append(True)
            await scene.stop_heard()
        return "looked"

    stopping: list[bool] = []
    wanted = [f"look:{number}" for number in range(12)]
    async with conversation(database, calls(*wanted), tools={"look": look}) as scene:
        await scene.say("look at all of them")
        await scene.until_said(1)
        settled = await scene.until_settled(1)
        assert settled.kind is OutcomeKind.STOPPED
        assert sorted(scene.ran) == sorted(wanted[:10])
        assert len(scene.requests("act")) == len(scene.asked) == 1


@pytest.mark.parametrize("name", ["create", "use"], ids=["fails to change", "binds the thread"])
async def test_calls_run_one_by_one_when_one_may_change_something(
    database: Database, name: str
) -> None:
    wanted = ["look:1", f"{name}:2", "look:3", f"{name}:4"]
    async with conversation(
        database, calls(*wanted), tools={"create": Permanent("It is locked.")}
    ) as scene:
        assert await scene.ask("do all of it") == "Done."
        assert scene.ran == wanted
        begun: set[int] = set()
        for event in await scene.events():
            if event.activity_task_scheduled_event_attributes.activity_type.name == "act":
                assert not begun, "the one before has ended"
                begun.add(event.event_id)
            begun.discard(event.activity_task_completed_event_attributes.scheduled_event_id)


@pytest.mark.records("talk_call_broke_off")
@pytest.mark.parametrize(
    ("name", "status"), [("look", ToolStatus.ERROR), ("ci.rerun", ToolStatus.UNKNOWN)]
)
async def test_a_call_that_loses_its_worker_is_reported_and_the_loop_goes_on(
    database: Database, name: str, status: ToolStatus
) -> None:
    """If the call may have changed something, the bot does not claim that it did not."""

    async def lost() -> None:
        raise RuntimeError("the worker was lost /var/lib/x")

    async with conversation(
        database, calls(name), ModelReply(), ModelReply(), server=skipping_time
    ) as scene:
        scene.steps.before["act"] = [lost] * 3
        await scene.say("run it again")
        await scene.later(minutes=2)
        await scene.until_said(1)
        kind = ToolKind.READ if status is ToolStatus.ERROR else ToolKind.CHANGE
        broken = Execution(
            name, name, status, "It was interrupted before it reported a result.", kind
        )
        assert (await scene.until_settled(1)).answer == answers.summary_text([broken])
        assert (len(scene.requests("act")), scene.ran) == (3, [])


@pytest.mark.records("talk_question_answered")
async def test_silence_ends_the_run_and_the_next_message_starts_another(
    database: Database,
) -> None:
    script = ModelReply("Which project?"), ModelReply("Thanks.")
    async with conversation(database, *script, server=skipping_time) as scene:
        await scene.ask("what does it cost?")
        await scene.until_known("Waiting for a person")
        await scene.later(hours=23)
        assert (await scene.handle.describe()).status is WorkflowExecutionStatus.RUNNING
        await scene.until_known("Waiting for a person")
        await scene.later(hours=2)
        assert await scene.handle.result() == "idle"
        first = (await scene.handle.describe()).run_id
        await scene.say("the second one")
        assert await scene.until_said(2) == "Thanks."
        assert (await scene.handle.describe()).run_id != first


async def test_message_that_needs_no_turn_postpones_the_end(database: Database) -> None:
    async with conversation(
        database, limits=ConversationLimits(idle_timeout=3600), server=skipping_time
    ) as scene:
        said = await scene.say("any news")
        await scene.until_said(1)
        await scene.later(minutes=40)
        await scene.send(scene.edit(said, "hullo"))
        await scene.until_stored(2)
        await scene.later(minutes=40)
        assert (await scene.handle.query("state"))["state"] == "idle"
        await scene.later(minutes=40)
        assert await scene.handle.result() == "idle"
        assert len(scene.asked) == 1


async def test_unreadable_signal_is_quarantined_and_the_conversation_goes_on(
    database: Database,
) -> None:
    async def quarantined() -> bool:
        return len(await scene.rows("SELECT 1 FROM quarantine")) == 2

    async with conversation(database) as scene:
        await scene.ask("any news")
        await scene.handle.signal(INCOMING_MESSAGE, args=["three", {"much": 1}, None])
        garbage = Payload(metadata={"encoding": b"json/plain"}, data=b"\xff{no json")
        await scene.handle.signal("nobody_knows_this", RawValue(payload=garbage))
        await scene.until(quarantined, "both are kept")
        await scene.ask("still there?")


# -- talk among people, and their clicks


@pytest.mark.records("talk_between_others")
async def test_a_message_that_is_not_for_the_bot_is_recorded_and_not_answered(
    database: Database,
) -> None:
    async with conversation(database, ModelReply("Hello."), SILENT) as scene:
        first = await scene.say("any news")
        await scene.until_said(1)
        await scene.say("Anna, did you see the match?", BEN, addressed=False)
        assert (await scene.until_settled(2)).kind is OutcomeKind.SILENT
        await scene.until_idle()
        assert (list(scene.said), scene.marked) == ([1], {RECEIVED_REACTION: [first.ts]})


async def test_thumb_is_stored_and_starts_no_turn_also_after_the_end(database: Database) -> None:
    async def put() -> list[str]:
        return [
            each.reaction
            for each in await scene.rows(
                "SELECT reaction FROM ratings WHERE active ORDER BY reaction"
            )
        ]

    async with conversation(database, ModelReply("Hello."), server=skipping_time) as scene:
        await scene.ask("any news")
        await scene.thumb("+1", BEN)
        await scene.until(lambda: put(), "the thumb is stored")
        await scene.thumb("+1", BEN, MessageKind.REACTION_REMOVED)
        await scene.until_idle()
        await scene.later(days=2)
        assert await scene.handle.result() == "idle"
        await scene.thumb("-1", BEN)
        await scene.later(days=2)
        assert await scene.handle.result() == "idle"
        assert await put() == ["-1"]
        assert (list(scene.said), list(scene.marked)) == ([1], [RECEIVED_REACTION])


async def test_stop_in_a_thread_that_a_person_has_taken_is_relayed(database: Database) -> None:
    async with conversation(database) as scene:
        first = await scene.say("any news there")
        await scene.until_said(1)
        await scene.take_over()
        stop = scene.message("stop", kind=MessageKind.STOP)
        await scene.send(stop)
        await scene.until(
            lambda: scene.marked == {RECEIVED_REACTION: [first.ts, stop.ts]}, "the stop is marked"
        )
        await scene.until(
            lambda: any("stop" in each for each in scene.posted(HANDOVERS)),
            "the person is shown it",
        )
        assert NOTHING_TO_STOP_REACTION not in scene.marked


@pytest.mark.records("relayed_edit")
async def test_an_edit_of_a_message_shown_to_a_person_is_shown_too(database: Database) -> None:
    async with conversation(database) as scene:
        await scene.ask("any news there")
        await scene.take_over()
        said = await scene.say("the account is 17")
        await scene.until(
            lambda: any("is 17" in each for each in scene.posted(HANDOVERS)),
            "the person is shown it",
        )
        await scene.until_settled(2)
        await scene.send(scene.edit(said, "the account is 71"))
        await scene.until(
            lambda: any("is 71" in each for each in scene.posted(HANDOVERS)), "the edit is shown"
        )
        assert not any("is 17" in each for each in scene.posted(HANDOVERS))


async def test_calls_of_a_group_that_fails_as_a_whole_are_run_each_by_itself(
    database: Database,
) -> None:
    """One call that takes its worker down does not make the nine that work look failed."""

    async def lost() -> None:
        raise Permanent("The worker was lost with one of these.")

    async with conversation(
        database, calls("look:1", "look:2"), ModelReply("Both are there.")
    ) as scene:
        scene.steps.before["act"] = [lost]
        assert await scene.ask("look at both") == "Both are there."
        assert [len(each.calls) for each in scene.requests("act")] == [2, 1, 1]
        kept = await scene.rows("SELECT status FROM agent_tool_executions")
        assert [each.status for each in kept] == ["ok", "ok"]
