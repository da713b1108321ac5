"""Posts of a case that Slack refuses until an admin fixes the cause: the case waits, and its
status says so.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest
from sqlalchemy import text

from tests.support.case_scene import REPORTER, CaseScene, HeldTurn, StartCase, outcome
from tests.support.temporal import skipping_time
from threadline.cases.model import Action, CaseLimits
from threadline.slack.model import FileRef
from threadline.threads.model import MessageKind, SenderType
from threadline_devstack.slack.identity import ESCALATIONS, REPORTS, SUMMARIES

ASK = Action.ASK_REPORTER
POST = Action.POST_FINDINGS
ESCALATE = Action.ESCALATE
RESOLVE = Action.RESOLVED


def archive(scene: CaseScene, channel: str, *, archived: bool = True) -> None:
    scene.slack.workspace.channel(channel).is_archived = archived


async def until_refused(scene: CaseScene, turn: int = 1) -> None:
    """Wait until the turn is settled and its posts were refused."""

    async def settled() -> bool:
        try:
            return (await scene.case()).turn >= turn
        except Exception:  # noqa: BLE001 - there is no case yet
            return False

    await scene.until(settled, f"turn {turn} is settled")
    await scene.until_quiet()


@pytest.mark.parametrize(
    "error",
    ["invalid_auth", "token_revoked", "missing_scope", "not_in_channel", "ekm_access_denied"],
)
async def test_findings_that_slack_refuses_are_posted_once_it_accepts_them(
    start_case: StartCase, error: str
) -> None:
    async with start_case(outcome(POST), server=skipping_time) as scene:
        scene.slack.faults.denied = error
        await scene.report()
        await until_refused(scene)
        await scene.later(minutes=30)
        await scene.until_quiet()
        assert await scene.statuses() == ["new", "investigating"]
        scene.slack.faults.denied = ""
        await scene.later(minutes=6)
        await scene.until_status("investigating", "pending_verification")
        assert scene.times_said("found it", SUMMARIES) == 1
        assert [said.split("**")[0] for said in scene.said(REPORTS)][:1] == ["Thank you, this is "]
        assert (await scene.transitions())[-1].reason == "findings_posted"
        assert len(scene.agent.requests) == 1


async def test_close_does_not_wait_for_refused_findings(start_case: StartCase) -> None:
    async with start_case(outcome(POST), server=skipping_time) as scene:
        archive(scene, SUMMARIES)
        await scene.report()
        await until_refused(scene)
        await scene.reporter("never mind", MessageKind.CLOSE)
        await scene.until_status("investigating", "resolved")
        assert await scene.result() == "resolved"
        assert sum(said.startswith("**BUG-1** is") for said in scene.said()) == 1


@pytest.fixture
def hasty_posts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a post count as stored by Slack within a second, or never."""
    for name in ("RESEND_AFTER", "RESEND_ROOT_AFTER"):
        monkeypatch.setattr(f"threadline.threads.outbox.{name}", 1.5)


async def ledger(scene: CaseScene) -> dict[str, str | None]:
    async with scene.database.begin() as tx:
        return {row.key: row.ts for row in await tx.execute(text("SELECT key, ts FROM posts"))}


async def until_sent(scene: CaseScene) -> None:
    """Wait until the call that an ordered fault hits was made."""

    async def sent() -> bool:
        return not scene.slack.faults.ordered("chat.postMessage")

    await scene.until(sent, "the post is sent")


@pytest.mark.usefixtures("hasty_posts")
@pytest.mark.parametrize("arrives", [True, False])
@pytest.mark.parametrize("key", ["BUG-1:intake:0", "BUG-1:summary"])
async def test_close_settles_a_post_that_may_be_in_slack(
    start_case: StartCase, key: str, *, arrives: bool
) -> None:
    held = HeldTurn()
    async with start_case(held, server=skipping_time) as scene:
        faults = scene.slack.faults
        order: Callable[[str], None] = faults.fail_after if arrives else faults.fail_before
        if key == "BUG-1:intake:0":
            order("chat.postMessage")
        await scene.report()
        await held.began.wait()
        if key != "BUG-1:intake:0":
            await scene.until_said("Thank you")
            order("chat.postMessage")
            held.finish.set()
        await until_sent(scene)
        faults.denied = "invalid_auth"
        held.finish.set()
        await until_refused(scene)
        assert (await ledger(scene))[key] is None, "the search for it was refused, too"
        await scene.reporter("never mind", MessageKind.CLOSE)
        await scene.until_status("investigating", "resolved")
        await scene.until_quiet()
        assert (await ledger(scene))[key] is None
        faults.denied = ""
        await scene.later(minutes=6)
        assert await scene.result() == "resolved"
        settled = await ledger(scene)
        assert None not in settled.values()
        assert (key in settled) is arrives


@pytest.mark.usefixtures("hasty_posts")
async def test_people_on_call_read_the_end_when_only_the_end_finds_their_post(
    start_case: StartCase,
) -> None:
    held = HeldTurn(outcome(ESCALATE))
    async with start_case(held, server=skipping_time) as scene:
        await scene.report()
        await held.began.wait()
        await scene.until_said("Thank you")
        scene.slack.faults.slow(
            "chat.postMessage", 0.0, count=2
        )  # the summary thread and its findings
        scene.slack.faults.fail_after("chat.postMessage")
        held.finish.set()
        await until_sent(scene)
        scene.slack.faults.denied = "invalid_auth"
        await until_refused(scene)
        assert (await ledger(scene))["BUG-1:escalation:1"] is None
        await scene.reporter("never mind", MessageKind.CLOSE)
        await scene.until_status("new", "investigating", "resolved")
        scene.slack.faults.denied = ""
        await scene.later(minutes=6)
        assert await scene.result() == "resolved"
        (root,) = (ts for key, ts in (await ledger(scene)).items() if key == "BUG-1:escalation:1")
        assert root
        await scene.until_said_under(root, "as its reporter asked")


async def test_message_is_answered_while_findings_are_refused_and_order_is_kept(
    start_case: StartCase,
) -> None:
    first = outcome(POST, summary="The first cause.")
    second = outcome(POST, summary="The second cause.")
    async with start_case(first, second, server=skipping_time) as scene:
        archive(scene, SUMMARIES)
        await scene.report()
        await until_refused(scene)
        await scene.reporter("it also happens on Mondays")
        await until_refused(scene, 2)
        archive(scene, SUMMARIES, archived=False)
        await scene.later(minutes=6)
        await scene.until_status("investigating", "pending_verification")
        _, findings, note = scene.said(SUMMARIES)
        assert "The second cause." in findings, "the first ones were posted, and then replaced"
        assert "I have updated the findings: the summary." in note


async def test_run_that_continues_another_posts_the_findings_that_were_refused(
    start_case: StartCase,
) -> None:
    limits = CaseLimits(max_history_events=11)
    async with start_case(
        outcome(POST), outcome(ASK), server=skipping_time, limits=limits
    ) as scene:
        archive(scene, SUMMARIES)
        await scene.report()
        await until_refused(scene)
        await scene.reporter("it also happens on Mondays")
        await scene.until_status("investigating", "awaiting_reporter")
        await scene.until_quiet()
        archive(scene, SUMMARIES, archived=False)
        await scene.later(minutes=50)
        await scene.until_said("found it", SUMMARIES)
        assert scene.times_said("found it", SUMMARIES) == 1


async def test_question_waits_until_it_can_be_asked(start_case: StartCase) -> None:
    async with start_case(outcome(ASK), server=skipping_time) as scene:
        archive(scene, REPORTS)
        await scene.report()
        await until_refused(scene)
        assert await scene.statuses() == ["new", "investigating"]
        archive(scene, REPORTS, archived=False)
        await scene.later(minutes=6)
        await scene.until_status("investigating", "awaiting_reporter")
        assert "Thank you" in scene.said()[0]


async def test_people_are_called_once_their_channel_accepts_posts(start_case: StartCase) -> None:
    async with start_case(outcome(ESCALATE), server=skipping_time) as scene:
        archive(scene, ESCALATIONS)
        await scene.report()
        await scene.until_said("could not call anyone")
        await until_refused(scene)
        assert await scene.statuses() == ["new", "investigating"]
        archive(scene, ESCALATIONS, archived=False)
        await scene.later(minutes=6)
        await scene.until_status("investigating", "escalated")
        assert scene.times_said("needs a person", ESCALATIONS) == 1
        assert scene.times_said("could not call anyone") == 1


@pytest.mark.parametrize("mended", [[ESCALATIONS], [ESCALATIONS, REPORTS], [REPORTS, ESCALATIONS]])
async def test_people_are_called_after_an_intermediate_question(
    start_case: StartCase, mended: list[str]
) -> None:
    async with start_case(outcome(ESCALATE), outcome(ASK), server=skipping_time) as scene:
        archive(scene, ESCALATIONS)
        await scene.report()
        await scene.until_said("could not call anyone")
        await until_refused(scene)
        words = "it also happens on Mondays"
        posted = scene.slack.workspace.post(REPORTS, REPORTER, words, thread_ts=scene.thread.ts)
        for channel in mended:
            archive(scene, channel)
        await scene.send(
            scene.message(MessageKind.MESSAGE, SenderType.REPORTER, REPORTER, words, posted.ts)
        )
        await until_refused(scene, 2)
        for channel in mended:
            archive(scene, channel, archived=False)
            await scene.later(minutes=50)
            await scene.until_quiet()
        assert await scene.statuses() == ["new", "investigating", "awaiting_reporter"]
        assert scene.times_said("needs a person", ESCALATIONS) == 1
        assert scene.times_said("Which browser?") == 1


async def test_close_after_a_question_drops_the_call_for_people(start_case: StartCase) -> None:
    async with start_case(outcome(ESCALATE), outcome(ASK), server=skipping_time) as scene:
        archive(scene, ESCALATIONS)
        await scene.report()
        await scene.until_said("could not call anyone")
        await until_refused(scene)
        await scene.reporter("it also happens on Mondays")
        await scene.until_status("investigating", "awaiting_reporter")
        await scene.reporter("never mind", MessageKind.CLOSE)
        await scene.until_status("awaiting_reporter", "resolved")
        archive(scene, ESCALATIONS, archived=False)
        assert await scene.result() == "resolved"
        assert scene.times_said("needs a person", ESCALATIONS) == 0


async def test_end_that_slack_refuses_is_posted_later(start_case: StartCase) -> None:
    async with start_case(outcome(RESOLVE), server=skipping_time) as scene:
        scene.slack.faults.denied = "invalid_auth"
        await scene.report()
        await until_refused(scene)
        await scene.reporter("never mind", MessageKind.CLOSE)
        await scene.until_status("investigating", "resolved")
        await scene.later(minutes=20)
        scene.slack.faults.denied = ""
        await scene.later(minutes=6)
        assert await scene.result() == "resolved"
        assert [said.startswith("**BUG-1** is") for said in scene.said()] == [True]


async def test_findings_that_slack_never_accepts_do_not_count_as_posted(
    start_case: StartCase,
) -> None:
    turn = HeldTurn(outcome(POST))
    async with start_case(turn) as scene:
        await scene.report()
        await turn.began.wait()
        await scene.until_only_the_turn_runs()
        scene.slack.faults.refuse("chat.postMessage", "no_text")
        turn.finish.set()
        await scene.until_status("investigating", "pending_verification")
        await scene.until_said("I could not post my findings")
        assert (await scene.transitions())[-1].reason == "findings_refused"


async def attach(scene: CaseScene) -> None:
    file = scene.slack.workspace.add_file("log.txt", REPORTER, b"It broke at noon.")
    report = scene.message(
        MessageKind.REPORT, SenderType.REPORTER, REPORTER, "See the log", scene.thread.ts
    )
    await scene.send(replace(report, files=(FileRef(file.id, "log.txt", "text/plain", 17),)))


async def is_stored(scene: CaseScene) -> bool:
    return bool(await files(scene))


async def files(scene: CaseScene) -> list[tuple[bytes | None, str]]:
    async with scene.database.begin() as tx:
        rows = await tx.execute(text("SELECT content, error FROM attachments"))
    return [(each.content, each.error or "") for each in rows]


@pytest.mark.parametrize(
    "error", ["invalid_auth", "token_revoked", "account_inactive", "ekm_access_denied"]
)
async def test_file_is_fetched_once_slack_accepts_the_bot_again(
    start_case: StartCase, error: str
) -> None:
    async with start_case(outcome(POST), server=skipping_time) as scene:
        scene.slack.faults.denied = error
        await attach(scene)
        await scene.until(lambda: is_stored(scene), "the case is there")
        await scene.later(hours=2)
        await scene.until_quiet()
        assert (await files(scene), scene.agent.requests) == ([(None, "")], [])
        scene.slack.faults.denied = ""
        await scene.later(minutes=6)
        await scene.until_status("investigating", "pending_verification")
        assert await files(scene) == [(b"It broke at noon.", "")]


@pytest.mark.parametrize("error", ["missing_scope", "access_denied", "file_not_found"])
async def test_file_that_slack_refuses_delays_no_turn(start_case: StartCase, error: str) -> None:
    async with start_case(outcome(POST)) as scene:
        scene.slack.faults.refuse("files.info", error, 20)
        await attach(scene)
        await scene.until_status("investigating", "pending_verification")
        ((content, why),) = await files(scene)
        assert content is None
        assert why
