"""Work that the operator was asked to do later: what, when, for whom, and what came of it."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from threadline.domain.authorship import Author
from threadline.domain.errors import Permanent

MOST_ARGUMENTS = 16_000
"""Bytes of a job's arguments as JSON; larger ones are refused."""


class JobStatus(StrEnum):
    SCHEDULED = "scheduled"
    """It waits for its time; of a cron, for the next one."""
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True)
class JobSchedule:
    """Once at a moment with its zone, or whenever `cron` says so by the clocks of `time_zone`."""

    at: datetime | None = None
    cron: str = ""
    time_zone: str = "UTC"


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


class JobNotFound(Permanent):
    """The team has no such job."""


class JobRefused(Permanent):
    """It cannot be scheduled as it is, or it is over and cannot be cancelled."""
