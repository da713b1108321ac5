"""A model sandbox with a port of its own, in this process."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Self

from threadline_devstack.models.app import build
from threadline_devstack.models.director import Director
from threadline_devstack.server import HOST, bound, serving

SHUTDOWN_SECONDS = 1
"""How long a reply that is still held may delay the end."""


@dataclass(repr=False)
class ModelSandbox(Director):
    """A director that is reachable at `url`, which is what ANTHROPIC_BASE_URL wants; OPENAI_BASE_URL ends in `/v1`."""

    url: str = ""

    @classmethod
    @contextlib.asynccontextmanager
    async def running(cls, *, port: int = 0, pace: float = 0.0, api_key: str = "") -> AsyncIterator[Self]:
        """Serve on 127.0.0.1 until the block ends.

        Args:
            port: 0 takes a free one.
            pace: seconds of pause before every reply.
            api_key: the only key that is let in; any when empty.

        Raises:
            OSError: the port is taken.
        """
        with bound(port) as listener:
            sandbox = cls(pace, api_key, url=f"http://{HOST}:{listener.getsockname()[1]}")
            # Replies that break off on purpose are errors to uvicorn.
            async with serving(build(sandbox), listener, grace=SHUTDOWN_SECONDS, log_level="critical"):
                yield sandbox

    @property
    def settings(self) -> dict[str, str]:
        """By which the product finds both models, Anthropic's and OpenAI's."""
        key = self.api_key or "model-sandbox"
        anthropic = {"ANTHROPIC_BASE_URL": self.url, "ANTHROPIC_API_KEY": key}
        return anthropic | {"OPENAI_BASE_URL": f"{self.url}/v1", "OPENAI_API_KEY": key}
