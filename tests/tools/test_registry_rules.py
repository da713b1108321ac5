"""Tools are found by either of their names, and an invalid tool is refused at the start."""

import json
import re
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field

from tests.support.tool_fakes import context
from threadline.models.model import ToolKind
from threadline.tools.arguments import InvalidTool
from threadline.tools.context import ToolContext
from threadline.tools.registry import Cache, Tool, ToolRegistry, tool, wire_name

PART = st.from_regex(r"[A-Za-z][A-Za-z0-9_-]{0,40}", fullmatch=True)
NAMES = st.lists(PART, min_size=1, max_size=4).map(".".join).filter(lambda name: len(name) <= 100)


class Item(BaseModel):
    """One thing to do."""

    title: str
    days: Decimal = Field(default=Decimal(1), ge=0, description="How long it takes.")
    kind: Literal["build", "test"] | None = None


class NewItems(BaseModel):
    project_id: str = Field(description="Its id.")
    items: list[Item] = Field(min_length=1, max_length=50)
    due: datetime | None = None
    first: Item | None = Field(default=None, description="Before all others.")
    limit: int = Field(default=20, ge=1, le=100, description="At most.")


@tool("estimates.createWbsItems", "Add items to a project.", kind=ToolKind.CHANGE)
async def create_items(context: ToolContext, given: NewItems) -> object:
    return [item.title for item in given.items]


@tool("cases.search", "Find cases.", cache=Cache(60))
async def search(
    context: ToolContext, *, text: Annotated[str, Field(description="Words.")], limit: int = 5
) -> dict[str, object]:
    return {"text": text, "limit": limit, "user": context.user_id}


def named(name: str) -> Tool:
    @tool(name, "Does nothing.")
    async def nothing(context: ToolContext) -> object:
        return None

    return nothing


def test_tool_is_found_by_its_own_and_its_wire_name() -> None:
    registry = ToolRegistry([create_items, search])
    assert registry.get("estimates.createWbsItems") is create_items
    assert registry.get("estimates_createWbsItems") is create_items
    assert registry.get("estimates.createwbsitems") is None
    assert [each.name for each in registry.all()] == ["cases.search", "estimates.createWbsItems"]


@pytest.mark.parametrize("names", [["a.b", "a.b"], ["a.b", "a_b"], ["a_b", "a.b"]])
def test_names_that_could_be_mixed_up_are_refused(names: list[str]) -> None:
    with pytest.raises(InvalidTool, match=r"a.b"):
        ToolRegistry(map(named, names))


@pytest.mark.parametrize("name", ["", "1a", "a.", ".a", "a..b", "a b", "ä.b", "a\n", "x" * 101])
def test_malformed_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidTool):
        named(name)


@given(st.lists(NAMES, min_size=2, max_size=20, unique=True))
def test_wire_names_are_valid_and_unique(names: list[str]) -> None:
    spoken = {wire_name(name) for name in names}
    assert len(spoken) == len(names)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", each) for each in spoken)


def test_wire_names_stay_as_transcripts_have_them() -> None:
    assert wire_name("estimates.getProjectDetails") == "estimates_getProjectDetails"
    assert wire_name("ci.re_run") == "ci_re_run-d26efc9b2f97"
    assert wire_name("a." + "b" * 70) == "a_" + "b" * 49 + "-d162292c1a1a"


def test_definitions_have_the_strict_form() -> None:
    (made,) = ToolRegistry([create_items]).definitions()
    assert (made["type"], made["name"], made["strict"]) == (
        "function",
        "estimates_createWbsItems",
        True,
    )
    item = {"$ref": "#/$defs/Item"}
    assert made["parameters"] == {
        "type": "object",
        "properties": {
            "project_id": {"type": "string", "description": "Its id."},
            "items": {"type": "array", "items": item, "minItems": 1, "maxItems": 50},
            "due": {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}]},
            "first": {"anyOf": [item, {"type": "null"}], "description": "Before all others."},
            "limit": {
                "anyOf": [{"type": "integer", "minimum": 1, "maximum": 100}, {"type": "null"}],
                "description": "At most. (null: 20)",
            },
        },
        "required": ["project_id", "items", "due", "first", "limit"],
        "additionalProperties": False,
        "$defs": {
            "Item": {
                "type": "object",
                "description": "One thing to do.",
                "properties": {
                    "title": {"type": "string"},
                    "days": {
                        "anyOf": [
                            {"type": "number", "minimum": 0},
                            {"type": "string"},
                            {"type": "null"},
                        ],
                        "description": "How long it takes. (null: 1)",
                    },
                    "kind": {
                        "anyOf": [{"type": "string", "enum": ["build", "test"]}, {"type": "null"}]
                    },
                },
                "required": ["title", "days", "kind"],
                "additionalProperties": False,
            }
        },
    }


def test_definitions_do_not_depend_on_the_order_of_tools() -> None:
    one = ToolRegistry([search, create_items])
    other = ToolRegistry([create_items, search])
    before = json.dumps(one.definitions())
    one.definitions()[0]["parameters"].clear()
    assert json.dumps(one.definitions()) == json.dumps(other.definitions()) == before
    assert [each["name"] for each in one.definitions(["cases.search", "unheard.of"])] == [
        "cases_search"
    ]


async def test_parameters_arrive_by_keyword() -> None:
    given = search.parameters(text="login")
    assert await search.call(context(), given) == {"text": "login", "limit": 5, "user": "U1"}


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")


async def _plain(context: ToolContext, *, a: Any) -> None: ...
async def _free(context: ToolContext, *, a: dict[str, int]) -> None: ...
async def _pair(context: ToolContext, *, a: tuple[int, str]) -> None: ...
async def _open(context: ToolContext, given: Open) -> None: ...
async def _positional(context: ToolContext, a: int) -> None: ...
async def _many(context: ToolContext, *, a: int, **more: int) -> None: ...
async def _other(given: Item) -> None: ...
async def _untyped(context: ToolContext, *, a) -> None: ...  # type: ignore[no-untyped-def]
async def _underscored(context: ToolContext, *, _a: int) -> None: ...
def _sync(context: ToolContext) -> None: ...


@pytest.mark.parametrize(
    "function",
    [_plain, _free, _pair, _open, _positional, _many, _other, _untyped, _underscored, _sync],
)
def test_function_that_no_model_can_call_is_refused(function: Callable[..., Any]) -> None:
    with pytest.raises(InvalidTool, match=r"x\.y"):
        tool("x.y", "Something.")(function)


@pytest.mark.parametrize(
    "said",
    [
        {"kind": ToolKind.CHANGE, "cache": Cache(60)},
        {"cache": Cache(0)},
        {"timeout": 0},
        {"rate_limit_key": str},
        {"description": " "},
    ],
)
def test_contradicting_options_are_refused(said: dict[str, Any]) -> None:
    with pytest.raises(InvalidTool):
        tool("x.y", **({"description": "Something."} | said))(search.function)
