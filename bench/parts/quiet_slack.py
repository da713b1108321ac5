"""A minimal Slack: it accepts every call, counts posts, and sends events over a socket or by HTTP.

The devstack's sandbox stores channels, checks arguments and redelivers; a benchmark would measure
that as well.
"""

import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

from aiohttp import ClientSession, WSMsgType, web

from threadline_devstack.processes import HOST
from threadline_devstack.slack import identity
from threadline_devstack.slack.delivery import sign

Json = dict[str, Any]


class QuietSlack:
    """The minimal Slack. `url` is its origin."""

    def __init__(self) -> None:
        self.url = ""
        self.posts: Counter[str] = Counter()
        """Posts by the last word of their key, such as `findings`."""
        self.calls = 0
        self.last_post = 0.0
        self.connected = asyncio.Event()
        self._sockets: list[web.WebSocketResponse] = []
        self._waiting: dict[str, asyncio.Future[None]] = {}
        self._number = 0

    @property
    def api_url(self) -> str:
        return f"{self.url}/api/"

    def application(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/api/{method}", self._call)
        app.router.add_get("/api/{method}", self._call)
        app.router.add_get("/link", self._link)
        app.router.add_get("/posts", self._told)
        return app

    async def by_socket(self, event: Json) -> None:
        """Send one event over a socket, and return after its acknowledgement."""
        envelope = str(uuid4())
        answer = self._waiting[envelope] = asyncio.get_running_loop().create_future()
        told = {
            "envelope_id": envelope,
            "type": "events_api",
            "payload": event,
            "accepts_response_payload": False,
        }
        try:
            await self._sockets[-1].send_json(told)
            await answer
        finally:
            del self._waiting[envelope]

    async def _call(self, request: web.Request) -> web.Response:
        method = request.match_info["method"]
        self.calls += 1
        if method == "chat.postMessage":
            return web.json_response(await self._post(request))
        return web.json_response({"ok": True, **_ANSWERS.get(method, {}), **self._address(method)})

    def _address(self, method: str) -> Json:
        if method != "apps.connections.open":
            return {}
        return {"url": f"{self.url.replace('http', 'ws', 1)}/link"}

    async def _post(self, request: web.Request) -> Json:
        given = await request.json()
        about = (given.get("metadata") or {}).get("event_payload") or {}
        key = str(about.get("key", ""))
        self.last_post = time.time()
        self.posts[key.rpartition(":")[2]] += 1
        self._number += 1
        return {
            "ok": True,
            "channel": given["channel"],
            "ts": f"{time.time():.0f}.{self._number:06d}",
        }

    async def _told(self, _: web.Request) -> web.Response:
        return web.json_response(
            {"posts": self.posts, "calls": self.calls, "last": self.last_post}
        )

    async def _link(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_json(
            {"type": "hello", "num_connections": 1, "debug_info": {}, "connection_info": {}}
        )
        self._sockets.append(socket)
        self.connected.set()
        async for message in socket:
            if message.type is WSMsgType.TEXT:
                waiting = self._waiting.get(json.loads(message.data).get("envelope_id"))
                if waiting and not waiting.done():
                    waiting.set_result(None)
        self._sockets.remove(socket)
        return socket


_ANSWERS: dict[str, Json] = {
    "auth.test": {
        "team_id": identity.TEAM,
        "user_id": identity.BOT_USER,
        "bot_id": identity.BOT_ID,
        "user": identity.BOT_NAME,
        "team": identity.TEAM_NAME,
        "url": "http://slack.invalid/",
    },
    "users.info": {"user": {"team_id": identity.TEAM, "name": "somebody"}},
    "conversations.history": {"messages": []},
    "conversations.replies": {"messages": []},
}


async def by_http(session: ClientSession, address: str, event: Json) -> int:
    """Send one signed event. Return the status of the answer."""
    body = json.dumps(event).encode()
    headers = {"Content-Type": "application/json"} | sign(
        identity.SIGNING_SECRET, body, int(time.time())
    )
    async with session.post(address, data=body, headers=headers) as answer:
        await answer.read()
        return answer.status


@asynccontextmanager
async def serving() -> AsyncIterator[QuietSlack]:
    """Serve a quiet Slack in this process, on a free port."""
    slack = QuietSlack()
    runner = web.AppRunner(slack.application(), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, HOST, 0).start()
        slack.url = f"http://{HOST}:{runner.addresses[0][1]}"
        yield slack
    finally:
        await runner.cleanup()


async def _serve() -> None:
    async with serving() as slack:
        sys.stdout.write(json.dumps({"event": "quiet_slack_ready", "url": slack.url}) + "\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve())
