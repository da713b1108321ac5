"""A notice in the thread announces a slow model: once, and before the answer."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.conversation_activities import ConversationActivityScene, make_talk, talk
from tests.support.temporal import until
from threadline.conversations.contract import FinishRequest, ThinkRequest, ThreadNotice
from threadline.conversations.model.conversation import NoticeReason, OutcomeKind
from threadline.errors import Transient
from threadline.models.model import ToolChoice
from threadline_devstack.models.script import ScriptTurn

__all__ = ["make_talk", "talk"]
WAITS = "I am still waiting for my language model."


@pytest.fixture
async def slow(talk: ConversationActivityScene) -> ConversationActivityScene:
    """A turn that has begun; its notice is due after 0.1 seconds."""
    talk.activities.deps = replace(talk.activities.deps, slow_after=0.1)
    await talk.said("How many lamps are there?")
    await talk.begin()
    return talk


def words(talk: ConversationActivityScene) -> list[str]:
    return [each.text for each in talk.posted()]


async def think(talk: ConversationActivityScene, step: int = 1, status: str = "thinking") -> None:
    request = ThinkRequest(talk.thread, 1, step, ToolChoice.AUTO, status=status)
    await talk.run(talk.activities.think, request)
    await talk.run(
        talk.activities.finish_turn,
        FinishRequest(talk.thread, 1, OutcomeKind.ANSWERED, answer_step=step),
    )
    await talk.post()


async def test_slow_model_is_announced_before_its_answer(slow: ConversationActivityScene) -> None:
    async def script(turn: ScriptTurn) -> None:
        await until(lambda: _told(slow), "the thread is told")
        await turn.text_only("Two.")

    slow.model.script(script)
    await think(slow)
    notice, answer = words(slow)
    assert notice.startswith(WAITS)
    assert " UTC that it has not." in notice
    assert answer == "Two."


async def test_earlier_attempts_count_towards_the_wait(slow: ConversationActivityScene) -> None:
    slow.activities.deps = replace(slow.activities.deps, slow_after=30.0)

    async def script(turn: ScriptTurn) -> None:
        await until(lambda: _told(slow), "the thread is told")
        await turn.text_only("Two.")

    slow.model.script(script)
    slow.scheduled_at = datetime.now(UTC) - timedelta(seconds=31)
    request = ThinkRequest(slow.thread, 1, 1, ToolChoice.AUTO, status="thinking")
    await slow.run(slow.activities.think, request, attempt=2)
    assert [each.startswith(WAITS) for each in words(slow)] == [True]


async def test_wait_of_a_turn_is_announced_once(slow: ConversationActivityScene) -> None:
    """Across its retries, and beside the workflow's notice that the model is away."""

    async def script(turn: ScriptTurn) -> None:
        await until(lambda: _told(slow), "the thread is told")
        await turn.text_only("Two.")

    slow.model.script(script)
    for _ in range(2):
        slow.activities.deps = replace(slow.activities.deps, slow_after=0.0)
        slow.model.fail_next(1, status=503)
        with pytest.raises(Transient):
            await think(slow)
        away = ThreadNotice(slow.thread, NoticeReason.MODEL_AWAY, about="1", until=1.0)
        await slow.run(slow.activities.post_thread_notice, away)
    await think(slow)
    assert [each == "Two." for each in words(slow)] == [False, True]


@pytest.mark.parametrize("status", ["thinking", ""])
async def test_fast_model_or_overheard_message_causes_no_notice(
    talk: ConversationActivityScene, status: str
) -> None:
    talk.activities.deps = replace(talk.activities.deps, slow_after=30.0 if status else 0.0)
    talk.replies("Two.")
    await talk.said("How many lamps are there?")
    await talk.begin()
    await think(talk, status=status)
    assert words(talk) == ["Two."]


async def test_notice_that_slack_refuses_keeps_no_answer_back(
    slow: ConversationActivityScene,
) -> None:
    slow.activities.deps = replace(slow.activities.deps, slow_after=0.0)
    slow.slack.faults.refuse("chat.postMessage", "restricted_action")
    slow.replies("Two.")
    await think(slow)
    assert words(slow) == ["Two."]


async def _told(talk: ConversationActivityScene) -> bool:
    return bool(words(talk))
