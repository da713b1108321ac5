"""Jobs in Temporal: a workflow that waits for its one moment, or a schedule that starts a workflow
at each of its times.
"""

from collections.abc import Sequence
from datetime import timedelta

import structlog
from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleCalendarSpec,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleRange,
    ScheduleSpec,
    WorkflowExecutionStatus,
)
from temporalio.service import RPCError, RPCStatusCode

from threadline.db.engine import Database
from threadline.errors import Permanent, Transient
from threadline.jobs import blocks
from threadline.jobs.contract import job_start
from threadline.jobs.model import AgentJob, JobRunner, JobSchedule, JobStatus, TemporalJobStatus
from threadline.jobs.store import JobStore
from threadline.jobs.times import Cron, parse_cron
from threadline.slack import formatting
from threadline.slack.store import UserStore
from threadline.threads.model import CORE_QUEUE
from threadline.threads.outbox import Outbox, Post
from threadline.threads.workflow_client import (
    WorkflowClient,
    WorkflowStart,
    in_channel,
    temporal_error,
)

CATCHUP_WINDOW = timedelta(hours=6)
"""Longest delay after which Temporal makes up for a missed run; capped by the interval of the
cron.
"""

_log = structlog.get_logger(__name__)


class JobSchedules(JobRunner):
    """Runs jobs in Temporal. A job's workflow or schedule has the id that is in the job's row."""

    def __init__(self, client: Client, database: Database, outbox: Outbox) -> None:
        self._client = client
        self._workflows = WorkflowClient(client)
        self._database = database
        self._outbox = outbox

    async def start(self, job: AgentJob) -> AgentJob:
        if not job.is_finished:
            start = job_start(job)
            try:
                if job.schedule.cron:
                    schedule = schedule_of(start, job.schedule)
                    await self._client.create_schedule(job.workflow_id, schedule, memo=start.memo)
                else:
                    await self._workflows.start(start)
            except ScheduleAlreadyRunningError:
                pass
            except RPCError as error:
                raise temporal_error(error, f"start {job.job_id}") from error
            async with self._database.begin() as tx:
                job = await JobStore(tx).get(job.team, job.job_id)
        # somebody cancelled it before there was a workflow to stop
        if job.status is JobStatus.CANCELLED:
            await self.stop(job)
        return job

    async def stop(self, job: AgentJob) -> None:
        if job.schedule.cron:
            return await self.end_schedule(job.workflow_id)
        try:
            await self._client.get_workflow_handle(job.workflow_id).cancel()
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise temporal_error(error, f"stop {job.job_id}") from error

    async def end_schedule(self, schedule_id: str) -> None:
        try:
            await self._client.get_schedule_handle(schedule_id).delete()
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise temporal_error(error, f"end the schedule {schedule_id}") from error

    async def describe(self, job: AgentJob) -> TemporalJobStatus:
        try:
            if job.schedule.cron:
                found = await self._client.get_schedule_handle(job.workflow_id).describe()
                running = tuple(
                    str(getattr(each, "workflow_id", "")) for each in found.info.running_actions
                )
                state = "paused" if found.schedule.state.paused else "scheduled"
                return TemporalJobStatus(True, state, tuple(found.info.next_action_times), running)
            status = (await self._client.get_workflow_handle(job.workflow_id).describe()).status
            exists = status is WorkflowExecutionStatus.RUNNING
            running = (job.workflow_id,) if exists else ()
            return TemporalJobStatus(
                exists, status.name.lower() if status else "unknown", running=running
            )
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return TemporalJobStatus(exists=False)
            raise temporal_error(error, f"report the state of {job.job_id}") from error

    async def tell_owner(self, job: AgentJob, cancelled_by: str) -> None:
        async with self._database.begin() as tx:
            user = await UserStore(tx).get(job.team, cancelled_by)
        text = blocks.cancelled_by(job, user.display_name if user else cancelled_by)
        rendered = formatting.notice(
            text, mentions=(job.author.user_id,), headline="A job was cancelled"
        )
        try:
            await self._outbox.publish(
                Post(f"job:{job.job_id}:cancelled", job.channel, job.thread_ts, rendered)
            )
        except (Permanent, Transient) as error:
            _log.warning("job_owner_not_notified", job=job.job_id, reason=str(error))


def schedule_of(start: WorkflowStart, times: JobSchedule) -> Schedule:
    """Return the schedule of a cron. When a run is still under way at the next time, that time is
    skipped.
    """
    cron = parse_cron(times.cron)
    action = ScheduleActionStartWorkflow(
        start.workflow,
        start.argument,
        id=start.workflow_id,
        task_queue=CORE_QUEUE,
        memo=start.memo,
        typed_search_attributes=in_channel(start.channel),
        static_summary=start.title,
    )
    policy = SchedulePolicy(
        overlap=ScheduleOverlapPolicy.SKIP, catchup_window=min(CATCHUP_WINDOW, cron.min_interval)
    )
    return Schedule(action=action, spec=spec_of(cron, times.time_zone), policy=policy)


def spec_of(cron: Cron, time_zone: str) -> ScheduleSpec:
    """Return the times of a parsed cron. Temporal gets no text: it reads one that names two kinds
    of days differently.
    """
    calendars = [
        ScheduleCalendarSpec(
            minute=_ranges(each.minutes),
            hour=_ranges(each.hours),
            day_of_month=_ranges(each.days),
            month=_ranges(each.months),
            day_of_week=_ranges(each.weekdays),
            comment=cron.text,
        )
        for each in cron.calendars
    ]
    return ScheduleSpec(calendars=calendars, time_zone_name=time_zone)


def _ranges(numbers: Sequence[int]) -> list[ScheduleRange]:
    """Return sorted numbers as ranges, consecutive numbers as one range."""
    ranges: list[ScheduleRange] = []
    for number in numbers:
        if ranges and ranges[-1].end == number - 1:
            ranges[-1] = ScheduleRange(ranges[-1].start, number)
        else:
            ranges.append(ScheduleRange(number, number))
    return ranges
