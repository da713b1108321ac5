"""The activities of jobs: the database knows when each is to run and what came of it."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import structlog
from temporalio import activity

from threadline.db.engine import Database
from threadline.db.unit_of_work import Work
from threadline.jobs import blocks as sentences
from threadline.jobs import job_types
from threadline.jobs import times as job_times
from threadline.jobs.contract import AgentJobActivities, JobEnd, JobLook, JobRef, JobRun
from threadline.jobs.job_runs import Admission, Asking, JobWork, Task
from threadline.jobs.job_types import DeadlineReminder
from threadline.jobs.model import AgentJob, JobNotFound, JobStatus, job_workflow_id
from threadline.jobs.scheduling import JobRunner
from threadline.rfps.model import RfpNotFound
from threadline.rfps.store import RfpStore
from threadline.slack import formatting
from threadline.threads.outbox import Outbox

LOOKS = 6 * 3600.0
"""Seconds between two looks at the date that a reminder is about: it may have moved."""

_log = structlog.get_logger(__name__)


class LiveAgentJobActivities(AgentJobActivities):
    """Args: as `JobWork` takes them; `runner` has the schedules."""

    def __init__(
        self,
        database: Database,
        outbox: Outbox,
        channels: Admission,
        asking: Asking,
        runner: JobRunner,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._runner = runner
        self._work = JobWork(database, outbox, channels, asking, clock)
        self._clock = clock

    @activity.defn
    async def look_at_job(self, ref: JobRef) -> JobLook:
        async with self._database.begin() as work:
            job = await _known(work, ref)
            if job and not job.is_over:
                given = job_types.read(job_types.type_of(job.job_type), job.arguments)
                if isinstance(given, DeadlineReminder) and job.schedule.at is not None:
                    return await self._reminder(work, ref, job, given)
                return JobLook(run_at=job.schedule.at.timestamp() if job.schedule.at else 0.0)
        own = job_workflow_id(ref.team, ref.job_id)
        if ref.run_key != own:  # a schedule has started it, and has outlived its job
            await self._runner.end_schedule(own)
        return JobLook(over=True)

    async def _reminder(self, work: Work, ref: JobRef, job: AgentJob, given: DeadlineReminder) -> JobLook:
        """Some days before the RFP is due, whenever that is by now; a deleted one is found to be so by the run."""
        try:
            due = (await RfpStore(work.tx).get(ref.team, given.rfp_id)).due_date
        except RfpNotFound:
            return JobLook(run_at=0.0)
        if due is None:
            given_up = datetime.fromtimestamp(self._clock(), UTC) > job.created_at + job_times.FARTHEST
            return JobLook(run_at=0.0) if given_up else JobLook(look_in=LOOKS)
        moment = job_times.morning_of(due - timedelta(days=given.days_before), job.schedule.time_zone)
        await work.agent_jobs.postpone(ref.team, ref.job_id, moment)
        return JobLook(run_at=moment.timestamp(), look_in=LOOKS)

    @activity.defn
    async def begin_job(self, ref: JobRef) -> JobRun:
        async with self._database.begin() as work:
            if await _known(work, ref) is None:
                return JobRun(ref)
            job = await work.agent_jobs.begin(ref.team, ref.job_id, ref.run_key, self._clock())
            if job.status is JobStatus.CANCELLED and activity.info().attempt > 1:
                # An earlier try may have counted it, whose answer was lost: so nothing was done yet.
                job = await work.agent_jobs.unbegin(ref.team, ref.job_id, ref.run_key, self._clock())
        if job.is_over:
            return JobRun(ref)
        _log.info(
            "job_run_started", job=job.job_id, type=job.job_type, run=job.runs, correlation_id=job.author.correlation_id
        )
        return JobRun(ref, job.runs, job.error)

    @activity.defn
    async def run_job(self, run: JobRun) -> str:
        async with self._database.begin() as work:
            job = await _known(work, run.ref)
        if job is None:
            return "The job is no longer on record."
        return await self._work.do(Task(run.ref.team, job, run.number))

    @activity.defn
    async def settle_job(self, end: JobEnd) -> None:
        ref, result = end.run.ref, {"said": end.said} if end.said else None
        async with self._database.begin() as work:
            if await _known(work, ref):
                await work.agent_jobs.settle(
                    ref.team, ref.job_id, ref.run_key, self._clock(), result=result, error=end.error
                )
        _log.info("job_run_ended", job=ref.job_id, type=ref.job_type, run=end.run.number, error=end.error)

    @activity.defn
    async def tell_job_trouble(self, end: JobEnd) -> None:
        async with self._database.begin() as work:
            job = await _known(work, end.run.ref)
        if job is None or job.status is JobStatus.CANCELLED:
            return
        now = datetime.fromtimestamp(self._clock(), UTC)
        times = job_times.next_times(job.schedule, now, 1) if job.schedule.cron else []
        following = f"{job_times.spoken(times[0])} ({job.schedule.time_zone})" if times else ""
        rendered = formatting.notice(sentences.trouble(job, end.error, following), mentions=(job.author.user_id,))
        await self._work.say(Task(end.run.ref.team, job, end.run.number), "trouble", rendered)

    @activity.defn
    async def drop_job(self, ref: JobRef) -> None:
        async with self._database.begin() as work:
            job = await _known(work, ref)
            if job and not job.schedule.cron:  # of a cron it is one run that somebody has cancelled
                await work.agent_jobs.drop(ref.team, ref.job_id, self._clock())


async def _known(work: Work, ref: JobRef) -> AgentJob | None:
    try:
        return await work.agent_jobs.get(ref.team, ref.job_id)
    except JobNotFound:
        return None
