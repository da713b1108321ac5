"""Input that nobody hopes for, on the whole product: said where a person sees it, nothing lost, the workflow alive."""

import asyncio
import base64
import os
import shutil
import tempfile
from pathlib import Path

import pytest

from threadline.devstack import environment
from threadline.devstack.scene import Scene
from threadline.devstack.slack_sandbox.identity import BYSTANDER, REPORTER, REPORTS, SUMMARIES
from threadline.devstack.stack import Stack, Wishes
from threadline.domain.bug import Action, CaseStatus

pytestmark = [pytest.mark.journey, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]

CLEAR = "The cart total is too high with the discount code SAVE10 and twelve notebooks."


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        pytest.param("", "", id="an empty report"),
        pytest.param(":fire: :fire:", ":fire: :fire:", id="only emoji"),
        pytest.param("bell \x07, escape \x1b[31m, and \x00 nothing", None, id="control characters"),
        pytest.param("it is broken " * 4000, None, id="more than 40,000 characters"),
    ],
)
async def test_a_report_that_says_nothing_useful_is_asked_about(scene: Scene, text: str, stored: str | None) -> None:
    await scene.write_report(text)
    await scene.until_bot_says(scene.bug_id)
    await scene.until_status(CaseStatus.AWAITING_REPORTER)
    report = (await scene.conversation())[0].text
    assert "\x00" not in report
    assert len(report) <= 40_000
    assert stored is None or report == stored
    await scene.reply(REPORTER, CLEAR)
    await scene.until_status(CaseStatus.PENDING_VERIFICATION)


async def test_a_report_that_is_only_a_file_becomes_a_case(scene: Scene) -> None:
    content = base64.b64encode(b"Traceback: SAVE10").decode()
    uploaded = await scene.slack.post("files", user=REPORTER, name="trace.txt", content_base64=content)
    await scene.write_report("", files=[uploaded["file"]["id"]])
    await scene.until_status(CaseStatus.AWAITING_REPORTER)


async def test_a_report_by_a_bot_is_nobodys(scene: Scene) -> None:
    ts = await scene.slack.say(BYSTANDER, REPORTS, CLEAR, bot_id="B0OTHER", subtype="bot_message")
    await scene.until_delivered()
    # A person's report that comes after it is taken up: by then the bot's would have been, too.
    await scene.write_report(CLEAR)
    assert not [message for message in await scene.slack.thread(REPORTS, ts) if message["ts"] != ts]


async def test_the_same_event_three_times_at_once_is_one_case(scene: Scene) -> None:
    await scene.slack.fault("duplicate", count=1, copies=3)
    await scene.write_report(CLEAR)
    await scene.slack.fault("duplicate", count=2, copies=3)
    await scene.reply(REPORTER, "I use Firefox.")
    await scene.slack.fault("duplicate", count=2, copies=3)
    await scene.reply(REPORTER, "On Linux.")
    await scene.until_stored("On Linux.", "reporter")
    await scene.until_delivered()
    said = [entry.text for entry in await scene.conversation()]
    assert [said.count(text) for text in (CLEAR, "I use Firefox.", "On Linux.")] == [1, 1, 1]


async def test_a_reply_that_comes_before_the_case_exists_is_part_of_it(scene: Scene) -> None:
    scene.report = await scene.slack.say(REPORTER, REPORTS, "Something is broken.")
    await scene.reply(REPORTER, CLEAR)
    scene.bug_id = await scene.until("the report becomes a case", scene.find_case)
    await scene.until_stored(CLEAR, "reporter")
    await scene.until_status(CaseStatus.PENDING_VERIFICATION)


async def test_a_path_in_a_report_is_only_text(scene: Scene) -> None:
    await scene.write_report(f"@/etc/passwd {CLEAR} @~/.ssh/id_rsa")
    await scene.until_status(CaseStatus.PENDING_VERIFICATION)
    assert "root:x:0:" not in str(await scene.model.requests(scene.bug_id))


async def test_a_model_that_refuses_the_request_is_told_to_people(scene: Scene) -> None:
    await scene.write_report("Something is broken.")
    await scene.until_status(CaseStatus.AWAITING_REPORTER)
    # More than the agent's own retries.
    await scene.model.fail(status=400, count=10, bug_id=scene.bug_id)
    await scene.reply(REPORTER, CLEAR)
    await scene.until_status(CaseStatus.ESCALATED)
    assert (await scene.turns())[-1].action is Action.ESCALATE
    await scene.until_bot_says(scene.bug_id, channel=SUMMARIES)


async def test_a_model_that_is_down_is_asked_again_until_it_answers(scene: Scene) -> None:
    await scene.write_report("Something is broken.")
    await scene.until_status(CaseStatus.AWAITING_REPORTER)
    # More than the agent's own retries: its whole attempt fails.
    await scene.model.fail(status=529, count=4, bug_id=scene.bug_id)
    await scene.reply(REPORTER, CLEAR)
    await scene.until_status(CaseStatus.PENDING_VERIFICATION, seconds=90)
    assert (await scene.turns())[-1].attempt > 1


async def test_findings_for_a_channel_that_the_bot_is_not_in_are_announced_in_the_report(scene: Scene) -> None:
    await scene.slack.post("channels/leave", channel=SUMMARIES, user="U0THREADLINE")
    try:
        await scene.write_report(CLEAR)
        await scene.until_bot_says(scene.bug_id, "could not be posted")
    finally:
        await scene.slack.post("channels/join", channel=SUMMARIES, user="U0THREADLINE")
    await scene.reply(REPORTER, "Any news?")
    await scene.until_bot_says("SAVE10", channel=SUMMARIES)


async def test_a_repository_that_cannot_be_cloned_is_told_to_people() -> None:
    folder = Path(tempfile.mkdtemp(prefix="threadline-journey-"))
    given = environment.pick(os.environ, environment.MACHINE) | {"THREADLINE_REPO": str(folder / "nowhere.git")}
    async with Stack.running(folder, Wishes(given=given)) as stack, Scene.on(stack) as scene:
        await scene.write_report(CLEAR)
        await scene.until_status(CaseStatus.ESCALATED)
        assert "nowhere" in (await scene.turns())[-1].failure
        await scene.reply(REPORTER, "never mind")
        await scene.until_status(CaseStatus.RESOLVED)
    await asyncio.to_thread(shutil.rmtree, folder)
