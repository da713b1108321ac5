"""How a call is executed: what tools raise, and what follows from a success."""

import asyncio
import json
from typing import Any

import pytest
from pydantic import TypeAdapter
from structlog.testing import capture_logs

from tests.support.tool_fakes import MemoryCache, MemoryLog, context
from threadline.errors import Permanent, ProgramFault, Transient
from threadline.models.model import ToolCall
from threadline.tools.access import allowed
from threadline.tools.calls import Run
from threadline.tools.context import Port, Ports, ToolContext
from threadline.tools.model import Code, Structured, ToolResult, failure
from threadline.tools.registry import Cache, Registry, Success, tool
from threadline.tools.runner import Guards, pipeline


class Stage:
    """Who plays."""

    def __init__(self) -> None:
        self.played: list[str] = []
        self.error: BaseException | None = None


STAGE = Port[Stage]("Stage", "")


@tool("stage.look", "Look.")
async def look(context: ToolContext) -> list[str]:
    return list(context.ports[STAGE].played)


@tool("stage.fail", "Raise.")
async def fail(context: ToolContext) -> None:
    error = context.ports[STAGE].error
    assert error
    raise error


@tool("stage.refuse", "Give an error of its own.")
async def refuse(context: ToolContext) -> ToolResult:
    return failure(Code.REFUSED, "The stage is closed.", "Come back tomorrow.")


async def _applaud(success: Success) -> str:
    success.context.ports[STAGE].played.append("applause")
    return f"{success.arguments.name} was applauded"


async def _stumble(success: Success) -> str:
    raise ValueError("/srv/secret at db.internal")


async def _decline(success: Success) -> str:
    raise Permanent("The audience has left.")


async def _silent(success: Success) -> None:
    success.context.ports[STAGE].played.append("silence")


@tool("stage.play", "Play.", mutating=True, side_effects=(_applaud, _stumble, _decline, _silent))
async def play(context: ToolContext, *, name: str, well: bool = True) -> str:
    if not well:
        raise Permanent("It was not played.")
    await asyncio.sleep(0)  # lets another call in, if there were one beside it
    context.ports[STAGE].played.append(name)
    return name


@tool("stage.read", "Read, with what follows.", cache=Cache(60), side_effects=(_silent,))
async def read(context: ToolContext) -> str:
    return "read"


REGISTRY = Registry([look, fail, refuse, play, read])


class Theatre:
    def __init__(self) -> None:
        self.stage, self.log = Stage(), MemoryLog()
        self.ports = Ports().having(STAGE, self.stage)
        everything = allowed(REGISTRY, self.ports, read_only=False)
        self.run: Run = pipeline(REGISTRY, everything, Guards(self.log, cache=MemoryCache()))

    async def call(self, call_id: str, name: str, /, retries_left: int = 0, **given: Any) -> ToolResult:
        where = context(ports=self.ports, call_id=call_id, retries_left=retries_left)
        return await self.run(ToolCall(call_id, name, json.dumps(given)), where)


async def test_side_effects_run_once_after_a_success_and_their_faults_are_noted() -> None:
    theatre = Theatre()
    result = await theatre.call("1", "stage.play", name="a")
    assert result.success
    assert result.notes == (
        "[Side Effect] a was applauded",
        "[Side Effect Error] What should have followed was not done; the call itself was.",
        "[Side Effect Error] The audience has left.",
    )
    assert await theatre.call("1", "stage.play", name="a") == result
    assert theatre.stage.played == ["a", "applause", "silence"]


async def test_no_side_effect_follows_from_a_failure_or_from_an_answer_that_is_given_again() -> None:
    theatre = Theatre()
    await theatre.call("1", "stage.play", name="a", well=False)
    assert theatre.stage.played == []
    for id_ in ("2", "3"):
        await theatre.call(id_, "stage.read")
    assert theatre.stage.played == ["silence"]


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (
            Permanent("The project is locked: have it unlocked."),
            Code.REFUSED,
            "The project is locked: have it unlocked.",
        ),
        (Transient("Jira is away."), Code.SERVICE_UNAVAILABLE, "Jira is away. Try again in a few minutes."),
        (
            Transient("Jira is away.", retry_after=30),
            Code.SERVICE_UNAVAILABLE,
            "Jira is away. Try again in 30 seconds.",
        ),
        (
            ProgramFault("the database refused: there is no table calendar"),
            Code.TOOL_EXECUTION_FAILED,
            "Something went wrong on our side.",
        ),
        (KeyError("name"), Code.TOOL_EXECUTION_FAILED, "Something went wrong on our side."),
        (TimeoutError(), Code.TOOL_EXECUTION_FAILED, "Something went wrong on our side."),
        (ExceptionGroup("x", [ValueError("y")]), Code.TOOL_EXECUTION_FAILED, "Something went wrong on our side."),
        (RecursionError("deep"), Code.TOOL_EXECUTION_FAILED, "Something went wrong on our side."),
    ],
)
async def test_what_a_tool_raises_becomes_an_error_in_words(error: Exception, code: Code, told: str) -> None:
    theatre = Theatre()
    theatre.stage.error = error
    with capture_logs() as logs:
        result = await theatre.call("1", "stage.fail")
    assert result.error
    assert result.error.code is code
    assert told in result.text
    assert "database" not in result.text
    assert [each["event"] for each in logs] == ["tool_failed"] * (code is Code.TOOL_EXECUTION_FAILED)


async def test_a_fault_that_may_pass_goes_up_while_the_caller_would_try_again() -> None:
    theatre = Theatre()
    theatre.stage.error = Transient("Jira is away.", retry_after=30)
    with pytest.raises(Transient, match="Jira is away"):
        await theatre.call("1", "stage.fail", retries_left=1)
    assert theatre.log.entries == [], "it has not ended"
    failed = await theatre.call("1", "stage.fail")
    assert failed.error
    assert failed.error.code is Code.SERVICE_UNAVAILABLE


async def test_a_cancelled_call_stays_cancelled() -> None:
    theatre = Theatre()
    theatre.stage.error = asyncio.CancelledError()
    with pytest.raises(asyncio.CancelledError):
        await theatre.call("1", "stage.fail")
    assert theatre.log.entries == []


async def test_an_error_of_the_tools_own_stays_as_it_is() -> None:
    result = await Theatre().call("1", "stage.refuse")
    assert result.text == "The stage is closed. Come back tomorrow."


def test_a_result_is_either_a_success_or_has_an_error() -> None:
    with pytest.raises(ValueError, match="must have an error"):
        ToolResult(error=failure(Code.REFUSED).error)
    with pytest.raises(ValueError, match="must have an error"):
        ToolResult(status=failure(Code.REFUSED).status)


def test_a_result_becomes_json_and_comes_back() -> None:
    adapter = TypeAdapter(ToolResult)
    whole = ToolResult(data={"a": [1, None]}, structured=(Structured("rows", ({"b": 2},)),), notes=("n",))
    for result in (whole, failure(Code.REFUSED, "No.")):
        assert adapter.validate_json(adapter.dump_json(result)) == result
