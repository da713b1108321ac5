"""A job for later: it waits for its moment, runs once, and notes what came of it. A cron's runs are started by its
schedule, each as a workflow of its own."""

import asyncio
from datetime import UTC, datetime

from temporalio import workflow
from temporalio.exceptions import ActivityError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from threadline.jobs.contract import AGENT_JOB_WORKFLOW, AgentJobActivities, JobEnd, JobLook, JobRef, JobRun

from threadline.threads.calls import attempt, call, fault_of

_OVER = "It is over, or was cancelled."


@workflow.defn(name=AGENT_JOB_WORKFLOW)
class AgentJobWorkflow:
    """The run's key is the workflow's id: of a cron it has the time for which it was meant, and a job that is started
    anew after Temporal has lost it does nothing twice."""

    @workflow.init
    def __init__(self, ref: JobRef) -> None:
        self._ref = JobRef(ref.team, ref.job_id, ref.job_type, workflow.info().workflow_id)

    @workflow.run
    async def run(self, ref: JobRef) -> str:
        """A sentence on what came of it."""
        if not await self._is_time():
            return _OVER
        running = asyncio.create_task(self._run())
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            return await running  # what has begun is brought to its end, so that it is on record

    async def _is_time(self) -> bool:
        """Wait until it is to run; False when it is not to be run any more."""
        try:
            while not (look := await call(AgentJobActivities.look_at_job, self._ref, summary="look up its time")).over:
                if not (seconds := self._left(look)):
                    return True
                await workflow.sleep(seconds, summary=f"{self._ref.job_id}: {self._ref.job_type}")
                if workflow.info().is_continue_as_new_suggested():
                    workflow.continue_as_new(self._ref)
        except (asyncio.CancelledError, ActivityError) as error:
            if is_cancelled_exception(error):
                await call(AgentJobActivities.drop_job, self._ref, summary="cancelled")
            raise
        return False

    def _left(self, look: JobLook) -> float:
        """Seconds until it is to run, or to be looked at again; none when it is time."""
        if look.run_at is None:
            self._show("Waiting for a run time.")
            return max(look.look_in, 1.0)
        seconds = max(look.run_at - workflow.now().timestamp(), 0.0)
        self._show(f"Waiting until {_clock(look.run_at)}." if seconds else "Starting.")
        return min(seconds, look.look_in) if look.look_in else seconds

    async def _run(self) -> str:
        run = await call(AgentJobActivities.begin_job, self._ref, summary="begin the run")
        if not run.number:
            return _OVER
        self._show(f"Run {run.number} is in progress.")
        end = await self._do(run)
        await call(AgentJobActivities.settle_job, end, summary="failed" if end.error else "done")
        if end.error and end.error != run.troubled:
            await attempt(AgentJobActivities.tell_job_trouble, end, summary="post why it failed")
        self._show(f"Run {run.number}: {end.error or end.said}")
        return end.error or end.said

    async def _do(self, run: JobRun) -> JobEnd:
        try:
            return JobEnd(run, said=await call(AgentJobActivities.run_job, run, summary=f"run {run.number}"))
        except ActivityError as error:
            if is_cancelled_exception(error):
                raise
            return JobEnd(run, error=fault_of(error).message)

    def _show(self, what: str) -> None:
        workflow.set_current_details(f"**{self._ref.job_id}** {self._ref.job_type}\n\n{what}")


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")
