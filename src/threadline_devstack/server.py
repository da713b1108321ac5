"""A uvicorn server inside this process: on a port of 127.0.0.1, up when the block begins and gone when it ends."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator

import uvicorn
from starlette.applications import Starlette

HOST = "127.0.0.1"
GRACE = 2
"""Seconds for requests in flight when it stops."""


class _Server(uvicorn.Server):
    """Says when it is up, and leaves the process's signals to whoever runs it."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.contextmanager
def bound(port: int) -> Iterator[socket.socket]:
    """A socket on `port`, 0 for any free one. Raises `OSError` when it is taken."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, port))
        yield listener


@contextlib.asynccontextmanager
async def serving(app: Starlette, listener: socket.socket) -> AsyncIterator[None]:
    config = uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off", timeout_graceful_shutdown=GRACE)
    server = _Server(config)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    up = asyncio.create_task(server.ready.wait())
    try:
        await asyncio.wait({task, up}, return_when=asyncio.FIRST_COMPLETED)
        yield
    finally:
        up.cancel()
        server.should_exit = True
        await task
