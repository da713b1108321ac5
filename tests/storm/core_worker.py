"""A core worker in a process that is made to be killed: `python -m tests.storm.core_worker JSON`.

It is slow to tell what it has committed, and loses some of it on the way.
"""

import asyncio
import json
import sys
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from random import Random
from typing import Any

import aiohttp
from temporalio import activity
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor, Worker

from tests.storm.plan import dice
from tests.workflows.house import core_activities
from threadline.activities.faults import FaultInterceptor
from threadline.bootstrap.temporal import WORKFLOWS, workflow_runner
from threadline.contracts import options
from threadline.db.engine import Database
from threadline.devstack.slack_sandbox.identity import BOT_TOKEN
from threadline.domain.addressing import CORE_QUEUE
from threadline.domain.bug import Limits
from threadline.domain.errors import Transient
from threadline.slack import posts
from threadline.slack.client import Slack, make_client

LOST_RESULTS, LATEST_RESULT = 0.05, 0.5
"""Share of the commits in the database of which the workflow does not hear; seconds by which it hears of the others."""

LIMITS = Limits(reporter_timeout=1.5, developer_timeout=1.5, history_events=40)
"""Silence ends waits, and the cases themselves, amid the storm; continue-as-new comes every other turn."""


@dataclass(frozen=True)
class Place:
    """Where everything is."""

    temporal: str
    database: str
    slack: str
    seed: str

    def argument(self) -> str:
        return json.dumps(asdict(self))


class _Unreliable(Interceptor):
    def __init__(self, random: Random) -> None:
        self._random = random

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002 - Temporal's name
        return _LateAndLost(next, self._random)


class _LateAndLost(ActivityInboundInterceptor):
    def __init__(self, following: ActivityInboundInterceptor, random: Random) -> None:
        super().__init__(following)
        self._random = random

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002 - Temporal's name
        result = await super().execute_activity(input)
        if activity.info().activity_type in options.NEVER_GIVE_UP:
            await asyncio.sleep(self._random.uniform(0, LATEST_RESULT))
            if self._random.random() < LOST_RESULTS:
                raise Transient("the answer was lost after its commit")
        return result


def _hurry() -> None:
    """Shorten what is waited for after a crash; a lease still outlives the longest call to Slack, which takes 10 s."""
    shorter = {name: replace(each, start_to_close=min(each.start_to_close, 5.0)) for name, each in options.FOR.items()}
    options.FOR.update(shorter)
    posts.GRACE, posts.ROOT_GRACE, posts.LEASE = 0.0, 0.0, 11.0


async def _work(place: Place) -> None:
    client = await Client.connect(place.temporal, data_converter=pydantic_data_converter)
    async with aiohttp.ClientSession() as session:
        slack = Slack(make_client(BOT_TOKEN, place.slack, session))
        activities = core_activities(Database(place.database, pool_size=15), client, slack, limits=LIMITS)
        async with Worker(
            client,
            task_queue=CORE_QUEUE,
            workflows=WORKFLOWS,
            activities=activities,
            interceptors=[FaultInterceptor(), _Unreliable(dice(place.seed))],
            workflow_runner=workflow_runner(),
            sticky_queue_schedule_to_start_timeout=timedelta(seconds=2),
        ):
            sys.stdout.write('{"event": "ready"}\n')
            sys.stdout.flush()
            await asyncio.Event().wait()


if __name__ == "__main__":
    _hurry()
    asyncio.run(_work(Place(**json.loads(sys.argv[1]))))
