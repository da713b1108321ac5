"""The common part of all sandboxes: a uvicorn server on a port of 127.0.0.1, and the guards in
front of its routes.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from threadline_devstack.processes import HOST

Endpoint = Callable[[Request], Awaitable[Response]]
Guard = Callable[[str, Endpoint], Endpoint]
"""Wraps an endpoint of a service."""
GRACE = 2
"""Seconds for requests in flight when the server stops."""
KEEP_ALIVE = 75
"""Seconds after which the server closes an idle connection.

The clients close theirs sooner (aiohttp after 15, httpx after 5); with uvicorn's 5 a request could
meet a connection that was just closed.
"""

JSON_ALONE = ("/control/", "/v1/")
"""Paths of orders to the Slack sandbox, and of requests to the models."""


class JsonOrders:
    """Refuses orders that are not JSON.

    A browser lets any web page send a form or plain text to this machine, but asks the server
    before it sends JSON.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app
        if (
            scope["type"] == "http"
            and scope["method"] == "POST"
            and scope["path"].startswith(JSON_ALONE)
        ):
            content_type = (
                Headers(scope=scope).get("content-type", "").partition(";")[0].strip().lower()
            )
            if content_type != "application/json":
                app = JSONResponse(
                    {"ok": False, "error": "send application/json"}, status_code=415
                )
        await app(scope, receive, send)


def guarded(routes: Sequence[BaseRoute]) -> Starlette:
    """Return a sandbox's app, which answers only to this machine's names and takes only orders in
    JSON.

    The first guard shuts out a web site that lets its own name point to this machine (DNS
    rebinding).
    """
    hosts = Middleware(TrustedHostMiddleware, allowed_hosts=[HOST, "localhost"])
    return Starlette(routes=routes, middleware=[hosts, Middleware(JsonOrders)])


class _Server(uvicorn.Server):
    """Signals that it is up, stops at once, and leaves the process's signals to its caller.

    uvicorn itself checks only ten times a second whether it should stop, and then waits a tenth of
    a second twice.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()
        self._stopped = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()

    async def main_loop(self) -> None:
        # A tick with count 0 renews the `Date` header, against which the doctor checks its clock.
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopped.wait(), 1)

    def stop(self) -> None:
        self.should_exit = True
        self._stopped.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for listener in sockets or ():
            asyncio.get_running_loop().remove_reader(listener)
        # asyncio leaks a connection whose server closes in the tick that accepts it
        await asyncio.sleep(0.005)
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.config.timeout_graceful_shutdown):
                # uvicorn's own sets have no event to wait for
                while self.server_state.connections or self.server_state.tasks:  # noqa: ASYNC110
                    await asyncio.sleep(0.005)
        for task in self.server_state.tasks:
            task.cancel()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.contextmanager
def bound(port: int) -> Iterator[socket.socket]:
    """Bind a socket to `port` of 127.0.0.1; 0 takes any free one. Raises `OSError` if the port is
    taken.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # otherwise a body waits 40 ms for its head's ACK
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.bind((HOST, port))
        yield listener


@contextlib.asynccontextmanager
async def serving(
    app: Starlette, listener: socket.socket, *, grace: int = GRACE, log_level: str = "warning"
) -> AsyncIterator[None]:
    """Serve until the block ends, and then for `grace` seconds to requests in flight."""
    config = uvicorn.Config(
        app,
        log_config=None,
        log_level=log_level,
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=grace,
        timeout_keep_alive=KEEP_ALIVE,
    )
    server = _Server(config)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    up = asyncio.create_task(server.ready.wait())
    try:
        await asyncio.wait({task, up}, return_when=asyncio.FIRST_COMPLETED)
        yield
    finally:
        up.cancel()
        server.stop()
        await task


async def until_left(request: Request) -> None:
    """Wait until the caller hangs up."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
