"""Files become requests: through the whole pipeline, on the real Postgres, with files from Slack's sandbox."""

import asyncio
import hashlib
import itertools
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from sqlalchemy import text

from tests.db.recording import AUTHOR, until_waited_for
from tests.db.tooling import change
from tests.tools import papers
from tests.tools.doubles import Clock, context
from threadline.activities.rfp_files import AGAIN, CREATED, SlackRfpFiles
from threadline.activities.tool_ports import PostgresExecutionLog
from threadline.db.engine import Database
from threadline.devstack.slack_sandbox import SlackSandbox
from threadline.devstack.slack_sandbox.identity import BOT_TOKEN, DEVELOPER, GENERAL, REPORTER, REPORTS
from threadline.devstack.slack_sandbox.records import File
from threadline.domain.addressing import Thread
from threadline.domain.dialogue import ToolCall
from threadline.domain.errors import Transient
from threadline.domain.rfps import BINDING, Facts, NewRfp, SourceFile
from threadline.slack.client import Slack, make_client
from threadline.tools.access import allowed
from threadline.tools.builtin import files
from threadline.tools.builtin.files import RFP_FILES
from threadline.tools.context import Ports
from threadline.tools.execution import Guards, pipeline
from threadline.tools.registry import Registry
from threadline.tools.results import Code, ToolResult

TOOL = "rfp_create_from_slack_file"
_ROOT = Path(__file__).parents[2]
MIB = 2**20
BRIEF = papers.pdf("A crane for the harbour", "Due on 31 March")


class Caller:
    """A turn in which the tool is called."""

    def __init__(self, database: Database, api_url: str, session: aiohttp.ClientSession) -> None:
        self.database = database
        slack = Slack(make_client(BOT_TOKEN, api_url, session))
        self._ports = Ports().having(RFP_FILES, SlackRfpFiles(database, slack))
        registry = Registry(files.TOOLS)
        guards = Guards(log=PostgresExecutionLog(database))
        self._run = pipeline(registry, allowed(registry, self._ports, read_only=False), guards)

    async def call(self, thread: Thread, call_id: str, retries_left: int, **given: Any) -> ToolResult:
        where = context(
            channel=thread.channel,
            thread_ts=thread.ts,
            user_id=REPORTER,
            clock=Clock(),
            ports=self._ports,
            call_id=call_id,
            retries_left=retries_left,
        )
        return await self._run(ToolCall(call_id, TOOL, json.dumps(given)), where)


class Desk(Caller):
    """Somebody who uploads files in a thread, and calls the tool there."""

    def __init__(self, database: Database, sandbox: SlackSandbox, session: aiohttp.ClientSession) -> None:
        super().__init__(database, sandbox.api_url, session)
        self.sandbox = sandbox
        self._ids = (f"call_{number}" for number in itertools.count(1))
        self.thread = self.new_thread()

    def new_thread(self, channel: str = GENERAL) -> Thread:
        return Thread("T1", channel, self.sandbox.workspace.post(channel, REPORTER, "hello").ts)

    def upload(self, content: bytes, name: str = "brief.pdf", thread: Thread | None = None) -> File:
        at = thread or self.thread
        file = self.sandbox.workspace.add_file(name, REPORTER, content)
        self.sandbox.workspace.post(at.channel, REPORTER, "see", thread_ts=at.ts, files=[file.id])
        return file

    async def ask(
        self, file_id: str, thread: Thread | None = None, call_id: str = "", retries_left: int = 0, **given: Any
    ) -> ToolResult:
        called = call_id or next(self._ids)
        return await self.call(thread or self.thread, called, retries_left, file_id=file_id, **given)

    async def made(self, file_id: str, **given: Any) -> dict[str, Any]:
        """The data of a call that must succeed."""
        result = await self.ask(file_id, **given)
        assert result.success, result.error
        assert isinstance(result.data, dict)
        return result.data

    async def refused(self, file_id: str, **given: Any) -> str:
        """What is said of a call that must be refused, and that nothing was written by it."""
        before = await self.kept()
        result = await self.ask(file_id, **given)
        assert result.error, result.data
        assert result.error.code is Code.REFUSED
        assert await self.kept() == before
        return result.error.message

    async def kept(self) -> dict[str, int]:
        """How many rows there are of everything that a file could make."""
        tables = ("rfps", "opportunity_states", "events", "thread_bindings", "tool_operations")
        async with self.database.begin() as work:
            rows = {each: text(f"SELECT count(*) FROM {each}") for each in tables}  # noqa: S608 - names of ours
            return {name: (await work.connection.execute(query)).scalar_one() for name, query in rows.items()}

    async def about(self, thread: Thread) -> str | None:
        async with self.database.begin() as work:
            return (await work.bindings.of(thread)).get(BINDING)


@pytest.fixture
async def desk(database: Database) -> AsyncIterator[Desk]:
    async with SlackSandbox.running() as sandbox, aiohttp.ClientSession() as session:
        yield Desk(database, sandbox, session)


async def test_a_file_becomes_a_request_with_a_state_an_event_and_its_thread(desk: Desk) -> None:
    file = desk.upload(BRIEF)
    result = await desk.ask(file.id, client="Harbour Ltd", due_date="2026-03-31", correlation_id="forged")
    assert result.success, result.error
    rfp_id = result.data["rfp_id"]
    assert result.data == {
        "rfp_id": rfp_id,
        "title": "A crane for the harbour",
        "client": "Harbour Ltd",
        "due_date": "2026-03-31",
        "status": "new",
        "existed_already": False,
        "file": {"name": "brief.pdf", "kind": "pdf", "pages": 2, "characters": 40, "cut": False},
        "thread_is_about": rfp_id,
        "file_begins": "A crane for the harbour\n\nDue on 31 March",
    }
    assert f"brief.pdf has become {rfp_id} (A crane for the harbour): 2 pages, 40 characters" in result.display_text
    assert await desk.about(desk.thread) == rfp_id
    async with desk.database.begin() as work:
        state = await work.opportunities.ensure_state_exists("T1", rfp_id)
        [event] = await work.events.of("T1", rfp_id)
        assert await work.rfps.text_of("T1", rfp_id) == "A crane for the harbour\n\nDue on 31 March"
    assert (state.version, state.document["client"]) == (1, "Harbour Ltd")
    assert (event.event_type, event.author.correlation_id, event.author.user_id) == (CREATED, "turn-1", REPORTER)
    assert event.payload["sha256"] == hashlib.sha256(BRIEF).hexdigest()


async def test_what_the_model_has_read_comes_before_what_stands_in_the_file(desk: Desk) -> None:
    data = await desk.made(desk.upload(papers.word("Some words of the file"), "brief.docx").id, title="Crane  2")
    assert data["title"] == "Crane 2"
    assert (await desk.made(desk.upload(b"7", "the_big-crane.txt").id))["title"] == "the big crane"


async def test_the_same_file_twice_is_the_same_request_and_says_so(desk: Desk) -> None:
    first = await desk.made(desk.upload(BRIEF).id)
    elsewhere = desk.new_thread(REPORTS)
    result = await desk.ask(desk.upload(BRIEF, "copy.pdf", elsewhere).id, elsewhere, title="Another")
    assert result.data["rfp_id"] == first["rfp_id"]
    assert result.data["title"] == "A crane for the harbour"
    assert result.data["existed_already"]
    assert "copy.pdf was uploaded before" in result.display_text
    assert await desk.about(elsewhere) == first["rfp_id"]
    async with desk.database.begin() as work:
        told = await work.events.of("T1", first["rfp_id"])
    assert [each.event_type for each in told] == [AGAIN, CREATED]
    assert (await desk.kept())["rfps"] == 1


async def test_of_many_who_bring_the_same_file_at_once_one_makes_the_request(desk: Desk) -> None:
    threads = [desk.new_thread() for _ in range(4)]
    uploads = [desk.upload(BRIEF, thread=each) for each in threads]
    made = await asyncio.gather(*(desk.made(file.id, thread=each) for file, each in zip(uploads, threads, strict=True)))
    assert len({each["rfp_id"] for each in made}) == 1
    assert sum(not each["existed_already"] for each in made) == 1
    assert await desk.kept() | {"tool_operations": 0} == {
        "rfps": 1,
        "opportunity_states": 1,
        "events": 4,
        "thread_bindings": 4,
        "tool_operations": 0,
    }


async def test_a_thread_stays_about_what_it_is_about_unless_that_is_gone(desk: Desk) -> None:
    first = await desk.made(desk.upload(BRIEF).id)
    result = await desk.ask(desk.upload(b"A second harbour", "second.md").id)
    assert result.data["thread_is_about"] == first["rfp_id"]
    assert f"stays about {first['rfp_id']}; “link {result.data['rfp_id']}” changes that" in result.display_text
    async with desk.database.begin() as work:
        await work.rfps.delete("T1", first["rfp_id"])
    third = await desk.made(desk.upload(b"A third harbour", "third.md").id)
    assert third["thread_is_about"] == third["rfp_id"] == await desk.about(desk.thread)


async def test_secrets_in_a_file_are_not_kept(desk: Desk) -> None:
    data = await desk.made(desk.upload(b"Crane at postgres://shop:hunter2!@db/shop", "brief.txt").id)
    assert "hunter2" not in json.dumps(data)
    async with desk.database.begin() as work:
        assert "hunter2" not in await work.rfps.text_of("T1", data["rfp_id"])


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("brief.pdf", b"MZ\x90\x00" + bytes(500), "is a program"),
        ("brief.pdf", b"%PDF-1.7\n" + b"\x93" * 5_000, "cannot be read"),
        ("brief.pdf", papers.locked_pdf("hunter2", "A crane"), "has a password"),
        ("scan.pdf", papers.pdf("", ""), "holds no text"),
        ("brief.docx", papers.with_macros(), "holds macros"),
        ("brief.docx", papers.with_entities('<!ENTITY x SYSTEM "file:///etc/passwd">', "&x;"), "declares entities"),
    ],
)
async def test_what_is_no_readable_document_is_refused_and_leaves_nothing(
    desk: Desk, name: str, content: bytes, says: str
) -> None:
    assert says in await desk.refused(desk.upload(content, name).id)


async def test_a_zip_bomb_is_refused_and_leaves_nothing(desk: Desk) -> None:
    assert "would unpack to 1" in await desk.refused(desk.upload(papers.bomb(150), "brief.docx").id)


async def test_a_login_page_in_the_place_of_a_file_is_told_with_the_scope_that_lacks(desk: Desk) -> None:
    desk.sandbox.faults.login_page()
    assert "give the bot the scope files:read" in await desk.refused(desk.upload(BRIEF).id)


async def test_a_file_of_60_mb_is_refused_before_it_is_loaded(desk: Desk) -> None:
    file = desk.upload(BRIEF)
    file.announced = 60 * MIB
    desk.sandbox.faults.fail_before("files.download")
    assert "larger than 20 MiB" in await desk.refused(file.id)
    assert desk.sandbox.faults.ordered("files.download") == 1  # nobody asked for it


async def test_a_file_that_is_larger_than_it_says_is_left_at_the_limit(desk: Desk) -> None:
    file = desk.upload(BRIEF + b" " * (20 * MIB))
    file.announced = 3
    assert "larger than 20 MiB" in await desk.refused(file.id)


async def test_a_file_of_another_channel_is_not_told_of_whoever_asks(desk: Desk) -> None:
    private = Thread("T1", desk.sandbox.workspace.open_im(DEVELOPER).id, "")
    for hidden in (
        desk.upload(BRIEF, "salaries.pdf", desk.new_thread(REPORTS)),
        desk.upload(BRIEF, "salaries.pdf", private),
        desk.sandbox.workspace.add_file("salaries.pdf", REPORTER, BRIEF),
    ):
        told = await desk.refused(hidden.id)
        assert "not shared in this channel" in told
        assert "salaries" not in told


async def test_a_file_in_a_direct_message_is_for_that_conversation(desk: Desk) -> None:
    direct = desk.new_thread(desk.sandbox.workspace.open_im(REPORTER).id)
    assert await desk.made(desk.upload(BRIEF, thread=direct).id, thread=direct)


async def test_a_fresh_file_of_which_slack_does_not_say_where_it_is_shared_is_found_in_its_thread(desk: Desk) -> None:
    file = desk.upload(BRIEF)
    file.shares.clear()
    assert await desk.made(file.id)


@pytest.mark.parametrize("file_id", ["F0", "../etc", "brief.pdf", "", "F" * 60])
async def test_an_id_that_is_none_is_refused(desk: Desk, file_id: str) -> None:
    result = await desk.ask(file_id)
    assert result.error
    assert result.error.code is Code.INVALID_ARGUMENTS


async def test_a_file_that_is_gone_is_told(desk: Desk) -> None:
    assert "was deleted, or lies in a channel without the bot" in await desk.refused("F0GONE")


@pytest.mark.parametrize("method", ["files.info", "files.download"])
async def test_while_slack_is_away_the_call_is_tried_again_and_makes_one_request(desk: Desk, method: str) -> None:
    file = desk.upload(BRIEF)
    desk.sandbox.faults.fail_before(method, 2)
    with pytest.raises(Transient):
        await desk.ask(file.id, call_id="c", retries_left=1)
    told = await desk.ask(file.id, call_id="d")
    assert told.error
    assert told.error.code is Code.SERVICE_UNAVAILABLE
    assert set((await desk.kept()).values()) == {0}
    assert (await desk.ask(file.id, call_id="c")).success
    assert (await desk.kept())["rfps"] == 1


async def test_a_worker_that_is_killed_between_the_download_and_the_record_leaves_nothing_and_the_repeat_makes_one(
    desk: Desk, database_url: str
) -> None:
    file = desk.upload(BRIEF)
    given = (database_url, desk.sandbox.api_url, desk.thread.channel, desk.thread.ts, file.id)
    async with _held(desk.database) as work:
        worker = await asyncio.create_subprocess_exec(sys.executable, "-c", _WORKER, *given, cwd=_ROOT)
        await until_waited_for(work)  # loaded and read, and about to be kept
        worker.kill()
        await worker.wait()
    result = await desk.ask(file.id, call_id="c", retries_left=1)
    assert result.success, result.error
    assert not result.data["existed_already"]
    assert await desk.kept() == {
        "rfps": 1,
        "opportunity_states": 1,
        "events": 1,
        "thread_bindings": 1,
        "tool_operations": 2,
    }


_WORKER = "import asyncio, sys; from tests.activities import test_rfp_files as t; asyncio.run(t.work(*sys.argv[1:]))"


async def work(database_url: str, api_url: str, channel: str, thread_ts: str, file_id: str) -> None:
    """One call, in a process of its own."""
    async with aiohttp.ClientSession() as session:
        caller = Caller(Database(database_url), api_url, session)
        await caller.call(Thread("T1", channel, thread_ts), "c", 2, file_id=file_id)


async def test_a_call_that_is_cut_off_before_the_record_leaves_nothing_and_the_repeat_makes_one(desk: Desk) -> None:
    file = desk.upload(BRIEF)
    async with _held(desk.database) as work:
        task = asyncio.create_task(desk.ask(file.id, call_id="c", retries_left=2))
        await until_waited_for(work)  # loaded and read, and about to be kept
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert set((await desk.kept()).values()) == {0}
    result = await desk.ask(file.id, call_id="c", retries_left=1)
    assert result.success, result.error
    assert (await desk.kept())["rfps"] == 1


async def test_a_result_that_was_lost_is_found_again_without_another_download(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = desk.upload(BRIEF)

    async def lost(*_: object) -> None:
        raise Transient("The database went away.")

    with monkeypatch.context() as patched:
        patched.setattr(PostgresExecutionLog, "record", lost)
        with pytest.raises(Transient):
            await desk.ask(file.id, call_id="c", retries_left=1)
    before = await desk.kept()
    desk.sandbox.faults.fail_before("files.info")
    result = await desk.ask(file.id, call_id="c")
    assert result.success, result.error
    assert not result.data["existed_already"]
    assert result.data["file"]["pages"] == 2
    assert result.data["file_begins"].startswith("A crane")
    assert await desk.kept() == before
    assert desk.sandbox.faults.ordered("files.info") == 1


@asynccontextmanager
async def _held(database: Database) -> AsyncIterator[Any]:
    """Somebody else is about to make a request from the same file, and in the end does not."""
    digest = hashlib.sha256(BRIEF).hexdigest()
    async with database.begin() as work, work.connection.begin_nested() as undone:
        await work.rfps.create(change("other"), NewRfp(Facts("x"), SourceFile("x", digest, "x")), AUTHOR)
        yield work
        await undone.rollback()
