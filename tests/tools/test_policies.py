"""The policies around a call, each alone and all together."""

import asyncio
import json
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.support.tool_fakes import Clock, MemoryCache, MemoryLimit, MemoryLog, OutOfOrder, context
from threadline.errors import Permanent
from threadline.models.model import ToolCall
from threadline.tools.access import allowed, offered
from threadline.tools.calls import Run
from threadline.tools.context import Port, Ports, ToolContext
from threadline.tools.model import Code, Status, Structured, ToolResult
from threadline.tools.registry import Cache, Registry, tool
from threadline.tools.runner import Guards, pipeline

BOOKS = Port[list[str]]("Books", "Set THREADLINE_BOOKS.")
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


@tool("books.list", "The titles.", needs=(BOOKS,), cache=Cache(60))
async def list_books(context: ToolContext, *, shelf: str = "all", limit: int = 10) -> ToolResult:
    titles = context.ports[BOOKS]
    return ToolResult(data=list(titles), structured=(Structured("books", tuple({"title": each} for each in titles)),))


@tool("books.shared", "The number of titles.", needs=(BOOKS,), cache=Cache(60, shared=True))
async def count_books(context: ToolContext) -> int:
    return len(context.ports[BOOKS])


@tool("books.first", "The first title.", needs=(BOOKS,), cache=Cache(60))
async def first_book(context: ToolContext) -> str:
    if not (titles := context.ports[BOOKS]):
        raise Permanent("The shelf is empty.")
    return titles[0]


@tool("books.add", "Add a title.", needs=(BOOKS,), mutating=True, record=lambda given: f"shelf:{given.shelf}")
async def add_book(context: ToolContext, *, title: str, shelf: str = "all") -> str:
    context.ports[BOOKS].append(title)
    return f"{title} was added"


@tool("books.burn", "Change something without a record.", needs=(BOOKS,), mutating=True)
async def burn(context: ToolContext) -> None:
    context.ports[BOOKS].clear()


@tool("clock.hang", "Never answers.", timeout=0.01)
async def hang(context: ToolContext) -> None:
    await asyncio.Event().wait()


@tool("clock.hangWriting", "Never answers, and may have written.", timeout=0.01, mutating=True)
async def hang_writing(context: ToolContext) -> None:
    await asyncio.Event().wait()


@tool("leak.all", "Tells everything.")
async def leak(context: ToolContext, *, size: int = 1) -> ToolResult:
    return ToolResult(
        data={"bot_token": "abcdefgh", "log": f"with {TOKEN} " * size},
        display_text=f"I used {TOKEN}.",
        structured=(Structured("rows", ({"key": TOKEN},) * size),),
        notes=(f"note {TOKEN}",),
    )


REGISTRY = Registry([list_books, count_books, first_book, add_book, burn, hang, hang_writing, leak])


class Library:
    """A shelf, the guards and the way through them."""

    def __init__(self, *, read_only: bool = False, most: int = 100, guards: Guards | None = None) -> None:
        self.titles: list[str] = ["one"]
        self.clock, self.log, self.limit, self.cache = Clock(), MemoryLog(), MemoryLimit(most), MemoryCache()
        self.ports = Ports().having(BOOKS, self.titles)
        permitted = allowed(REGISTRY, self.ports, read_only=read_only, because="the shelf is locked")
        self.run: Run = pipeline(REGISTRY, permitted, guards or Guards(self.log, self.limit, self.cache))
        self.calls = 0

    async def call(self, name: str, *, at: dict[str, Any] | None = None, **given: Any) -> ToolResult:
        self.calls += 1
        where = {"clock": self.clock, "ports": self.ports, "call_id": f"call_{self.calls}"} | (at or {})
        return await self.run(ToolCall("id", name, json.dumps(given)), context(**where))

    @property
    def statuses(self) -> list[Status | None]:
        return [entry.status for entry in self.log.entries]


def test_a_tool_whose_port_is_missing_is_not_offered() -> None:
    assert [each.toolset for each in offered(REGISTRY, Ports())] == ["clock", "clock", "leak"]
    assert "books_list" not in {
        each["name"] for each in allowed(REGISTRY, Ports(), read_only=False).definitions(REGISTRY)
    }


def test_a_read_only_context_shows_nothing_that_changes_something() -> None:
    ports = Ports().having(BOOKS, [])
    names = {each["name"] for each in allowed(REGISTRY, ports, read_only=True).definitions(REGISTRY)}
    assert names == {"books_list", "books_shared", "books_first", "clock_hang", "leak_all"}


@pytest.mark.parametrize("name", ["books.add", "books_add"])
async def test_a_change_in_a_read_only_context_is_blocked_told_and_on_record(name: str) -> None:
    library = Library(read_only=True)
    result = await library.call(name, title="two")
    assert result.status is Status.BLOCKED
    assert result.text.startswith("This would change something, and here the shelf is locked.")
    assert library.titles == ["one"]
    assert [(each.tool, each.status) for each in library.log.entries] == [("books.add", Status.BLOCKED)]
    assert library.log.intents == {}
    assert library.limit.seen == {}


async def test_what_is_not_set_up_is_blocked_too() -> None:
    run = pipeline(REGISTRY, allowed(REGISTRY, Ports(), read_only=False), Guards())
    result = await run(ToolCall("1", "books.list", "{}"), context())
    assert (result.status, result.error and result.error.message) == (Status.BLOCKED, "This is not set up here.")


async def test_an_unknown_tool_is_told_and_on_record() -> None:
    library = Library()
    result = await library.call("books.read" * 100)
    assert result.error
    assert result.error.code is Code.UNKNOWN_TOOL
    assert [(len(each.tool) <= 100, each.status) for each in library.log.entries] == [(True, Status.ERROR)]


async def test_a_record_is_changed_only_so_often_and_each_record_has_its_own_count() -> None:
    library = Library(most=2)
    assert [(await library.call("books.add", title=each)).status for each in "abc"] == ["ok", "ok", "error"]
    third = library.log.entries[-1].result
    assert third
    assert third.error
    assert third.error.code is Code.TOO_MANY_CHANGES
    assert (await library.call("books.add", title="d", shelf="other")).success
    assert (await library.call("books.list")).success
    assert library.titles == ["one", "a", "b", "d"]
    assert set(library.limit.seen) == {("T1", "shelf:all"), ("T1", "shelf:other")}


async def test_a_change_without_a_record_counts_for_its_thread() -> None:
    library = Library()
    await library.call("books.burn")
    assert set(library.limit.seen) == {("T1", "thread:T1:C1:1760000000.000100")}


async def test_an_answer_is_given_again_within_its_time_and_then_made_anew() -> None:
    library = Library()
    first = await library.call("books.list", shelf="all")
    library.titles.append("two")
    again = await library.call("books.list", limit=10)
    assert (again.status, again.data, again.structured) == (Status.CACHED, ["one"], first.structured)
    library.clock.advance(59.9)
    assert (await library.call("books.list")).status is Status.CACHED
    library.clock.advance(0.1)
    assert (await library.call("books.list")).data == ["one", "two"]
    assert library.statuses == ["ok", "cached", "cached", "ok"]


async def test_an_error_is_not_given_again() -> None:
    library = Library()
    library.titles.clear()
    assert not (await library.call("books.first")).success
    library.titles.append("one")
    assert (await library.call("books.first")).data == "one"


@pytest.mark.parametrize("other", [{"user_id": "U2"}, {"thread_ts": "1760000001.000100"}, {"team": "T2"}])
async def test_an_answer_is_for_who_asked_where(other: dict[str, str]) -> None:
    library = Library()
    await library.call("books.list")
    assert (await library.call("books.list", at=other)).status is Status.OK


async def test_a_shared_answer_is_for_the_team_alone() -> None:
    library = Library()
    await library.call("books.shared")
    assert (await library.call("books.shared", at={"user_id": "U2", "channel": "C2"})).status is Status.CACHED
    assert (await library.call("books.shared", at={"team": "T2"})).status is Status.OK


async def test_a_change_is_seen_by_the_next_question() -> None:
    library = Library()
    await library.call("books.list")
    await library.call("books.add", title="two")
    assert (await library.call("books.list")).data == ["one", "two"]


async def test_other_arguments_are_another_question() -> None:
    library = Library()
    await library.call("books.list")
    assert (await library.call("books.list", limit=3)).status is Status.OK


async def test_without_cache_and_limit_everything_still_runs_and_it_is_logged() -> None:
    broken = OutOfOrder()
    library = Library(guards=Guards(limit=broken, cache=broken))
    with capture_logs() as logs:
        assert (await library.call("books.list")).data == ["one"]
        assert (await library.call("books.add", title="two")).success
    assert [each["port"] for each in logs] == ["result_cache", "result_cache", "mutation_limit", "result_cache"]
    assert {each["event"] for each in logs} == {"tool_policy_failed_open"}


async def test_a_tool_that_hangs_is_reported() -> None:
    library = Library()
    result = await library.call("clock.hang")
    assert result.error
    assert result.error.code is Code.TOOL_TIMEOUT
    assert "0.01 seconds" in result.text


async def test_a_change_that_hangs_has_an_unknown_outcome() -> None:
    result = await Library().call("clock.hangWriting")
    assert result.error
    assert result.error.code is Code.OUTCOME_UNKNOWN
    assert "Check before repeating it." in result.text


async def test_nothing_secret_is_kept_cached_or_shown() -> None:
    library = Library()
    result = await library.call("leak.all")
    await library.call("leak.all", wrong=TOKEN)
    told = repr(result) + repr([(each.arguments, each.result) for each in library.log.entries])
    assert "ghp_a1" not in told
    assert "abcdefgh" not in told
    assert result.structured == (Structured("rows", ({"key": "[redacted: GitHub token]"},)),)


async def test_a_huge_result_is_kept_in_part_and_says_so() -> None:
    result = await Library().call("leak.all", size=100_000)
    assert 1024 * 1024 < len(json.dumps([result.data, [each.records for each in result.structured]])) <= 2 * 1024 * 1024
    assert result.notes[-1].startswith("[Cut] The result was too large to keep whole: log: the first ")
