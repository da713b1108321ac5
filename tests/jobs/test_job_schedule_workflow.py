"""Jobs on Temporal's own server: crons fire by its schedules, and whatever races with a run, it is said once."""

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
from temporalio.client import ScheduleOverlapPolicy, WorkflowFailureError
from temporalio.service import RPCError, RPCStatusCode

from tests.jobs.job_scene import DIGEST, Jobbing, jobbing
from tests.support.temporal import real_time, until
from threadline.db.engine import Database
from threadline.jobs.model import AgentJob, JobStatus
from threadline.jobs.schedules import MADE_UP
from threadline_devstack.slack.identity import BOT_USER, DEVELOPER, SUMMARIES, TEAM

WEEKLY = {"cron": "0 9 * * 1", "time_zone": "Europe/Berlin"}


@pytest.fixture
async def talk(database: Database) -> AsyncIterator[Jobbing]:
    async with jobbing(database, real_time) as made:
        yield made


async def fire(talk: Jobbing, job: AgentJob) -> None:
    """As if the cron's time had come: a run is named by its second, and left out while another is under way."""
    handle, begun = talk.environment.client.get_schedule_handle(job.workflow_id), int(time.time())

    async def is_free() -> bool:
        return int(time.time()) > begun and not (await handle.describe()).info.running_actions

    await until(is_free, "another second has come, and no run is under way")
    await handle.trigger()


@pytest.mark.records("job_cron")
async def test_a_cron_runs_each_time_and_says_so_each_time(talk: Jobbing) -> None:
    async with talk.working():
        job = await talk.schedule(**WEEKLY)
        for number in (1, 2):
            await fire(talk, job)
            run = await talk.until_run(number)
            assert (run.status, run.error) == (JobStatus.SCHEDULED, "")
        assert len(talk.said()) == 2
        described = await talk.environment.client.get_schedule_handle(job.workflow_id).describe()
    policy = described.schedule.policy
    assert (policy.overlap, policy.catchup_window) == (ScheduleOverlapPolicy.SKIP, MADE_UP)
    assert await described.memo() == {"job": "JOB-1", "type": DIGEST, "correlation_id": "corr-1", "rfp": ""}
    _, standing = await talk.jobs.desk.status(TEAM, "job-1")
    assert standing
    assert (standing.there, standing.state) == (True, "scheduled")
    assert standing.next_times[0] > datetime.now(UTC)
    assert standing.next_times[0].weekday() == 0


async def test_a_cron_that_is_scheduled_again_by_the_same_call_is_one_schedule(talk: Jobbing) -> None:
    jobs = await asyncio.gather(*(talk.schedule(call_id="s1", **WEEKLY) for _ in range(4)))
    assert {each.job_id for each in jobs} == {"JOB-1"}
    assert await talk.jobs.desk.mend() == 0
    handle = talk.environment.client.get_schedule_handle(jobs[0].workflow_id)
    await handle.delete()
    assert await talk.jobs.desk.mend() == 0
    assert (await handle.describe()).id == jobs[0].workflow_id, "what was lost is there again"


async def test_a_crons_failure_is_told_once_and_its_next_run_comes_all_the_same(talk: Jobbing) -> None:
    async with talk.working():
        job = await talk.schedule(channel=SUMMARIES, **WEEKLY)
        talk.slack.workspace.leave(SUMMARIES, BOT_USER)
        for number in (1, 2):
            await fire(talk, job)
            assert "/invite" in (await talk.until_run(number)).error
        talk.slack.workspace.join(SUMMARIES, BOT_USER)
        await fire(talk, job)
        run = await talk.until_run(3)
    assert (run.status, run.error) == (JobStatus.SCHEDULED, "")
    (told,) = talk.said()
    assert "The next run is on Mon " in told
    assert len(talk.said(SUMMARIES)) == 1


async def test_a_cancelled_cron_does_not_run_any_more(talk: Jobbing) -> None:
    async with talk.working():
        job = await talk.schedule(**WEEKLY)
        gone = await talk.jobs.desk.cancel(talk.change("x"), job.job_id, DEVELOPER)
        assert gone.status is JobStatus.CANCELLED
        with pytest.raises(RPCError):
            await fire(talk, job)
        assert await talk.jobs.desk.cancel(talk.change("x"), job.job_id, DEVELOPER) == gone
    assert talk.said() == []


@pytest.mark.parametrize("forgotten", [False, True])
async def test_a_schedule_that_outlives_its_job_ends_when_it_fires(talk: Jobbing, forgotten: bool) -> None:
    """Temporal was away when the job was cancelled; `forgotten`: its row is pruned by then."""
    async with talk.working():
        job = await talk.schedule(**WEEKLY)
        async with talk.database.begin() as work:
            await work.agent_jobs.cancel(talk.change("x"), job.job_id)
            if forgotten:
                await work.agent_jobs.prune(time.time() + 60)
        await fire(talk, job)

        async def gone() -> bool:
            try:
                await talk.environment.client.get_schedule_handle(job.workflow_id).describe()
            except RPCError as error:
                return error.status is RPCStatusCode.NOT_FOUND
            return False

        await until(gone, "the schedule is gone")
    assert talk.said() == []


async def test_one_run_of_a_cron_that_somebody_cancels_leaves_the_job(talk: Jobbing) -> None:
    job = await talk.schedule(**WEEKLY)
    await fire(talk, job)
    handle = talk.environment.client.get_schedule_handle(job.workflow_id)

    async def begun() -> bool:
        return bool((await handle.describe()).info.running_actions)

    await until(begun, "a run waits for a worker")
    run: Any = (await handle.describe()).info.running_actions[0]
    await talk.environment.client.get_workflow_handle(run.workflow_id).cancel()
    async with talk.working():
        with pytest.raises(WorkflowFailureError):
            await talk.environment.client.get_workflow_handle(run.workflow_id).result()
        assert (await talk.job()).status is JobStatus.SCHEDULED
        await fire(talk, job)
        await talk.until_run(1)
    assert len(talk.said()) == 1


@pytest.mark.records("job_cancelled_before_it_waits")
async def test_a_job_that_is_cancelled_as_it_begins_to_wait_does_not_run(talk: Jobbing) -> None:
    """Temporal cancels it before, or while, it is looked at for the first time."""
    async with talk.working():
        for call_id in ("s1", "s2", "s3"):
            job = await talk.schedule(call_id=call_id, after_minutes=60)
            await talk.jobs.desk.cancel(talk.change(f"x{call_id}"), job.job_id, DEVELOPER)
            with pytest.raises(WorkflowFailureError):
                await talk.result(job)
            assert (await talk.job(job.job_id)).status is JobStatus.CANCELLED
    assert talk.said() == []


@pytest.mark.parametrize("when", [{"after_minutes": 0}, WEEKLY])
async def test_a_job_that_is_cancelled_while_it_runs_finishes_what_it_has_begun(
    talk: Jobbing, when: dict[str, Any]
) -> None:
    posting, go_on = asyncio.Event(), asyncio.Event()
    publish = talk.jobs.activities._work._posts.publish

    async def slowly(post: object) -> str:
        ts = await publish(post)  # type: ignore[arg-type]
        posting.set()
        await go_on.wait()
        return ts

    talk.jobs.activities._work._posts.publish = slowly  # type: ignore[method-assign]
    async with talk.working():
        job = await talk.schedule(**when)
        if "cron" in when:
            await fire(talk, job)
        await asyncio.wait_for(posting.wait(), 20)
        gone = await talk.jobs.desk.cancel(talk.change("x"), job.job_id, DEVELOPER)
        assert (gone.status, gone.at_work) == (JobStatus.CANCELLED, True)
        go_on.set()

        async def settled() -> bool:
            return (await talk.job()).finished_at is not None

        await until(settled, "the outcome is on record")
        ended = await talk.job()
    assert (ended.status, ended.runs, len(talk.said())) == (JobStatus.CANCELLED, 1, 1)
    assert ended.result == {"said": f"Posted a digest of 0 open RFPs in {talk.thread.channel}."}


async def test_a_worker_that_dies_amid_a_run_leaves_one_post(talk: Jobbing) -> None:
    """The post was sent, and the worker was gone before anybody heard of it."""
    posted = asyncio.Event()
    work = talk.jobs.activities._work
    publish = work._posts.publish

    async def lost(post: object) -> str:
        await publish(post)  # type: ignore[arg-type]
        posted.set()
        raise RuntimeError("the worker is gone")

    work._posts.publish = lost  # type: ignore[method-assign]
    job = await talk.schedule(after_minutes=0)
    async with talk.working():
        await asyncio.wait_for(posted.wait(), 20)
    work._posts.publish = publish  # type: ignore[method-assign]
    async with talk.working():
        await talk.result(job)
    assert ((await talk.job()).status, len(talk.said())) == (JobStatus.DONE, 1)
