"""Answers that Slack refuses are kept, delay no other answer, and are tried again when Slack may
accept them.
"""

import pytest

from tests.support.conversation_scene import ConversationScene, conversation
from tests.support.temporal import skipping_time
from threadline.db.engine import Database
from threadline.models.model import ModelReply

FIRST = ModelReply("First.")
SECOND = ModelReply("Second.")


def refuse(scene: ConversationScene) -> None:
    """Slack refuses the next post for good."""
    scene.slack.faults.refuse("chat.postMessage", "no_text")


async def refused(scene: ConversationScene, text: str, turn: int) -> None:
    """Somebody writes this, and Slack refuses the answer."""
    refuse(scene)
    await scene.say(text)
    await scene.until_settled(turn)
    await scene.until(
        lambda: not scene.slack.faults.ordered("chat.postMessage"), "the answer is refused"
    )
    await scene.until_idle()
    assert turn not in scene.said


async def test_refused_answer_does_not_delay_the_next(database: Database) -> None:
    async def refuse_again() -> None:
        refuse(scene)

    async with conversation(database, FIRST, SECOND, server=skipping_time) as scene:
        await refused(scene, "one", 1)
        posts = len(scene.requests("post_answer"))
        scene.steps.after["post_answer"] = [refuse_again]
        assert await scene.ask("two") == "Second."
        await scene.until(
            lambda: len(scene.requests("post_answer")) > posts + 1,
            "the first is tried again, in vain",
        )
        await scene.later(hours=25)
        assert await scene.handle.result() == "idle"
        assert scene.said == {2: "Second."}
        assert [each.turn for each in scene.requests("post_answer")] == [1, 2, 1]


async def test_refused_answer_is_posted_after_the_next_that_slack_accepts(
    database: Database,
) -> None:
    async with conversation(database, FIRST, SECOND) as scene:
        await refused(scene, "one", 1)
        await scene.say("two")
        await scene.until_said(1)
        assert list(scene.said.items()) == [(2, "Second."), (1, "First.")]


async def test_refused_answer_is_posted_first_by_the_next_run(database: Database) -> None:
    async with conversation(database, FIRST, SECOND, server=skipping_time) as scene:
        await refused(scene, "one", 1)
        await scene.later(hours=25)
        assert await scene.handle.result() == "idle"
        assert await scene.ask("two") == "Second."
        assert list(scene.said.items()) == [(1, "First."), (2, "Second.")]


async def test_answer_that_is_always_refused_does_not_hide_later_ones(database: Database) -> None:
    async with conversation(database, FIRST, SECOND) as scene:
        await refused(scene, "one", 1)
        await scene.settled_unposted("two", 2)
        await scene.handle.terminate("by hand")
        refuse(scene)
        await scene.send(scene.message("thanks", addressed=False))
        assert await scene.until_said(2) == "Second."


async def denied(
    scene: ConversationScene, text: str, turn: int, error: str = "invalid_auth"
) -> None:
    """Somebody writes this while Slack refuses all calls."""
    scene.slack.faults.denied = error
    await scene.say(text)
    await scene.until_settled(turn)
    await scene.until_idle()


@pytest.mark.parametrize(
    "error", ["invalid_auth", "token_expired", "is_archived", "not_in_channel", "missing_scope"]
)
async def test_answer_is_posted_within_minutes_once_slack_is_mended(
    database: Database, error: str
) -> None:
    async with conversation(database, FIRST, server=skipping_time) as scene:
        await denied(scene, "one", 1, error)
        await scene.later(hours=1)
        assert not scene.said
        scene.slack.faults.denied = ""
        await scene.later(minutes=6)
        await scene.until_said(1)
        assert scene.said == {1: "First."}


async def test_question_is_worked_on_while_an_answer_is_refused_and_order_is_kept(
    database: Database,
) -> None:
    async with conversation(database, FIRST, SECOND, server=skipping_time) as scene:
        await denied(scene, "one", 1)
        await denied(scene, "two", 2)
        assert len(scene.asked) == 2
        scene.slack.faults.denied = ""
        await scene.later(minutes=6)
        await scene.until_said(2)
        assert list(scene.said.items()) == [(1, "First."), (2, "Second.")]


async def test_answer_is_still_tried_after_the_run_would_have_ended(database: Database) -> None:
    async with conversation(database, FIRST, server=skipping_time) as scene:
        await denied(scene, "one", 1)
        await scene.later(hours=49)
        scene.slack.faults.denied = ""
        await scene.later(minutes=6)
        await scene.until_said(1)
        assert scene.said == {1: "First."}
