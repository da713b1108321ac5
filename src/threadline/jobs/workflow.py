"""AgentJobWorkflow: waits for a job's time and runs it once.

A cron's schedule starts its runs, each as a separate workflow.
"""

import asyncio

from temporalio import workflow
from temporalio.exceptions import ActivityError, is_cancelled_exception

from threadline.jobs.contract import (
    AGENT_JOB_WORKFLOW,
    OVER,
    JobActivities,
    JobFailure,
    JobRef,
    NextRun,
)
from threadline.threads.calls import call, fault_of
from threadline.threads.model import format_utc


@workflow.defn(name=AGENT_JOB_WORKFLOW)
class AgentJobWorkflow:
    """Waits for a job's time and runs it once.

    The run's key is the workflow's id, which for a cron contains the intended time. So a job that
    is started again after Temporal lost it does nothing twice.
    """

    @workflow.init
    def __init__(self, ref: JobRef) -> None:
        self._ref = JobRef(ref.team, ref.job_id, ref.job_type, workflow.info().workflow_id)

    @workflow.run
    async def run(self, ref: JobRef) -> str:
        """Return a sentence about the outcome."""
        if not await self._wait_until_due():
            return OVER
        running = asyncio.create_task(self._run())
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            return await running  # finish a run that has begun, so that it is on record

    async def _wait_until_due(self) -> bool:
        """Wait until the job is due. Return False when it has no further run."""
        try:
            while not (
                next_run := await call(
                    JobActivities.look_at_job, self._ref, summary="look up its time"
                )
            ).over:
                if not (seconds := self._seconds_until(next_run)):
                    return True
                await workflow.sleep(seconds, summary=f"{self._ref.job_id}: {self._ref.job_type}")
                if workflow.info().is_continue_as_new_suggested():
                    workflow.continue_as_new(self._ref)
        except (asyncio.CancelledError, ActivityError) as error:
            if is_cancelled_exception(error):
                await call(JobActivities.mark_cancelled, self._ref, summary="cancelled")
            raise
        return False

    def _seconds_until(self, next_run: NextRun) -> float:
        """Return seconds until the run or the next check; 0 when it is time."""
        if next_run.run_at is None:
            self._show("Waiting for a run time.")
            return max(next_run.check_again_in, 1.0)
        seconds = max(next_run.run_at - workflow.now().timestamp(), 0.0)
        self._show(f"Waiting until {format_utc(next_run.run_at)}." if seconds else "Running.")
        return min(seconds, next_run.check_again_in) if next_run.check_again_in else seconds

    async def _run(self) -> str:
        try:
            said = await call(JobActivities.run_job, self._ref, summary="run")
        except ActivityError as error:
            if is_cancelled_exception(error):
                raise
            said = fault_of(error).message
            await call(JobActivities.fail_job, JobFailure(self._ref, said), summary="failed")
        self._show(said)
        return said

    def _show(self, what: str) -> None:
        workflow.set_current_details(f"**{self._ref.job_id}** {self._ref.job_type}\n\n{what}")
