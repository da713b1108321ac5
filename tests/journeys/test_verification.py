"""The nine points under "Verification" in the design of the bug bot, each on the whole product."""

import pytest
from temporalio.client import Client

from tests.support.journey_scene import JourneyScene
from threadline.cases.model import Action, CaseStatus, Reason
from threadline.threads.model import AGENTS_QUEUE, CORE_QUEUE
from threadline_devstack.slack.identity import (
    BYSTANDER,
    DEVELOPER,
    REPORTER,
    REPORTS,
    SECOND_DEVELOPER,
    SUMMARIES,
)
from threadline_devstack.stack import Stack
from threadline_devstack.stories.player import play

pytestmark = [
    pytest.mark.journey,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(120),
]

CLEAR = "The cart total is too high with the discount code SAVE10 and twelve notebooks."
SECOND_THOUGHT = "I had twelve notebooks in it. With nine notebooks the total is right."


async def test_1_start_the_worker(stack: Stack) -> None:
    client = await Client.connect(stack.temporal_address)
    for queue, activities in ((CORE_QUEUE, True), (AGENTS_QUEUE, True)):
        assert await pollers(client, queue, activities=activities)
    assert await pollers(client, CORE_QUEUE, activities=False)


async def test_2_send_a_vague_bug(scene: JourneyScene) -> None:
    await play(scene, "vague_report")
    [turn] = await scene.turns()
    assert turn.action is Action.ASK_REPORTER
    assert not (await scene.case()).summary


async def test_3_reply_as_reporter(scene: JourneyScene) -> None:
    await play(scene, "vague_report")
    await scene.reply(REPORTER, CLEAR)
    await scene.until_status(CaseStatus.PENDING_VERIFICATION)
    await scene.until_bot_says("SAVE10", "cart.py", channel=SUMMARIES)
    assert [turn.action for turn in await scene.turns()] == [
        Action.ASK_REPORTER,
        Action.POST_FINDINGS,
    ]


async def test_4_reporter_sends_a_second_message_mid_investigation(scene: JourneyScene) -> None:
    await play(scene, "vague_report")
    scene.model.holds.arm(scene.agent_hold)
    await scene.reply(REPORTER, CLEAR)
    await scene.model_waits_at(scene.agent_hold)
    await scene.reply(REPORTER, SECOND_THOUGHT)
    # Stored before the agent goes on, and not only at the end of its turn.
    await scene.until_stored(SECOND_THOUGHT, "reporter")
    assert (await scene.case()).status is CaseStatus.INVESTIGATING
    await scene.model.holds.release(scene.agent_hold)
    await scene.until_status(CaseStatus.PENDING_VERIFICATION)
    assert SECOND_THOUGHT in await read_by_tool(scene)


async def test_5_reply_as_a_third_party(scene: JourneyScene) -> None:
    await play(scene, "vague_report")
    await play(scene, "third_party")
    await scene.reply(BYSTANDER, "never mind")
    await scene.until_delivered()
    # A message of the reporter's comes after it in the same thread: by then the others' messages
    # would have had their effect.
    await scene.reply(REPORTER, CLEAR)
    await scene.until_status(CaseStatus.PENDING_VERIFICATION)
    assert "It works for me" not in await read_by_tool(scene)
    assert {entry.sender_id for entry in await scene.conversation()} & {BYSTANDER} == set()


async def test_6_reply_from_dev_in_bug_summaries(scene: JourneyScene) -> None:
    await report_and_findings(scene)
    scene.model.holds.arm(scene.agent_hold)
    await scene.discuss(DEVELOPER, "First: which release was it?")
    await scene.discuss(SECOND_DEVELOPER, "Second: I saw the same in the bulk price.")
    await scene.until_stored("First: which release was it?", "developer")
    await scene.until_stored("Second: I saw the same in the bulk price.", "developer")
    await scene.model.holds.release(scene.agent_hold)
    await scene.until(
        "the agent has used both", lambda: uses(scene, "First: which release", "Second: I saw")
    )
    read = await read_by_tool(scene)
    assert "First: which release was it?" in read
    assert "Second: I saw the same in the bulk price." in read


async def test_7_agent_skips_clarification(scene: JourneyScene) -> None:
    await play(scene, "vague_report")
    scene.model.holds.arm(scene.agent_hold)
    await scene.reply(REPORTER, "I mean the shop.")
    await scene.model_waits_at(scene.agent_hold)
    await scene.reply(REPORTER, CLEAR)
    await scene.until_stored(CLEAR, "reporter")
    await scene.model.holds.release(scene.agent_hold)
    await scene.until_status(CaseStatus.PENDING_VERIFICATION)
    assert (await scene.case()).questions == 1


async def test_8_close_intent(scene: JourneyScene) -> None:
    await play(scene, "vague_report")
    said = await scene.reply(REPORTER, "never mind")
    case = await scene.until_status(CaseStatus.RESOLVED)
    assert case.close_reason == Reason.REPORTER_CLOSED
    await scene.until_bot_says(channel=REPORTS, after=said)
    await scene.until_workflow_ended()
    await scene.until("the agent's files are gone", lambda: no_files(scene))


async def test_9_temporal_ui(scene: JourneyScene, stack: Stack) -> None:
    await play(scene, "vague_report")
    await scene.reply(REPORTER, CLEAR)
    await scene.until_status(CaseStatus.PENDING_VERIFICATION)
    await scene.until_bot_says("cart.py", channel=SUMMARIES)
    await scene.discuss(DEVELOPER, "The fix is merged and verified: it works.")
    await scene.until_status(CaseStatus.RESOLVED)
    await scene.until_workflow_ended()
    states = [step.to for step in await scene.transitions()]
    assert states == [
        CaseStatus.NEW,
        CaseStatus.INVESTIGATING,
        CaseStatus.AWAITING_REPORTER,
        CaseStatus.INVESTIGATING,
        CaseStatus.PENDING_VERIFICATION,
        CaseStatus.INVESTIGATING,
        CaseStatus.RESOLVED,
    ]
    assert await shown_states(stack, scene.workflow_id) == [
        "investigating",
        "awaiting_reporter",
        "investigating",
        "awaiting_dev",
        "investigating",
        "resolved",
    ]


async def report_and_findings(scene: JourneyScene) -> None:
    await scene.write_report(CLEAR)
    await scene.until_status(CaseStatus.PENDING_VERIFICATION)
    await scene.until_bot_says("SAVE10", channel=SUMMARIES)


async def read_by_tool(scene: JourneyScene) -> str:
    """The results of the agent's tools in this case, as one text."""
    contents = [
        block.get("content")
        for request in scene.model.requests(scene.bug_id)
        for message in request.messages
        if isinstance(message["content"], list)
        for block in message["content"]
        if block.get("type") == "tool_result"
    ]
    texts = [
        content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
        for content in contents
        if content
    ]
    return "\n".join(texts)


async def uses(scene: JourneyScene, *words: str) -> bool:
    turns = await scene.turns()
    said = "\n".join(f"{turn.outcome.summary} {turn.outcome.reply}" for turn in turns)
    return all(word in said for word in words)


async def no_files(scene: JourneyScene) -> bool:
    return not scene.workspaces


async def pollers(client: Client, queue: str, *, activities: bool) -> int:
    from temporalio.api.enums.v1 import TaskQueueType
    from temporalio.api.taskqueue.v1 import TaskQueue
    from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest

    kind = (
        TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY
        if activities
        else TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW
    )
    described = await client.workflow_service.describe_task_queue(
        DescribeTaskQueueRequest(
            namespace="default", task_queue=TaskQueue(name=queue), task_queue_type=kind
        )
    )
    return len(described.pollers)


async def shown_states(stack: Stack, workflow_id: str) -> list[str]:
    """The values of the search attribute CaseState over a workflow's history, without
    repetitions.
    """
    client = await Client.connect(stack.temporal_address)
    shown: list[str] = []
    async for event in client.get_workflow_handle(workflow_id).fetch_history_events():
        upserted = event.upsert_workflow_search_attributes_event_attributes
        changed = upserted.search_attributes.indexed_fields
        if "CaseState" in changed:
            value = changed["CaseState"].data.decode().strip('"')
            if shown[-1:] != [value]:
                shown.append(value)
    return shown
