"""The page of the tools says what the registry holds, and the tool that it shows works."""

import asyncio
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.slack.limits import tables, words
from tests.tools.doubles import MemoryCache, context
from tests.tools_page import desks, page
from threadline.conversations.blocks import answer_of
from threadline.models.model import ToolCall
from threadline.tools.access import allowed, offered
from threadline.tools.context import Port, Ports, ToolContext
from threadline.tools.model import Status, ToolResult
from threadline.tools.registry import Cache, Registry, Tool, tool
from threadline.tools.runner import Guards, pipeline
from threadline.wiring.toolset_list import TOOLS


@pytest.mark.promise("tool:page:true")
def test_the_page_shows_the_tools_and_the_example_as_they_are() -> None:
    text = page.PAGE.read_text("utf-8")
    assert text == page.renewed(text), "run: make tools-page"
    assert all(f"`{each.name}`" in text for each in TOOLS)


def test_a_page_without_its_marks_is_refused() -> None:
    with pytest.raises(page.NoMarks, match="end of tools"):
        page.renewed("# Tools\n")


NAMES = st.from_regex(r"[a-z]{1,8}\.[a-zA-Z]{1,12}", fullmatch=True)
WORDS = st.text(min_size=1, max_size=60).filter(str.strip)


@settings(max_examples=100)
@given(st.dictionaries(NAMES, st.tuples(WORDS, st.booleans(), WORDS), max_size=6))
def test_whatever_tools_there_are_each_has_one_row_of_all_its_cells(drawn: dict[str, tuple[str, bool, str]]) -> None:
    made = []
    for name, (description, mutating, needed) in drawn.items():
        port, cache = Port[object](needed, needed), None if mutating else Cache(60)

        @tool(name, description, mutating=mutating, needs=(port,), cache=cache)
        async def thing(context: ToolContext, *, wanted: int, perhaps: str = "") -> None: ...

        made.append(thing)
    text = page.listed(made)
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    assert [re.findall(r"`([^`]+)`", row)[0] for row in rows] == sorted(drawn)
    assert text.count("### ") >= len({name.split(".")[0] for name in drawn})
    for row, name in zip(rows, sorted(drawn), strict=True):
        assert len(re.split(r"(?<!\\)\|", row)) == 6 or "\\" in drawn[name][0]
        assert "`wanted`, [`perhaps`]" in row
        assert ("changes" if drawn[name][1] else "reads; an answer holds for 60 s") in row


class Plan(desks.Desks):
    def __init__(self) -> None:
        self.asked = 0

    async def of(self, team: str, name: str) -> tuple[dict[str, str], ...]:
        self.asked += 1
        plan = ({"name": "Ada", "desk": "A1"}, {"name": "Adam", "desk": "B2"}, {"name": "Bo", "desk": "C3"})
        return tuple(each for each in plan if name in each["name"])


def test_the_tool_that_the_page_shows_is_offered_runs_once_and_shows_a_table() -> None:
    registry, plan, cache = Registry(desks.TOOLS), Plan(), MemoryCache()
    ports = Ports().having(desks.DESKS, plan)
    assert offered(registry, Ports()) == []
    assert [each["name"] for each in allowed(registry, ports, read_only=True).definitions(registry)] == ["desks_find"]
    run = pipeline(registry, allowed(registry, ports, read_only=True), Guards(cache=cache))

    def ask(arguments: str, **where: Any) -> ToolResult:
        return asyncio.run(_result(run(ToolCall("1", "desks_find", arguments), context(ports=ports, **where))))

    first, again = ask('{"name": "Ad"}'), ask('{"name": "Ad"}', user_id="U2")
    assert (first.text, again.status, plan.asked) == ("2 found.", Status.CACHED, 1)
    refused = ask('{"who": "Ad"}')
    assert refused.error
    assert "`name`" in refused.error.message
    (message,) = answer_of(first.text, [(each.kind, each.records) for each in first.structured])
    assert words(tables(message)[0]) == [["Name", "Desk"], ["Ada", "A1"], ["Adam", "B2"]]


async def _result(run: Any) -> ToolResult:
    result: ToolResult = await run
    return result


def test_the_tool_that_the_page_shows_is_a_file_of_some_twenty_lines() -> None:
    assert len(page.EXAMPLE.read_text("utf-8").splitlines()) <= 25
    assert [type(each) for each in desks.TOOLS] == [Tool]
