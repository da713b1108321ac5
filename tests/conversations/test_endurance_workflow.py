"""A conversation survives lost workers, lost results, storms and continue-as-new without losing a
message.
"""

import asyncio
from collections import Counter

import pytest
from temporalio.exceptions import ApplicationError

from tests.support.conversation_scene import ANNA, BEN, ConversationScene, conversation
from tests.support.scripted_model import calls
from tests.support.temporal import skipping_time
from threadline.approvals.contract import APPROVAL_WORKFLOW, approval_workflow_id
from threadline.approvals.model import ApprovalRules, NewAction
from threadline.approvals.store import ApprovalStore
from threadline.conversations.contract import ThinkRequest
from threadline.conversations.model.conversation import ConversationLimits, NoticeReason
from threadline.conversations.store.transcript import TranscriptStore
from threadline.db.engine import Database
from threadline.models.model import ModelReply
from threadline.tools.context import ToolContext
from threadline.tools.model import Risk, ToolResult


async def _lost() -> None:
    """The activity's writes stay, and its result is lost."""
    raise ApplicationError("The answer was lost.")


@pytest.mark.parametrize("name", ["store_messages", "begin_turn", "think", "act", "finish_turn"])
async def test_activity_whose_result_was_lost_does_nothing_twice(
    database: Database, name: str
) -> None:
    script = calls("create:1"), ModelReply("It is there.")
    async with conversation(database, *script, server=skipping_time) as scene:
        scene.steps.after[name] = [_lost]
        await scene.say("create one")
        await scene.later(seconds=10)
        assert await scene.until_said(1) == "It is there."
        assert (len(scene.asked), scene.ran) == (2, ["create:1"])
        assert await scene.prompts() == [(1, "create one")]
        await scene.until_idle()
        assert (await scene.snapshot()).turn == 1
        assert len(scene.posted(scene.thread.channel)) == 1


@pytest.mark.records("talk_proposes")
async def test_proposal_of_a_turn_is_waited_for_after_its_result_was_lost(
    database: Database,
) -> None:
    async def propose(context: ToolContext) -> str:
        action = NewAction({"tool": "jira.create", "arguments": {}}, Risk.MEDIUM)
        async with database.begin() as tx:
            await ApprovalStore(tx).propose(context.change, action, ApprovalRules((BEN,)))
        return "proposed"

    script = calls("create:1"), ModelReply("I propose it.")
    async with conversation(
        database, *script, tools={"create": propose}, server=skipping_time
    ) as scene:
        scene.steps.after["finish_turn"] = [_lost]
        await scene.say("create one")
        await scene.later(seconds=10)
        assert await scene.until_said(1) == "I propose it."
        await scene.until_idle()
        begun = [
            event.start_child_workflow_execution_initiated_event_attributes
            for event in await scene.events()
            if event.HasField("start_child_workflow_execution_initiated_event_attributes")
        ]
        assert [(each.workflow_type.name, each.workflow_id) for each in begun] == [
            (APPROVAL_WORKFLOW, approval_workflow_id(scene.thread.team, "ACT-1"))
        ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "times"), [("look:1", 2), ("update:1", 1)], ids=["reads", "changes"]
)
async def test_turn_goes_on_with_another_worker(database: Database, name: str, times: int) -> None:
    """A call that may have changed something is not repeated: its result says that the outcome is
    unknown.
    """

    async def second(_: ToolContext) -> str:
        if not lost.is_set():
            acting.set()
            await scene.forever()
        return "done"

    acting = asyncio.Event()
    lost = asyncio.Event()
    script = calls("create:1"), calls(name), ModelReply("Both are done.")
    tools = {"look": second, "update": second}
    async with conversation(database, *script, tools=tools, working=False) as scene:
        async with scene.working():
            await scene.say("create one and go on")
            await acting.wait()
        lost.set()
        async with scene.working():
            assert await scene.until_said(1) == "Both are done."
        assert [request.step for request in scene.asked] == [1, 2, 3]
        assert scene.ran == ["create:1", *[name] * times]


async def test_turn_of_a_terminated_run_goes_on_with_the_next_message(database: Database) -> None:
    async with conversation(
        database, calls("create:1"), calls("look:1"), ModelReply("All is done.")
    ) as scene:
        scene.tools["look"] = scene.hang
        await scene.say("create one")
        await scene.hanging.wait()
        await scene.handle.terminate("by hand")
        del scene.tools["look"]
        assert await scene.ask("any news?") == "All is done."
        assert [request.step for request in scene.asked] == [1, 2, 3]
        assert Counter(scene.ran) == {"create:1": 1, "look:1": 2}
        assert await scene.prompts() == [(1, "create one"), (1, "any news?")]


@pytest.mark.records("talk_left_unsaid")
async def test_an_answer_that_a_terminated_run_did_not_post_is_posted_first(
    database: Database,
) -> None:
    async with conversation(database, ModelReply("First."), ModelReply("Second.")) as scene:
        await scene.settled_unposted("one", 1)
        await scene.handle.terminate("by hand")
        assert await scene.ask("two") == "Second."
        assert list(scene.said.items()) == [(1, "First."), (2, "Second.")]


async def _prompted(scene: ConversationScene) -> Counter[str]:
    return Counter(text for _, text in await scene.prompts())


async def _continued(scene: ConversationScene) -> bool:
    started = (await scene.events())[0].workflow_execution_started_event_attributes
    return bool(started.continued_execution_run_id)


@pytest.mark.slow
async def test_storm_of_messages_over_several_runs_is_answered_once_each(
    database: Database,
) -> None:
    async def slow(_: ThinkRequest) -> ModelReply:
        await asyncio.sleep(0.05)
        return calls("look:1") if len(scene.asked) % 3 == 1 else ModelReply("Yes.")

    async def answered() -> bool:
        snapshot = await scene.snapshot()
        return not (snapshot.turn_due or snapshot.unposted_turns)

    limits = ConversationLimits(max_history_events=30)
    async with conversation(database, *[slow] * 200, limits=limits) as scene:
        said = [scene.message(f"{number}", ANNA if number % 2 else BEN) for number in range(120)]
        for start in range(0, len(said), 6):
            burst = said[start : start + 6]
            await asyncio.gather(*(scene.send(message) for message in [*burst, burst[0]]))
        await scene.until_stored(len(said))
        await scene.until(answered, "everything is answered")
        await scene.until_idle()
        assert await _prompted(scene) == Counter(message.text for message in said)
        assert sorted(scene.said) == list(range(1, (await scene.snapshot()).turn + 1))
        replies = await scene.rows("SELECT 1 FROM transcript_entries WHERE key LIKE 'a:%'")
        assert len(scene.asked) == len(replies), "no reply was paid for twice"
        assert await _continued(scene), "it went through several runs"


@pytest.mark.slow
async def test_hanging_notice_does_not_stop_continue_as_new(database: Database) -> None:
    async with conversation(database, limits=ConversationLimits(max_history_events=40)) as scene:
        scene.steps.before["post_thread_notice"] = [scene.forever]
        await scene.ask("0")
        many = [scene.message(f"number {number}", apart=1) for number in range(10)]
        for message in many:
            await scene.send(message)
        await scene.until(
            lambda: not scene.steps.before["post_thread_notice"], "the message is on its way"
        )
        for number in range(6):
            before = len(scene.said)
            await scene.say(f"and this {number}?")
            await scene.until(lambda said=before: len(scene.said) > said, "it is answered")  # type: ignore[misc]
        await scene.until(lambda: _continued(scene), "the run continues as new")
        await scene.until(lambda: scene.words, "the author is told")
        assert scene.words == [(NoticeReason.THROTTLED, many[-1].ts)]


@pytest.mark.slow
async def test_message_that_comes_while_a_run_completes_is_answered(database: Database) -> None:
    async def read() -> bool:
        return (
            len(await scene.prompts()) == number + 1
            and not (await scene.snapshot()).unposted_turns
        )

    async with conversation(database, limits=ConversationLimits(idle_timeout=0)) as scene:
        runs = set()
        for number in range(25):
            await scene.say(f"{number}")
            runs.add((await scene.handle.describe()).run_id)
            await scene.until(read, "it is answered, and the run about to end")
            if number % 5 == 0:
                assert await scene.handle.result() == "idle", "others may all come before the end"
        assert await scene.handle.result() == "idle"
        assert await _prompted(scene) == Counter(str(number) for number in range(25))
        assert sorted(scene.said) == list(range(1, (await scene.snapshot()).turn + 1))
        assert len(runs) > 1, "some came too late for their run"


async def test_two_megabytes_of_output_add_less_than_20_kb_to_the_history(
    database: Database,
) -> None:
    async def much(_: ToolContext) -> ToolResult:
        return ToolResult(data="x" * 1024 * 1024)

    async def size() -> int:
        return sum(event.ByteSize() for event in await scene.events())

    long = ModelReply("A long story. " * 5_000)
    script = ModelReply("Hello."), calls("read:1"), calls("read:2"), long
    async with conversation(database, *script, tools={"read": much}) as scene:
        await scene.ask("any news")
        await scene.until_idle()
        before = await size()
        assert (await scene.ask("read it all")).startswith("A long story.")
        await scene.until_idle()
        assert await size() - before < 20_000
        async with scene.database.begin() as tx:
            kept = await TranscriptStore(tx).get(scene.thread, "a:2:3")
        assert kept
        assert kept.content == long.text


async def test_fault_in_a_step_fails_the_task_and_never_the_run(database: Database) -> None:
    async def broken() -> None:
        raise ApplicationError("nobody foresaw this", non_retryable=True)

    async def suspended() -> bool:
        failures = [
            each.workflow_task_failed_event_attributes.failure.message
            for each in await scene.events()
        ]
        return any("does not handle" in message for message in failures)

    async with conversation(database, ModelReply(), ModelReply()) as scene:
        scene.steps.before["finish_turn"] = [broken]
        await scene.say("any news")
        await scene.until(suspended, "the workflow's task fails")
