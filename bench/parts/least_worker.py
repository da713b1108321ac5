"""Runs the floors' workflows and activities: `python -m bench.parts.least_worker TEMPORAL POSTGRES SLACK`."""

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from typing import Any

import aiohttp
import asyncpg
import uvloop
from temporalio import activity
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Worker

from bench.parts.least import QUEUE, TURNS_QUEUE, WORKFLOWS, Handled
from threadline.bootstrap.temporal import workflow_runner

_TABLE = "CREATE TABLE IF NOT EXISTS least_messages (id text PRIMARY KEY, said jsonb NOT NULL)"
_STORE = "INSERT INTO least_messages (id, said) VALUES ($1, $2) ON CONFLICT DO NOTHING"


class Least:
    """What the floors' activities do: one row, nothing, one call."""

    def __init__(self, pool: asyncpg.Pool, session: aiohttp.ClientSession, slack_url: str) -> None:
        self._pool = pool
        self._session = session
        self._slack = f"{slack_url}/api/chat.postMessage"

    @activity.defn
    async def store(self, said: dict[str, Any]) -> None:
        await self._pool.execute(_STORE, said["id"], json.dumps(said))

    @activity.defn
    async def nothing(self) -> None:
        pass

    @activity.defn
    async def post(self, answer: Handled) -> None:
        payload = {"key": f"{answer.workflow_id}:answer", "handled": answer.messages}
        told = {"channel": "C0LEAST", "text": "found it", "metadata": {"event_payload": payload}}
        async with self._session.post(self._slack, json=told) as response:
            await response.read()


async def _work(temporal: str, database: str, slack: str) -> None:
    client = await Client.connect(temporal, data_converter=pydantic_data_converter)
    async with AsyncExitStack() as opened:
        pool = await opened.enter_async_context(asyncpg.create_pool(database, min_size=4, max_size=20))
        await pool.execute(_TABLE)
        session = await opened.enter_async_context(aiohttp.ClientSession())
        least = Least(pool, session, slack)
        core = Worker(
            client,
            task_queue=QUEUE,
            workflows=WORKFLOWS,
            activities=[least.store, least.post],
            workflow_runner=workflow_runner(),
            max_cached_workflows=1000,
            max_concurrent_workflow_tasks=20,
            max_concurrent_activities=50,
        )
        turns = Worker(client, task_queue=TURNS_QUEUE, activities=[least.nothing], max_concurrent_activities=50)
        await opened.enter_async_context(core)
        await opened.enter_async_context(turns)
        sys.stdout.write('{"event": "least_worker_ready"}\n')
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(_work(*sys.argv[1:4]))
