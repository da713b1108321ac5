"""Runs the core's activities without its workflows: `python -m bench.parts.activity_worker
TEMPORAL POSTGRES SLACK`.
"""

import asyncio
import sys

import aiohttp
import uvloop
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Worker

from threadline.cases.activities import LiveCaseActivities
from threadline.cases.contract import CaseActivities, CasePostActivities
from threadline.cases.model import CaseLimits
from threadline.cases.posts import CaseChannels, LiveCasePostActivities
from threadline.db.engine import Database
from threadline.forge.pull_requests import PullRequests
from threadline.slack.client import SlackClient, make_web_client
from threadline.slack.users import UserDirectory
from threadline.threads.activity import ErrorInterceptor
from threadline.threads.activity_options import activities_of, options_by_name
from threadline.threads.authors import AuthorPolicy
from threadline.threads.model import CORE_QUEUE
from threadline.threads.outbox import Outbox
from threadline_devstack.slack import identity


async def _work(temporal: str, url: str, api_url: str) -> None:
    client = await Client.connect(temporal, data_converter=pydantic_data_converter)
    database = Database(url, pool_size=20)
    channels = CaseChannels(
        identity.TEAM, identity.BOT_USER, identity.SUMMARIES, identity.ESCALATIONS
    )
    async with aiohttp.ClientSession() as session:
        slack = SlackClient(make_web_client(identity.BOT_TOKEN, api_url, session))
        speaking = LiveCasePostActivities(database, Outbox(slack, database), channels)
        case = LiveCaseActivities(
            database,
            slack,
            speaking,
            PullRequests({}),
            limits=CaseLimits(),
            bot_user=identity.BOT_USER,
            authors=AuthorPolicy(UserDirectory(slack.user)),
        )
        async with Worker(
            client,
            task_queue=CORE_QUEUE,
            activities=activities_of(case, speaking),
            interceptors=[ErrorInterceptor(options_by_name(CaseActivities, CasePostActivities))],
            max_concurrent_activities=50,
        ):
            sys.stdout.write('{"event": "activity_worker_ready"}\n')
            sys.stdout.flush()
            await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(_work(*sys.argv[1:4]))
