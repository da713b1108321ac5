"""Uploads of files in a thread, and calls of the tool that makes RFPs from them."""

import itertools
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from sqlalchemy import text

from tests.documents import document_samples as papers
from tests.support.faulty_sandboxes import FaultySlack
from tests.support.tool_fakes import Clock, context, unheld
from tests.support.tool_results import code_of, message_of
from threadline.db.engine import Database
from threadline.models.model import ToolCall
from threadline.rfps import files
from threadline.rfps.files import RfpFiles
from threadline.rfps.model import BINDING
from threadline.slack.client import SlackClient, make_web_client
from threadline.slack.history import History
from threadline.slack.model import Thread
from threadline.slack.users import UserDirectory
from threadline.threads.authors import AuthorPolicy
from threadline.threads.store import ThreadBindingStore
from threadline.tools.model import ErrorCode, ToolResult
from threadline.tools.registry import ToolRegistry, allowed_tools
from threadline.tools.runner import ToolRunner
from threadline.tools.store import ToolLedger
from threadline_devstack.slack.identity import BOT_TOKEN, GENERAL, REPORTER, TEAM
from threadline_devstack.slack.model import SandboxFile

TOOL = "rfp_create_from_slack_file"
MIB = 2**20
BRIEF = papers.pdf("A crane for the harbour", "Due on 31 March")


class Caller:
    """Calls the tool in a thread."""

    def __init__(self, database: Database, api_url: str, session: aiohttp.ClientSession) -> None:
        self.database = database
        slack = SlackClient(make_web_client(BOT_TOKEN, api_url, session))
        authors = AuthorPolicy(UserDirectory(slack.user))
        self._services = unheld().with_service(
            RfpFiles, RfpFiles(database, slack, History(slack), authors)
        )
        registry = ToolRegistry(files.TOOLS)
        everything = allowed_tools(registry, self._services, read_only=False)
        self._run = ToolRunner(registry, everything, ToolLedger(database)).run

    async def call(
        self, thread: Thread, call_id: str, retries_left: int, **given: Any
    ) -> ToolResult:
        where = context(
            team=thread.team,
            channel=thread.channel,
            thread_ts=thread.ts,
            user_id=REPORTER,
            clock=Clock(),
            services=self._services,
            call_id=call_id,
            retries_left=retries_left,
        )
        return await self._run(ToolCall(call_id, TOOL, json.dumps(given)), where)


class FileScene(Caller):
    """Uploads files in a thread, and calls the tool there."""

    def __init__(
        self, database: Database, sandbox: FaultySlack, session: aiohttp.ClientSession
    ) -> None:
        super().__init__(database, sandbox.api_url, session)
        self.sandbox = sandbox
        self._ids = (f"call_{number}" for number in itertools.count(1))
        self.thread = self.new_thread()

    def new_thread(self, channel: str = GENERAL) -> Thread:
        return Thread(TEAM, channel, self.sandbox.workspace.post(channel, REPORTER, "hello").ts)

    def upload(
        self,
        content: bytes,
        name: str = "brief.pdf",
        thread: Thread | None = None,
        user: str = REPORTER,
    ) -> SandboxFile:
        file = self.sandbox.workspace.add_file(name, user, content)
        self.share(file, user, thread)
        return file

    def share(self, file: SandboxFile, user: str, thread: Thread | None = None) -> None:
        at = thread or self.thread
        self.sandbox.workspace.post(at.channel, user, "see", thread_ts=at.ts, files=[file.id])

    async def ask(
        self,
        file_id: str,
        thread: Thread | None = None,
        call_id: str = "",
        retries_left: int = 0,
        **given: Any,
    ) -> ToolResult:
        called = call_id or next(self._ids)
        return await self.call(
            thread or self.thread, called, retries_left, file_id=file_id, **given
        )

    async def made(self, file_id: str, **given: Any) -> dict[str, Any]:
        """The data of a call that must succeed."""
        result = await self.ask(file_id, **given)
        assert result.success, result.error
        assert isinstance(result.data, dict)
        return result.data

    async def refused(self, file_id: str, **given: Any) -> str:
        """Return the text of a call that must be refused, and assert that the call wrote no
        rows.
        """
        before = await self.kept()
        result = await self.ask(file_id, **given)
        assert code_of(result) is ErrorCode.REFUSED
        assert await self.kept() == before
        return message_of(result)

    async def kept(self) -> dict[str, int]:
        """Return the number of rows in every table that a file could fill."""
        tables = ("rfps", "opportunity_states", "events", "thread_bindings")
        async with self.database.begin() as tx:
            rows = {
                each: text(f"SELECT count(*) FROM {each}")  # noqa: S608 - our names
                for each in tables
            }
            return {name: (await tx.execute(query)).scalar_one() for name, query in rows.items()}

    async def about(self, thread: Thread) -> str | None:
        async with self.database.begin() as tx:
            return (await ThreadBindingStore(tx).of(thread)).get(BINDING)


@pytest.fixture
async def desk(database: Database) -> AsyncIterator[FileScene]:
    async with FaultySlack.running() as sandbox, aiohttp.ClientSession() as session:
        yield FileScene(database, sandbox, session)


WORKER = (
    "import asyncio, sys; from tests.rfps import file_scene; "
    "asyncio.run(file_scene.work(*sys.argv[1:]))"
)


async def work(
    database_url: str, api_url: str, channel: str, thread_ts: str, file_id: str
) -> None:
    """One call, in a process of its own."""
    async with aiohttp.ClientSession() as session:
        caller = Caller(Database(database_url), api_url, session)
        await caller.call(Thread(TEAM, channel, thread_ts), "c", 2, file_id=file_id)
