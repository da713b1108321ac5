"""The activities that a turn takes, also when Slack refuses its findings at first."""

from collections.abc import Sequence

import pytest
from sqlalchemy import text

from tests.support.case_scene import CaseScene, StartCase, outcome
from threadline.cases.model import Action
from threadline.threads.model import MessageKind
from threadline_devstack.slack import identity

POST = outcome(Action.POST_FINDINGS)
MORE = outcome(Action.POST_FINDINGS, "found more")
UPDATED = "I have updated the findings"


async def activities(scene: CaseScene, *, ended: bool = False) -> list[str]:
    """Return the activities that the case's workflow has scheduled, in order; with `ended`, also
    the completion of each.
    """
    asked: dict[int, str] = {}
    told = []
    for event in (await scene.handle.fetch_history()).events:
        if event.HasField("activity_task_scheduled_event_attributes"):
            name = event.activity_task_scheduled_event_attributes.activity_type.name
            asked[event.event_id] = name
            told.append(name)
        elif ended and event.HasField("activity_task_completed_event_attributes"):
            told.append(
                f"{asked[event.activity_task_completed_event_attributes.scheduled_event_id]} ended"
            )
    return told


def since(before: Sequence[str], now: Sequence[str]) -> list[str]:
    return sorted(now[len(before) :])


async def test_reply_takes_one_activity_for_each_step(start_case: StartCase) -> None:
    async with start_case(POST, POST) as scene:
        await scene.report()
        await scene.until_status("pending_verification")
        await scene.until_quiet()
        before = await activities(scene)
        await scene.reporter("and with three of them")
        await scene.until_status("pending_verification", "investigating", "pending_verification")
        await scene.until_quiet()
        steps = since(before, await activities(scene))
        cards = [each for each in steps if each == "update_card"]
        assert 1 <= len(cards) <= 2, "at the start of the turn, unless it is short, and at its end"
        assert [each for each in steps if each != "update_card"] == [
            "flush_messages",
            "post_investigation_results",
            "run_continuation_investigation",
            "save_investigation_result",
            "update_status",
        ]


@pytest.fixture
def hasty_posts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A post is retried after a second."""
    for name in ("RESEND_AFTER", "RESEND_ROOT_AFTER"):
        monkeypatch.setattr(f"threadline.threads.outbox.{name}", 1.5)


@pytest.mark.usefixtures("hasty_posts")
@pytest.mark.parametrize("trouble", ["refused for now", "answer lost", "refused for good"])
async def test_findings_that_slack_refuses_at_first_are_posted_once(
    start_case: StartCase, trouble: str
) -> None:
    async with start_case(POST, MORE) as scene:
        await scene.report()
        await scene.until_status("pending_verification")
        before = await activities(scene)
        if trouble == "refused for now":
            scene.slack.faults.fail_before("chat.postMessage")
        elif trouble == "answer lost":
            scene.slack.faults.fail_after("chat.postMessage")
        else:
            scene.slack.faults.refuse("chat.postMessage", "no_text")
        await scene.reporter("and with three of them")
        await scene.until_status("pending_verification", "investigating", "pending_verification")
        asked = since(before, await activities(scene))
        assert asked.count("save_investigation_result") == 1
        assert asked.count("post_investigation_results") == 1, "the same activity tries again"
        if trouble == "refused for good":
            await scene.until_said("I could not post my findings")
        else:
            assert scene.times_said("found more", identity.SUMMARIES) == 1
            assert scene.times_said(UPDATED, identity.SUMMARIES) == 1


@pytest.mark.usefixtures("hasty_posts")
async def test_close_while_findings_are_retried_leaves_no_claim_of_a_post(
    start_case: StartCase,
) -> None:
    async with start_case(POST, MORE) as scene:
        await scene.report()
        await scene.until_status("pending_verification")
        scene.slack.faults.fail_after("chat.postMessage")
        await scene.reporter("and with three of them")

        async def stored() -> bool:
            return scene.times_said(UPDATED, identity.SUMMARIES) == 1

        await scene.until(stored, "Slack has stored the note, and its answer was lost")
        await scene.reporter("never mind", MessageKind.CLOSE)
        await scene.until_status("resolved")
        await scene.result()
        async with scene.database.begin() as tx:
            unsure = await tx.scalar(text("SELECT count(*) FROM posts WHERE ts IS NULL"))
        assert unsure == 0
        assert scene.times_said(UPDATED, identity.SUMMARIES) == 1


@pytest.mark.records("burst_in_one_turn")
async def test_burst_during_the_storing_of_its_first_message_is_one_turn(
    start_case: StartCase,
) -> None:
    async with start_case(POST, POST) as scene:
        await scene.report()
        await scene.until_status("pending_verification")
        await scene.until_quiet()
        async with scene.database.begin() as tx:
            await tx.execute(
                text("SELECT FROM cases FOR UPDATE")
            )  # the first flush waits for the row of the case
            await scene.reporter("first")

            async def storing() -> bool:
                return (await activities(scene)).count("flush_messages") == 2

            await scene.until(storing, "the first message is being stored")
            for words in ("second", "third"):
                await scene.reporter(words)
        await scene.until_status("pending_verification", "investigating", "pending_verification")
        assert scene.agent.batches[1:] == [["first", "second", "third"]]
        steps = await activities(scene, ended=True)
        assert (
            steps[: steps.index("run_continuation_investigation")].count("flush_messages ended")
            == 3
        )
