"""JobStore: jobs and their progress. A cancelled job stays cancelled, also when one of its runs
still reports a result.
"""

from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, case, delete, func, not_, or_, select, update
from sqlalchemy.dialects.postgresql import insert

from threadline.db.engine import Store
from threadline.db.values import storable
from threadline.jobs.model import (
    FINISHED,
    MAX_ARGUMENTS,
    MAX_OPEN_JOBS,
    STATUS_DIGEST,
    AgentJob,
    JobFilter,
    JobRefused,
    JobSchedule,
    JobStatus,
    NewJob,
)
from threadline.jobs.tables import agent_jobs
from threadline.rfps.model import json_problem
from threadline.rfps.store import audit_values, operation_filter
from threadline.tools.model import Author, Change

_OPEN = (JobStatus.SCHEDULED, JobStatus.RUNNING)
_MAX_TYPE = 100
_MAX_ERROR = 2_000


class JobStore(Store):
    """Jobs of one team at a time: other teams' jobs are not found. `now` is in seconds since
    1970.
    """

    async def schedule(self, change: Change, new: NewJob) -> AgentJob:
        """Record a job, once for each operation. The caller then starts its workflow or schedule
        under `workflow_id`.

        Jobs of one team are recorded one after the other, so that two concurrent ones cannot both
        pass the limit.

        Raises:
            JobRefused: it has no type, its arguments are no object or too large, it has not
                exactly one of a time with its zone and a cron, or the team has too many open jobs.
        """
        type_ = " ".join(storable(new.job_type).split())
        if not type_ or len(type_) > _MAX_TYPE:
            raise JobRefused("a job needs a type")
        at = new.schedule.at
        cron = storable(new.schedule.cron).strip()
        if (at is None) == (not cron) or (at is not None and at.tzinfo is None):
            raise JobRefused("a job needs either one time with a time zone, or a cron")
        if fault := json_problem(new.arguments, MAX_ARGUMENTS):
            raise JobRefused(f"the input of a job {fault}")
        row = audit_values(change) | {
            "job_type": type_,
            "arguments": new.arguments,
            "run_at": at,
            "cron": cron,
            "time_zone": new.schedule.time_zone,
            "rfp_id": new.rfp_id,
            "requested_by": change.author.user_id,
        }
        lock = func.pg_advisory_xact_lock(func.hashtextextended(f"agent_jobs:{change.team}", 0))
        await self._tx.execute(select(lock))
        if known := await self.find_by_operation(change):
            return known
        open_jobs = select(func.count()).where(
            agent_jobs.c.team == change.team, agent_jobs.c.status.in_(_OPEN)
        )
        if (await self._tx.execute(open_jobs)).scalar_one() >= MAX_OPEN_JOBS:
            raise JobRefused(
                f"{MAX_OPEN_JOBS} jobs are open already: cancel some before you schedule "
                "another one"
            )
        made = insert(agent_jobs).values(row).returning(*agent_jobs.c)
        return _job((await self._tx.execute(made)).one())

    async def get(self, team: str, job_id: str) -> AgentJob:
        """Return a job. Raises `JobRefused`: there is none with this id."""
        found = await self.find(team, job_id)
        if found is None:
            raise JobRefused(f"there is no job {_plain(job_id)}: list the jobs")
        return found

    async def find(self, team: str, job_id: str, *, lock: bool = False) -> AgentJob | None:
        query = select(agent_jobs).where(*_is(team, job_id))
        row = (await self._tx.execute(query.with_for_update() if lock else query)).one_or_none()
        return _job(row) if row else None

    async def find_by_operation(self, change: Change) -> AgentJob | None:
        """Return the job that a tool call scheduled."""
        mine = select(agent_jobs).where(*operation_filter(agent_jobs, change.operation))
        row = (await self._tx.execute(mine)).one_or_none()
        return _job(row) if row else None

    async def search(
        self, team: str, wanted: JobFilter | None = None, *, limit: int = 50
    ) -> list[AgentJob]:
        """Return matching jobs, newest first."""
        found = select(agent_jobs).where(*_matching(team, wanted or JobFilter()))
        page = await self._tx.execute(found.order_by(agent_jobs.c.id.desc()).limit(limit))
        return [_job(row) for row in page]

    async def count(self, team: str, wanted: JobFilter) -> int:
        found = select(func.count()).select_from(agent_jobs).where(*_matching(team, wanted))
        return int((await self._tx.execute(found)).scalar_one())

    async def open_jobs(self, after: int, limit: int) -> list[AgentJob]:
        """Return unfinished jobs of all teams whose `id` is after the given one, ordered by id."""
        job = agent_jobs.c
        query = (
            select(agent_jobs)
            .where(job.id > after, job.status.in_(_OPEN))
            .order_by(job.id)
            .limit(limit)
        )
        return [_job(row) for row in await self._tx.execute(query)]

    async def postpone(self, team: str, job_id: str, at: datetime) -> None:
        """Change the time of a job that has not begun. Crons and finished jobs stay as they
        are.
        """
        job = agent_jobs.c
        waiting = (job.run_at.is_not(None), job.status == JobStatus.SCHEDULED, job.run_at != at)
        await self._tx.execute(
            update(agent_jobs).where(*_is(team, job_id), *waiting).values(run_at=at)
        )

    async def cancel(self, team: str, job_id: str, now: float) -> AgentJob:
        """Cancel a job, unless it is finished; a current run goes on to its end. Raises
        `JobRefused`: there is no such job.
        """
        job = agent_jobs.c
        here = update(agent_jobs).where(*_is(team, job_id), job.status.not_in(FINISHED))
        is_running = job.started_at.is_not(None) & (
            job.finished_at.is_(None) | (job.finished_at < job.started_at)
        )
        ended = case((is_running, job.finished_at), else_=datetime.fromtimestamp(now, UTC))
        await self._tx.execute(here.values(status=JobStatus.CANCELLED, finished_at=ended))
        return await self.get(team, job_id)

    async def begin(self, team: str, job_id: str, run_key: str, now: float) -> AgentJob | None:
        """Record the start of a run and return the job afterwards; None when there is none.

        A finished job stays finished. The run may proceed if the returned job is running and has
        this `run_key`, which all attempts of the run share.
        """
        job = agent_jobs.c
        here = update(agent_jobs).where(
            *_is(team, job_id), job.status.not_in(FINISHED), job.run_key != run_key
        )
        begun = {
            "run_key": run_key,
            "runs": job.runs + 1,
            "started_at": datetime.fromtimestamp(now, UTC),
        }
        await self._tx.execute(here.values(status=JobStatus.RUNNING, **begun))
        return await self.find(team, job_id)

    async def finish(
        self,
        team: str,
        job_id: str,
        run_key: str,
        now: float,
        *,
        result: object = None,
        error: str = "",
    ) -> AgentJob:
        """Record the outcome of a run. A cron then waits for its next time; a cancelled job keeps
        the result and stays cancelled. Idempotent.

        Args:
            error: the reason in plain words, if the run failed.

        Raises:
            JobRefused: there is no such job.
        """
        job = agent_jobs.c
        over = JobStatus.FAILED if error else JobStatus.DONE
        then = case(
            (job.status == JobStatus.CANCELLED, JobStatus.CANCELLED),
            (job.cron != "", "scheduled"),
            else_=over,
        )
        here = update(agent_jobs).where(*_is(team, job_id), job.run_key == run_key)
        outcome = {"result": result, "error": storable(error)[:_MAX_ERROR]}
        await self._tx.execute(
            here.values(status=then, finished_at=datetime.fromtimestamp(now, UTC), **outcome)
        )
        return await self.get(team, job_id)

    async def prune(self, before: float, limit: int = 1_000) -> int:
        """Delete at most `limit` jobs that finished before a time (seconds since 1970). Return how
        many.
        """
        job = agent_jobs.c
        ended = func.greatest(
            job.created_at, job.started_at, job.finished_at
        ) < datetime.fromtimestamp(before, UTC)
        old = select(job.id).where(job.status.in_(FINISHED), ended).limit(limit)
        return (await self._tx.execute(delete(agent_jobs).where(job.id.in_(old)))).rowcount


def _matching(team: str, wanted: JobFilter) -> list[ColumnElement[bool]]:
    job = agent_jobs.c
    at = func.coalesce(job.started_at, job.run_at, job.created_at)
    tells_of_rfps = or_(job.rfp_id != "", job.job_type == STATUS_DIGEST)
    return [
        job.team == team,
        *([job.status == wanted.status] if wanted.status else ()),
        *([job.status.in_(_OPEN)] if wanted.open_only else ()),
        *([job.job_type == wanted.job_type] if wanted.job_type else ()),
        # The index has this first condition.
        *([job.rfp_id != "", job.rfp_id == wanted.rfp_id] if wanted.rfp_id else ()),
        *([at >= wanted.since] if wanted.since else ()),
        *([at < wanted.until] if wanted.until else ()),
        *([tells_of_rfps] if wanted.about_rfps is True else ()),
        *([not_(tells_of_rfps)] if wanted.about_rfps is False else ()),
    ]


def _is(team: str, job_id: str) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return agent_jobs.c.team == team, agent_jobs.c.job_id == _plain(job_id)


def _plain(job_id: str) -> str:
    return storable(job_id).strip().upper()[:40]


def _job(row: Row[Any]) -> AgentJob:
    columns = row._asdict()
    given = {each.name: columns[each.name] for each in fields(AgentJob) if each.name in columns}
    schedule = JobSchedule(row.run_at, row.cron, row.time_zone)
    author = Author(row.requested_by, row.correlation_id)
    return AgentJob(
        **given | {"status": JobStatus(row.status), "schedule": schedule, "author": author}
    )
