"""What the people of a story have in common: they look into the sandbox until they see what must come."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import TypeVar

from threadline.errors import Permanent
from threadline_devstack.clients import Json, ModelControl, until
from threadline_devstack.slack.identity import BOT_USER
from threadline_devstack.stack import Stack

PATIENCE = 30.0
"""Seconds until what must come is taken for not coming: far more than it takes on a busy laptop."""

Seen = TypeVar("Seen")
Hear = Callable[[Json], None]
"""Gets each message of a scene, by whomever, as Slack's JSON with its `channel`, once."""


class NotSeen(Permanent):
    """Something that must happen was not seen in time."""


class Watching(ABC):
    """Who looks, and tells of each message that is new."""

    def __init__(self, stack: Stack, hear: Hear) -> None:
        self.stack, self.slack = stack, stack.slack
        self._hear = hear
        self._heard: set[tuple[str, str]] = set()

    @property
    def model(self) -> ModelControl:
        """Raises `Permanent` on a stack whose model is not the sandbox."""
        return self.stack.model

    async def until(self, what: str, look: Callable[[], Awaitable[Seen | None]], seconds: float = PATIENCE) -> Seen:
        """Look again and again until something is seen, and return it.

        Raises:
            NotSeen: it did not come; `what` says what.
        """
        async for _ in until(seconds):
            await self._listen()
            if seen := await look():
                await self._listen()
                return seen
        raise NotSeen(f"this was not seen within {seconds:.0f} s: {what}")

    async def until_delivered(self) -> None:
        """Whatever people did has been taken by the gateway."""

        async def look() -> bool:
            return await self.slack.undelivered() == 0

        await self.until("every event is acknowledged", look)

    @abstractmethod
    async def places(self) -> list[tuple[str, str]]:
        """The threads that belong to the scene, as channel and root."""

    async def _listen(self) -> None:
        for channel, root in await self.places():
            for message in await self.slack.thread(channel, root):
                if (channel, message["ts"]) not in self._heard:
                    self._heard.add((channel, message["ts"]))
                    self._hear({**message, "channel": channel})


def workflow_url(stack: Stack, workflow_id: str) -> str:
    return f"{stack.ui_url}/namespaces/{stack.temporal_namespace}/workflows/{workflow_id}"


def words_of(message: Json) -> str:
    """All that a message says: its text, and what its blocks add to that."""
    blocks = [block.get("text", "") for block in message.get("blocks", [])]
    texts = [text if isinstance(text, str) else str(text.get("text", "")) for text in blocks]
    return "\n".join(dict.fromkeys((message.get("text", ""), *texts)))


def is_by_bot(message: Json) -> bool:
    return bool(message.get("user") == BOT_USER)


def holds(message: Json, words: tuple[str, ...]) -> bool:
    """Whether a message has all the words, whatever their case."""
    said = words_of(message).lower()
    return all(word.lower() in said for word in words)
