"""Work that the operator was asked to do later: what, when, for whom, and what came of it."""

import re
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from threadline.errors import Permanent
from threadline.tools.model import Author

JOB_QUESTION = r":run:[0-9]+$"
"""In the id of what a job asks, and in that of nothing else; a pattern of Python and of Postgres alike."""

MOST_ARGUMENTS = 16_000
"""Bytes of a job's arguments as JSON; larger ones are refused."""


class JobStatus(StrEnum):
    SCHEDULED = "scheduled"
    """It waits for its time; of a cron, for the next one."""
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


OVER = (JobStatus.DONE, JobStatus.FAILED, JobStatus.CANCELLED)
"""A job with one of these is not run any more."""


@dataclass(frozen=True)
class JobSchedule:
    """Once at a moment with its zone, or whenever `cron` says so by the clocks of `time_zone`."""

    at: datetime | None = None
    cron: str = ""
    time_zone: str = "UTC"


@dataclass(frozen=True)
class When:
    """When somebody wants a job to run, in one of three ways.

    `at`: ISO 8601, by the clocks of `time_zone` unless it has an offset. `after_minutes` 0 is now.
    """

    after_minutes: int | None = None
    at: str = ""
    cron: str = ""
    time_zone: str = ""

    @property
    def given(self) -> int:
        """How many of the three there are."""
        return (self.after_minutes is not None) + bool(self.at.strip()) + bool(self.cron.strip())


@dataclass(frozen=True)
class WantedJob:
    """A job as somebody asks for it; nothing of it is checked yet."""

    job_type: str
    arguments: dict[str, Any]
    when: When


@dataclass(frozen=True)
class NewJob:
    job_type: str
    arguments: dict[str, Any]
    schedule: JobSchedule
    rfp_id: str = ""


@dataclass(frozen=True)
class AgentJob:
    """`author` is who asked. `runs`, `result`, `error` and the last two moments are of the runs so far, the latest one.

    `workflow_id` names the workflow, or of a cron the schedule.
    """

    job_id: str
    workflow_id: str
    job_type: str
    arguments: dict[str, Any]
    schedule: JobSchedule
    status: JobStatus
    rfp_id: str
    author: Author
    channel: str
    thread_ts: str
    runs: int
    result: Any
    error: str
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None

    @property
    def is_over(self) -> bool:
        return self.status in OVER

    @property
    def at_work(self) -> bool:
        """Whether a run of it has begun and its outcome is not on record, whatever the status is."""
        return self.started_at is not None and (self.finished_at is None or self.finished_at < self.started_at)


@dataclass(frozen=True)
class OpenJob:
    """A job that is not over: `id` is its place in the order of all. What it was told stays out of the log."""

    id: int
    team: str
    job: AgentJob = field(repr=False)


@dataclass(frozen=True)
class JobQuery:
    """What is not given does not narrow it. `since` and `until` are about when a job last began to run, is to run at
    its one moment, or was asked for: the first of these that it has.
    """

    status: JobStatus | None = None
    open_only: bool = False
    job_type: str = ""
    rfp_id: str = ""
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True)
class JobStanding:
    """How Temporal has a job. `there`: as a workflow or a schedule of its own; `state`: its word for that.

    `next_times`: of a cron, as Temporal will fire it; `running`: workflows of its runs that are under way.
    """

    there: bool
    state: str = ""
    next_times: tuple[datetime, ...] = ()
    running: tuple[str, ...] = ()


class JobNotFound(Permanent):
    """The team has no such job."""


class JobRefused(Permanent):
    """It cannot be scheduled as it is, or it is over and cannot be cancelled."""


def job_workflow_id(team: str, job_id: str) -> str:
    """Of a job's workflow, or of a cron its schedule; as the row has it, and computed for a row that is gone."""
    return f"job:{team}:{job_id.removeprefix('JOB-')}"


def job_question_id(team: str, job_id: str, run: int) -> str:
    """Of what a job asks in a run of it, in the name of a person."""
    return f"{team}:{job_id}:run:{run}"


def is_job_question(message_id: str) -> bool:
    """Whether a job asks this, and nobody has written it now."""
    return re.search(JOB_QUESTION, message_id) is not None
