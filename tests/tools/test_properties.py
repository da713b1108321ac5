"""The correctness properties of the tools, by their numbers in the design (docs/designs.md)."""

import asyncio
import json
import string
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, create_model
from structlog.testing import capture_logs

from tests.properties.insides import ERRORS, error_of, is_for_people
from tests.support.tool_fakes import Clock, MemoryCache, MemoryLimit, MemoryLog, context
from threadline.models.model import ToolCall
from threadline.tools.access import allowed
from threadline.tools.context import Ports, ToolContext
from threadline.tools.model import Code, Status, ToolError, ToolResult, failure
from threadline.tools.output import rendered
from threadline.tools.registry import Cache, Registry, Tool, tool
from threadline.tools.runner import Guards, pipeline


def _run(calls: list[ToolCall], tools: list[Tool], guards: Guards | None = None, **where: Any) -> list[ToolResult]:
    registry = Registry(tools)
    run = pipeline(registry, allowed(registry, Ports(), read_only=where.pop("read_only", False)), guards or Guards())

    async def all_of_them() -> list[ToolResult]:
        return [await run(each, context(**where, call_id=each.id)) for each in calls]

    with capture_logs():
        return asyncio.run(all_of_them())


def _is_clean(result: ToolResult, inside: str) -> None:
    """What the person and the model read has words and advice, and nothing from within."""
    shown = json.loads(rendered(result))["error"]
    assert shown["code"] in set(Code)
    for told in (result.text, f"{shown['message']} {shown['suggestion']}"):
        assert inside not in told
        assert not [line for line in inside.splitlines() if len(line) > 8 and line.strip() in told]
        assert "Traceback" not in told
        assert "Error" not in told
    assert shown["message"]
    assert shown["suggestion"]


@settings(max_examples=200)
@given(ERRORS, st.booleans(), st.booleans())
def test_property_6_a_failing_tool_is_reported_without_its_insides(
    raised: tuple[Any, ...], mutating: bool, returned: bool
) -> None:
    """Property 6: whatever a tool throws or returns as a failure, the answer has error information and no internals."""
    error, inside = error_of(*raised), raised[2]

    @tool("any.thing", "Fails.", mutating=mutating)
    async def fails(context: ToolContext) -> ToolResult:
        if returned:
            return failure(Code.REFUSED, str(error), str(error))
        raise error

    (result,) = _run([ToolCall("1", "any.thing", "{}")], [fails])
    assert result.status is Status.ERROR
    assert result.error
    _is_clean(result, inside)
    assert returned or is_for_people(raised) or raised[1] not in result.text


CONDITIONS = ("error", "unknown", "not json", "invalid", "blocked", "throttled", "repeated", "side effect")


@settings(max_examples=300)
@given(ERRORS, st.sampled_from(CONDITIONS), st.sampled_from(Code))
def test_property_8_every_error_is_friendly(raised: tuple[Any, ...], condition: str, code: Code) -> None:
    """Property 8: in every error condition the text is not empty, holds no raw exception, and says what to try."""
    error, inside = error_of(*raised), raised[2]

    async def broken(_success: object) -> str:
        raise error

    @tool("any.thing", "Something.", mutating=True, side_effects=(broken,))
    async def thing(context: ToolContext, *, n: int = 0) -> int:
        return n

    text = {"not json": inside, "invalid": json.dumps({"n": inside})}.get(condition, "{}")
    calls = [ToolCall("1", inside if condition == "unknown" else "any.thing", text)]
    guards = Guards(limit=MemoryLimit(0 if condition == "throttled" else 9))
    if condition == "error":
        result = ToolResult(status=Status.ERROR, error=ToolError(code, str(error), repr(error)))
    elif condition == "repeated":
        another = ToolCall(calls[0].id, "any.thing", json.dumps({"n": 1}))
        result = _run([*calls, another], [thing], Guards(MemoryLog()))[1]
    else:
        (result,) = _run(calls, [thing], guards, read_only=condition == "blocked")
    if condition == "side effect":
        assert result.success
        assert inside not in rendered(result)
        assert result.notes[0].startswith("[Side Effect Error] ")
        assert is_for_people(raised) or raised[1] not in result.notes[0]
    else:
        _is_clean(result, inside)


VALUES = st.none() | st.booleans() | st.integers() | st.text(max_size=20)
STORABLE = VALUES.filter(lambda value: not isinstance(value, str) or "\0" not in value)
"""What holds a NUL is refused for that, whatever it stands for: another test has it."""


@settings(max_examples=150)
@given(
    st.dictionaries(st.sampled_from("abc"), st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))),
    st.floats(1, 10_000),
    st.floats(0, 0.99),
    VALUES,
    st.randoms(),
)
def test_property_12_an_answer_within_its_time_is_given_again_and_the_tool_does_not_run(
    arguments: dict[str, str], seconds: float, part: float, answer: Any, random: Any
) -> None:
    """Property 12: the same tool with the same parameters within the time of its cache gives the cached result."""
    clock, cache, runs = Clock(), MemoryCache(), [0]

    @tool("any.thing", "Answers.", cache=Cache(seconds))
    async def thing(context: ToolContext, *, a: str = "", b: str = "", c: str = "") -> Any:
        runs[0] += 1
        return [answer, runs[0]]

    def ask(call_id: str, given: dict[str, Any]) -> ToolResult:
        shuffled = random.sample(sorted(given), len(given))
        text = json.dumps({name: given[name] for name in shuffled})
        guards = Guards(log=MemoryLog(), cache=cache)
        return _run([ToolCall(call_id, "any_thing", text)], [thing], guards, clock=clock)[0]

    first = ask("1", arguments)
    clock.advance(seconds * part)
    again = ask("2", dict.fromkeys("abc") | arguments)
    assert (again.status, again.data, runs[0]) == (Status.CACHED, first.data, 1)
    assert ask("3", arguments | {"a": arguments.get("a", "") + "x"}).status is Status.OK
    clock.advance(seconds + 1)
    assert ask("4", arguments).status is Status.OK
    assert runs[0] == 3


PART = st.from_regex(r"[A-Za-z][A-Za-z0-9]{0,20}", fullmatch=True)
NAMES = st.lists(PART, min_size=1, max_size=3).map(".".join)
FIELD = st.from_regex(r"[a-z][a-z0-9]{0,10}", fullmatch=True).filter(lambda name: not hasattr(BaseModel, name))
KINDS: dict[type, st.SearchStrategy[Any]] = {
    int: st.integers(-(10**9), 10**9),
    str: st.text(string.printable, max_size=20),
    bool: st.booleans(),
    float: st.floats(allow_nan=False, allow_infinity=False),
    list[int]: st.lists(st.integers(0, 9), max_size=3),
}
SHAPES = st.dictionaries(FIELD, st.tuples(st.sampled_from(list(KINDS)), st.booleans()), min_size=1, max_size=4)


def _tool(name: str, shape: dict[str, tuple[Any, bool]], seen: list[Any], description: str = "Something.") -> Tool:
    """A tool of these parameters, each with its type and whether it may be left out."""
    fields: dict[str, Any] = {
        each: (kind | None, None) if optional else (kind, ...) for each, (kind, optional) in shape.items()
    }
    model = create_model("Given", **fields)

    async def thing(context: ToolContext, given: Any) -> str:
        seen.append((context, given))
        return "done"

    thing.__annotations__["given"] = model
    return tool(name, description)(thing)


@settings(max_examples=100)
@given(st.dictionaries(NAMES, st.tuples(st.text(min_size=1).filter(str.strip), SHAPES), min_size=1, max_size=4))
def test_property_14_a_registered_tool_is_found_listed_and_defined(given: dict[str, tuple[str, Any]]) -> None:
    """Property 14: a tool that was registered comes back by its name, is among all, and has a complete definition."""
    registry = Registry()
    for name, (description, shape) in given.items():
        registry.register(_tool(name, shape, [], description))
    definitions = {each["name"]: each for each in registry.definitions()}
    assert len(definitions) == len(given) == len(registry.all())
    for name, (description, shape) in given.items():
        found = registry.get(name)
        assert found in registry.all()
        assert found
        assert registry.get(found.wire_name) is found
        made = definitions[found.wire_name]
        assert made["description"] == description
        assert list(made["parameters"]["properties"]) == made["parameters"]["required"] == list(shape)
        assert made["parameters"]["additionalProperties"] is False


def _fits(kind: Any, value: Any) -> bool:
    """Whether JSON's value is of the type, by JSON's own notion: a whole number is a number, a truth is none."""
    if isinstance(value, bool) or value is None:
        return kind is bool and value is not None
    if kind == list[int]:
        return isinstance(value, list) and all(_fits(int, each) for each in value)
    return isinstance(value, (int, float) if kind is float else kind)


@settings(max_examples=120)
@given(SHAPES, st.data(), st.sampled_from(["missing", "type", "unknown"]))
def test_property_15_arguments_that_do_not_fit_are_refused_before_anything_runs(
    shape: dict[str, tuple[Any, bool]], data: st.DataObject, fault: str
) -> None:
    """Property 15: a missing field, a wrong type, an unknown field: a validation error, and the tool did not run."""
    seen: list[Any] = []
    thing = _tool("any.thing", shape, seen)
    valid = {name: data.draw(KINDS[kind]) for name, (kind, _) in shape.items()}
    wrong = dict(valid)
    field = data.draw(st.sampled_from(sorted(shape)))
    kind, optional = shape[field]
    if fault == "missing":
        assume(not optional)
        del wrong[field]
    elif fault == "type":
        wrong[field] = data.draw(st.one_of(STORABLE, st.just({}), st.just([None])))
        assume(not _fits(kind, wrong[field]) and not (optional and wrong[field] is None))
    else:
        field = data.draw(FIELD.filter(lambda name: name not in shape))
        wrong[field] = data.draw(STORABLE)

    (refused,) = _run([ToolCall("1", "any.thing", json.dumps(wrong))], [thing])
    assert refused.error
    assert refused.error.code is Code.INVALID_ARGUMENTS
    assert f"`{field}" in refused.error.message
    assert "expected" in refused.error.message
    assert seen == []
    (done,) = _run([ToolCall("1", "any.thing", json.dumps(valid))], [thing])
    assert done.success
    assert len(seen) == 1


IDENTITY = ("team", "channel", "thread_ts", "user_id", "request_id", "correlation_id")
ID = st.text(min_size=1, max_size=200).filter(str.strip)


@settings(max_examples=150)
@given(
    st.fixed_dictionaries(dict.fromkeys(IDENTITY, ID)), st.sampled_from(IDENTITY), st.sampled_from([None, "", " \n"])
)
def test_property_16_every_tool_gets_a_context_with_its_identity(
    identity: dict[str, str], field: str, blank: str | None
) -> None:
    """Property 16: channel, thread, user and request are there in every execution; without them there is no context."""
    seen: list[Any] = []
    _run(
        [ToolCall("call 1", "any.thing", '{"n": 1}')], [_tool("any.thing", {"n": (int, False)}, seen)], None, **identity
    )
    ((given, _arguments),) = seen
    assert {name: getattr(given, name) for name in IDENTITY} == identity
    assert given.call_id == "call 1"
    try:
        context(**(identity | {field: blank}))
    except ValueError as refused:
        said = str(refused)
    else:
        said = ""
    assert field in said
