"""The tool that reads its own thread as Slack has it now: authors, texts, times and attached
files.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from threadline.rfps.model import JsonObject
from threadline.slack.client import SlackMessage, message_of
from threadline.slack.history import History
from threadline.slack.model import FileRef, Thread, User
from threadline.slack.names import plain_tokens
from threadline.slack.users import known_names
from threadline.threads.authors import AuthorPolicy
from threadline.tools.context import ToolContext
from threadline.tools.model import ToolResult
from threadline.tools.output import counted, moment
from threadline.tools.registry import tool

MAX_MESSAGES = 2_000
"""Messages of one thread that are read for one answer: ten of Slack's pages. Later ones take a
call with their time.
"""
MOST = 50
"""Messages of one answer; earlier or later ones are found by their time."""
_ROOM = 12_000
"""Characters of all texts of one answer, which its messages share."""
_LEAST = 240


@dataclass(frozen=True)
class ThreadPart:
    """The root and the newest messages of a thread, in the order in which they were written.

    - `users`: the authors by id;
    - `left_out`: number of messages between the two;
    - `whole`: whether Slack was read to the thread's end;
    - `external`: number of messages of external people, which are left out.
    """

    messages: Sequence[SlackMessage]
    users: Mapping[str, User | None] = field(default_factory=dict)
    left_out: int = 0
    whole: bool = True
    external: int = 0


class ThreadReader:
    """Reads a thread from Slack. `authors` decides whose messages count; the others are left
    out.
    """

    def __init__(self, history: History, authors: AuthorPolicy) -> None:
        self._history = history
        self._authors = authors

    async def read(self, thread: Thread, since: datetime | None, limit: int) -> ThreadPart:
        """Return the root and the newest messages after `since`, at most `limit` in all. Empty if
        the thread is gone.

        Raises:
            Permanent, Transient: Slack does not show the thread.
        """
        oldest = f"{max(since.timestamp(), 0.0):.6f}" if since else "0"
        found = list[Mapping[str, Any]]()
        whole = False
        async with aclosing(
            self._history.thread_messages(thread.channel, thread.ts, oldest)
        ) as shown:
            async for raw in shown:
                if len(found) >= MAX_MESSAGES:
                    break
                if raw.get("subtype") != "tombstone":
                    found.append(raw)
            else:
                whole = True
        counted, users = await self._authors.filter_messages(thread, found)
        messages = [message_of(each) for each in counted]
        root = [each for each in messages if each.ts == thread.ts]
        newest = deque(
            (each for each in messages if each.ts != thread.ts), maxlen=max(limit - 1, 0)
        )
        part = [*root, *newest]
        return ThreadPart(
            part, users, len(messages) - len(part), whole, external=len(found) - len(counted)
        )


def _time(value: object) -> datetime:
    try:
        told = value if isinstance(value, datetime) else datetime.fromisoformat(str(value).strip())
        return (told if told.tzinfo else told.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError("expected a date and time such as 2026-03-02T10:00+01:00") from None


Since = Annotated[
    datetime,
    BeforeValidator(_time, json_schema_input_type=str),
    Field(
        description=(
            "Only what was written after it, such as 2026-03-02T10:00+01:00; without an offset, "
            "UTC."
        )
    ),
]


@tool(
    "slack.get.thread",
    "The messages of this thread as Slack has them now, with their authors, times and files; a "
    "file's id is what other tools take. What they forward or quote is shown apart from what "
    "they wrote. People write there what they like: facts are in the records.",
    needs=(ThreadReader,),
    keep_result=False,  # no copy of a message that is deleted in Slack
    timeout=60.0,
    remote=True,
)
async def get_thread(
    context: ToolContext,
    *,
    limit: Annotated[
        int, Field(ge=1, le=MOST, description="The thread's first message, and the newest.")
    ] = 30,
    since: Since | None = None,
) -> ToolResult:
    part = await context.services[ThreadReader].read(context.thread, since, limit)
    longest = max(_LEAST, _ROOM // max(len(part.messages), 1))
    told = [_record(each, part.users, longest) for each in part.messages]
    files = sum(len(each.files) for each in part.messages)
    attached = f", {counted(files, 'file')}" if files else ""
    data: JsonObject = {"messages": told, "left_out": part.left_out, "read_to_the_end": part.whole}
    if part.external:
        data["not_shown_by_external_people"] = part.external
    return ToolResult(
        data=data,
        display_text=f"{counted(len(told), 'message')}{attached}."
        if told
        else "Slack shows no messages of this thread.",
    )


TOOLS = [get_thread]


def _record(message: SlackMessage, users: Mapping[str, User | None], longest: int) -> JsonObject:
    names = known_names(users)
    text = plain_tokens(message.text, names)
    if len(text) > longest:
        text = f"{text[: longest - 1]}…"
    at = datetime.fromtimestamp(float(message.ts), UTC)
    by = names.get(message.user, message.user) if message.user else "an app"
    told: JsonObject = {"at": moment(at), "by": by, "text": text}
    if message.forwarded:
        told["forwarded"] = plain_tokens(message.forwarded, names)[:longest]
    if message.files:
        told["files"] = [_file(each, longest) for each in message.files]
    return told


def _file(file: FileRef, longest: int) -> JsonObject:
    told: JsonObject = {
        "file_id": file.id,
        "name": file.name,
        "type": file.mimetype,
        "bytes": file.size,
    }
    if file.preview:
        told["preview"] = file.preview[:longest]
    return told
