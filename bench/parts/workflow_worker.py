"""A worker for workflows only, so that their cost can be measured separately: `… TEMPORAL
ours|floor`.
"""

import asyncio
import sys

import uvloop
from temporalio.client import Client
from temporalio.worker import Worker

from bench.parts.least import QUEUE, EmptyQueue
from threadline.threads.model import CORE_QUEUE
from threadline.threads.payload_converter import data_converter
from threadline.wiring.temporal import WORKFLOWS, workflow_runner


async def _work(temporal: str, whose: str) -> None:
    client = await Client.connect(temporal, data_converter=data_converter)
    async with Worker(
        client,
        task_queue=CORE_QUEUE if whose == "ours" else QUEUE,
        workflows=WORKFLOWS if whose == "ours" else [EmptyQueue],
        workflow_runner=workflow_runner(),
        max_cached_workflows=2000,
        max_concurrent_workflow_tasks=20,
    ):
        sys.stdout.write('{"event": "workflow_worker_ready"}\n')
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(_work(*sys.argv[1:3]))
