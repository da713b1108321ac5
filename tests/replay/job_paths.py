"""The ways through a job, each played to its end on Postgres and a sandbox of Slack, and what its history must hold."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from temporalio.client import WorkflowHistory
from temporalio.testing import WorkflowEnvironment

from tests.jobs.job_scene import Jobbing
from tests.support.temporal import real_time, skipping_time
from threadline.jobs.model import AgentJob, JobStatus
from threadline_devstack.slack.identity import BOT_USER, SUMMARIES

Server = Callable[[], AbstractAsyncContextManager[WorkflowEnvironment]]


@dataclass
class JobStage:
    talk: Jobbing
    runs: list[WorkflowHistory] = field(default_factory=list)

    async def record(self, job: AgentJob) -> None:
        """Wait for the end of a job's workflow, and keep it."""
        await self.talk.result(job)
        await self.keep(job.workflow_id)

    async def keep(self, workflow_id: str) -> None:
        self.runs.append(await self.talk.environment.client.get_workflow_handle(workflow_id).fetch_history())


Play = Callable[[JobStage], Awaitable[None]]


@dataclass(frozen=True)
class JobPath:
    play: Play
    holds: tuple[str, ...]
    server: Server

    @property
    def name(self) -> str:
        return self.play.__name__


JOBS: list[JobPath] = []


def path(*holds: str, server: Server = skipping_time) -> Callable[[Play], Play]:
    def listed(play: Play) -> Play:
        JOBS.append(JobPath(play, holds, server))
        return play

    return listed


@path("look_at_job", "timer fired", "begin_job", "run_job", "settle_job", "result Asked the operator in the thread.")
async def job_asks_later(stage: JobStage) -> None:
    await stage.record(await stage.talk.schedule("follow_up", question="How far is it?", after_minutes=60))


@path("look_at_job", "timer fired", "run_job")
async def job_follows_a_date(stage: JobStage) -> None:
    """It looks again and again at the date that it is about."""
    rfp_id = await stage.talk.rfp((datetime.now(UTC) + timedelta(days=5)).date())
    job = await stage.talk.schedule("deadline_reminder", rfp_id=rfp_id, days_before=3, time_zone="UTC")
    await stage.record(job)


@path("begin_job", "failed run_job", "settle_job", "tell_job_trouble")
async def job_fails(stage: JobStage) -> None:
    job = await stage.talk.schedule(channel=SUMMARIES, after_minutes=60)
    stage.talk.slack.workspace.leave(SUMMARIES, BOT_USER)
    await stage.record(job)


@path("look_at_job", "drop_job")
async def job_cancelled_while_it_waits(stage: JobStage) -> None:
    job = await stage.talk.schedule(after_minutes=60)
    await stage.talk.until_waiting(job)
    await stage.talk.environment.client.get_workflow_handle(job.workflow_id).cancel()
    await stage.talk.until_status(JobStatus.CANCELLED)
    await stage.talk.environment.sleep(timedelta(minutes=1))
    await stage.keep(job.workflow_id)


@path("look_at_job", "timer fired", "result It is over, or was cancelled.")
async def job_cancelled_on_record_alone(stage: JobStage) -> None:
    """A crash kept the cancelling from Temporal."""
    job = await stage.talk.schedule(after_minutes=60)
    await stage.talk.until_waiting(job)
    async with stage.talk.database.begin() as work:
        await work.agent_jobs.cancel(stage.talk.change(), job.job_id)
    await stage.record(job)


@path("look_at_job", "begin_job", "run_job", "settle_job", server=real_time)
async def job_of_a_cron(stage: JobStage) -> None:
    job = await stage.talk.schedule(cron="0 9 * * 1", time_zone="Europe/Berlin")
    client = stage.talk.environment.client
    await client.get_schedule_handle(job.workflow_id).trigger()
    await stage.talk.until_run(1)
    async for each in client.list_workflows("WorkflowType = 'AgentJobWorkflow'"):
        await client.get_workflow_handle(each.id).result()
        await stage.keep(each.id)
