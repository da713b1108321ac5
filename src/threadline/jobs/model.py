"""Jobs, which are work for later: content, time, author and result; and the types of jobs with
their arguments.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Protocol

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from threadline.errors import Permanent
from threadline.tools.model import Author

JOB_QUESTION = r":run:[0-9]+$"
"""Pattern in the id of a question from a job, and in no other id; valid in Python and in
Postgres.
"""

MAX_ARGUMENTS = 16_000
"""Bytes of a job's arguments as JSON; larger ones are refused."""
MAX_OPEN_JOBS = 200
"""Jobs of a team that are not finished; a further one is refused."""


class JobStatus(StrEnum):
    SCHEDULED = "scheduled"
    """The job waits for its time; a cron waits for its next one."""
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


FINISHED = (JobStatus.DONE, JobStatus.FAILED, JobStatus.CANCELLED)
"""A job with one of these statuses runs no further."""


@dataclass(frozen=True)
class JobSchedule:
    """Either one moment with its zone, or a cron by the clocks of `time_zone`."""

    at: datetime | None = None
    cron: str = ""
    time_zone: str = "UTC"


@dataclass(frozen=True, kw_only=True)
class JobFilter:
    """Conditions on jobs in a search; a field at its default does not narrow it.

    `since`, and `until`, which is exclusive, compare the first of these that a job has: the start
    of its last run, its one moment, the time of the request. `about_rfps`: only jobs that reveal
    RFPs, or only others.
    """

    status: JobStatus | None = None
    open_only: bool = False
    job_type: str = ""
    rfp_id: str = ""
    since: datetime | None = None
    until: datetime | None = None
    about_rfps: bool | None = None


@dataclass(frozen=True, kw_only=True)
class NewJob:
    """A validated job, ready to be recorded. `rfp_id`: the RFP that it is about; empty for
    none.
    """

    job_type: str
    arguments: dict[str, Any] = field(repr=False)
    schedule: JobSchedule
    rfp_id: str = ""

    @property
    def is_about_rfps(self) -> bool:
        """Whether the job reveals RFPs."""
        return bool(self.rfp_id) or self.job_type == STATUS_DIGEST


@dataclass(frozen=True, kw_only=True)
class AgentJob(NewJob):
    """A job on record.

    `author` asked for it. `runs` counts the runs so far; `result`, `error` and the last two
    moments belong to the latest one. `workflow_id` names the workflow, or a cron's schedule;
    `run_key` names the latest run; `id` is the place among the jobs of all teams.
    """

    id: int
    team: str
    job_id: str
    workflow_id: str
    status: JobStatus
    author: Author
    channel: str
    thread_ts: str
    runs: int
    run_key: str
    result: Any = field(repr=False)
    error: str
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None

    @property
    def is_finished(self) -> bool:
        return self.status in FINISHED

    @property
    def is_running(self) -> bool:
        """Whether a run has begun and has no recorded outcome, in any status."""
        return self.started_at is not None and (
            self.finished_at is None or self.finished_at < self.started_at
        )


@dataclass(frozen=True)
class TemporalJobStatus:
    """A job in Temporal.

    `exists`: whether it has a workflow or a schedule. `state`: Temporal's word for its state.
    `next_times`: the times at which Temporal will fire a cron. `running`: ids of workflows whose
    runs are under way.
    """

    exists: bool
    state: str = ""
    next_times: tuple[datetime, ...] = ()
    running: tuple[str, ...] = ()


class JobRunner(ABC):
    """Port that runs jobs, for tools, which do not know Temporal. Each method is idempotent and
    raises `Permanent` or `Transient`.
    """

    setup_hint = "The core worker brings it."

    @abstractmethod
    async def start(self, job: AgentJob) -> AgentJob:
        """Start a job's workflow or schedule, unless it exists or the job is finished. Return the
        job as it is afterwards.
        """

    @abstractmethod
    async def stop(self, job: AgentJob) -> None:
        """End the wait for a job's time; a run that has begun goes on."""

    @abstractmethod
    async def end_schedule(self, schedule_id: str) -> None:
        """End the schedule of a cron whose row may be gone."""

    @abstractmethod
    async def describe(self, job: AgentJob) -> TemporalJobStatus: ...

    @abstractmethod
    async def tell_owner(self, job: AgentJob, cancelled_by: str) -> None:
        """Post once in a job's thread that a user (a Slack id) cancelled it."""


class ChannelAdmission(Protocol):
    """Decides in which channel the bot may post for a user."""

    async def admit(self, channel: str, user_id: str) -> str:
        """Return the id of a channel in which the bot may post for the user. Raises `Permanent` or
        `Transient`.
        """
        ...


class JobRefused(Permanent):
    """The job does not exist, cannot be scheduled as given, or is over and cannot be cancelled."""


def job_workflow_id(team: str, job_id: str) -> str:
    """Return the id of a job's workflow, or of a cron's schedule. It equals the row's
    `workflow_id`, and is computed here for a row that was deleted.
    """
    return f"job:{team}:{job_id.removeprefix('JOB-')}"


def job_question_id(team: str, job_id: str, run: int) -> str:
    return f"{team}:{job_id}:run:{run}"


def is_job_question(message_id: str) -> bool:
    """Return whether a job asks this, and not a person."""
    return re.search(JOB_QUESTION, message_id) is not None


STATUS_DIGEST = "status_digest"
DEADLINE_REMINDER = "deadline_reminder"
FOLLOW_UP = "follow_up"
MAX_DAYS_BEFORE = 180


class JobType(BaseModel):
    """A type of job; an instance is the arguments of one. `description` completes "a … job …"."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: ClassVar[str]
    description: ClassVar[str]


class StatusDigest(JobType):
    """The arguments of a status_digest."""

    name = STATUS_DIGEST
    description = "posts a digest of the open RFPs with their due dates to a channel"

    channel: Annotated[
        str | None,
        Field(
            max_length=40,
            description="Slack id of the channel to post in. Null: the channel of this thread.",
        ),
    ] = None


class DeadlineReminder(JobType):
    """The arguments of a deadline_reminder."""

    name = DEADLINE_REMINDER
    description = (
        "reminds some days before an RFP is due, also when its due date moves, unless it is "
        "closed by then"
    )

    rfp_id: Annotated[
        str, Field(min_length=1, max_length=60, description="The RFP whose due date it is about.")
    ]
    days_before: Annotated[
        int,
        Field(
            ge=0,
            le=MAX_DAYS_BEFORE,
            description="How many days before the due date; at 9:00 of that day.",
        ),
    ] = 3
    channel: Annotated[
        str | None,
        Field(
            max_length=40, description="Slack id of a channel to remind in. Null: in this thread."
        ),
    ] = None


class FollowUp(JobType):
    """The arguments of a follow_up."""

    name = FOLLOW_UP
    description = "asks the operator a question in this thread, for whoever asks for it now"

    question: Annotated[
        str,
        Field(
            min_length=1, max_length=3_000, description="What you are to be asked then, in full."
        ),
    ]
    rfp_id: Annotated[
        str | None, Field(max_length=60, description="The RFP that it is about, if about one.")
    ] = None


JobArguments = StatusDigest | DeadlineReminder | FollowUp
JOB_TYPES: Mapping[str, type[JobArguments]] = {
    each.name: each for each in (StatusDigest, DeadlineReminder, FollowUp)
}
DESCRIBED_TYPES = "; ".join(f"{each.name} {each.description}" for each in JOB_TYPES.values())
"""All types with their descriptions."""


def find_job_type(name: str) -> type[JobArguments]:
    """Return the type of this name. Raises `JobRefused`, which lists all types."""
    known = JOB_TYPES.get("_".join(name.strip().lower().replace("-", "_").split()))
    if known is None:
        raise JobRefused(
            f"there is no job type {name[:60]!r}; there are {', '.join(JOB_TYPES)}: "
            f"{DESCRIBED_TYPES}"
        )
    return known


def read_arguments(type_: type[JobArguments], arguments: Mapping[str, Any]) -> JobArguments:
    """Return the arguments of a type, parsed from JSON. Raises `JobRefused`: an argument is
    missing, unknown to the type, or malformed.
    """
    try:
        return type_.model_validate(arguments)
    except ValidationError as invalid:
        fault = invalid.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(str(step) for step in fault["loc"])[:60] or "what was given"
    taken = ", ".join(type_.model_fields)
    raise JobRefused(
        f"{place} is not valid for a {type_.name} ({fault['msg'].lower()}); it takes {taken}"
    )
