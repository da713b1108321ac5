"""A model sandbox with a port of its own, in this process."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Self

import uvicorn

from threadline_devstack.models.app import build
from threadline_devstack.models.director import Director
from threadline_devstack.models.investigation import investigate
from threadline_devstack.models.script import Script

SHUTDOWN_SECONDS = 1
"""How long a reply that is still held may delay the end."""


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals belong to the process around the sandbox, which may be a test run or the whole devstack."""
        yield


@dataclass(repr=False)
class ModelSandbox(Director):
    """A director that is reachable at `url`, which is what ANTHROPIC_BASE_URL wants; OPENAI_BASE_URL ends in `/v1`."""

    url: str = ""

    @classmethod
    @contextlib.asynccontextmanager
    async def running(
        cls, *, port: int = 0, default: Script = investigate, pace: float = 0.0, api_key: str = ""
    ) -> AsyncIterator[Self]:
        """Serve on 127.0.0.1 until the block ends.

        Args:
            port: 0 takes a free one.
            default: what plays where no registered script wants to.
            pace: seconds of pause before every reply.
            api_key: the only key that is let in; any when empty.

        Raises:
            OSError: the port is taken.
        """
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", port))
            listener.listen()
            sandbox = cls(default, pace, api_key, url=f"http://127.0.0.1:{listener.getsockname()[1]}")
            server = _Server(
                uvicorn.Config(
                    build(sandbox),
                    # Replies that break off on purpose are errors to uvicorn; they are what was asked for.
                    log_config=None,
                    log_level="critical",
                    lifespan="off",
                    timeout_graceful_shutdown=SHUTDOWN_SECONDS,
                )
            )
            serving = asyncio.create_task(server.serve([listener]))
            try:
                yield sandbox
            finally:
                server.should_exit = True
                await serving
