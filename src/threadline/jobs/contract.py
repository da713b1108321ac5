"""The activities of a job for later; arguments are references, since what it has to do is in the database."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from temporalio import activity

from threadline.jobs.model import AgentJob
from threadline.threads.activity_options import POST, STORE, ActivityOptions, activity_options, retry_policy
from threadline.threads.workflow_client import WorkflowStart

AGENT_JOB_WORKFLOW = "AgentJobWorkflow"

JOB = ActivityOptions(start_to_close=120, retry=retry_policy(1, 60), schedule_to_close=3600)
"""After an hour without Slack, say, a run has failed, which is said as soon as Slack is back."""


@dataclass(frozen=True)
class JobRef:
    """A job of a team, and what its type is called; `run_key` names one run of it, the same however often it is told.

    A workflow is started with it while no run is named yet.
    """

    team: str
    job_id: str
    job_type: str
    run_key: str = ""


@dataclass(frozen=True)
class JobLook:
    """How it stands with a job.

    `run_at`: when to run it, in seconds since 1970, which may be past; None while nobody knows. `look_in`: seconds
    after which that may have changed; 0 when it does not. `over`: it is not to be run any more.
    """

    over: bool = False
    run_at: float | None = None
    look_in: float = 0.0


@dataclass(frozen=True)
class JobRun:
    """One run of a job. `number` counts them from 1; 0 when it is not to be run. `troubled`: the one before failed,
    and these are the words of it."""

    ref: JobRef
    number: int = 0
    troubled: str = ""


@dataclass(frozen=True)
class JobEnd:
    """What came of a run: a sentence, and where it failed, why."""

    run: JobRun
    said: str = ""
    error: str = ""


class AgentJobActivities(ABC):
    """Run in the core worker. Each may be repeated: a job's row tells what has begun and ended, a post's key the rest.

    What is gone from the database is over.
    """

    @activity_options(STORE)
    @activity.defn
    @abstractmethod
    async def look_at_job(self, ref: JobRef) -> JobLook:
        """When it is to run: a reminder's moment follows the date that it is about."""

    @activity_options(STORE)
    @activity.defn
    @abstractmethod
    async def begin_job(self, ref: JobRef) -> JobRun:
        """Note that a run begins, unless the job is over."""

    @activity_options(JOB)
    @activity.defn
    @abstractmethod
    async def run_job(self, run: JobRun) -> str:
        """Do what it is for; returns a sentence on what that was."""

    @activity_options(STORE)
    @activity.defn
    @abstractmethod
    async def settle_job(self, end: JobEnd) -> None:
        """Note what came of a run."""

    @activity_options(POST)
    @activity.defn
    @abstractmethod
    async def tell_job_trouble(self, end: JobEnd) -> None:
        """Say in the job's thread why a run failed."""

    @activity_options(STORE)
    @activity.defn
    @abstractmethod
    async def drop_job(self, ref: JobRef) -> None:
        """Note that somebody has cancelled it while it waited."""


def job_start(team: str, job: AgentJob) -> WorkflowStart:
    """The workflow of a job; of a cron, what its schedule starts at each of its times."""
    memo = {"job": job.job_id, "type": job.job_type, "correlation_id": job.author.correlation_id, "rfp": job.rfp_id}
    return WorkflowStart(
        AGENT_JOB_WORKFLOW,
        job.workflow_id,
        JobRef(team, job.job_id, job.job_type),
        channel=job.channel,
        memo=memo,
        title=f"{job.job_id}: {job.job_type}",
    )
