"""Jobs as Temporal has them: a workflow that waits for its moment, or a schedule that starts one at each of many."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta

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
from threadline.jobs import cron as crons
from threadline.jobs.activities import LiveAgentJobActivities
from threadline.jobs.contract import job_start
from threadline.jobs.cron import Calendar, Cron
from threadline.jobs.job_port import JobDesk
from threadline.jobs.job_runs import Asking
from threadline.jobs.model import AgentJob, JobSchedule, JobStanding
from threadline.jobs.scheduling import JobRunner, PostgresJobs
from threadline.slack.channels import Channels
from threadline.slack.client import Slack
from threadline.threads.model import CORE_QUEUE
from threadline.threads.outbox import Outbox
from threadline.threads.workflow_client import WorkflowClient, WorkflowStart, in_channel, temporal_error
from threadline.tools.context import Services

MADE_UP = timedelta(hours=6)
"""The longest time after which a run that Temporal has missed is made up for; less than the time to the next one."""


@dataclass(frozen=True)
class Jobs:
    """What tools ask for, and what workflows do."""

    desk: PostgresJobs
    activities: LiveAgentJobActivities

    @property
    def services(self) -> Services:
        return Services().with_service(JobDesk, self.desk)


def live_jobs(
    client: Client, database: Database, slack: Slack, outbox: Outbox, asking: Asking, approvers: Collection[str] = ()
) -> Jobs:
    """`approvers` may cancel what anybody has asked for."""
    channels = Channels(slack)
    runner = TemporalJobs(client)
    return Jobs(
        PostgresJobs(database, runner, channels, approvers, outbox),
        LiveAgentJobActivities(database, outbox, channels, asking, runner),
    )


class TemporalJobs(JobRunner):
    """The id of a job's workflow, or of its schedule, is the one that its row has."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._workflows = WorkflowClient(client)

    async def start(self, team: str, job: AgentJob) -> None:
        start = job_start(team, job)
        if not job.schedule.cron:
            await self._workflows.start(start)
            return
        try:
            await self._client.create_schedule(job.workflow_id, schedule_of(start, job.schedule), memo=start.memo)
        except ScheduleAlreadyRunningError:
            return
        except RPCError as error:
            raise temporal_error(error, f"start {job.job_id}") from error

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

    async def standing(self, job: AgentJob) -> JobStanding:
        try:
            return await (self._of_schedule(job) if job.schedule.cron else self._of_workflow(job))
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return JobStanding(there=False)
            raise temporal_error(error, f"report the state of {job.job_id}") from error

    async def _of_workflow(self, job: AgentJob) -> JobStanding:
        status = (await self._client.get_workflow_handle(job.workflow_id).describe()).status
        there = status is WorkflowExecutionStatus.RUNNING
        return JobStanding(there, status.name.lower() if status else "unknown", running=(job.workflow_id,) * there)

    async def _of_schedule(self, job: AgentJob) -> JobStanding:
        found = await self._client.get_schedule_handle(job.workflow_id).describe()
        running = tuple(str(getattr(each, "workflow_id", "")) for each in found.info.running_actions)
        state = "paused" if found.schedule.state.paused else "scheduled"
        return JobStanding(True, state, tuple(found.info.next_action_times), running)


def schedule_of(start: WorkflowStart, times: JobSchedule) -> Schedule:
    """The schedule of a cron. A run that is still under way when the next one comes is left alone, and that one out."""
    cron = crons.read(times.cron)
    action = ScheduleActionStartWorkflow(
        start.workflow,
        start.argument,
        id=start.workflow_id,
        task_queue=CORE_QUEUE,
        memo=start.memo,
        typed_search_attributes=in_channel(start.channel),
        static_summary=start.title,
    )
    policy = SchedulePolicy(overlap=ScheduleOverlapPolicy.SKIP, catchup_window=min(MADE_UP, cron.gap))
    return Schedule(action=action, spec=spec_of(cron, times.time_zone), policy=policy)


def spec_of(cron: Cron, time_zone: str) -> ScheduleSpec:
    """The times that a cron was read as: Temporal reads a text differently that names two kinds of days."""
    return ScheduleSpec(calendars=[_calendar(each, cron.text) for each in cron.calendars], time_zone_name=time_zone)


def _calendar(times: Calendar, text: str) -> ScheduleCalendarSpec:
    return ScheduleCalendarSpec(
        minute=_ranges(times.minutes),
        hour=_ranges(times.hours),
        day_of_month=_ranges(times.days),
        month=_ranges(times.months),
        day_of_week=_ranges(times.weekdays),
        comment=text,
    )


def _ranges(numbers: tuple[int, ...]) -> list[ScheduleRange]:
    return [ScheduleRange(first, last) for first, last in crons.ranges(numbers)]
