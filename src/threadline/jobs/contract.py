"""The activities of a job. Arguments are references: the job's task is in the database."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from threadline.jobs.model import AgentJob
from threadline.threads.activity_options import (
    HEARTBEAT,
    STORE,
    ActivityOptions,
    activity_options,
    retry_policy,
)
from threadline.threads.workflow_client import WorkflowStart

AGENT_JOB_WORKFLOW = "AgentJobWorkflow"
OVER = "It has ended or was cancelled."

RUN_SECONDS = 3600.0
"""Seconds of outage (of Slack, for example) after which a run has failed. The failure is posted as
soon as Slack is back.
"""
ATTEMPT_SECONDS = 100.0
"""Seconds for the work of a run; the rest of an attempt's time is for its record."""
RUN = ActivityOptions(start_to_close=120, heartbeat=HEARTBEAT, retry=retry_policy(1, 60))
FAIL = ActivityOptions(
    start_to_close=60, heartbeat=HEARTBEAT, retry=retry_policy(1, 60), never_gives_up=True
)


@dataclass(frozen=True)
class JobRef:
    """A job of a team and the name of its type.

    `run_key` names one run: attempts of the same run have the same key. It is empty in the input
    of a workflow.
    """

    team: str
    job_id: str
    job_type: str
    run_key: str = ""


@dataclass(frozen=True)
class NextRun:
    """The time of a job's next run.

    `run_at`: seconds since 1970, which may be past; None while the time is unknown.
    `check_again_in`: seconds after which the time may have changed; 0 when it is fixed. `over`:
    the job has no further run.
    """

    over: bool = False
    run_at: float | None = None
    check_again_in: float = 0.0


@dataclass(frozen=True)
class JobFailure:
    ref: JobRef
    error: str


class JobActivities(ABC):
    """Activities in the core worker. All are idempotent: the job's row records the start and the
    end of a run, and posts have keys. A job whose row was deleted is over.
    """

    @activity_options(STORE)
    @abstractmethod
    async def look_at_job(self, ref: JobRef) -> NextRun:
        """Return when the job runs next. A reminder's time follows the date that it is about."""

    @activity_options(RUN)
    @abstractmethod
    async def run_job(self, ref: JobRef) -> str:
        """Record the start of a run, do the job, and record the result. Return a sentence about
        it.

        A retry continues a run that has begun, also if the job was cancelled since; its posts have
        keys.
        """

    @activity_options(FAIL)
    @abstractmethod
    async def fail_job(self, failure: JobFailure) -> None:
        """Record why a run failed, and post it in the job's thread, unless the previous run failed
        for the same reason.
        """

    @activity_options(STORE)
    @abstractmethod
    async def mark_cancelled(self, ref: JobRef) -> None:
        """Record that somebody cancelled the job while it waited."""


def job_start(job: AgentJob) -> WorkflowStart:
    """Return the workflow of a job. For a cron, the schedule starts it at each of its times."""
    memo = {
        "job": job.job_id,
        "type": job.job_type,
        "correlation_id": job.author.correlation_id,
        "rfp": job.rfp_id,
    }
    ref = JobRef(job.team, job.job_id, job.job_type)
    title = f"{job.job_id}: {job.job_type}"
    return WorkflowStart(
        AGENT_JOB_WORKFLOW, job.workflow_id, ref, channel=job.channel, memo=memo, title=title
    )
