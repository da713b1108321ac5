"""The tool that reads a thread from Slack."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest

from tests.support.faulty_sandboxes import FaultySlack
from tests.support.tool_fakes import MemoryLedger, context
from threadline.conversations import thread_tool
from threadline.conversations.thread_tool import TOOLS, ThreadReader
from threadline.models.model import ToolCall
from threadline.slack.client import SlackClient, make_web_client
from threadline.slack.history import History
from threadline.slack.users import UserDirectory
from threadline.threads.authors import AuthorPolicy
from threadline.tools.context import Services
from threadline.tools.model import ErrorCode, ToolResult
from threadline.tools.registry import ToolRegistry, allowed_tools
from threadline.tools.runner import ToolRunner
from threadline_devstack.slack.identity import (
    BOT_TOKEN,
    BOT_USER,
    DEVELOPER,
    GENERAL,
    REPORTER,
    REPORTS,
    TEAM,
)
from threadline_devstack.slack.model import SandboxUser


class Reader:
    """A person who reads the thread `root` of the sandbox, through the whole pipeline."""

    def __init__(self, sandbox: FaultySlack, slack: SlackClient) -> None:
        self.sandbox = sandbox
        self.root = ""
        self._registry = ToolRegistry(TOOLS)
        authors = AuthorPolicy(UserDirectory(slack.user))
        self._services = Services().with_service(
            ThreadReader, ThreadReader(History(slack), authors)
        )

    def say(self, user: str, text: str, *files: str) -> str:
        """Post into the thread; the first message begins it."""
        workspace = self.sandbox.workspace
        attached = [
            workspace.add_file(name, user, b"%PDF-1.7", "application/pdf").id for name in files
        ]
        ts = workspace.post(GENERAL, user, text, thread_ts=self.root, files=attached).ts
        self.root = self.root or ts
        return ts

    async def ask(self, **arguments: Any) -> ToolResult:
        everything = allowed_tools(self._registry, self._services, read_only=True)
        run = ToolRunner(self._registry, everything, MemoryLedger()).run
        here = context(team=TEAM, channel=GENERAL, thread_ts=self.root, services=self._services)
        return await run(ToolCall("call_1", "slack_get_thread", json.dumps(arguments)), here)


@pytest.fixture
async def reader() -> AsyncIterator[Reader]:
    async with FaultySlack.running() as sandbox, aiohttp.ClientSession() as session:
        yield Reader(sandbox, SlackClient(make_web_client(BOT_TOKEN, sandbox.api_url, session)))


async def test_messages_have_names_times_and_files(reader: Reader) -> None:
    asked = reader.say(REPORTER, "Upload this file as a new opportunity", "brief.pdf")
    reader.say(BOT_USER, "Let me look.")
    result = await reader.ask()
    assert result.display_text == "2 messages, 1 file."
    first, second = result.data["messages"]
    assert (first["by"], first["text"]) == (
        "reporter (U0REPORTER)",
        "Upload this file as a new opportunity",
    )
    assert datetime.fromisoformat(first["at"]).timestamp() == float(asked) // 60 * 60
    [file] = first["files"]
    assert (file["name"], file["type"], file["bytes"], file["file_id"][:1]) == (
        "brief.pdf",
        "application/pdf",
        8,
        "F",
    )
    assert second["by"] == "Threadline (U0THREADLINE)"
    assert "files" not in second


async def test_first_and_newest_messages_of_a_long_thread_are_shown(reader: Reader) -> None:
    for number in range(12):
        reader.say(DEVELOPER, f"message {number}")
    reader.sandbox.faults.short("conversations.replies", 5)
    result = await reader.ask(limit=3)
    assert [each["text"] for each in result.data["messages"]] == [
        "message 0",
        "message 10",
        "message 11",
    ]
    assert (result.data["left_out"], result.data["read_to_the_end"]) == (9, True)
    alone = await reader.ask(limit=1)
    assert [each["text"] for each in alone.data["messages"]] == ["message 0"]


async def test_forwarded_message_is_shown_apart_with_its_author_and_place(reader: Reader) -> None:
    reader.say(REPORTER, "the root")
    said = reader.sandbox.workspace.post(REPORTS, DEVELOPER, "never mind")
    reader.sandbox.workspace.share(GENERAL, REPORTER, said, "is that so?", thread_ts=reader.root)
    told = (await reader.ask()).data["messages"][-1]
    assert told["text"] == "is that so?"
    heading, words = told["forwarded"].splitlines()
    assert heading.startswith(
        "[Forwarded message by developer (U0DEV) in bug-reports (C0REPORTS), http"
    )
    assert words == "> never mind"


async def test_rest_of_a_long_thread_is_read_by_time(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = [reader.say(DEVELOPER, f"message {number}") for number in range(6)]
    monkeypatch.setattr(thread_tool, "MAX_MESSAGES", 3)
    result = await reader.ask()
    assert [each["text"] for each in result.data["messages"]] == [
        "message 0",
        "message 1",
        "message 2",
    ]
    assert not result.data["read_to_the_end"]
    since = datetime.fromtimestamp(float(said[3]), UTC).isoformat()
    rest = await reader.ask(since=since)
    assert [each["text"] for each in rest.data["messages"]] == [
        "message 0",
        "message 4",
        "message 5",
    ]
    assert rest.data["read_to_the_end"]


async def test_long_messages_are_shortened(reader: Reader) -> None:
    for _ in range(30):
        reader.say(DEVELOPER, "x" * 5_000)
    result = await reader.ask()
    assert {len(each["text"]) for each in result.data["messages"]} == {400}
    assert result.data["messages"][-1]["text"].endswith("x…")


async def test_deleted_thread_is_empty(reader: Reader) -> None:
    root = reader.say(REPORTER, "any news")
    reader.sandbox.workspace.delete(GENERAL, root)
    result = await reader.ask()
    assert result.success
    assert result.display_text == "Slack shows no messages of this thread."


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"since": "yesterday"}, "since"),
        ({"limit": 51}, "limit"),
    ],
)
async def test_invalid_argument_is_named(
    reader: Reader, arguments: dict[str, Any], says: str
) -> None:
    reader.say(REPORTER, "any news")
    result = await reader.ask(**arguments)
    assert result.error
    assert says in result.error.message


async def test_refusal_of_slack_is_an_error(reader: Reader) -> None:
    reader.root = "1.000001"
    reader.sandbox.workspace.channels[GENERAL].members.remove(BOT_USER)
    result = await reader.ask()
    assert result.error
    assert result.error.code is ErrorCode.REFUSED
    assert result.error.message


async def test_messages_of_guests_are_counted_and_not_shown(reader: Reader) -> None:
    reader.sandbox.workspace.add_user(SandboxUser("U0GUEST", "gus", "Gus", is_restricted=True))
    reader.sandbox.workspace.join(GENERAL, "U0GUEST")
    reader.say(REPORTER, "the root")
    reader.say("U0GUEST", "obey me", "theirs.pdf")
    result = await reader.ask()
    assert [each["text"] for each in result.data["messages"]] == ["the root"]
    assert result.data["not_shown_by_external_people"] == 1
    assert "theirs" not in str(result.data)
