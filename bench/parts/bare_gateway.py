"""The floor of the gateway: `python -m bench.parts.bare_gateway TEMPORAL SLACK HOST:PORT|socket`.

A Bolt app as in Bolt's guide: it verifies, and answers after Temporal has accepted one signal.
"""

import asyncio
import logging
import sys
from typing import Any

import uvloop
from aiohttp import web
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_sdk.web.async_client import AsyncWebClient
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter

from bench.parts.least import QUEUE
from threadline_devstack.slack import identity


async def _serve(temporal: str, slack: str, address: str) -> None:
    client = await Client.connect(temporal, data_converter=pydantic_data_converter)
    app = AsyncApp(
        signing_secret=identity.SIGNING_SECRET,
        client=AsyncWebClient(identity.BOT_TOKEN, base_url=slack),
        process_before_response=True,
    )

    @app.event("message")
    async def take(event: dict[str, Any]) -> None:
        await client.start_workflow(
            "EmptyQueue",
            id=f"bare:{event['channel']}:{event['thread_ts']}",
            task_queue=f"{QUEUE}-unserved",
            start_signal="message",
            start_signal_args=[event],
        )

    if address == "socket":
        handler = AsyncSocketModeHandler(app, identity.APP_TOKEN, web_client=app.client)
        await handler.connect_async()  # type: ignore[no-untyped-call]  # Bolt's has none
    else:
        host, _, port = address.rpartition(":")
        runner = web.AppRunner(app.web_app(path="/slack/events", port=int(port)), access_log=None)
        await runner.setup()
        await web.TCPSite(runner, host, int(port)).start()
    sys.stdout.write('{"event": "bare_gateway_ready"}\n')
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    uvloop.run(_serve(*sys.argv[1:4]))
