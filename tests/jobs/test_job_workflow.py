"""A job waits for its time, runs once and stores its outcome; the server skips the waiting
time.
"""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, cast

import aiohttp
import pytest
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import CancelledError

from tests.jobs.job_scene import DIGEST, JobScene, job_scene
from tests.support.temporal import skip
from threadline.db.engine import Database, Transaction
from threadline.errors import Transient
from threadline.gateway.router import EventRouter, ThreadLookup
from threadline.gateway.routes import RoutingConfig
from threadline.jobs.model import AgentJob, JobStatus
from threadline.jobs.store import JobStore
from threadline.rfps.model import RfpStatus
from threadline.rfps.store import RfpStore
from threadline.slack.client import SlackClient, make_web_client
from threadline.slack.model import Thread, UserProfile
from threadline.slack.store import UserStore
from threadline.slack.users import UserDirectory
from threadline.threads.authors import AuthorPolicy
from threadline.threads.outbox import Post
from threadline_devstack.slack.identity import (
    BOT_TOKEN,
    BOT_USER,
    DEVELOPER,
    GENERAL,
    REPORTER,
    SUMMARIES,
    TEAM,
)

ELSEWHERE = Thread(TEAM, GENERAL, "1700000000.000100")


@pytest.fixture
async def scene(database: Database) -> AsyncIterator[JobScene]:
    async with job_scene(database) as made, made.working():
        yield made


def days_from_now(count: int) -> date:
    return (datetime.now(UTC) + timedelta(days=count)).date()


@pytest.mark.records("job_digest")
async def test_digest_is_posted_once_at_its_time(scene: JobScene) -> None:
    due = days_from_now(9)
    late = days_from_now(-2)
    await scene.rfp(due, title="A *crane*")
    overdue = await scene.rfp(late, RfpStatus.IN_PROGRESS, title="<!channel> bridge")
    await scene.rfp(due, RfpStatus.WON, title="Done")
    async with scene.database.begin() as tx:
        await UserStore(tx).save(TEAM, UserProfile(DEVELOPER, "", "Dora *Dee*", "", 0.0))
    job = await scene.schedule(after_minutes=90)
    shown = await scene.environment.client.get_workflow_handle(job.workflow_id).describe()
    assert await shown.memo() == {
        "job": "JOB-1",
        "type": DIGEST,
        "correlation_id": "turn-1",
        "rfp": "",
    }
    assert shown.workflow_type == "AgentJobWorkflow"
    assert (job.status, scene.said()) == (JobStatus.SCHEDULED, [])
    result = await scene.result(job)
    assert "2 open RFPs" in result
    assert GENERAL in result
    (said,) = scene.said()
    assert ("Dora Dee" in said, DEVELOPER in said) == (True, False)
    assert f"was due on {late.isoformat()}, " in said
    assert said.index(overdue) < said.index(f"due on {due.isoformat()}, in "), (
        "the most urgent one first"
    )
    assert "<!channel>" not in said
    assert "Done" not in said
    done = await scene.job()
    assert (done.status, done.runs, done.error, done.result) == (
        JobStatus.DONE,
        1,
        "",
        {"said": result},
    )


async def test_reminder_in_the_thread_follows_a_moved_due_date(scene: JobScene) -> None:
    rfp_id = await scene.rfp(days_from_now(60))
    job = await scene.schedule(
        "deadline_reminder", rfp_id=rfp_id, days_before=3, time_zone="Europe/Berlin"
    )
    for moved in (days_from_now(200), days_from_now(20)):
        await scene.patch(rfp_id, due_date=moved.isoformat())
        await skip(scene.environment, timedelta(hours=7))
        now = (await scene.job()).schedule.at
        assert now
        assert now.date() == moved - timedelta(days=3)
    assert scene.said() == []
    assert f"{rfp_id} is due on {moved.isoformat()}" in await scene.result(job)
    (said,) = scene.said()
    assert (rfp_id in said, f"<@{DEVELOPER}>" in said) == (True, True)
    messages = scene.slack.workspace.channel(GENERAL).messages.values()
    assert [each.root.ts for each in messages if each.root] == [scene.thread.ts]


@pytest.mark.records("job_reminder")
async def test_reminder_waits_while_there_is_no_due_date(scene: JobScene) -> None:
    rfp_id = await scene.rfp(days_from_now(5))
    job = await scene.schedule("deadline_reminder", rfp_id=rfp_id, time_zone="UTC")
    await scene.patch(rfp_id, due_date=None)
    await skip(scene.environment, timedelta(days=6))
    assert scene.said() == []
    await scene.patch(rfp_id, due_date=days_from_now(10).isoformat())
    assert "Posted a reminder" in await scene.result(job)


@pytest.mark.parametrize(("deleted", "reason"), [(False, "is won"), (True, "was deleted")])
async def test_reminder_of_an_ended_rfp_is_not_posted(
    scene: JobScene, deleted: bool, reason: str
) -> None:
    rfp_id = await scene.rfp(days_from_now(30))
    job = await scene.schedule("deadline_reminder", rfp_id=rfp_id, time_zone="UTC")
    if deleted:
        async with scene.database.begin() as tx:
            await RfpStore(tx).delete(TEAM, rfp_id)
    else:
        await scene.patch(rfp_id, status="won")
    assert reason in await scene.result(job)
    assert (scene.said(), (await scene.job()).status) == ([], JobStatus.DONE)


@pytest.mark.records("job_follow_up")
async def test_follow_up_is_asked_in_the_thread_in_the_persons_name(scene: JobScene) -> None:
    rfp_id = await scene.rfp()
    job = await scene.schedule(
        "follow_up", question="Is the *crane* on its way?", rfp_id=rfp_id, after_minutes=600
    )
    assert await scene.result(job) == "Asked the operator in the thread."
    (said,) = scene.said()
    assert f"<@{DEVELOPER}>" in said
    assert "JOB-1" in said
    await scene.until_answered()
    (asked,) = await scene.asked()
    question = f"Is the *crane* on its way? ({rfp_id})"
    assert (asked.sender_id, asked.message_text, asked.addressed) == (DEVELOPER, question, True)
    posted = [
        each
        for each in scene.slack.workspace.channel(GENERAL).messages.values()
        if each.user == BOT_USER
    ]
    assert posted[0].ts == asked.slack_ts, "reactions and order are those of the post"


async def test_repeated_run_posts_and_asks_nothing_twice(scene: JobScene) -> None:
    """Temporal has lost the workflow after its run, and it is started again."""
    job = await scene.schedule("follow_up", question="How far is it?", after_minutes=0)
    await scene.result(job)
    async with scene.database.begin() as tx:
        await tx.exec_driver_sql("UPDATE agent_jobs SET status = 'running', finished_at = NULL")
    assert await scene.sweep() == 1
    done = await scene.until_status(JobStatus.DONE)
    await scene.until_answered()
    assert (done.runs, len(scene.said()), len(await scene.asked())) == (1, 1, 1)


@pytest.mark.parametrize(
    ("change", "reason"),
    [({"deleted": True}, "is not in the channel"), ({"is_restricted": True}, "guest")],
)
async def test_follow_up_fails_for_a_person_who_left_or_became_a_guest(
    scene: JobScene, change: dict[str, Any], reason: str
) -> None:
    job = await scene.schedule("follow_up", question="How far is it?", after_minutes=600)
    users = scene.slack.workspace.users
    users[DEVELOPER] = replace(users[DEVELOPER], **change)
    async with aiohttp.ClientSession() as session:
        authors = AuthorPolicy(
            UserDirectory(
                SlackClient(make_web_client(BOT_TOKEN, scene.slack.api_url, session)).user
            )
        )
        router = EventRouter(
            RoutingConfig(), scene.environment.client, ThreadLookup(scene.database), authors
        )
        scene.activities.asker = router
        assert reason in await scene.result(job)
    (said,) = scene.said()
    assert "failed: " in said
    assert not await scene.asked()
    assert (await scene.job()).status is JobStatus.FAILED


async def test_run_cancelled_between_two_tries_finishes_what_it_began(scene: JobScene) -> None:
    """The run has posted that it asks, so it does ask."""
    work = scene.activities
    asking = work.asker

    class CancelledFirst:
        may_ask = asking.may_ask

        async def ask(self, *given: Any) -> None:
            work.asker = asking
            await scene.cancel("JOB-1", "x")
            raise Transient("Temporal is away.")

    work.asker = CancelledFirst()
    job = await scene.schedule("follow_up", question="How far is it?", after_minutes=0)
    with contextlib.suppress(WorkflowFailureError):
        await scene.result(job)
    await scene.until_answered()
    assert (len(scene.said()), len(await scene.asked())) == (1, 1)
    ended = await scene.job()
    assert (ended.status, ended.result) == (
        JobStatus.CANCELLED,
        {"said": "Asked the operator in the thread."},
    )


async def test_run_cancelled_as_it_began_is_at_work_and_comes_to_its_end(scene: JobScene) -> None:
    """The worker is lost right after it recorded the run: a canceller reads that the job is at
    work.
    """
    activities = scene.activities
    database = activities.database

    class Lossy:
        @contextlib.asynccontextmanager
        async def begin(self) -> AsyncIterator[Transaction]:
            async with database.begin() as tx:
                yield tx
            if (await scene.job()).status is JobStatus.RUNNING:
                activities.database = database
                assert (await scene.cancel("JOB-1", "x")).is_running
                raise Transient("The worker is lost.")

    activities.database = cast(Database, Lossy())
    job = await scene.schedule(after_minutes=60)
    with contextlib.suppress(WorkflowFailureError):
        await scene.result(job)
    ended = await scene.job()
    assert (ended.status, ended.runs, ended.is_running) == (JobStatus.CANCELLED, 1, False)
    assert len(scene.said()) == 1


@pytest.mark.records("job_cancelled")
async def test_cancelled_job_does_not_run(scene: JobScene) -> None:
    job = await scene.schedule(after_minutes=60)
    await scene.until_waiting(job)
    gone = await scene.cancel(job.job_id, "x")
    assert (gone.status, gone.is_running) == (JobStatus.CANCELLED, False)
    with pytest.raises(WorkflowFailureError) as ended:
        await scene.result(job)
    assert isinstance(ended.value.cause, CancelledError)
    for call_id in ("x", "y"):
        assert await scene.cancel(job.job_id, call_id) == gone
    assert await scene.sweep() == 0
    await skip(scene.environment, timedelta(hours=2))
    assert scene.said() == []


async def test_requester_gets_one_notice_that_names_the_canceller(scene: JobScene) -> None:
    async with scene.database.begin() as tx:
        await UserStore(tx).save(TEAM, UserProfile(REPORTER, "", "Rita *R*", "", 0.0))
    job = await scene.schedule(after_minutes=60)
    for _ in range(2):  # the response was lost
        await scene.cancel(job.job_id, "x", REPORTER, ELSEWHERE)
    await scene.cancel("JOB-1", "y", BOT_USER, ELSEWHERE)
    (told,) = scene.said()
    for part in (f"<@{DEVELOPER}>", "Rita R", "JOB-1"):
        assert part in told
    (post,) = [
        each for each in scene.slack.workspace.channel(GENERAL).messages.values() if each.bot_id
    ]
    assert post.thread_ts == scene.thread.ts


async def test_requester_who_cancels_or_reads_it_in_the_thread_gets_no_notice(
    scene: JobScene,
) -> None:
    for number, (who, thread) in enumerate(((DEVELOPER, ELSEWHERE), (REPORTER, scene.thread)), 1):
        job = await scene.schedule(after_minutes=60)
        await scene.cancel(job.job_id, f"x{number}", who, thread)
        assert (await scene.job(job.job_id)).status is JobStatus.CANCELLED
    assert scene.said() == []


@pytest.mark.records("job_cancelled_in_temporal")
async def test_job_cancelled_in_temporal_is_stored_as_cancelled(scene: JobScene) -> None:
    job = await scene.schedule(after_minutes=60)
    await scene.until_waiting(job)
    await scene.environment.client.get_workflow_handle(job.workflow_id).cancel()
    assert (await scene.until_status(JobStatus.CANCELLED)).runs == 0


@pytest.mark.records("job_fails")
async def test_failed_job_posts_its_reason_in_its_thread(scene: JobScene) -> None:
    job = await scene.schedule(channel=SUMMARIES, after_minutes=60)
    scene.slack.workspace.leave(SUMMARIES, BOT_USER)
    assert "The bot is not in the channel" in await scene.result(job)
    failed = await scene.job()
    assert (failed.status, "/invite" in failed.error) == (JobStatus.FAILED, True)
    (said,) = scene.said()
    assert "JOB-1" in said
    assert "will not run again" in said


async def test_run_fails_once_slack_was_away_for_too_long(
    scene: JobScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("threadline.jobs.activities.RUN_SECONDS", 0.0)
    publish = scene.activities.outbox.publish

    async def away(post: Post) -> str:
        if post.key.endswith(":trouble"):
            return await publish(post)
        raise Transient("Slack is away.")

    scene.activities.outbox.publish = away  # type: ignore[method-assign]
    assert await scene.result(await scene.schedule(after_minutes=0)) == "Slack is away."
    assert (await scene.job()).status is JobStatus.FAILED
    (said,) = scene.said()
    assert "failed: Slack is away." in said


async def test_run_whose_record_was_lost_for_long_is_found_done(
    scene: JobScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("threadline.jobs.activities.RUN_SECONDS", 0.0)
    finish = JobStore.finish

    async def away(*given: Any, **more: Any) -> AgentJob:
        monkeypatch.setattr(JobStore, "finish", finish)
        raise Transient("The database is away.")

    monkeypatch.setattr(JobStore, "finish", away)
    assert "Posted a digest" in await scene.result(await scene.schedule(after_minutes=0))
    assert ((await scene.job()).status, len(scene.said())) == (JobStatus.DONE, 1)


async def test_crash_before_the_job_starts_is_repaired(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object) -> None:
        raise Transient("Temporal is away.")

    async with job_scene(database) as scene:
        soon = (datetime.now(UTC) + timedelta(seconds=1)).isoformat()
        with monkeypatch.context() as patch:
            patch.setattr(scene.runner, "start", away)
            with pytest.raises(Transient):
                await scene.schedule(call_id="s1", retries_left=1, at=soon)
        async with scene.working():
            assert await scene.sweep() == 1
            assert (await scene.schedule(call_id="s1", at=soon)).job_id == "JOB-1"
            await scene.until_status(JobStatus.DONE)
            assert len(scene.said()) == 1
