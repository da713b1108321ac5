"""A thread as Slack shows it, with the names of those who wrote there."""

import asyncio
from collections import deque
from collections.abc import Mapping
from contextlib import aclosing
from datetime import UTC, datetime

from threadline.activities.names import Names
from threadline.domain.addressing import Thread
from threadline.slack.client import SlackMessage, message_of
from threadline.slack.history import History
from threadline.tools.builtin.slack_thread import ThreadMessage, ThreadPart, ThreadReader

MOST_READ = 2_000
"""Messages of one thread that are read for one answer: ten of Slack's pages. Later ones are asked for by their time."""
_AN_APP = "an app"


class SlackThreads(ThreadReader):
    def __init__(self, history: History, names: Names) -> None:
        self._history = history
        self._names = names

    async def read(self, thread: Thread, since: datetime | None, limit: int) -> ThreadPart:
        oldest = f"{max(since.timestamp(), 0.0):.6f}" if since else "0"
        root, newest, count = list[SlackMessage](), deque[SlackMessage](maxlen=max(limit - 1, 0)), 0
        async with aclosing(self._history.thread(thread.channel, thread.ts, oldest)) as shown:
            async for raw in shown:
                if count >= MOST_READ:
                    break
                message = message_of(thread.channel, raw)
                if message.subtype == "tombstone":
                    continue
                count += 1
                (root if message.ts == thread.ts else newest).append(message)
            else:
                return await self._part([*root, *newest], count, whole=True)
        return await self._part([*root, *newest], count, whole=False)

    async def _part(self, messages: list[SlackMessage], count: int, *, whole: bool) -> ThreadPart:
        users = list(dict.fromkeys(each.user for each in messages if each.user))
        names = dict(zip(users, await asyncio.gather(*map(self._names.of, users)), strict=True))
        return ThreadPart([_told(each, names) for each in messages], count - len(messages), whole)


def _told(message: SlackMessage, names: Mapping[str, str]) -> ThreadMessage:
    return ThreadMessage(
        at=datetime.fromtimestamp(float(message.ts), UTC),
        author=names.get(message.user, _AN_APP),
        user_id=message.user,
        text=message.text,
        files=message.files,
    )
