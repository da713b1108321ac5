"""A thread as Slack shows it, with the names of those who wrote there."""

import asyncio
from collections import deque
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from threadline.conversations.thread_tool import ThreadMessage, ThreadPart, ThreadReader
from threadline.slack.client import SlackMessage, message_of
from threadline.slack.history import History
from threadline.slack.model import Thread
from threadline.threads.history_authors import HavingASay
from threadline.threads.user_names import Names

MOST_READ = 2_000
"""Messages of one thread that are read for one answer: ten of Slack's pages. Later ones are asked for by their time."""
_AN_APP = "an app"


class SlackThreads(ThreadReader):
    """Args: `say` knows whose words count; those of others are left out."""

    def __init__(self, history: History, names: Names, say: HavingASay) -> None:
        self._history = history
        self._names = names
        self._say = say

    async def read(self, thread: Thread, since: datetime | None, limit: int) -> ThreadPart:
        oldest = f"{max(since.timestamp(), 0.0):.6f}" if since else "0"
        found, whole = list[Mapping[str, Any]](), False
        async with aclosing(self._history.thread(thread.channel, thread.ts, oldest)) as shown:
            async for raw in shown:
                if len(found) >= MOST_READ:
                    break
                if raw.get("subtype") != "tombstone":
                    found.append(raw)
            else:
                whole = True
        counted, _ = await self._say.among(thread, found)
        messages = [message_of(thread.channel, each) for each in counted]
        part = await self._part(_chosen(messages, thread, limit), len(messages), whole=whole)
        return replace(part, external=len(found) - len(counted))

    async def _part(self, messages: list[SlackMessage], count: int, *, whole: bool) -> ThreadPart:
        users = list(dict.fromkeys(each.user for each in messages if each.user))
        names = dict(zip(users, await asyncio.gather(*map(self._names.of, users)), strict=True))
        return ThreadPart([_told(each, names) for each in messages], count - len(messages), whole)


def _chosen(messages: list[SlackMessage], thread: Thread, limit: int) -> list[SlackMessage]:
    """The root, and the newest of the others."""
    root = [each for each in messages if each.ts == thread.ts]
    newest = deque((each for each in messages if each.ts != thread.ts), maxlen=max(limit - 1, 0))
    return [*root, *newest]


def _told(message: SlackMessage, names: Mapping[str, str]) -> ThreadMessage:
    return ThreadMessage(
        at=datetime.fromtimestamp(float(message.ts), UTC),
        author=names.get(message.user, _AN_APP),
        user_id=message.user,
        text=message.text,
        files=message.files,
    )
