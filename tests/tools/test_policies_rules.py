"""The policies around a call: roles, rate limits, the cache and the record."""

import asyncio
import json

import pytest

from tests.support.tool_results import code_of
from tests.tools.tool_calls import Caller
from threadline.errors import Permanent
from threadline.models.model import ToolKind
from threadline.tools.context import Services, ToolContext
from threadline.tools.model import ErrorCode, RecordGroup, ToolResult, ToolStatus
from threadline.tools.registry import Cache, ToolRegistry, allowed_tools, tool


class Books(list[str]):
    setup_hint = "Set THREADLINE_BOOKS."


TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


@tool("books.list", "The titles.", needs=(Books,), cache=Cache(60), remote=True)
async def list_books(context: ToolContext, *, shelf: str = "all", limit: int = 10) -> ToolResult:
    titles = context.services[Books]
    return ToolResult(
        data=list(titles),
        structured=(RecordGroup("books", tuple({"title": each} for each in titles)),),
    )


@tool(
    "books.shared",
    "The number of titles.",
    needs=(Books,),
    cache=Cache(60, shared=True),
    remote=True,
)
async def count_books(context: ToolContext) -> int:
    return len(context.services[Books])


@tool("books.first", "The first title.", needs=(Books,), cache=Cache(60), remote=True)
async def first_book(context: ToolContext) -> str:
    if not (titles := context.services[Books]):
        raise Permanent("The shelf is empty.")
    return titles[0]


@tool(
    "books.add",
    "Add a title.",
    needs=(Books,),
    kind=ToolKind.CHANGE,
    rate_limit_key=lambda given: f"shelf:{given.shelf}",
    remote=True,
)
async def add_book(context: ToolContext, *, title: str, shelf: str = "all") -> str:
    context.services[Books].append(title)
    return f"{title} was added"


@tool(
    "books.burn",
    "Change something without a record.",
    needs=(Books,),
    kind=ToolKind.CHANGE,
    remote=True,
)
async def burn(context: ToolContext) -> None:
    context.services[Books].clear()


@tool("clock.hang", "Never answers.", timeout=0.01, remote=True)
async def hang(context: ToolContext) -> None:
    await asyncio.Event().wait()


@tool(
    "clock.hangWriting",
    "Never answers, and may have written.",
    timeout=0.01,
    kind=ToolKind.CHANGE,
    remote=True,
)
async def hang_writing(context: ToolContext) -> None:
    await asyncio.Event().wait()


@tool("leak.all", "Tells everything.", remote=True)
async def leak(context: ToolContext, *, size: int = 1) -> ToolResult:
    return ToolResult(
        data={"bot_token": "abcdefgh", "log": f"with {TOKEN} " * size},
        display_text=f"I used {TOKEN}.",
        structured=(RecordGroup("rows", ({"key": TOKEN},) * size),),
        notes=(f"note {TOKEN}",),
    )


REGISTRY = ToolRegistry(
    [list_books, count_books, first_book, add_book, burn, hang, hang_writing, leak]
)


class Library(Caller):
    def __init__(self, *, read_only: bool = False, most: int = 100) -> None:
        self.titles: list[str] = ["one"]
        super().__init__(
            REGISTRY, Services().with_service(Books, self.titles), read_only=read_only, most=most
        )


@pytest.fixture
def library() -> Library:
    return Library()


@pytest.mark.parametrize(
    ("services", "read_only", "names"),
    [
        (Services(), False, {"clock_hang", "clock_hangWriting", "leak_all"}),
        (
            Services().with_service(Books, []),
            True,
            {"books_list", "books_shared", "books_first", "clock_hang", "leak_all"},
        ),
    ],
)
def test_tools_without_port_and_changes_in_read_only_are_not_offered(
    services: Services, read_only: bool, names: set[str]
) -> None:
    allowed = allowed_tools(REGISTRY, services, read_only=read_only)
    assert {each["name"] for each in REGISTRY.definitions(allowed.names)} == names


@pytest.mark.parametrize("name", ["books.add", "books_add"])
async def test_change_in_read_only_is_blocked_and_recorded(name: str) -> None:
    library = Library(read_only=True)
    result = await library.call(name, title="two")
    assert result.status is ToolStatus.BLOCKED
    assert "the shelf is locked" in result.user_text
    assert library.titles == ["one"]
    assert [(each.call.tool_name, each.status) for each in library.ledger.entries] == [
        ("books.add", ToolStatus.BLOCKED)
    ]
    assert (library.ledger.intents, library.ledger.changes) == ({}, {})


async def test_tool_without_port_is_blocked() -> None:
    result = await Caller(REGISTRY, Services()).call("books.list")
    assert result.status is ToolStatus.BLOCKED
    assert "not set up here" in result.user_text


async def test_unknown_tool_is_refused_and_recorded(library: Library) -> None:
    assert code_of(await library.call("books.read" * 100)) is ErrorCode.UNKNOWN_TOOL
    assert [(len(each.call.tool_name) <= 100, each.status) for each in library.ledger.entries] == [
        (True, ToolStatus.ERROR)
    ]


async def test_changes_are_counted_by_record_or_else_by_thread() -> None:
    library = Library(most=2)
    assert [(await library.call("books.add", title=each)).status for each in "ab"] == ["ok", "ok"]
    assert code_of(await library.call("books.add", title="c")) is ErrorCode.TOO_MANY_CHANGES
    assert (await library.call("books.add", title="d", shelf="other")).success
    assert (await library.call("books.list")).data == ["one", "a", "b", "d"]
    await library.call("books.burn")
    assert set(library.ledger.changes) == {
        ("T1", "shelf:all"),
        ("T1", "shelf:other"),
        ("T1", "thread:T1:C1:1760000000.000100"),
    }


async def test_answer_is_reused_until_it_is_too_old(library: Library) -> None:
    first = await library.call("books.list", shelf="all")
    library.titles.append("two")
    again = await library.call("books.list", limit=10)
    assert (again.status, again.data, again.structured) == (
        ToolStatus.CACHED,
        ["one"],
        first.structured,
    )
    assert (await library.call("books.list", limit=3)).status is ToolStatus.OK
    library.clock.advance(59.9)
    assert (await library.call("books.list")).status is ToolStatus.CACHED
    library.clock.advance(0.1)
    assert (await library.call("books.list")).data == ["one", "two"]
    assert [entry.status for entry in library.ledger.entries] == [
        "ok",
        "cached",
        "ok",
        "cached",
        "ok",
    ]


async def test_error_is_not_reused(library: Library) -> None:
    library.titles.clear()
    assert not (await library.call("books.first")).success
    library.titles.append("one")
    assert (await library.call("books.first")).data == "one"


@pytest.mark.parametrize(
    "other", [{"user_id": "U2"}, {"thread_ts": "1760000001.000100"}, {"team": "T2"}]
)
async def test_answer_is_for_one_person_in_one_thread(
    library: Library, other: dict[str, str]
) -> None:
    await library.call("books.list")
    assert (await library.call("books.list", at=other)).status is ToolStatus.OK


async def test_shared_answer_is_for_one_team(library: Library) -> None:
    await library.call("books.shared")
    assert (
        await library.call("books.shared", at={"user_id": "U2", "channel": "C2"})
    ).status is ToolStatus.CACHED
    assert (await library.call("books.shared", at={"team": "T2"})).status is ToolStatus.OK


async def test_change_is_seen_by_the_next_question(library: Library) -> None:
    await library.call("books.list")
    await library.call("books.add", title="two")
    assert (await library.call("books.list")).data == ["one", "two"]


@pytest.mark.parametrize(
    ("name", "code"),
    [("clock.hang", ErrorCode.TOOL_TIMEOUT), ("clock.hangWriting", ErrorCode.OUTCOME_UNKNOWN)],
)
async def test_hanging_tool_is_left_after_its_time(
    library: Library, name: str, code: ErrorCode
) -> None:
    result = await library.call(name)
    assert code_of(result) is code
    assert "0.01 seconds" in result.user_text


async def test_secrets_are_neither_kept_nor_shown(library: Library) -> None:
    result = await library.call("leak.all")
    await library.call("leak.all", wrong=TOKEN)
    told = repr(result) + repr(
        [(each.call.parameters, each.result) for each in library.ledger.entries]
    )
    assert "ghp_a1" not in told
    assert "abcdefgh" not in told
    assert result.structured == (RecordGroup("rows", ({"key": "[redacted: GitHub token]"},)),)


async def test_huge_result_is_cut_and_says_so(library: Library) -> None:
    result = await library.call("leak.all", size=100_000)
    assert (
        1024 * 1024
        < len(json.dumps([result.data, [each.records for each in result.structured]]))
        <= 2 * 1024 * 1024
    )
    assert result.notes[-1].startswith("[Cut]")
    assert "log: the first " in result.notes[-1]
