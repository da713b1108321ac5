"""Processes that end in mid-work lose nothing, and the bot says nothing twice."""

import asyncio

import pytest

from tests.support.journey_scene import JourneyScene
from threadline.cases.model import CaseStatus
from threadline_devstack.slack.identity import BOT_USER, REPORTER, REPORTS, SUMMARIES
from threadline_devstack.stack import Stack
from threadline_devstack.stories.scene import message_text

pytestmark = [
    pytest.mark.journey,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(180),
]

CLEAR = "The cart total is too high with the discount code SAVE10 and twelve notebooks."


async def test_a_turn_whose_worker_was_killed_is_run_again_and_reported_once(
    scene: JourneyScene, stack: Stack
) -> None:
    await scene.write_report("Something is broken.")
    await scene.until_status(CaseStatus.AWAITING_REPORTER)
    scene.model.holds.arm(scene.agent_hold)
    await scene.reply(REPORTER, CLEAR)
    await scene.model_waits_at(scene.agent_hold)
    await stack.processes.kill("agents")
    await scene.model.holds.release(scene.agent_hold)
    await stack.processes.restart("agents")
    await scene.until_status(CaseStatus.PENDING_VERIFICATION, seconds=120)
    await scene.until_bot_says("SAVE10", channel=SUMMARIES)
    assert (await scene.turns())[-1].attempt == 2
    assert await told(scene, SUMMARIES, "SAVE10") == 1


async def test_a_message_written_while_the_core_worker_is_away_is_answered_when_it_is_back(
    scene: JourneyScene, stack: Stack
) -> None:
    await scene.write_report("Something is broken.")
    await scene.until_status(CaseStatus.AWAITING_REPORTER)
    await stack.processes.kill("core")
    await scene.reply(REPORTER, CLEAR)
    await scene.until_delivered()
    await stack.processes.restart("core")
    await scene.until_status(CaseStatus.PENDING_VERIFICATION, seconds=60)
    assert [entry.text for entry in await scene.conversation()].count(CLEAR) == 1


async def test_a_message_written_while_the_gateway_is_away_reaches_its_case(
    scene: JourneyScene, stack: Stack
) -> None:
    await scene.write_report("Something is broken.")
    await scene.until_status(CaseStatus.AWAITING_REPORTER)
    await stack.processes.kill("gateway")
    await scene.reply(REPORTER, CLEAR)
    await stack.processes.restart("gateway")
    await scene.until_status(CaseStatus.PENDING_VERIFICATION, seconds=90)
    assert [entry.text for entry in await scene.conversation()].count(CLEAR) == 1


async def test_everything_restarts_under_a_case_and_it_goes_on(
    scene: JourneyScene, stack: Stack
) -> None:
    await scene.write_report("Something is broken.")
    await scene.until_status(CaseStatus.AWAITING_REPORTER)
    await asyncio.gather(
        *(stack.processes.restart(name) for name in ("gateway", "core", "agents"))
    )
    await scene.reply(REPORTER, CLEAR)
    await scene.until_status(CaseStatus.PENDING_VERIFICATION, seconds=60)
    assert await told(scene, REPORTS, "A question about") == 1


async def told(scene: JourneyScene, channel: str, words: str) -> int:
    """The number of the bot's posts that hold the words."""
    said = [
        message_text(message)
        for message in scene.thread(channel)
        if message.get("user") == BOT_USER
    ]
    return sum(words in text for text in said)
