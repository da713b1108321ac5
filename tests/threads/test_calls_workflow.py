"""Steps of a workflow when the run is cancelled."""

import asyncio

import pytest
from temporalio import workflow

from tests.support.temporal import real_time, worker
from threadline.threads.calls import Interrupted, pause, run_unless
from threadline.threads.model import CORE_QUEUE


@workflow.defn(sandboxed=False)
class WaitingSteps:
    """Runs its steps as separate tasks, as the workflows of threads do. A Cancel asks them to
    stop.
    """

    def __init__(self) -> None:
        self._stopped = False

    @workflow.run
    async def run(self) -> list[str]:
        steps = [asyncio.create_task(step) for step in (self._interrupted(), self._paused())]
        try:
            await workflow.wait_condition(lambda: False)
        except asyncio.CancelledError:
            self._stopped = True
        return [await step for step in steps]

    async def _interrupted(self) -> str:
        try:
            await run_unless(lambda: self._stopped, asyncio.sleep(3600))
        except Interrupted:
            return "interrupted itself"
        except asyncio.CancelledError:
            return "was cancelled"
        return "ended"

    async def _paused(self) -> str:
        try:
            await pause(3600, lambda: self._stopped, "wait for the end")
        except asyncio.CancelledError:
            return "was cancelled"
        return "went on"


@pytest.mark.usefixtures("activation_order")
async def test_cancel_of_the_run_leaves_it_to_each_step_how_to_stop() -> None:
    async with real_time() as environment, worker(environment, [WaitingSteps], []):
        handle = await environment.client.start_workflow(
            WaitingSteps.run, id="steps", task_queue=CORE_QUEUE
        )
        await handle.query("__temporal_workflow_metadata")  # the steps wait by then
        await handle.cancel()
        assert await handle.result() == ["interrupted itself", "went on"]
