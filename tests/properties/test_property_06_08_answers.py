"""Properties 6 and 8 in what a person reads: the answer as it is posted, whatever raised what on the way to it."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai import APIConnectionError, APIError, APIStatusError
from structlog.testing import capture_logs

from tests.properties.insides import ERRORS, error_of, is_for_people
from tests.slack.limits import check, legible
from tests.tools.doubles import MemoryCache, MemoryLimit, MemoryLog, OutOfOrder, context
from threadline.agents.models.failures import AnswerBroken, told, translate
from threadline.domain import answers
from threadline.domain.dialogue import Execution, ExecutionStatus, ToolCall
from threadline.domain.errors import Permanent
from threadline.slack.answers import answer_of
from threadline.tools.access import allowed
from threadline.tools.context import Ports, ToolContext
from threadline.tools.execution import Guards, execute, pipeline
from threadline.tools.registry import Cache, Registry, tool
from threadline.tools.results import Code, ToolError, failure
from threadline.tools.telling import execution
from threadline.tools.words import account

CONDITIONS = (
    "raises",
    "returns",
    "unknown",
    "not json",
    "invalid",
    "blocked",
    "throttled",
    "repeated",
    "interrupted",
    "ports out of order",
)
ADVICE = ("try", "shorten", "check", "ask", "wait", "say", "call", "change", "use", "offer", "choose")


def executions(raised: tuple[Any, ...], condition: str, mutating: bool) -> list[Execution]:
    """What becomes of a call that goes wrong in this way, told as the turn's account has it."""
    error, inside = error_of(*raised), raised[2]

    async def any_thing(context: ToolContext, *, n: int = 0) -> object:
        if condition == "returns":
            return failure(Code.REFUSED, str(error), repr(error))
        raise error

    made = tool("any.thing", "Fails.", mutating=mutating, cache=None if mutating else Cache(60))(any_thing)
    registry = Registry([made])
    text = {"not json": inside, "invalid": json.dumps({"n": inside, inside: 1})}.get(condition, "{}")
    calls = [ToolCall("1", inside if condition == "unknown" else "any.thing", text)]
    calls *= 2 if condition == "repeated" else 1
    broken = OutOfOrder()
    log = MemoryLog() if condition == "interrupted" else None
    guards = Guards(log, MemoryLimit(0 if condition == "throttled" else 9), MemoryCache())
    if condition == "ports out of order":
        guards = Guards(limit=broken, cache=broken)
    run = pipeline(registry, allowed(registry, Ports(), read_only=condition == "blocked"), guards)

    async def play() -> list[Execution]:
        if log:  # as a crash between the call and its record leaves it
            log.lost = RuntimeError(inside)
            await asyncio.gather(execute(calls, context(), run, registry), return_exceptions=True)
        results = await execute(calls, context(), run, registry)
        return [execution(call, result, registry) for call, result in zip(calls, results, strict=True)]

    with capture_logs():
        return asyncio.run(play())


def holds_nothing_of(inside: str, text: str) -> None:
    """What is posted of this answer is there, fits Slack, and has no line from within."""
    messages = answer_of(text)
    assert messages
    check(messages)
    read = legible(messages)
    assert not answers.is_blank(read)
    assert inside not in read
    assert not [line for line in inside.splitlines() if len(line) > 8 and line.strip() in read]
    assert "Traceback" not in read
    assert "Error" not in read


def advises(text: str) -> bool:
    return any(word in text.lower() for word in ADVICE)


@pytest.mark.promise("talk:answer:no-insides")
@settings(max_examples=300, deadline=None)
@given(ERRORS, st.sampled_from(CONDITIONS), st.booleans())
def test_property_6_the_answer_tells_of_a_failed_tool_without_its_insides(
    raised: tuple[Any, ...], condition: str, mutating: bool
) -> None:
    """Property 6: of any tool that fails in any way, the person reads that it failed, and nothing internal."""
    done = executions(raised, condition, mutating)
    failed = condition in ("raises", "returns", "unknown", "not json", "invalid")
    for text in (answers.summary(done), answers.stopped(done), answers.failed("", done)):
        holds_nothing_of(raised[2], text)
        assert not failed or "did not work" in text or "do not know whether" in text
        assert condition == "returns" or is_for_people(raised) or raised[1] not in text
    assert advises(answers.summary(done))


def failures_of_a_model(raised: tuple[Any, ...], status: int) -> Sequence[BaseException]:
    """What the client of a model's API may raise, and what becomes of it."""
    error, inside = error_of(*raised), raised[2]
    request = httpx2.Request("POST", "https://api.example/v1/responses")
    response = httpx2.Response(status, request=request)
    body = {"message": inside, "code": raised[1], "type": inside, "param": inside}
    known = (
        APIStatusError(inside, response=response, body=body),
        APIConnectionError(message=inside, request=request),
        APIError(inside, request, body=body),
        AnswerBroken(inside),
        TimeoutError(inside),
    )
    return (error, *known, *(translate(each, 1) for each in known))


@pytest.mark.promise("talk:answer:no-insides")
@settings(max_examples=200, deadline=None)
@given(ERRORS, st.integers(400, 599))
def test_property_8_the_answer_to_a_question_that_no_model_could_answer_is_friendly(
    raised: tuple[Any, ...], status: int
) -> None:
    """Property 8: the end of a turn without a model has words, nothing raw, and says what to try."""
    error, *others = failures_of_a_model(raised, status)
    for failed in (error, *others):
        text = answers.failed(told(failed), [])
        holds_nothing_of(raised[2], text)
        assert raised[1] not in text or (failed is error and is_for_people(raised))
        assert advises(text) or (failed is error and isinstance(error, Permanent))


@pytest.mark.promise("talk:answer:no-insides")
@settings(max_examples=200, deadline=None)
@given(ERRORS, st.sampled_from(Code), st.sampled_from(ExecutionStatus))
def test_property_8_a_text_of_our_own_is_clean_whatever_came_into_it(
    raised: tuple[Any, ...], code: Code, status: ExecutionStatus
) -> None:
    """Property 8: what a workflow was told of a failed activity, put into an answer as it is, is cleaned with it."""
    error, inside = error_of(*raised), raised[2]
    one = Execution("1", "any.thing", status, note=str(error))
    other = Execution("2", inside, status, note=ToolError(code, str(error), repr(error)).words)
    for text in (answers.failed(str(error), [one, other]), answers.summary([one]), answers.stopped([other, one])):
        clean = account(text, answers.TROUBLE)
        holds_nothing_of(inside, clean)
        assert clean != answers.TROUBLE
