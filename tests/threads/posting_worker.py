"""A worker that posts a text under a key, in a process of its own that a test can kill."""

import asyncio
import sys
from abc import ABC, abstractmethod

import aiohttp
from temporalio import workflow
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Worker

with workflow.unsafe.imports_passed_through():
    from threadline.db.engine import Database
    from threadline.slack import formatting
    from threadline.slack.client import SlackClient, make_web_client
    from threadline.threads import outbox
    from threadline.threads.activity import ErrorInterceptor
    from threadline.threads.activity_options import (
        POST,
        activities_of,
        activity_options,
        options_by_name,
    )
    from threadline.threads.calls import call
    from threadline.threads.model import CORE_QUEUE
    from threadline.threads.outbox import Outbox, Post
    from threadline.wiring.workers import HEARTBEATS_EVERY
    from threadline_devstack.slack.identity import BOT_TOKEN

WORKER = (
    "import asyncio, sys; from tests.threads import posting_worker; "
    "asyncio.run(posting_worker.work(*sys.argv[1:]))"
)
READY = b"ready\n"


class PostingActivities(ABC):
    @activity_options(POST)
    @abstractmethod
    async def post_word(self, place: list[str]) -> str:
        """Post in a thread; returns channel and `ts`."""


@workflow.defn
class PostingWorkflow:
    @workflow.run
    async def run(self, place: list[str]) -> str:
        return await call(PostingActivities.post_word, place)


class LivePostingActivities(PostingActivities):
    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox

    async def post_word(self, place: list[str]) -> str:
        channel, thread_ts = place
        return await self._outbox.publish(
            Post("a word", channel, thread_ts, formatting.notice("Found it."))
        )


async def work(
    database_url: str, api_url: str, temporal: str, namespace: str, resend_after: str
) -> None:
    """Report on the standard output that the worker is ready; run activities after the first line
    of the standard input.
    """
    outbox.RESEND_AFTER = float(resend_after)
    client = await Client.connect(
        temporal, namespace=namespace, data_converter=pydantic_data_converter
    )
    async with aiohttp.ClientSession() as session, Database(database_url) as database:
        slack = SlackClient(make_web_client(BOT_TOKEN, api_url, session))
        live = LivePostingActivities(Outbox(slack, database))
        sys.stdout.buffer.write(READY)
        sys.stdout.buffer.flush()
        await asyncio.to_thread(sys.stdin.readline)
        async with Worker(
            client,
            task_queue=CORE_QUEUE,
            activities=activities_of(live),
            interceptors=[ErrorInterceptor(options_by_name(PostingActivities))],
            max_heartbeat_throttle_interval=HEARTBEATS_EVERY,
        ):
            await asyncio.Event().wait()
