"""Runs the floors' workflows and their activity, which does nothing: `python -m
bench.parts.least_worker TEMPORAL`.
"""

import asyncio
import sys

import uvloop
from temporalio import activity
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Worker

from bench.parts.least import QUEUE, TURNS_QUEUE, WORKFLOWS
from threadline.wiring.temporal import workflow_runner


@activity.defn
async def nothing() -> None:
    pass


async def _work(temporal: str) -> None:
    client = await Client.connect(temporal, data_converter=pydantic_data_converter)
    core = Worker(
        client,
        task_queue=QUEUE,
        workflows=WORKFLOWS,
        workflow_runner=workflow_runner(),
        max_cached_workflows=1000,
        max_concurrent_workflow_tasks=20,
    )
    turns = Worker(
        client, task_queue=TURNS_QUEUE, activities=[nothing], max_concurrent_activities=50
    )
    async with core, turns:
        sys.stdout.write('{"event": "least_worker_ready"}\n')
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(_work(sys.argv[1]))
