"""How a call is executed: the errors that tools raise, and the side effects of a success."""

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.support.tool_results import code_of
from tests.tools.tool_calls import Caller
from threadline.errors import InternalError, Permanent, Transient
from threadline.models.model import ToolKind
from threadline.tools.context import Services, ToolContext
from threadline.tools.model import ErrorCode, ToolResult, error_result
from threadline.tools.registry import Cache, ToolRegistry, tool


class Stage:
    """The plays that were made; `stage.fail` raises `error`."""

    def __init__(self) -> None:
        self.played: list[str] = []
        self.error: BaseException = RuntimeError()


@tool("stage.fail", "Raise.", remote=True)
async def fail(context: ToolContext) -> None:
    raise context.services[Stage].error


@tool("stage.refuse", "Give an error of its own.", remote=True)
async def refuse(context: ToolContext) -> ToolResult:
    return error_result(ErrorCode.REFUSED, "The stage is closed.", "Come back tomorrow.")


async def _applaud(context: ToolContext, given: Any, result: ToolResult) -> str:
    context.services[Stage].played.append("applause")
    return f"{given.name} was applauded"


async def _stumble(context: ToolContext, given: Any, result: ToolResult) -> str:
    raise ValueError("/srv/secret at db.internal")


async def _decline(context: ToolContext, given: Any, result: ToolResult) -> str:
    raise Permanent("The audience has left.")


async def _silent(context: ToolContext, given: Any, result: ToolResult) -> None:
    context.services[Stage].played.append("silence")


@tool(
    "stage.play",
    "Play.",
    kind=ToolKind.CHANGE,
    side_effects=(_applaud, _stumble, _decline, _silent),
    remote=True,
)
async def play(context: ToolContext, *, name: str, well: bool = True) -> str:
    if not well:
        raise Permanent("It was not played.")
    context.services[Stage].played.append(name)
    return name


@tool(
    "stage.read", "Read, with what follows.", cache=Cache(60), side_effects=(_silent,), remote=True
)
async def read(context: ToolContext) -> str:
    return "read"


REGISTRY = ToolRegistry([fail, refuse, play, read])


class Theatre(Caller):
    def __init__(self) -> None:
        self.stage = Stage()
        super().__init__(REGISTRY, Services().with_service(Stage, self.stage))


@pytest.fixture
def theatre() -> Theatre:
    return Theatre()


async def test_side_effects_run_once_and_their_faults_are_noted(theatre: Theatre) -> None:
    result = await theatre.call("stage.play", "1", name="a")
    assert result.success
    applause, stumble, decline = result.notes
    assert applause == "[Side Effect] a was applauded"
    assert stumble.startswith("[Side Effect Error] ")
    assert "secret" not in stumble
    assert decline == "[Side Effect Error] The audience has left."
    assert await theatre.call("stage.play", "1", name="a") == result
    assert theatre.stage.played == ["a", "applause", "silence"]


async def test_failure_and_cached_answer_have_no_side_effects(theatre: Theatre) -> None:
    await theatre.call("stage.play", name="a", well=False)
    assert theatre.stage.played == []
    for _ in range(2):
        await theatre.call("stage.read")
    assert theatre.stage.played == ["silence"]


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (Permanent("The project is locked."), ErrorCode.REFUSED, "The project is locked."),
        (Transient("Jira is away."), ErrorCode.SERVICE_UNAVAILABLE, "Jira is away."),
        (Transient("Jira is away.", retry_after=30), ErrorCode.SERVICE_UNAVAILABLE, "30 seconds"),
        (
            InternalError("the database refused: there is no table calendar"),
            ErrorCode.TOOL_EXECUTION_FAILED,
            "",
        ),
        (KeyError("database"), ErrorCode.TOOL_EXECUTION_FAILED, ""),
        (TimeoutError("database"), ErrorCode.TOOL_EXECUTION_FAILED, ""),
    ],
)
async def test_exception_of_a_tool_becomes_an_error(
    theatre: Theatre, error: Exception, code: ErrorCode, told: str
) -> None:
    theatre.stage.error = error
    with capture_logs() as logs:
        result = await theatre.call("stage.fail")
    assert code_of(result) is code
    assert told in result.user_text
    assert "database" not in result.user_text
    logged = {
        ErrorCode.REFUSED: ["tool_refused"],
        ErrorCode.TOOL_EXECUTION_FAILED: ["tool_failed"],
    }
    assert [each["event"] for each in logs] == logged.get(code, [])


async def test_transient_fault_is_raised_while_the_caller_can_retry(theatre: Theatre) -> None:
    theatre.stage.error = Transient("Jira is away.", retry_after=30)
    with pytest.raises(Transient, match="Jira is away"):
        await theatre.call("stage.fail", "1", retries_left=1)
    assert theatre.ledger.entries == [], "it has not ended"
    assert code_of(await theatre.call("stage.fail", "1")) is ErrorCode.SERVICE_UNAVAILABLE


async def test_cancelled_call_stays_cancelled(theatre: Theatre) -> None:
    theatre.stage.error = asyncio.CancelledError()
    with pytest.raises(asyncio.CancelledError):
        await theatre.call("stage.fail")
    assert theatre.ledger.entries == []


async def test_error_that_a_tool_returns_is_kept(theatre: Theatre) -> None:
    assert (
        await theatre.call("stage.refuse")
    ).user_text == "The stage is closed. Come back tomorrow."


def test_result_is_a_success_or_has_an_error() -> None:
    with pytest.raises(ValueError, match="must have an error"):
        ToolResult(error=error_result(ErrorCode.REFUSED).error)
    with pytest.raises(ValueError, match="must have an error"):
        ToolResult(status=error_result(ErrorCode.REFUSED).status)
