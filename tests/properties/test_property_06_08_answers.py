"""Properties 6 and 8 in what a person reads: the answer as it is posted, whatever raised what on the way to it."""

import itertools
import json
import time
from collections.abc import Sequence
from typing import Any

import httpx2
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openai import APIConnectionError, APIError, APIStatusError
from structlog.testing import capture_logs

from tests.properties.insides import ERRORS, error_of, is_for_people
from tests.properties.turning import Model, answer
from tests.slack.limits import check, legible
from tests.support.conversation_activities import REGISTRY, Make, Talking, make_talk
from tests.support.tool_fakes import OutOfOrder
from threadline.conversations.blocks import answer_of
from threadline.conversations.model import answers
from threadline.conversations.think import Mind
from threadline.db.engine import Database
from threadline.db.rate_limit_rules import Rate
from threadline.estimates.model import BINDING
from threadline.models.errors import AnswerBroken, translate
from threadline.models.model import Execution, ExecutionStatus, ModelReply, ToolCall
from threadline.threads.addressing import Thread
from threadline.tools.context import Ports, ToolContext
from threadline.tools.ledger import Entry
from threadline.tools.model import Code, ToolError, failure
from threadline.tools.postgres_ports import PostgresExecutionLog, PostgresMutationLimit, PostgresResultCache
from threadline.tools.public_text import account
from threadline.tools.registry import Cache, Registry, tool
from threadline.tools.runner import Guards
from threadline_devstack.slack.identity import GENERAL, REPORTER, TEAM

__all__ = ["make_talk"]

_examples = itertools.count(1)
"""Examples share a database, so each has a thread of its own."""
of_many = settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])

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
ENDS = ("the model is silent", "the model fails", "somebody stops it")
ADVICE = ("try", "shorten", "check", "ask", "wait", "say", "call", "change", "use", "offer", "choose")


class LosesOne(PostgresExecutionLog):
    """A worker dies between the first call and its record."""

    def __init__(self, database: Database, words: str) -> None:
        super().__init__(database)
        self._words = words

    async def record(self, entry: Entry) -> None:
        words, self._words = self._words, ""
        if words:
            raise RuntimeError(words)
        await super().record(entry)


async def talking(make_talk: Make, mind: Mind, guards: Guards | None = None) -> Talking:
    """A thread of its own in which somebody has asked for something, minutes after whoever asked before."""
    talk, number = make_talk(mind=mind, guards=guards), next(_examples)
    talk.thread = Thread(TEAM, GENERAL, f"1{number:09}.000100")
    talk.at += number * 60
    await talk.said("Please use any thing that you have, and tell me how it went.")
    return talk


async def with_failing_tool(
    database: Database,
    make_talk: Make,
    raised: tuple[Any, ...],
    condition: str,
    mutating: bool,
    after: Sequence[ModelReply | Exception],
) -> Talking:
    """The model asks for a call that goes wrong in this way, and then replies as it is told."""
    error, inside = error_of(*raised), raised[2]

    async def any_thing(context: ToolContext, *, n: int = 0) -> object:
        if condition == "returns":
            return failure(Code.REFUSED, str(error), repr(error))
        raise error

    made = tool("any.thing", "Fails.", mutating=mutating, cache=None if mutating else Cache(60))(any_thing)
    text = {"not json": inside, "invalid": json.dumps({"n": inside, inside: 1})}.get(condition, "{}")
    call = ToolCall("1", inside if condition == "unknown" else "any_thing", text)
    replies = [ModelReply(calls=(call, call) if condition == "repeated" else (call,)), *after]
    log = LosesOne(database, inside) if condition == "interrupted" else PostgresExecutionLog(database)
    limit = PostgresMutationLimit(database, Rate(1, 3600.0))
    guards = Guards(log, limit, PostgresResultCache(database))
    if condition == "ports out of order":
        guards = Guards(log, OutOfOrder(), OutOfOrder())
    talk = await talking(make_talk, Mind(Model(*replies), Registry([made]), Ports()), guards)
    if condition == "throttled":
        assert await limit.admit(TEAM, f"thread:{talk.thread.key}", "an earlier change", time.time())
    if condition == "blocked":
        async with database.begin() as work:
            project = await work.estimates.open_project(TEAM, "Locked", "EUR")
            await work.estimates.set_locked(TEAM, project.project_id, locked=True)
            await work.bindings.bind(talk.thread, BINDING, project.project_id, REPORTER)
    return talk


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


@of_many
@given(ERRORS, st.sampled_from(CONDITIONS), st.booleans(), st.sampled_from(ENDS))
async def test_property_6_the_answer_tells_of_a_failed_tool_without_its_insides(
    database: Database, make_talk: Make, raised: tuple[Any, ...], condition: str, mutating: bool, end: str
) -> None:
    """Property 6: of any tool that fails in any way, the person reads that it failed, and nothing internal."""
    after = [error_of(*raised)] if end == "the model fails" else []
    with capture_logs():
        talk = await with_failing_tool(database, make_talk, raised, condition, mutating, after)
        text = await answer(talk, stop=end == "somebody stops it")
    holds_nothing_of(raised[2], text)
    if condition in ("raises", "returns", "unknown", "not json", "invalid", "interrupted"):
        assert "did not work" in text or "do not know whether" in text
    if condition == "blocked" and mutating:
        assert "was not allowed" in text
    assert condition == "returns" or is_for_people(raised) or raised[1] not in text
    assert end != "the model is silent" or advises(text)
    for result in [each.content for key, each in await talk.transcript() if key.startswith("t:")]:
        told = json.loads(result)["error"]
        assert raised[2] not in f"{told['message']} {told['suggestion']}"


def failures_of_a_model(raised: tuple[Any, ...], status: int) -> Sequence[Exception]:
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


@of_many
@given(ERRORS, st.integers(400, 599), st.integers(0, 10))
async def test_property_8_the_answer_to_a_question_that_no_model_could_answer_is_friendly(
    make_talk: Make, raised: tuple[Any, ...], status: int, which: int
) -> None:
    """Property 8: the end of a turn without a model has words, nothing raw, and says what to try."""
    failures = failures_of_a_model(raised, status)
    failed = failures[which]
    with capture_logs():
        talk = await talking(make_talk, Mind(Model(failed), REGISTRY, Ports()))
        text = await answer(talk)
    holds_nothing_of(raised[2], text)
    assert raised[1] not in text or (failed is failures[0] and is_for_people(raised))
    assert advises(text)


@settings(max_examples=200)
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
