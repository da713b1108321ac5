"""The tools of a case, called as the SDK calls them."""

import asyncio
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest

from threadline.cases.records import Service, Table
from threadline.errors import Permanent, Transient
from threadline.investigator.fences import parts_in
from threadline.investigator.ports import LogSearch, QuerySource
from threadline.investigator.tools import LARGEST_RESULT, ToolLimits, case_tools
from threadline_devstack.models import ModelSandbox
from threadline_devstack.models.investigation import investigate

if TYPE_CHECKING:
    from tests.investigator.conftest import Bench


@pytest.fixture
def model() -> ModelSandbox:
    """Nobody asks it here: the tools are called without the CLI."""
    return ModelSandbox(investigate)


class Shop:
    """A database with one wide table, and logs."""

    names = ("shop",)

    async def query(self, source: str, sql: str, limit: int) -> Table:
        return Table(["id", "note"], [[n, "x" * 5_000] for n in range(limit)], truncated=True)

    async def search(self, query: str, minutes: int, limit: int) -> Sequence[str]:
        return [f"{query} {n} " + "y" * 5_000 for n in range(limit)]


async def _use(
    bench: "Bench",
    tool: str,
    *,
    queries: QuerySource | None = None,
    logs: LogSearch | None = None,
    seconds: float = 20.0,
    **given: Any,
) -> tuple[str, bool]:
    tools = {t.name: t for t in case_tools("BUG-12", bench.case, queries, logs, ToolLimits(seconds, seconds))}
    answer = await tools[tool].handler(given)
    return answer["content"][0]["text"], answer["is_error"]


async def _conversation(bench: "Bench") -> list[str]:
    pages: list[str] = []
    given: dict[str, Any] = {"bug_id": "BUG-12"}
    while True:
        page, is_error = await _use(bench, "get_bug_conversations", **given)
        assert not is_error
        pages.append(page)
        if "This is the end of the conversation." in page:
            return pages
        given["cursor"] = page.rsplit('cursor "', 1)[1].split('"')[0]


@pytest.mark.parametrize(("count", "size"), [(1, 10), (20, 10), (45, 10), (45, 3_000), (3, 39_000)])
async def test_conversation_comes_whole_and_in_order_page_by_page(bench: "Bench", count: int, size: int) -> None:
    bench.case.entries = [bench.entry(seq, f"[{seq}]" + "z" * size) for seq in range(1, count + 1)]
    pages = await _conversation(bench)
    text = "\n".join(pages)
    starts = [text.index(f"\n[{seq}]") for seq in range(1, count + 1)]
    assert starts == sorted(starts)
    assert text.count("z") == count * size
    assert max(len(page.encode()) for page in pages) <= LARGEST_RESULT


async def test_empty_conversation_has_an_end(bench: "Bench") -> None:
    bench.case.entries = []
    assert await _conversation(bench) == ["This is the end of the conversation."]


@pytest.mark.parametrize("cursor", ["nonsense", "-1:", "1", "x:2"])
async def test_invented_cursor_is_told(bench: "Bench", cursor: str) -> None:
    text, is_error = await _use(bench, "get_bug_conversations", bug_id="BUG-12", cursor=cursor)
    assert is_error
    assert "cursor is unknown" in text


@pytest.mark.parametrize("tool", ["get_bug", "get_bug_conversations"])
async def test_id_of_another_case_is_refused(bench: "Bench", tool: str) -> None:
    assert await _use(bench, tool, bug_id="BUG-1") == ("This session works on BUG-12 alone: use its id.", True)


async def test_record_services_and_similar_cases_are_json(bench: "Bench") -> None:
    bench.case.known_services = [Service("cart", "The cart", "U9", "C1", "sample-shop")]
    assert json.loads((await _use(bench, "get_bug", bug_id="BUG-12"))[0])["reporter_id"] == "U1"
    assert json.loads((await _use(bench, "list_services"))[0])[0]["owner"] == "U9"
    assert json.loads((await _use(bench, "lookup_service_owner", name="cart"))[0])["channel"] == "C1"
    assert json.loads((await _use(bench, "find_similar_bugs", text="total"))[0])[0]["title"] == "Like total"
    text, is_error = await _use(bench, "lookup_service_owner", name="card")
    assert is_error
    assert "list_services names them all" in text


async def test_large_answers_are_cut_and_say_so(bench: "Bench") -> None:
    rows, _ = await _use(bench, "query_database", queries=Shop(), source="shop", sql="select 1", limit=100)
    lines, _ = await _use(bench, "search_logs", logs=Shop(), query="error", minutes=5, limit=100)
    for text in (rows, lines):
        assert len(text.encode()) <= LARGEST_RESULT
        assert text.endswith("(Cut here: the result is longer. Ask for less.)")


async def test_unknown_source_is_told_with_the_known_ones(bench: "Bench") -> None:
    text, is_error = await _use(bench, "query_database", queries=Shop(), source="x", sql="select 1", limit=1)
    assert is_error
    assert "choose one of shop" in text


def test_tools_without_their_port_do_not_exist(bench: "Bench") -> None:
    names = {tool.name for tool in case_tools("BUG-12", bench.case, None, None, ToolLimits())}
    assert not {"query_database", "search_logs"} & names


def test_only_recording_is_marked_as_writing(bench: "Bench") -> None:
    tools = case_tools("BUG-12", bench.case, Shop(), Shop(), ToolLimits())
    assert [t.name for t in tools if t.annotations and not t.annotations.read_only_hint] == ["record_finding"]


@pytest.mark.parametrize("failure", [Permanent("The record is closed."), Transient("The database is busy.")])
async def test_sentence_of_a_port_reaches_the_model(bench: "Bench", failure: Exception) -> None:
    bench.case.failing = failure
    assert await _use(bench, "get_bug_conversations", bug_id="BUG-12") == (str(failure), True)


async def test_unforeseen_error_reaches_the_model_without_its_text(bench: "Bench") -> None:
    bench.case.failing = ConnectionError("postgresql://owner:hunter2@db/threadline refused")
    told = await _use(bench, "get_bug_conversations", bug_id="BUG-12")
    assert told == ("get_bug_conversations is out of order. Go on without it.", True)


async def test_port_that_hangs_is_given_up(bench: "Bench") -> None:
    class Hanging(Shop):
        async def search(self, query: str, minutes: int, limit: int) -> Sequence[str]:
            await asyncio.Event().wait()
            return []

    text, is_error = await _use(bench, "search_logs", logs=Hanging(), seconds=0.05, query="x", minutes=1, limit=1)
    assert is_error
    assert "gave no answer within 0.05 s" in text


class Leaking:
    """Logs and rows that hold a secret."""

    names = ("shop",)
    token = "gh" + "p_" + "a1B2" * 9

    async def query(self, source: str, sql: str, limit: int) -> Table:
        return Table(["note"], [[f'say "{self.token}"']], truncated=False)

    async def search(self, query: str, minutes: int, limit: int) -> Sequence[str]:
        return [f"password={self.token}"]


async def test_the_model_is_shown_no_secret_of_a_row_or_a_log_line(bench: "Bench") -> None:
    source = Leaking()
    rows, _ = await _use(bench, "query_database", queries=source, source="shop", sql="select", limit=1)
    lines, _ = await _use(bench, "search_logs", logs=source, query="x", minutes=1, limit=1)
    assert json.loads(rows)["rows"] == [['say "[redacted: GitHub token]"']]
    assert source.token not in lines


class Cutting:
    """A token that begins on a new line, and one that ends behind the cut; a column that says what it holds."""

    names = ("shop",)
    token = "gh" + "p_" + "a1B2" * 9

    async def query(self, source: str, sql: str, limit: int) -> Table:
        words = ["x" * 480 + " " + self.token, f"one\n{self.token}", "letmein", {"note": self.token}]
        return Table(["a", "b", "password", "d"], [words], truncated=False)

    async def search(self, query: str, minutes: int, limit: int) -> Sequence[str]:
        return ["y" * 980 + " " + self.token]


async def test_secrets_are_gone_before_a_value_is_cut_or_becomes_json(bench: "Bench") -> None:
    source = Cutting()
    rows, _ = await _use(bench, "query_database", queries=source, source="shop", sql="select", limit=1)
    lines, _ = await _use(bench, "search_logs", logs=source, query="x", minutes=1, limit=1)
    bench.case.known_services = [Service("cart", f"one\n{source.token}", "U9", "C1", "sample-shop")]
    services, _ = await _use(bench, "list_services")
    for shown in (rows, lines, services):
        assert source.token[:10] not in shown
    assert json.loads(rows)["rows"][0][1:3] == ["one\n[redacted: GitHub token]", "[redacted: secret]"]


async def test_a_rule_never_reaches_from_one_persons_words_into_anothers(bench: "Bench") -> None:
    key = "aB3d" * 16
    words = [
        f"-----BEGIN {'PRIVATE'} KEY-----\n{key}",
        "It happens on Mondays",
        f"-----END {'PRIVATE'} KEY-----\nthanks",
    ]
    bench.case.entries = [bench.entry(seq, text) for seq, text in enumerate(words, start=1)]
    (page,) = await _conversation(bench)
    assert [part.seq for part in parts_in(page)] == [1, 2, 3]
    assert "It happens on Mondays" in page
    assert "thanks" in page
    assert key not in page
