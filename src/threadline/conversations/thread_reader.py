"""A thread as Slack shows it, with the names of those who wrote there."""

from collections import deque
from collections.abc import Mapping
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any

from threadline.conversations.thread_tool import ThreadMessage, ThreadPart, ThreadReader
from threadline.slack.client import SlackMessage, message_of
from threadline.slack.history import History
from threadline.slack.model import Thread, User
from threadline.slack.users import display_name
from threadline.threads.authors import AuthorPolicy

MAX_MESSAGES = 2_000
"""Messages of one thread that are read for one answer: ten of Slack's pages. Later ones are asked for by their time."""
_AN_APP = "an app"


class SlackThreadReader(ThreadReader):
    """Args: `authors` says whose messages count; the others are left out."""

    def __init__(self, history: History, authors: AuthorPolicy) -> None:
        self._history = history
        self._authors = authors

    async def read(self, thread: Thread, since: datetime | None, limit: int) -> ThreadPart:
        oldest = f"{max(since.timestamp(), 0.0):.6f}" if since else "0"
        found, whole = list[Mapping[str, Any]](), False
        async with aclosing(self._history.thread_messages(thread.channel, thread.ts, oldest)) as shown:
            async for raw in shown:
                if len(found) >= MAX_MESSAGES:
                    break
                if raw.get("subtype") != "tombstone":
                    found.append(raw)
            else:
                whole = True
        counted, users = await self._authors.filter_messages(thread, found)
        messages = [message_of(thread.channel, each) for each in counted]
        part = [_told(each, users) for each in _chosen(messages, thread, limit)]
        return ThreadPart(part, len(messages) - len(part), whole, external=len(found) - len(counted))


def _chosen(messages: list[SlackMessage], thread: Thread, limit: int) -> list[SlackMessage]:
    """The root, and the newest of the others."""
    root = [each for each in messages if each.ts == thread.ts]
    newest = deque((each for each in messages if each.ts != thread.ts), maxlen=max(limit - 1, 0))
    return [*root, *newest]


def _told(message: SlackMessage, users: Mapping[str, User | None]) -> ThreadMessage:
    return ThreadMessage(
        at=datetime.fromtimestamp(float(message.ts), UTC),
        author=display_name(users[message.user], message.user) if message.user else _AN_APP,
        user_id=message.user,
        text=message.text,
        files=message.files,
    )
