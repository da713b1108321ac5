"""The status under a thread while the bot works, on Slack's wire."""

import asyncio
import time
from dataclasses import replace

from structlog.testing import capture_logs

from tests.support.conversation_activities import ConversationActivityScene, Make, make_talk, talk
from tests.support.temporal import until
from threadline.conversations.contract import FinishRequest, ThinkRequest
from threadline.conversations.model.conversation import OutcomeKind
from threadline.conversations.status import DELAY, showing_status
from threadline.models.model import ToolChoice
from threadline.slack.client import SlackClient
from threadline_devstack.models.script import ScriptTurn

__all__ = ["make_talk", "talk"]


def status(talk: ConversationActivityScene) -> str:
    return talk.slack.workspace.status(talk.thread.channel, talk.thread.ts)


async def _shown(talk: ConversationActivityScene) -> bool:
    return bool(status(talk))


async def think(talk: ConversationActivityScene, words: str = "thinking") -> None:
    await talk.said("How many lamps are there?")
    await talk.begin()
    await talk.run(
        talk.activities.think, ThinkRequest(talk.thread, 1, 1, ToolChoice.AUTO, status=words)
    )


async def test_status_is_shown_while_the_model_thinks_and_cleared_by_the_answer(
    talk: ConversationActivityScene,
) -> None:
    seen: list[str] = []

    async def script(turn: ScriptTurn) -> None:
        await until(lambda: _shown(talk), "the status is shown")
        seen.append(status(talk))
        await turn.text_only("Two.")

    talk.model.script(script)
    await think(talk)
    assert seen == ["thinking"]
    await talk.run(
        talk.activities.finish_turn,
        FinishRequest(talk.thread, 1, OutcomeKind.ANSWERED, answer_step=1),
    )
    await talk.post()
    assert status(talk) == ""


async def test_no_status_is_shown_for_a_step_that_ends_at_once_or_has_none(
    talk: ConversationActivityScene,
) -> None:
    async with showing_status(talk.client, talk.thread, "thinking"):
        pass
    before = asyncio.all_tasks()
    async with showing_status(talk.client, talk.thread, ""):
        assert asyncio.all_tasks() == before, "nothing that would show one later"
    assert status(talk) == ""


async def test_silent_end_clears_the_status(talk: ConversationActivityScene) -> None:
    """A turn that is left to a person posts nothing that would."""
    talk.replies("NO_REPLY")
    await think(talk)
    talk.slack.workspace.show_status(talk.thread.channel, talk.thread.ts, "thinking")
    end = FinishRequest(talk.thread, 1, OutcomeKind.SILENT)
    await talk.run(talk.activities.finish_turn, end)
    assert status(talk) == "thinking", "it never showed one"
    await talk.run(talk.activities.finish_turn, replace(end, status_shown=True))
    assert status(talk) == ""


async def test_slack_that_refuses_a_status_does_not_fail_the_step(make_talk: Make) -> None:
    talk = make_talk()
    client: SlackClient = talk.client

    async def refused() -> bool:
        return any(each["event"] == "status_update_failed" for each in logged)

    with capture_logs() as logged:
        async with showing_status(client, replace(talk.thread, channel="C0NOWHERE"), "thinking"):
            await until(refused, "Slack refuses the status")


async def test_cancelled_step_does_not_wait_for_slack(talk: ConversationActivityScene) -> None:
    begun = asyncio.Event()

    async def step() -> None:
        async with showing_status(talk.client, talk.thread, "thinking"):
            begun.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(step())
    await begun.wait()
    task.cancel()
    done, _ = await asyncio.wait([task], timeout=DELAY / 2)
    assert done


async def test_status_that_slack_takes_late_delays_nothing_and_is_taken_away(
    talk: ConversationActivityScene,
) -> None:
    talk.slack.faults.slow("assistant.threads.setStatus", 1.5)

    async def cleared() -> bool:
        return status(talk) == ""

    async with showing_status(talk.client, talk.thread, "thinking"):
        await until(lambda: _shown(talk), "Slack has it, and has not answered")
        ended = time.monotonic()
    assert time.monotonic() - ended < 0.5
    assert status(talk) == "thinking"
    await until(cleared, "it is taken away, since an answer may have come before it")


async def test_status_that_comes_late_leaves_the_next_one_alone(
    talk: ConversationActivityScene,
) -> None:
    talk.slack.faults.slow("assistant.threads.setStatus", 1.0)
    async with showing_status(talk.client, talk.thread, "thinking"):
        await until(lambda: _shown(talk), "Slack has it, and has not answered")

    async def using() -> bool:
        return status(talk) == "using a tool"

    async with showing_status(talk.client, talk.thread, "using a tool"):
        await until(using, "the next one is shown")
        await asyncio.sleep(1.5)
        assert status(talk) == "using a tool"
