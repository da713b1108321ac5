"""The activities of a job. Arguments are references: what a job has to do is in the database."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from threadline.jobs.model import AgentJob
from threadline.threads.activity_options import HEARTBEAT, STORE, ActivityOptions, activity_options, retry_policy
from threadline.threads.workflow_client import WorkflowStart

AGENT_JOB_WORKFLOW = "AgentJobWorkflow"
OVER = "It is over, or was cancelled."

RUN_SECONDS = 3600.0
"""After so long without Slack, say, a run has failed, which is told as soon as Slack is back."""
ATTEMPT_SECONDS = 100.0
"""For what a run does; the rest of an attempt's time is for its record."""
RUN = ActivityOptions(start_to_close=120, heartbeat=HEARTBEAT, retry=retry_policy(1, 60))
FAIL = ActivityOptions(start_to_close=60, heartbeat=HEARTBEAT, retry=retry_policy(1, 60), never_gives_up=True)


@dataclass(frozen=True)
class JobRef:
    """A job of a team, and what its type is called. `run_key` names one run of it, the same however often it is told;
    empty in what a workflow is started with."""

    team: str
    job_id: str
    job_type: str
    run_key: str = ""


@dataclass(frozen=True)
class NextRun:
    """When a job is to run. `run_at`: in seconds since 1970, which may be past; None while nobody knows.
    `check_again_in`: seconds after which that may have changed; 0 when it does not. `over`: it is not to be run any
    more."""

    over: bool = False
    run_at: float | None = None
    check_again_in: float = 0.0


@dataclass(frozen=True)
class JobFailure:
    ref: JobRef
    error: str


class JobActivities(ABC):
    """Run in the core worker. Each may be repeated: a job's row tells what has begun and ended, a post's key the rest.
    A job that is gone from the database is over."""

    @activity_options(STORE)
    @abstractmethod
    async def look_at_job(self, ref: JobRef) -> NextRun:
        """Return when it is to run: a reminder's time follows the date that it is about."""

    @activity_options(RUN)
    @abstractmethod
    async def run_job(self, ref: JobRef) -> str:
        """Record that a run begins, do what it is for, and record that; returns a sentence on what that was. A run that
        has begun goes on when it is tried again, also if its job was cancelled since: its posts have keys."""

    @activity_options(FAIL)
    @abstractmethod
    async def fail_job(self, failure: JobFailure) -> None:
        """Record why a run failed, and say so in the job's thread, unless its last run failed for the same reason."""

    @activity_options(STORE)
    @abstractmethod
    async def mark_cancelled(self, ref: JobRef) -> None:
        """Record that somebody has cancelled it while it waited."""


def job_start(job: AgentJob) -> WorkflowStart:
    """The workflow of a job; of a cron, what its schedule starts at each of its times."""
    memo = {"job": job.job_id, "type": job.job_type, "correlation_id": job.author.correlation_id, "rfp": job.rfp_id}
    ref, title = JobRef(job.team, job.job_id, job.job_type), f"{job.job_id}: {job.job_type}"
    return WorkflowStart(AGENT_JOB_WORKFLOW, job.workflow_id, ref, channel=job.channel, memo=memo, title=title)
