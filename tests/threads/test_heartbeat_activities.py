"""Heartbeats that a worker sends while an activity works."""

import asyncio
from abc import ABC, abstractmethod
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from temporalio import workflow
from temporalio.testing import ActivityEnvironment
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput

from tests.support.patience import patient
from tests.support.temporal import real_time, worker
from threadline.threads.activity import ErrorInterceptor
from threadline.threads.activity_options import (
    ActivityOptions,
    activities_of,
    activity_options,
    retry_policy,
)
from threadline.threads.calls import call
from threadline.threads.model import CORE_QUEUE


class Work(ActivityInboundInterceptor):
    """An activity that waits."""

    def __init__(self, until: asyncio.Event, error: Exception | None = None) -> None:
        self.until = until
        self.error = error

    async def execute_activity(
        self,
        input: ExecuteActivityInput,  # noqa: A002 - Temporal's name
    ) -> Any:
        await self.until.wait()
        if self.error:
            raise self.error
        return "done"


def environment(timeout: float | None) -> ActivityEnvironment:
    env = ActivityEnvironment()
    env.info = replace(
        env.info, heartbeat_timeout=None if timeout is None else timedelta(seconds=timeout)
    )
    return env


class WorkActivities(ABC):
    @activity_options(
        ActivityOptions(start_to_close=30, heartbeat=3, retry=retry_policy(1, 1, attempts=1))
    )
    @abstractmethod
    async def work(self, seconds: float) -> str:
        """Work for longer than the heartbeat's time."""


class LiveWorkActivities(WorkActivities):
    async def work(self, seconds: float) -> str:
        await asyncio.sleep(seconds)
        return "done"


@workflow.defn(sandboxed=False)
class WorkWorkflow:
    @workflow.run
    async def run(self) -> str:
        return await call(WorkActivities.work, 4.0)


async def test_work_that_lasts_longer_than_its_heartbeats_time_is_not_taken_for_lost() -> None:
    async with (
        real_time() as environment,
        worker(environment, [WorkWorkflow], activities_of(LiveWorkActivities())),
    ):
        ran = environment.client.execute_workflow(
            WorkWorkflow.run, id="work", task_queue=CORE_QUEUE
        )
        assert await ran == "done"


async def run(env: ActivityEnvironment, work: Work) -> Any:
    given = ExecuteActivityInput(fn=work.execute_activity, args=(), executor=None, headers={})
    return await env.run(ErrorInterceptor({}).intercept_activity(work).execute_activity, given)


@pytest.mark.parametrize("error", [None, LookupError("nothing there")])
async def test_heartbeats_go_on_while_the_work_does_and_end_with_it(
    error: Exception | None,
) -> None:
    env = environment(0.01)
    beats = list[object]()
    thrice = asyncio.Event()

    def on_heartbeat(*details: object) -> None:
        beats.append(details)
        if len(beats) == 3:
            thrice.set()

    env.on_heartbeat = on_heartbeat
    async with asyncio.timeout(patient(10)):
        if error:
            with pytest.raises(Exception, match="LookupError"):
                await run(env, Work(thrice, error))
        else:
            assert await run(env, Work(thrice)) == "done"
    assert len(beats) >= 3
    assert len(asyncio.all_tasks()) == 1, "the heartbeats have ended"


@pytest.mark.parametrize("timeout", [None, 60])
async def test_short_work_and_work_without_a_timeout_send_none(timeout: float | None) -> None:
    env = environment(timeout)
    beats = list[object]()
    done = asyncio.Event()
    env.on_heartbeat = lambda *details: beats.append(details)
    asyncio.get_running_loop().call_later(0.05, done.set)
    assert await run(env, Work(done)) == "done"
    assert beats == []
