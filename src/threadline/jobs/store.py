"""Work for later, and how far it is. A cancelled job stays cancelled, whatever a run of it still reports."""

from datetime import UTC, datetime
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import ColumnElement, Row, Select, case, delete, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from threadline.db.values import storable
from threadline.jobs.model import (
    MOST_ARGUMENTS,
    OVER,
    AgentJob,
    JobNotFound,
    JobQuery,
    JobRefused,
    JobSchedule,
    JobStatus,
    NewJob,
    OpenJob,
)
from threadline.jobs.tables import agent_jobs
from threadline.rfps.model import json_problem
from threadline.rfps.store import audit_values, operation_filter
from threadline.tools.model import Author, Change
from threadline.tools.operation_store import Operations

_JOB = TypeAdapter(AgentJob)
_OPEN = (JobStatus.SCHEDULED, JobStatus.RUNNING)
_LONGEST_TYPE = 100
_LONGEST_ERROR = 2_000


class AgentJobs:
    """A job belongs to its team: the others' is not found. `now` is in seconds since 1970."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection
        self._operations = Operations(connection)

    async def schedule(self, change: Change, new: NewJob, author: Author) -> AgentJob:
        """Put a job on record, once for each operation. What runs it is started under its `workflow_id` afterwards.

        Raises:
            JobRefused: it has no type, its arguments are no object or too large, or not exactly one of a moment with
                its zone and a cron is given.
        """
        job_type = " ".join(storable(new.job_type).split())
        if not job_type or len(job_type) > _LONGEST_TYPE:
            raise JobRefused("a job needs a type")
        at, cron = new.schedule.at, storable(new.schedule.cron).strip()
        if (at is None) == (not cron) or (at is not None and at.tzinfo is None):
            raise JobRefused("a job needs either one time with a time zone, or a cron")

        async def act() -> AgentJob:
            row = _row(change, new, author) | {"job_type": job_type, "cron": cron}
            await self._connection.execute(insert(agent_jobs).values(row).on_conflict_do_nothing())
            query = select(agent_jobs).where(*operation_filter(agent_jobs, change.operation))
            return _job((await self._connection.execute(query)).one())

        return await self._operations.once(change, "schedule_job", job_type, _JOB, act)

    async def get(self, team: str, job_id: str) -> AgentJob:
        """Raises `JobNotFound`."""
        query = select(agent_jobs).where(agent_jobs.c.team == team, agent_jobs.c.job_id == _plain(job_id))
        row = (await self._connection.execute(query)).one_or_none()
        if row is None:
            raise JobNotFound(f"there is no job {_plain(job_id)}: list the jobs")
        return _job(row)

    async def listed(
        self, team: str, *, status: JobStatus | None = None, job_type: str = "", rfp_id: str = "", limit: int = 50
    ) -> list[AgentJob]:
        """The newest first; what is not given does not narrow it."""
        return await self.found(team, JobQuery(status=status, job_type=job_type, rfp_id=rfp_id), limit)

    async def found(self, team: str, asked: JobQuery, limit: int = 50) -> list[AgentJob]:
        """The newest first."""
        rows = await self._connection.execute(_query(team, asked).order_by(agent_jobs.c.id.desc()).limit(limit))
        return [_job(row) for row in rows]

    async def count_open(self, team: str) -> int:
        """Jobs of a team that are not over."""
        job = agent_jobs.c
        query = select(func.count()).where(job.team == team, job.status.in_(_OPEN))
        return int((await self._connection.execute(query)).scalar_one())

    async def open_ones(self, after: int, limit: int) -> list[OpenJob]:
        """Jobs of all teams that are not over, behind a place in their order."""
        job = agent_jobs.c
        query = select(agent_jobs).where(job.id > after, job.status.in_(_OPEN)).order_by(job.id).limit(limit)
        return [OpenJob(row.id, row.team, _job(row)) for row in await self._connection.execute(query)]

    async def postpone(self, team: str, job_id: str, at: datetime) -> None:
        """A job that has not begun has another moment now. A cron and what is over stay as they are."""
        job = agent_jobs.c
        waiting = (job.run_at.is_not(None), job.status == JobStatus.SCHEDULED, job.run_at != at)
        here = update(agent_jobs).where(job.team == team, job.job_id == _plain(job_id), *waiting)
        await self._connection.execute(here.values(run_at=at))

    async def drop(self, team: str, job_id: str, now: float) -> None:
        """Somebody has cancelled it where it waits; it is not to run any more. Safe to repeat."""
        job = agent_jobs.c
        here = update(agent_jobs).where(job.team == team, job.job_id == _plain(job_id), job.status.not_in(OVER))
        await self._connection.execute(here.values(_cancelled(now)))

    async def prune(self, before: float, limit: int = 1_000) -> int:
        """Forget jobs that were over before a moment (seconds since 1970), at most `limit`; returns how many."""
        job = agent_jobs.c
        ended = func.greatest(job.created_at, job.started_at, job.finished_at) < datetime.fromtimestamp(before, UTC)
        old = select(job.id).where(job.status.in_(OVER), ended).limit(limit)
        return (await self._connection.execute(delete(agent_jobs).where(job.id.in_(old)))).rowcount

    async def begin(self, team: str, job_id: str, run_key: str, now: float) -> AgentJob:
        """A run begins, or is said to have begun once more; a job that is over stays so, and is not to be run.

        Args:
            run_key: the run's own, the same however often it is told.

        Raises:
            JobNotFound: there is none.
        """
        job = agent_jobs.c
        here = update(agent_jobs).where(job.team == team, job.job_id == _plain(job_id), job.status.not_in(OVER))
        started = here.where(job.run_key != run_key).values(
            status=JobStatus.RUNNING, run_key=run_key, runs=job.runs + 1, started_at=datetime.fromtimestamp(now, UTC)
        )
        await self._connection.execute(started)
        return await self.get(team, job_id)

    async def unbegin(self, team: str, job_id: str, run_key: str, now: float) -> AgentJob:
        """A run that was counted has not begun, since its job was cancelled before it could: it counts no more. Safe to
        repeat. Raises `JobNotFound`."""
        job = agent_jobs.c
        here = update(agent_jobs).where(job.team == team, job.job_id == _plain(job_id), job.run_key == run_key)
        counted = here.where(job.status == JobStatus.CANCELLED, job.runs > 0, _at_work())
        ended = datetime.fromtimestamp(now, UTC)
        first = case((job.runs == 1, None), else_=job.started_at)
        await self._connection.execute(counted.values(runs=job.runs - 1, started_at=first, finished_at=ended))
        return await self.get(team, job_id)

    async def settle(
        self, team: str, job_id: str, run_key: str, now: float, *, result: object = None, error: str = ""
    ) -> AgentJob:
        """What came of a run; `error` in plain words when it failed. A cron waits for its next time then.

        Of a cancelled job the outcome is kept, and it stays cancelled. Safe to repeat. Raises `JobNotFound`.
        """
        job = agent_jobs.c
        over = JobStatus.FAILED if error else JobStatus.DONE
        then = case((job.status == JobStatus.CANCELLED, JobStatus.CANCELLED), (job.cron != "", "scheduled"), else_=over)
        here = update(agent_jobs).where(job.team == team, job.job_id == _plain(job_id), job.run_key == run_key)
        outcome = {"result": result, "error": storable(error)[:_LONGEST_ERROR]}
        await self._connection.execute(
            here.values(status=then, finished_at=datetime.fromtimestamp(now, UTC), **outcome)
        )
        return await self.get(team, job_id)

    async def cancel(self, change: Change, job_id: str) -> AgentJob:
        """The job is not to run any more, once for each operation; one that is cancelled stays so.

        Raises:
            JobNotFound, JobRefused: there is none, or it has run already.
        """

        async def act() -> AgentJob:
            job = agent_jobs.c
            here = update(agent_jobs).where(job.team == change.team, job.job_id == _plain(job_id))
            open_ = here.where(job.status.not_in(OVER)).values(_cancelled(change.now))
            await self._connection.execute(open_)
            found = await self.get(change.team, job_id)
            if found.status is not JobStatus.CANCELLED:
                raise JobRefused(f"{found.job_id} has ended ({found.status}), so it cannot be cancelled")
            return found

        return await self._operations.once(change, "agent_job_cancel", _plain(job_id), _JOB, act)


def _query(team: str, asked: JobQuery) -> Select[Any]:
    job = agent_jobs.c
    query = select(agent_jobs).where(job.team == team)
    if asked.status:
        query = query.where(job.status == asked.status)
    if asked.open_only:
        query = query.where(job.status.in_(_OPEN))
    if asked.job_type:
        query = query.where(job.job_type == asked.job_type)
    if asked.rfp_id:
        # The first condition is the index's own.
        query = query.where(job.rfp_id != "", job.rfp_id == asked.rfp_id)
    at = func.coalesce(job.started_at, job.run_at, job.created_at)
    if asked.since:
        query = query.where(at >= asked.since)
    return query.where(at < asked.until) if asked.until else query


def _cancelled(now: float) -> dict[str, Any]:
    """Over from now on; of a run that is at work the end is still to come."""
    ended = case((_at_work(), agent_jobs.c.finished_at), else_=datetime.fromtimestamp(now, UTC))
    return {"status": JobStatus.CANCELLED, "finished_at": ended}


def _at_work() -> ColumnElement[bool]:
    job = agent_jobs.c
    return job.started_at.is_not(None) & (job.finished_at.is_(None) | (job.finished_at < job.started_at))


def _plain(job_id: str) -> str:
    return storable(job_id).strip().upper()[:40]


def _row(change: Change, new: NewJob, author: Author) -> dict[str, Any]:
    if fault := json_problem(new.arguments, MOST_ARGUMENTS):
        raise JobRefused(f"the input of a job {fault}")
    return {
        "team": change.team,
        **audit_values(change),
        "arguments": new.arguments,
        "run_at": new.schedule.at,
        "time_zone": new.schedule.time_zone,
        "rfp_id": new.rfp_id,
        "asked_by": author.user_id,
        "correlation_id": author.correlation_id,
        "created_at": datetime.fromtimestamp(change.now, UTC),
    }


def _job(row: Row[Any]) -> AgentJob:
    return AgentJob(
        job_id=row.job_id,
        workflow_id=row.workflow_id,
        job_type=row.job_type,
        arguments=row.arguments,
        schedule=JobSchedule(row.run_at, row.cron, row.time_zone),
        status=JobStatus(row.status),
        rfp_id=row.rfp_id,
        author=Author(row.asked_by, row.correlation_id),
        channel=row.channel,
        thread_ts=row.thread_ts,
        runs=row.runs,
        result=row.result,
        error=row.error,
        created_at=row.created_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
    )
