"""Jobs: work for later. What, when, for whom, and what came of it; and the types of jobs with their arguments."""

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
"""In the id of what a job asks, and in that of nothing else; a pattern of Python and of Postgres alike."""

MAX_ARGUMENTS = 16_000
"""Bytes of a job's arguments as JSON; larger ones are refused."""
MAX_OPEN_JOBS = 200
"""Jobs of a team that are not finished; a further one is refused."""


class JobStatus(StrEnum):
    SCHEDULED = "scheduled"
    """It waits for its time; of a cron, for the next one."""
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


FINISHED = (JobStatus.DONE, JobStatus.FAILED, JobStatus.CANCELLED)
"""A job with one of these is not run any more."""


@dataclass(frozen=True)
class JobSchedule:
    """Once at a moment with its zone, or whenever `cron` says so by the clocks of `time_zone`."""

    at: datetime | None = None
    cron: str = ""
    time_zone: str = "UTC"


@dataclass(frozen=True, kw_only=True)
class JobFilter:
    """The jobs of a search; a field that is not given does not narrow it.

    `since`, and `until`, which is exclusive, are about when a job last began to run, is to run at its one moment, or
    was asked for: the first of these that it has. `about_rfps`: only jobs that tell of RFPs, or only others.
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
    """A job that may be put on record: everything in it is checked. `rfp_id`: the RFP that it is about, if one."""

    job_type: str
    arguments: dict[str, Any] = field(repr=False)
    schedule: JobSchedule
    rfp_id: str = ""

    @property
    def is_about_rfps(self) -> bool:
        """Whether it tells of RFPs."""
        return bool(self.rfp_id) or self.job_type == STATUS_DIGEST


@dataclass(frozen=True, kw_only=True)
class AgentJob(NewJob):
    """`author` is who asked. `runs`, `result`, `error` and the last two moments are of the runs so far, the latest one.
    `workflow_id` names the workflow, or of a cron the schedule; `run_key` its latest run; `id` its place among the jobs
    of all teams."""

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
        """Whether a run of it has begun and its outcome is not on record, whatever the status is."""
        return self.started_at is not None and (self.finished_at is None or self.finished_at < self.started_at)


@dataclass(frozen=True)
class TemporalJobStatus:
    """A job in Temporal. `exists`: as a workflow or a schedule of its own; `state`: Temporal's word for it.
    `next_times`: of a cron, as Temporal will fire it; `running`: workflows of its runs that are under way."""

    exists: bool
    state: str = ""
    next_times: tuple[datetime, ...] = ()
    running: tuple[str, ...] = ()


class JobRunner(ABC):
    """What runs jobs, for tools, which know no Temporal. Each call is safe to repeat, and raises `Permanent` or
    `Transient`."""

    setup_hint = "The core worker brings it."

    @abstractmethod
    async def start(self, job: AgentJob) -> AgentJob:
        """Start a job's workflow, or its schedule, unless it is there or finished; returns the job as it is then."""

    @abstractmethod
    async def stop(self, job: AgentJob) -> None:
        """End what waits for a job's time; a run that has begun goes on."""

    @abstractmethod
    async def end_schedule(self, schedule_id: str) -> None:
        """End the schedule of a cron whose row may be gone."""

    @abstractmethod
    async def describe(self, job: AgentJob) -> TemporalJobStatus: ...

    @abstractmethod
    async def tell_owner(self, job: AgentJob, cancelled_by: str) -> None:
        """Say once in a job's thread that somebody (a Slack id) has cancelled it."""


class ChannelAdmission(Protocol):
    """Says where something may be posted for whom."""

    async def admit(self, channel: str, user_id: str) -> str:
        """Return the id of a channel in which the bot may post for somebody. Raises `Permanent` or `Transient`."""
        ...


class JobRefused(Permanent):
    """There is no such job, it cannot be scheduled as it is, or it is over and cannot be cancelled."""


def job_workflow_id(team: str, job_id: str) -> str:
    """Of a job's workflow, or of a cron its schedule; as the row has it, and computed for a row that is gone."""
    return f"job:{team}:{job_id.removeprefix('JOB-')}"


def job_question_id(team: str, job_id: str, run: int) -> str:
    return f"{team}:{job_id}:run:{run}"


def is_job_question(message_id: str) -> bool:
    """Whether a job asks this, and nobody has written it now."""
    return re.search(JOB_QUESTION, message_id) is not None


STATUS_DIGEST, DEADLINE_REMINDER, FOLLOW_UP = "status_digest", "deadline_reminder", "follow_up"
MAX_DAYS_BEFORE = 180


class JobType(BaseModel):
    """A type of job; an instance is the arguments of one. `description` completes "a … job …"."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: ClassVar[str]
    description: ClassVar[str]


class StatusDigest(JobType):
    """Of a status_digest."""

    name = STATUS_DIGEST
    description = "posts a digest of the open RFPs with their due dates to a channel"

    channel: Annotated[
        str | None,
        Field(max_length=40, description="Slack id of the channel to post in. Null: the channel of this thread."),
    ] = None


class DeadlineReminder(JobType):
    """Of a deadline_reminder."""

    name = DEADLINE_REMINDER
    description = "reminds some days before an RFP is due, also when its due date moves, unless it is closed by then"

    rfp_id: Annotated[str, Field(min_length=1, max_length=60, description="The RFP whose due date it is about.")]
    days_before: Annotated[
        int, Field(ge=0, le=MAX_DAYS_BEFORE, description="How many days before the due date; at 9:00 of that day.")
    ] = 3
    channel: Annotated[
        str | None, Field(max_length=40, description="Slack id of a channel to remind in. Null: in this thread.")
    ] = None


class FollowUp(JobType):
    """Of a follow_up."""

    name = FOLLOW_UP
    description = "asks the operator a question in this thread, for whoever asks for it now"

    question: Annotated[
        str, Field(min_length=1, max_length=3_000, description="What you are to be asked then, in full.")
    ]
    rfp_id: Annotated[str | None, Field(max_length=60, description="The RFP that it is about, if about one.")] = None


JobArguments = StatusDigest | DeadlineReminder | FollowUp
JOB_TYPES: Mapping[str, type[JobArguments]] = {each.name: each for each in (StatusDigest, DeadlineReminder, FollowUp)}
DESCRIBED_TYPES = "; ".join(f"{each.name} {each.description}" for each in JOB_TYPES.values())
"""All types in words."""


def find_job_type(name: str) -> type[JobArguments]:
    """Raises `JobRefused`, which lists them all."""
    known = JOB_TYPES.get("_".join(name.strip().lower().replace("-", "_").split()))
    if known is None:
        raise JobRefused(f"there is no job type {name[:60]!r}; there are {', '.join(JOB_TYPES)}: {DESCRIBED_TYPES}")
    return known


def read_arguments(type_: type[JobArguments], arguments: Mapping[str, Any]) -> JobArguments:
    """The arguments of a type, from JSON. Raises `JobRefused`: one is missing, unknown to the type, or not in form."""
    try:
        return type_.model_validate(arguments)
    except ValidationError as invalid:
        fault = invalid.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(str(step) for step in fault["loc"])[:60] or "what was given"
    taken = ", ".join(type_.model_fields)
    raise JobRefused(f"{place} is not valid for a {type_.name} ({fault['msg'].lower()}); it takes {taken}")
