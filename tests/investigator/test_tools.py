"""The tools of a case, called as the SDK calls them."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from tests.investigator.investigator_scene import InvestigatorScene
from threadline.cases.model import Service
from threadline.errors import Permanent, Transient
from threadline.investigator import tools
from threadline.investigator.fences import parts_in
from threadline.investigator.queries import Loki, QueryResult, ReadOnlyQueries
from threadline.investigator.tools import LARGEST_RESULT, case_tools
from threadline_devstack.models.sandbox import ModelSandbox


@pytest.fixture
def model() -> ModelSandbox:
    """No request reaches it here: the tools are called without the CLI."""
    return ModelSandbox()


class Source(ReadOnlyQueries):
    """A database with one table."""

    def __init__(
        self, columns: Sequence[str] = ("id", "note"), rows: Sequence[Sequence[Any]] = ()
    ) -> None:
        super().__init__({"shop": "postgresql://shop"}, views=[], own=[])
        self._result = QueryResult(list(columns), [list(row) for row in rows], truncated=True)

    async def query(self, source: str, statement: str, limit: int) -> QueryResult:
        return self._result


class Lines(Loki):
    """Logs with these lines."""

    def __init__(self, *lines: str) -> None:
        self._lines = lines

    async def search(self, query: str, minutes: int, limit: int) -> Sequence[str]:
        return self._lines


async def _use(
    bench: InvestigatorScene,
    tool: str,
    *,
    queries: ReadOnlyQueries | None = None,
    logs: Loki | None = None,
    **given: Any,
) -> tuple[str, bool]:
    found = {t.name: t for t in case_tools(bench.case, queries, logs)}
    answer = await found[tool].handler(given)
    return answer["content"][0]["text"], answer["is_error"]


async def _conversation(bench: InvestigatorScene) -> list[str]:
    pages: list[str] = []
    given: dict[str, Any] = {"bug_id": "BUG-12"}
    while True:
        page, is_error = await _use(bench, "get_bug_conversations", **given)
        assert not is_error
        pages.append(page)
        if "This is the end of the conversation." in page:
            return pages
        given["cursor"] = page.rsplit('cursor "', 1)[1].split('"')[0]


@pytest.mark.parametrize(
    ("count", "size"), [(0, 10), (20, 10), (45, 10), (45, 3_000), (3, 39_000)]
)
async def test_conversation_comes_whole_and_in_order_in_pages(
    bench: InvestigatorScene, count: int, size: int
) -> None:
    bench.case.entries = [bench.entry(seq, f"[{seq}]" + "z" * size) for seq in range(1, count + 1)]
    pages = await _conversation(bench)
    text = "\n".join(pages)
    starts = [text.index(f"\n[{seq}]") for seq in range(1, count + 1)]
    assert starts == sorted(starts)
    assert text.count("z") == count * size
    assert max(len(page.encode()) for page in pages) <= LARGEST_RESULT


async def test_unknown_cursor_is_refused(bench: InvestigatorScene) -> None:
    for cursor in ("nonsense", "-1:", "1", "x:2"):
        text, is_error = await _use(bench, "get_bug_conversations", bug_id="BUG-12", cursor=cursor)
        assert is_error
        assert "cursor is unknown" in text


async def test_id_of_another_case_is_refused(bench: InvestigatorScene) -> None:
    for tool in ("get_bug", "get_bug_conversations"):
        text, is_error = await _use(bench, tool, bug_id="BUG-1")
        assert is_error
        assert "BUG-12" in text


async def test_record_services_and_similar_cases_are_json(bench: InvestigatorScene) -> None:
    bench.case.known_services = [Service("cart", "The cart", "U9", "C1", "sample-shop")]
    assert json.loads((await _use(bench, "get_bug", bug_id="BUG-12"))[0])["reporter_id"] == "U1"
    assert json.loads((await _use(bench, "list_services"))[0])[0]["owner"] == "U9"
    assert (
        json.loads((await _use(bench, "lookup_service_owner", name="cart"))[0])["channel"] == "C1"
    )
    assert (
        json.loads((await _use(bench, "find_similar_bugs", text="total"))[0])[0]["title"]
        == "Like total"
    )
    text, is_error = await _use(bench, "lookup_service_owner", name="card")
    assert is_error
    assert "list_services" in text


async def test_large_answers_are_cut_and_say_so(bench: InvestigatorScene) -> None:
    source = Source(rows=[[n, "x" * 5_000] for n in range(100)])
    logs = Lines(*(f"{n} " + "y" * 5_000 for n in range(100)))
    rows, _ = await _use(
        bench, "query_database", queries=source, source="shop", sql="select 1", limit=100
    )
    lines, _ = await _use(bench, "search_logs", logs=logs, query="error", minutes=5, limit=100)
    for text in (rows, lines):
        assert len(text.encode()) <= LARGEST_RESULT
        assert "Cut here" in text[-100:]


async def test_unknown_source_is_refused_with_the_known_ones(bench: InvestigatorScene) -> None:
    queries = ReadOnlyQueries({"shop": "postgresql://127.0.0.1:1/shop"}, views=(), own=())
    text, is_error = await _use(
        bench, "query_database", queries=queries, source="x", sql="select 1", limit=1
    )
    assert is_error
    assert "shop" in text


def test_tools_without_their_port_do_not_exist(bench: InvestigatorScene) -> None:
    names = {tool.name for tool in case_tools(bench.case, None, None)}
    assert not {"query_database", "search_logs"} & names


def test_only_recording_is_marked_as_writing(bench: InvestigatorScene) -> None:
    found = case_tools(bench.case, Source(), Lines())
    assert [t.name for t in found if t.annotations and not t.annotations.read_only_hint] == [
        "record_finding"
    ]


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (Permanent("The record is closed."), "The record is closed."),
        (Transient("The database is busy."), "The database is busy."),
        (ConnectionError("postgresql://owner:hunter2@db refused"), "get_bug_conversations failed"),
    ],
)
async def test_model_reads_a_failure_without_the_text_of_an_unforeseen_one(
    bench: InvestigatorScene, failure: Exception, told: str
) -> None:
    bench.case.failing = failure
    text, is_error = await _use(bench, "get_bug_conversations", bug_id="BUG-12")
    assert is_error
    assert told in text
    assert "hunter2" not in text


async def test_port_that_hangs_is_given_up(
    bench: InvestigatorScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools, "QUERIES_TIMEOUT", 0.05)

    class Hanging(Lines):
        async def search(self, query: str, minutes: int, limit: int) -> Sequence[str]:
            await asyncio.Event().wait()
            return []

    text, is_error = await _use(
        bench, "search_logs", logs=Hanging(), query="x", minutes=1, limit=1
    )
    assert is_error
    assert "within 0.05 s" in text


async def test_secrets_are_gone_before_a_value_is_cut_or_becomes_json(
    bench: InvestigatorScene,
) -> None:
    token = "gh" + "p_" + "a1B2" * 9
    row = ["x" * 480 + " " + token, f"one\n{token}", f'say "{token}"', "letmein", {"note": token}]
    source = Source(["a", "b", "c", "password", "d"], [row])
    logs = Lines("y" * 980 + " " + token, f"password={token}")
    rows, _ = await _use(
        bench, "query_database", queries=source, source="shop", sql="select", limit=1
    )
    lines, _ = await _use(bench, "search_logs", logs=logs, query="x", minutes=1, limit=1)
    bench.case.known_services = [Service("cart", f"one\n{token}", "U9", "C1", "sample-shop")]
    services, _ = await _use(bench, "list_services")
    for shown in (rows, lines, services):
        assert token[:10] not in shown
    redacted = "[redacted: GitHub token]"
    assert json.loads(rows)["rows"][0][1:4] == [
        f"one\n{redacted}",
        f'say "{redacted}"',
        "[redacted: secret]",
    ]


async def test_redaction_does_not_reach_from_one_message_into_another(
    bench: InvestigatorScene,
) -> None:
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
