"""The read-only calls of one reply run in one activity: each runs once, and each fails alone."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from tests.support.conversation_activities import ConversationActivityScene, Make, make_talk
from tests.support.temporal import until
from threadline.conversations import act
from threadline.conversations.contract import ActRequest
from threadline.conversations.model.conversation import Execution
from threadline.errors import Transient
from threadline.models.model import ToolCall
from threadline.tools.context import ToolContext
from threadline.tools.model import ToolStatus
from threadline.tools.registry import ToolRegistry, tool
from threadline_devstack.models.script import ScriptTurn

__all__ = ["make_talk"]

READ: list[str] = []
"""The titles that the tools below have read, across a test."""
BEFORE_LOSS: list[Callable[[], Awaitable[None]]] = []
"""Awaited before the worker is lost."""


@tool("papers.fine", "Read a paper.", remote=True)
async def fine(context: ToolContext, *, title: str) -> str:
    READ.append(title)
    return f"{title} is read."


@tool("papers.away", "Read a paper that is away at first.", remote=True)
async def away(context: ToolContext) -> str:
    READ.append("away")
    if READ.count("away") == 1:
        raise Transient("The papers are away.")
    return "It is back."


@tool("papers.stuck", "Read a paper that never comes.", remote=True)
async def stuck(context: ToolContext) -> str:
    READ.append("stuck")
    await asyncio.Event().wait()
    return ""


@tool("papers.dies", "Read a paper in a worker that is lost with it, once.", remote=True)
async def dies(context: ToolContext) -> str:
    READ.append("dies")
    if READ.count("dies") == 1:
        await BEFORE_LOSS.pop()()
        raise asyncio.CancelledError
    return "It lives."


REGISTRY = ToolRegistry([fine, away, stuck, dies])


async def asked(
    make_talk: Make, *wanted: tuple[str, dict[str, str]]
) -> tuple[ConversationActivityScene, ActRequest]:
    """A turn whose model has asked for these calls at once."""
    READ.clear()
    talk = make_talk(registry=REGISTRY)

    async def read(turn: ScriptTurn) -> None:
        await turn.call_together(*wanted)

    talk.model.script(read)
    await talk.said("read them")
    calls: tuple[ToolCall, ...] = (await talk.think()).reply.calls
    assert all(each.read_only for each in calls)
    return talk, ActRequest(talk.thread, 1, 1, calls)


async def run(
    talk: ConversationActivityScene, request: ActRequest, attempt: int = 1
) -> list[Execution]:
    return await talk.run(talk.activities.act, request, attempt=attempt)


async def results(talk: ConversationActivityScene) -> list[str]:
    return sorted(
        message.call_id for key, message in await talk.transcript() if key.startswith("t:")
    )


async def test_calls_are_reported_in_order_and_each_is_kept_under_its_id(make_talk: Make) -> None:
    talk, request = await asked(
        make_talk, *(("papers_fine", {"title": f"{number}"}) for number in range(10))
    )
    done = await run(talk, request)
    assert [each.call_id for each in done] == [each.id for each in request.calls]
    assert {each.status for each in done} == {ToolStatus.OK}
    assert await results(talk) == sorted(each.id for each in request.calls)
    assert sorted(READ) == [f"{number}" for number in range(10)]


async def test_second_attempt_makes_only_the_call_that_failed(make_talk: Make) -> None:
    talk, request = await asked(make_talk, ("papers_fine", {"title": "a"}), ("papers_away", {}))
    with pytest.raises(Transient):
        await run(talk, request)
    assert [each.status for each in await run(talk, request, 2)] == [ToolStatus.OK] * 2
    assert READ == ["a", "away", "away"]
    assert len(await results(talk)) == 2


async def test_calls_made_before_the_worker_was_lost_are_not_made_again(make_talk: Make) -> None:
    talk, request = await asked(make_talk, ("papers_fine", {"title": "a"}), ("papers_dies", {}))

    async def kept() -> bool:
        return await results(talk) == [request.calls[0].id]

    BEFORE_LOSS.append(partial(until, kept, "the other call's result is kept"))
    with pytest.raises(asyncio.CancelledError):
        await run(talk, request)
    assert [each.status for each in await run(talk, request, 2)] == [ToolStatus.OK] * 2
    assert (sorted(READ[:2]), READ[2:]) == (["a", "dies"], ["dies"])
    [recorded] = await talk.rows("SELECT count(*) AS number FROM agent_tool_executions")
    assert recorded["number"] == len(await results(talk)) == 2


async def test_call_that_hangs_fails_alone(
    make_talk: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(act, "ACT_CALL", 1.0)
    talk, request = await asked(make_talk, ("papers_stuck", {}), ("papers_fine", {"title": "a"}))
    done = await run(talk, request)
    assert [each.status for each in done] == [ToolStatus.ERROR, ToolStatus.OK]
    assert done[0].note == "It was interrupted before it reported a result."
    assert READ.count("stuck") == 1
    assert await results(talk) == [request.calls[1].id]


async def test_call_that_is_not_in_the_reply_is_refused_alone(make_talk: Make) -> None:
    talk, request = await asked(
        make_talk, ("papers_fine", {"title": "a"}), ("papers_fine", {"title": "b"})
    )
    first, second = request.calls
    foreign = ToolCall("another", second.name, kind=second.kind)
    done = await run(talk, ActRequest(talk.thread, 1, 1, (first, foreign)))
    assert [each.status for each in done] == [ToolStatus.OK, ToolStatus.ERROR]
    assert READ == ["a"]
