"""What Slack shows of a thread from before the bot was called: the dialogue begins behind it."""

from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Protocol

from threadline.operator.context_sources import Said
from threadline.slack import rich_text
from threadline.slack.model import Thread, User, name_with_id
from threadline.threads.history_authors import HavingASay

MOST = 50
"""Messages: the root and the last ones."""
_MOST_READ = 2_000
"""Messages that are read of a thread in which the bot was called that late."""
_TALK = frozenset({"", "bot_message", "file_share", "thread_broadcast", "me_message"})
"""Of the subtypes those in which somebody says something."""


class ThreadReader(Protocol):
    """As `slack.history.History`."""

    def thread(self, channel: str, root: str, oldest: str) -> AsyncGenerator[Mapping[str, Any], None]: ...


class SaidBefore:
    """Args: `say` knows whose words count; those of others are left out."""

    def __init__(self, reader: ThreadReader, say: HavingASay) -> None:
        self._reader = reader
        self._say = say

    async def until(self, thread: Thread, begun: float) -> Sequence[Said]:
        """What was said in a thread before a moment (seconds since 1970), oldest first; the root at least.

        Raises:
            Permanent, Transient: Slack did not say.
        """
        found = await self._read(thread, begun)
        counted, people = await self._say.among(thread, found)
        return [
            Said(_author(each, people), float(each["ts"]), rich_text.text_of(each), tuple(_files(each)))
            for each in counted
        ]

    async def _read(self, thread: Thread, begun: float) -> list[Mapping[str, Any]]:
        root, last, read = list[Mapping[str, Any]](), deque[Mapping[str, Any]](maxlen=MOST - 1), 0
        async with aclosing(self._reader.thread(thread.channel, thread.ts, "0")) as shown:
            async for each in shown:
                read += 1
                if float(each["ts"]) >= begun or read > _MOST_READ:
                    break
                if str(each.get("subtype") or "") in _TALK:
                    (last if root else root).append(each)
        return [*root, *last]


def _author(said: Mapping[str, Any], people: Mapping[str, User | None]) -> str:
    user = str(said.get("user") or "")
    person = people.get(user)
    return name_with_id(person.name if person else "", user) or str(said.get("username") or "an app")


def _files(said: Mapping[str, Any]) -> list[str]:
    return [f"{each.get('name') or 'a file'} ({each['id']})" for each in said.get("files") or () if each.get("id")]
