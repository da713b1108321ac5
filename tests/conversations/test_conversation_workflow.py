"""A conversation: what is said is answered once, in as few turns as can be, and the run ends in silence."""

import asyncio
from dataclasses import replace

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue

from tests.support.conversation_memory import SILENT, calls
from tests.support.conversation_workflow import ANNA, BEN, Talking, talking
from tests.support.temporal import real_time, skipping_time
from threadline.conversations.contract import Refusal, ThinkRequest, WordKind
from threadline.conversations.model import answers
from threadline.conversations.model.conversation import ConversationLimits
from threadline.errors import Permanent
from threadline.models.model import Execution, ExecutionStatus, ModelReply, OutcomeKind, ToolChoice
from threadline.threads import addressing, messages
from threadline.threads.messages import IncomingMessage


def summaries(history_events: list[object]) -> list[str]:
    """What Temporal's UI shows for each activity, in order."""
    return [
        event.user_metadata.summary.data.decode().strip('"')  # type: ignore[attr-defined]
        for event in history_events
        if event.HasField("activity_task_scheduled_event_attributes")  # type: ignore[attr-defined]
    ]


async def test_a_mention_is_thought_about_acted_on_and_answered() -> None:
    script = calls("estimates.getProjectDetails", text="I look it up."), ModelReply("It costs 100.")
    async with talking(*script) as talk:
        await talk.say("what does it cost?")
        assert await talk.until_said(1) == "It costs 100."
        assert talk.desk.prompts == [(1, "what does it cost?")]
        settled = talk.desk.settled[1]
        assert (settled.kind, settled.answered_at, settled.text) == (OutcomeKind.ANSWERED, 2, "")
        await talk.until(lambda: talk.desk.markers, "the message is marked")
        assert [marker.name for marker in talk.desk.markers] == ["eyes"]
        shown = summaries(list((await talk.handle.fetch_history()).events))
        for summary in ("think 1", "tool estimates.getProjectDetails", "think 2", "answer turn 1"):
            assert summary in shown


async def test_what_the_bot_does_is_shown_under_the_thread_and_in_the_ui() -> None:
    working = asyncio.Event()

    async def slow(_: object) -> str:
        await working.wait()
        return "done"

    script = calls("estimates.getProjectDetails"), ModelReply("Which project?")
    async with talking(*script, tools={"estimates.getProjectDetails": slow}) as talk:
        await talk.say("what does it cost?")
        await talk.until_known("Working: running estimates.getProjectDetails")
        await talk.until(lambda: "using get project details" in talk.desk.statuses, "Slack shows it")
        assert (await talk.handle.query("state"))["state"] == "working"
        working.set()
        await talk.until_known("Waiting for a person: Which project?")
        assert (await talk.handle.query("state"))["state"] == "awaiting_person"
        await talk.say("the second one")
        await talk.until_known("Idle since ")
        assert (await talk.handle.query("state"))["state"] == "idle"


async def test_a_message_while_the_bot_works_is_in_the_next_call_of_the_model() -> None:
    async def add(_: object) -> str:
        await talk.say("and make it two")
        await talk.until_stored(2)
        return "done"

    async with talking(calls("create"), ModelReply("Both are there."), tools={"create": add}) as talk:
        await talk.say("create one")
        await talk.until_said(1)
        assert talk.desk.prompts == [(1, "create one"), (1, "and make it two")]
        assert len(talk.desk.asked) == 2
        assert list(talk.desk.said) == [1]


async def test_a_message_during_the_last_call_of_the_model_is_in_the_next_turn() -> None:
    async def answer(_: ThinkRequest) -> ModelReply:
        await talk.say("and another thing")
        await talk.until_stored(2)
        return ModelReply("First.")

    async with talking(answer, ModelReply("Second.")) as talk:
        await talk.say("one thing")
        assert (await talk.until_said(1), await talk.until_said(2)) == ("First.", "Second.")
        assert talk.desk.prompts == [(1, "one thing"), (2, "and another thing")]


async def test_what_comes_while_a_burst_is_stored_is_one_turn() -> None:
    async def two_more() -> None:
        await talk.say("second")
        await talk.say("third")

    async with talking(ModelReply("All three.")) as talk:
        talk.desk.hooks["store_messages"] = [two_more]
        await talk.say("first")
        await talk.until_said(1)
        assert talk.desk.prompts == [(1, "first"), (1, "second"), (1, "third")]
        assert len(talk.desk.asked) == 1
        await talk.until(lambda: talk.desk.markers, "they are marked")
        assert [len(marker.items) for marker in talk.desk.markers] == [3]


async def test_a_signal_that_comes_twice_is_one_message() -> None:
    """On the server that people run: the one for tests refuses the loser of two signals that start one workflow."""
    async with talking(ModelReply("Once."), server=real_time) as talk:
        said = talk.message("hello")
        await asyncio.gather(*(talk.send(said) for _ in range(3)))
        await talk.until_said(1)
        await talk.send(said)
        await talk.say("and now?")
        await talk.until_said(2)
        assert talk.desk.prompts == [(1, "hello"), (2, "and now?")]


async def test_what_the_guards_refuse_is_marked_and_told_once() -> None:
    verdicts = {"again": Refusal.DUPLICATE, "11": Refusal.THROTTLED_FIRST, "12": Refusal.THROTTLED}
    async with talking() as talk:
        talk.desk.judge = lambda message: verdicts.get(message.text)
        await talk.say("hello")
        await talk.until_said(1)
        for text in verdicts:
            await talk.say(text)
        await talk.until(lambda: sum(len(marker.items) for marker in talk.desk.markers) == 4, "all are marked")
        marked = sorted(marker.name for marker in talk.desk.markers for _ in marker.items)
        assert marked == ["eyes", "hourglass", "hourglass", "repeat"]
        await talk.until(lambda: talk.desk.words, "the writer is told")
        throttled = [row.message.ts for row in talk.desk.rows.values() if row.message.text == "11"]
        assert [(word.kind, word.about) for word in talk.desk.words] == [(WordKind.THROTTLED, throttled[0])]
        assert len(talk.desk.asked) == 1


async def test_a_thread_that_nobody_addressed_is_left_alone() -> None:
    async with talking() as talk:
        await talk.say("does anybody know?", addressed=False)
        assert await talk.handle.result() == "ignored"
        assert (talk.desk.asked, talk.desk.markers, talk.desk.said) == ([], [], {})


async def test_what_is_not_for_the_bot_is_recorded_and_not_answered() -> None:
    async with talking(ModelReply("Hello."), SILENT) as talk:
        await talk.say("hello")
        await talk.until_said(1)
        await talk.say("Anna, did you see the match?", BEN, addressed=False)
        await talk.until(lambda: 2 in talk.desk.settled, "the turn is settled")
        assert talk.desk.settled[2].kind is OutcomeKind.SILENT
        await talk.until_known("Idle since ")
        assert list(talk.desk.said) == [1]


async def test_who_addressed_the_bot_amid_a_turn_is_answered() -> None:
    """It came while the model looked at something that was not for it: the reply it had ready is asked for again."""

    async def silent(_: ThinkRequest) -> ModelReply:
        await talk.say("bot, what do you say?", BEN)
        await talk.until_stored(3)
        return SILENT

    async with talking(ModelReply("Hello."), calls("look", read_only=True), silent, ModelReply("I say yes.")) as talk:
        await talk.say("hello")
        await talk.until_said(1)
        await talk.say("Anna, did you see the match?", BEN, addressed=False)
        assert await talk.until_said(2) == "I say yes."
        assert [request.choice for request in talk.desk.asked[1:]] == [ToolChoice.AUTO] * 3
        assert talk.desk.settled[2].answered_at == 3


@pytest.mark.parametrize("read_only", [True, False])
async def test_twenty_calls_of_one_reply_run_side_by_side_only_when_all_only_read(read_only: bool) -> None:
    async def look(_: object) -> str:
        await asyncio.sleep(0)
        if read_only:
            await talk.until(lambda: talk.desk.most_under_way > 1, "another call runs beside it")
        return "looked"

    wanted = [f"look:{number}" for number in range(19)]
    reply = calls(*wanted, read_only=True)
    last = calls("look:19", read_only=read_only)
    both = ModelReply(calls=reply.calls + last.calls)
    async with talking(both, ModelReply("Looked.")) as talk:
        talk.desk.tools = {"look": look}
        await talk.say("look at all of them")
        await talk.until_said(1)
        assert sorted(talk.desk.ran) == sorted([*wanted, "look:19"])
        if read_only:
            assert talk.desk.most_under_way > 1
        else:
            assert talk.desk.most_under_way == 1
            assert talk.desk.ran == [*wanted, "look:19"]


async def test_a_call_that_may_decide_what_the_thread_is_about_runs_in_its_order() -> None:
    reads = calls("look:1", "use:2", "look:3", read_only=True).calls
    wanted = (reads[0], replace(reads[1], binds=True), reads[2])
    async with talking(ModelReply(calls=wanted), ModelReply("Looked.")) as talk:
        await talk.say("use the web shop and look at it")
        await talk.until_said(1)
        assert talk.desk.ran == ["look:1", "use:2", "look:3"]
        begun: set[int] = set()
        for event in (await talk.handle.fetch_history()).events:
            if event.activity_task_scheduled_event_attributes.activity_type.name == "act":
                assert not begun, "the one before has ended"
                begun.add(event.event_id)
            begun.discard(event.activity_task_completed_event_attributes.scheduled_event_id)


@pytest.mark.parametrize(("read_only", "status"), [(True, ExecutionStatus.ERROR), (False, ExecutionStatus.UNKNOWN)])
async def test_a_call_that_broke_off_is_told_and_the_loop_goes_on(read_only: bool, status: ExecutionStatus) -> None:
    """Where it may have changed something, nobody says that it did not."""
    script = calls("ci.rerun", read_only=read_only), ModelReply(), ModelReply()
    async with talking(*script, server=skipping_time) as talk:
        lost = RuntimeError("the worker was lost /var/lib/x")
        talk.desk.tools = {"ci.rerun": lost}
        await talk.say("run it again")
        await talk.later(minutes=2)
        answer = await talk.until_said(1)
        broken = Execution("ci.rerun", "ci.rerun", status, "It was interrupted before it reported a result.", read_only)
        assert answer == answers.summary([broken])
        assert len(talk.desk.ran) == 3, "three attempts"


async def test_a_call_that_went_wrong_does_not_keep_the_others_from_running() -> None:
    script = calls("look:1", "create:2", "create:3"), ModelReply("Some of it.")
    async with talking(*script) as talk:
        talk.desk.tools = {"create": Permanent("It is locked.")}
        await talk.say("create both")
        assert await talk.until_said(1) == "Some of it."
        assert talk.desk.ran == ["look:1", "create:2", "create:3"]


async def test_silence_ends_the_run_and_the_next_message_starts_another() -> None:
    async with talking(ModelReply("Which project?"), ModelReply("Thanks."), server=skipping_time) as talk:
        await talk.say("what does it cost?")
        await talk.until_said(1)
        await talk.until_known("Waiting for a person")
        await talk.later(hours=23)
        await talk.until_known("Waiting for a person")
        await talk.later(hours=2)
        assert await talk.handle.result() == "quiet"
        first = (await talk.handle.describe()).run_id
        await talk.say("the second one")
        assert await talk.until_said(2) == "Thanks."
        assert (await talk.handle.describe()).run_id != first


async def test_what_wants_no_turn_puts_the_silence_off() -> None:
    async with talking(limits=ConversationLimits(quiet=3600), server=skipping_time) as talk:
        await talk.say("hello")
        await talk.until_said(1)
        await talk.later(minutes=40)
        await talk.send(_edit(talk))
        await talk.until_stored(2)
        await talk.later(minutes=40)
        assert (await talk.handle.query("state"))["state"] == "idle"
        await talk.later(minutes=40)
        assert await talk.handle.result() == "quiet"
        assert len(talk.desk.asked) == 1


def _edit(talk: Talking) -> IncomingMessage:
    original = next(iter(talk.desk.rows.values())).message
    identity = addressing.edit_id(talk.thread.team, talk.thread.channel, original.ts, "1.1")
    return IncomingMessage(
        identity, messages.EDIT, messages.UNKNOWN, ANNA, "hullo", talk.thread.channel, original.ts, original.id, "1.1"
    )


async def test_a_signal_that_cannot_be_read_is_kept_and_the_conversation_goes_on() -> None:
    async with talking(server=real_time) as talk:
        await talk.say("hello")
        await talk.until_said(1)
        await talk.handle.signal(addressing.INCOMING_MESSAGE, args=["three", {"much": 1}, None])
        await talk.handle.signal("nobody_knows_this", RawValue(payload=_garbage()))
        await talk.until(lambda: len(talk.desk.quarantined) == 2, "both are kept")
        await talk.say("still there?")
        await talk.until_said(2)


def _garbage() -> Payload:
    return Payload(metadata={"encoding": b"json/plain"}, data=b"\xff{no json")
