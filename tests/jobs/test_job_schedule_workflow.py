"""Jobs on Temporal's dev server: its schedules fire crons, and a run posts once, also in races."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
from temporalio.client import ScheduleOverlapPolicy, WorkflowFailureError
from temporalio.service import RPCError, RPCStatusCode

from tests.jobs.job_scene import DIGEST, JobScene, job_scene
from tests.support.patience import patient
from tests.support.temporal import until, with_schedules
from threadline.db.engine import Database
from threadline.errors import Transient
from threadline.jobs.model import AgentJob, JobStatus
from threadline.jobs.schedules import CATCHUP_WINDOW
from threadline.jobs.store import JobStore
from threadline_devstack.slack.identity import BOT_USER, SUMMARIES, TEAM

WEEKLY: dict[str, Any] = {"cron": "0 9 * * 1", "time_zone": "Europe/Berlin"}


@pytest.fixture
async def scene(database: Database) -> AsyncIterator[JobScene]:
    async with job_scene(database, with_schedules) as made:
        yield made


async def fire(scene: JobScene, job: AgentJob) -> None:
    """Run the cron now. A run is named by its second, and skipped while another is under way."""
    handle = scene.environment.client.get_schedule_handle(job.workflow_id)
    begun = int(time.time())

    async def is_free() -> bool:
        return int(time.time()) > begun and not (await handle.describe()).info.running_actions

    await until(is_free, "another second has come, and no run is under way")
    await handle.trigger()


@pytest.mark.records("job_cron")
async def test_cron_runs_and_posts_each_time(scene: JobScene) -> None:
    async with scene.working():
        job = await scene.schedule(**WEEKLY)
        for number in (1, 2):
            await fire(scene, job)
            run = await scene.until_run(number)
            assert (run.status, run.error) == (JobStatus.SCHEDULED, "")
        assert len(scene.said()) == 2
        described = await scene.environment.client.get_schedule_handle(job.workflow_id).describe()
    policy = described.schedule.policy
    assert (policy.overlap, policy.catchup_window) == (ScheduleOverlapPolicy.SKIP, CATCHUP_WINDOW)
    assert await described.memo() == {
        "job": "JOB-1",
        "type": DIGEST,
        "correlation_id": "turn-1",
        "rfp": "",
    }
    standing = await scene.runner.describe(job)
    assert (standing.exists, standing.state) == (True, "scheduled")
    assert standing.next_times[0] > datetime.now(UTC)
    assert standing.next_times[0].weekday() == 0


async def test_repeated_call_makes_one_schedule_and_a_lost_one_is_repaired(
    scene: JobScene,
) -> None:
    async def call(number: int) -> AgentJob:
        while True:
            # Another attempt is in progress: tried again later, as Temporal does.
            with contextlib.suppress(Transient):
                return await scene.schedule(call_id="s1", retries_left=1, **WEEKLY)
            await asyncio.sleep(0.2 * number)

    jobs = await asyncio.gather(*(call(number) for number in range(1, 5)))
    assert {each.job_id for each in jobs} == {"JOB-1"}
    assert await scene.sweep() == 0
    handle = scene.environment.client.get_schedule_handle(jobs[0].workflow_id)
    await handle.delete()
    assert await scene.sweep() == 1
    assert (await handle.describe()).id == jobs[0].workflow_id, "the lost schedule is there again"


async def test_failing_cron_posts_one_notice_and_runs_again(scene: JobScene) -> None:
    async with scene.working():
        job = await scene.schedule(channel=SUMMARIES, **WEEKLY)
        scene.slack.workspace.leave(SUMMARIES, BOT_USER)
        for number in (1, 2):
            await fire(scene, job)
            assert "/invite" in (await scene.until_run(number)).error
        scene.slack.workspace.join(SUMMARIES, BOT_USER)
        await fire(scene, job)
        run = await scene.until_run(3)
    assert (run.status, run.error) == (JobStatus.SCHEDULED, "")
    (told,) = scene.said()
    assert "The next run is on Mon " in told
    assert len(scene.said(SUMMARIES)) == 1


async def test_cancelled_cron_does_not_run_again(scene: JobScene) -> None:
    async with scene.working():
        job = await scene.schedule(**WEEKLY)
        gone = await scene.cancel(job.job_id, "x")
        assert gone.status is JobStatus.CANCELLED
        with pytest.raises(RPCError):
            await fire(scene, job)
        assert await scene.cancel(job.job_id, "x") == gone
    assert scene.said() == []


@pytest.mark.parametrize("forgotten", [False, True])
async def test_schedule_that_outlives_its_job_ends_when_it_fires(
    scene: JobScene, forgotten: bool
) -> None:
    """Temporal was away when the job was cancelled; with `forgotten`, its row is pruned by
    then.
    """
    async with scene.working():
        job = await scene.schedule(**WEEKLY)
        async with scene.database.begin() as tx:
            await JobStore(tx).cancel(TEAM, job.job_id, time.time())
            if forgotten:
                await JobStore(tx).prune(time.time() + 60)
        await fire(scene, job)

        async def gone() -> bool:
            try:
                await scene.environment.client.get_schedule_handle(job.workflow_id).describe()
            except RPCError as error:
                return error.status is RPCStatusCode.NOT_FOUND
            return False

        await until(gone, "the schedule is gone")
    assert scene.said() == []


async def test_cancelling_one_run_of_a_cron_leaves_the_job(scene: JobScene) -> None:
    job = await scene.schedule(**WEEKLY)
    await fire(scene, job)
    handle = scene.environment.client.get_schedule_handle(job.workflow_id)

    async def begun() -> bool:
        return bool((await handle.describe()).info.running_actions)

    await until(begun, "a run waits for a worker")
    run: Any = (await handle.describe()).info.running_actions[0]
    await scene.environment.client.get_workflow_handle(run.workflow_id).cancel()
    async with scene.working():
        with pytest.raises(WorkflowFailureError):
            await scene.environment.client.get_workflow_handle(run.workflow_id).result()
        assert (await scene.job()).status is JobStatus.SCHEDULED
        await fire(scene, job)
        await scene.until_run(1)
    assert len(scene.said()) == 1


@pytest.mark.records("job_cancelled_before_it_waits")
async def test_job_cancelled_as_it_begins_to_wait_does_not_run(scene: JobScene) -> None:
    """The cancellation arrives before or during the first look at the job."""
    async with scene.working():
        for call_id in ("s1", "s2", "s3"):
            job = await scene.schedule(call_id=call_id, after_minutes=60)
            await scene.cancel(job.job_id, f"x{call_id}")
            with pytest.raises(WorkflowFailureError):
                await scene.result(job)
            assert (await scene.job(job.job_id)).status is JobStatus.CANCELLED
    assert scene.said() == []


@pytest.mark.parametrize("when", [{"after_minutes": 0}, WEEKLY])
async def test_job_cancelled_while_it_runs_finishes_its_run(
    scene: JobScene, when: dict[str, Any]
) -> None:
    posting = asyncio.Event()
    go_on = asyncio.Event()
    outbox = scene.activities.outbox
    publish = outbox.publish

    async def slowly(post: object) -> str:
        ts = await publish(post)  # type: ignore[arg-type]
        posting.set()
        await go_on.wait()
        return ts

    outbox.publish = slowly  # type: ignore[method-assign]
    async with scene.working():
        job = await scene.schedule(**when)
        if "cron" in when:
            await fire(scene, job)
        await asyncio.wait_for(posting.wait(), patient(20))
        gone = await scene.cancel(job.job_id, "x")
        assert (gone.status, gone.is_running) == (JobStatus.CANCELLED, True)
        go_on.set()

        async def settled() -> bool:
            return (await scene.job()).finished_at is not None

        await until(settled, "the outcome is on record")
        ended = await scene.job()
    assert (ended.status, ended.runs, len(scene.said())) == (JobStatus.CANCELLED, 1, 1)
    assert ended.result == {"said": f"Posted a digest of 0 open RFPs in {scene.thread.channel}."}


async def test_worker_that_dies_amid_a_run_leaves_one_post(scene: JobScene) -> None:
    """The post was sent, and the worker was lost before it reported that."""
    posted = asyncio.Event()
    outbox = scene.activities.outbox
    publish = outbox.publish

    async def lost(post: object) -> str:
        await publish(post)  # type: ignore[arg-type]
        posted.set()
        raise RuntimeError("the worker is gone")

    outbox.publish = lost  # type: ignore[method-assign]
    job = await scene.schedule(after_minutes=0)
    async with scene.working():
        await asyncio.wait_for(posted.wait(), patient(20))
    outbox.publish = publish  # type: ignore[method-assign]
    async with scene.working():
        await scene.result(job)
    assert ((await scene.job()).status, len(scene.said())) == (JobStatus.DONE, 1)
