"""Jobs as tools ask for them: the row in Postgres comes first, and what runs it is started under the row's own id.

A crash between the two is repaired by the same call again, and by the sweep `MissingJobWorkflows`.
"""

import asyncio
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from typing import Protocol

import structlog

from threadline.db.engine import Database
from threadline.errors import Permanent, Transient
from threadline.jobs import blocks as sentences
from threadline.jobs import job_types
from threadline.jobs import times as job_times
from threadline.jobs.job_port import JobDesk
from threadline.jobs.job_runs import Admission
from threadline.jobs.job_types import DeadlineReminder
from threadline.jobs.model import AgentJob, JobQuery, JobRefused, JobSchedule, JobStanding, JobStatus, NewJob, WantedJob
from threadline.privacy.redaction import redact_value
from threadline.rfps.model import OPEN, Rfp
from threadline.rfps.store import RfpStore
from threadline.slack import formatting
from threadline.slack.model import Thread
from threadline.slack.store import UserStore
from threadline.threads.outbox import Outbox, Post
from threadline.tools.model import Author, Change, Effect, Operation

MOST_OPEN = 200
"""Jobs of a team that are not over; a further one is refused."""

_log = structlog.get_logger(__name__)


class JobRunner(Protocol):
    """What runs jobs; each call is safe to repeat, and raises `Permanent` or `Transient`."""

    async def start(self, team: str, job: AgentJob) -> None:
        """Start a job's workflow, or its schedule; nothing happens when it is there."""
        ...

    async def stop(self, job: AgentJob) -> None:
        """End what waits for a job's time; a run that has begun goes on."""
        ...

    async def end_schedule(self, schedule_id: str) -> None:
        """The same of a cron whose row may be gone."""
        ...

    async def standing(self, job: AgentJob) -> JobStanding: ...


class PostgresJobs(JobDesk):
    """Args: `channels` says where something may be posted for whom; `approvers` may cancel what anybody asked for;
    `posts` tells somebody whose job another person has cancelled, and nobody is told without."""

    def __init__(
        self,
        database: Database,
        runner: JobRunner,
        channels: Admission,
        approvers: Collection[str] = (),
        outbox: Outbox | None = None,
    ) -> None:
        self._outbox = outbox
        self._approvers = frozenset(approvers)
        self._database = database
        self._runner = runner
        self._channels = channels

    async def plan(self, thread: Thread, user_id: str, wanted: WantedJob, now: datetime) -> NewJob:
        job_type = job_types.type_of(wanted.job_type)
        given = job_types.read(job_type, wanted.arguments)
        # What is kept is shown again, and posted; a mark may be longer than the secret that it stands for.
        arguments = job_types.read(job_type, redact_value(given.model_dump())).model_dump()
        if rfp_id := arguments.get("rfp_id"):
            async with self._database.begin() as work:
                rfp = await RfpStore(work.tx).get(thread.team, rfp_id)
            arguments["rfp_id"] = rfp.rfp_id
        if isinstance(given, DeadlineReminder):
            schedule = _before(rfp, given.days_before, wanted, now)
        else:
            schedule = job_times.schedule_of(wanted.when, now)
        if channel := arguments.get("channel") or (job_type.name == job_types.STATUS_DIGEST and thread.channel):
            arguments["channel"] = await self._channels.admit(channel, user_id)
        return NewJob(job_type.name, arguments, schedule, arguments.get("rfp_id") or "")

    async def schedule(self, change: Change, author: Author, wanted: WantedJob) -> AgentJob:
        job = await self._scheduled(change) or await self._put(change, author, wanted)
        try:
            job = await self.ensure(change.team, job)
        except Permanent as refused:
            async with self._database.begin() as work:
                await work.agent_jobs.drop(change.team, job.job_id, change.now)
            raise JobRefused(f"{job.job_id} could not be started, and is cancelled: {refused}") from refused
        _log.info("job_scheduled", job=job.job_id, type=job.job_type, correlation_id=author.correlation_id)
        return job

    async def _scheduled(self, change: Change) -> AgentJob | None:
        """What the same call has scheduled before; what it asks for may be past by now, and is not checked again."""
        async with self._database.begin() as work:
            effect = await work.operations.effect(change.operation)
            if effect is None or effect.kind != "schedule_job" or not isinstance(effect.result, dict):
                return None
            return await work.agent_jobs.get(change.team, str(effect.result["job_id"]))

    async def _put(self, change: Change, author: Author, wanted: WantedJob) -> AgentJob:
        now = datetime.fromtimestamp(change.now, UTC)
        new = await self.plan(change.operation.thread, author.user_id, wanted, now)
        async with self._database.begin() as work:
            if await work.agent_jobs.count_open(change.team) >= MOST_OPEN:
                raise JobRefused(f"{MOST_OPEN} jobs are open already: cancel some before you schedule another one")
            return await work.agent_jobs.schedule(change, new, author)

    async def found(self, team: str, query: JobQuery, limit: int) -> Sequence[tuple[AgentJob, JobStanding | None]]:
        async with self._database.begin() as work:
            jobs = await work.agent_jobs.found(team, query, limit)
        standings = await asyncio.gather(*(self._standing(each) for each in jobs))
        return list(zip(jobs, standings, strict=True))

    async def status(self, team: str, job_id: str) -> tuple[AgentJob, JobStanding | None]:
        async with self._database.begin() as work:
            job = await work.agent_jobs.get(team, job_id)
        return job, await self._standing(job)

    async def cancel(self, change: Change, job_id: str, user_id: str) -> AgentJob:
        async with self._database.begin() as work:
            before = await work.agent_jobs.get(change.team, job_id)
            self._check(before, change, user_id)
            again = await work.operations.effect(change.operation)
            job = await work.agent_jobs.cancel(change, job_id)
            user = await UserStore(work.tx).get(change.team, user_id)
        await self._runner.stop(job)
        if user_id != job.author.user_id and (again or not before.is_over):
            await self._tell_owner(job, change.operation.thread, user.display_name if user else user_id)
        return job

    async def _tell_owner(self, job: AgentJob, asked_in: Thread, name: str) -> None:
        """In the job's thread, save where the request to cancel it is read anyway; it stays cancelled untold."""
        if self._outbox is None or (asked_in.channel, asked_in.ts) == (job.channel, job.thread_ts):
            return
        words = sentences.cancelled_by(job, name)
        rendered = formatting.notice(words, mentions=(job.author.user_id,), headline="A job was cancelled")
        key = f"job:{job.job_id}:cancelled"
        try:
            await self._outbox.publish(Post(key, job.channel, job.thread_ts, rendered))
        except (Permanent, Transient) as error:
            _log.warning("job_owner_not_notified", job=job.job_id, reason=str(error))

    def _check(self, job: AgentJob, change: Change, user_id: str) -> None:
        """Who reads what a job posts may end it there."""
        asked_in, posts_in = job.channel, job.arguments.get("channel")
        if user_id in self._approvers | {job.author.user_id} or change.operation.thread.channel in (asked_in, posts_in):
            return
        raise JobRefused(
            f"{job.job_id} was requested by {job.author.user_id} in another channel: that user, an approver, or "
            "somebody in that channel can cancel it"
        )

    async def effect(self, operation: Operation) -> Effect | None:
        async with self._database.begin() as work:
            return await work.operations.effect(operation)

    async def is_running(self, job: AgentJob) -> bool:
        """Whether Temporal has the workflow or the schedule that runs it."""
        return (await self._runner.standing(job)).there

    async def ensure(self, team: str, job: AgentJob) -> AgentJob:
        """Start what runs a job, where it is not there; returns the job as it is then."""
        if not job.is_over:
            await self._runner.start(team, job)
            async with self._database.begin() as work:
                job = await work.agent_jobs.get(team, job.job_id)
        if job.status is JobStatus.CANCELLED:  # somebody was faster, and found nothing there to stop
            await self._runner.stop(job)
        return job

    async def _standing(self, job: AgentJob) -> JobStanding | None:
        if job.is_over:
            return None
        try:
            return await self._runner.standing(job)
        except (Permanent, Transient) as error:
            _log.warning("job_status_unknown", job=job.job_id, reason=str(error))
            return None


def _before(rfp: Rfp, days: int, wanted: WantedJob, now: datetime) -> JobSchedule:
    """Some days before an RFP is due. Raises `JobRefused`."""
    if wanted.when.given:
        raise JobRefused(
            "a deadline_reminder runs before the RFP's due date: give days_before and time_zone, but no time"
        )
    zone = job_times.zone_of(wanted.when.time_zone)
    if rfp.status not in OPEN:
        raise JobRefused(f"{rfp.rfp_id} is {rfp.status}, so it needs no reminder")
    if rfp.due_date is None:
        raise JobRefused(f"{rfp.rfp_id} has no due date: set it first")
    moment = job_times.morning_of(rfp.due_date - timedelta(days=days), zone)
    if moment <= now:
        raise JobRefused(
            f"{rfp.rfp_id} is due on {rfp.due_date.isoformat()}, and {job_times.spoken(moment)} ({zone}) is in the "
            "past: give fewer days_before"
        )
    return JobSchedule(at=moment, time_zone=zone)
