"""Calls of tools: intended before, recorded after, and never made twice."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from tests.support.tool_store import NOW, THREAD, operation
from threadline.db.engine import Database
from threadline.threads.addressing import Thread
from threadline.tools.operations import OperationReused
from threadline.tools.store import Call, ToolExecution

ARGUMENTS = {"project": "PRJ-1", "items": [{"title": "Design", "days": "2.5"}]}
SAME = "of these arguments"


def call(call_id: str = "call_1", **changes: Any) -> Call:
    made = Call(operation(call_id), "R1", "U1", "estimates.createWbsItems", ARGUMENTS, SAME)
    return replace(made, **changes)


async def intend(database: Database, made: Call, now: float = NOW) -> ToolExecution | None:
    async with database.begin() as work:
        return await work.tool_executions.intend(made, now)


async def finish(database: Database, made: Call, result: object, now: float = NOW + 1, **more: Any) -> ToolExecution:
    async with database.begin() as work:
        return await work.tool_executions.finish(made, more.pop("status", "ok"), result, 12, now)


async def test_a_call_that_changes_something_is_made_once_and_then_its_result_is_read(database: Database) -> None:
    assert await intend(database, call()) is None
    done = await finish(database, call(), {"created": [1]})
    again = await intend(database, call(), NOW + 100)
    assert again == done
    assert (done.status, done.result, done.execution_time_ms) == ("ok", {"created": [1]}, 12)
    assert done.parameters == ARGUMENTS
    assert not done.outcome_unknown
    assert (done.created_at.timestamp(), done.finished_at and done.finished_at.timestamp()) == (NOW, NOW + 1)


async def test_an_intent_without_a_result_is_an_unknown_outcome(database: Database) -> None:
    assert await intend(database, call()) is None
    again = await intend(database, call())
    assert again is not None
    assert again.outcome_unknown
    assert again.finished_at is None
    async with database.begin() as work:
        assert await work.tool_executions.recorded(operation()) == again
        assert await work.tool_executions.recorded(operation("another")) is None


async def test_of_many_that_intend_the_same_call_one_makes_it(database: Database) -> None:
    answers = await asyncio.gather(*(intend(database, call()) for _ in range(20)))
    assert [answer for answer in answers if answer is None] == [None]
    assert all(answer.outcome_unknown for answer in answers if answer)


async def test_an_intent_that_was_not_committed_is_none(database: Database) -> None:
    async def fail() -> None:
        async with database.begin() as work:
            await work.tool_executions.intend(call(), NOW)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await fail()
    assert await intend(database, call()) is None


async def test_the_first_word_about_a_call_stands(database: Database) -> None:
    first = await finish(database, call(), "first")
    assert await finish(database, call(), "second", status="error") == first


async def test_a_call_id_means_one_call(database: Database) -> None:
    await intend(database, call())
    other = call(fingerprint="of others")
    with pytest.raises(OperationReused):
        await intend(database, other)
    async with database.begin() as work:
        with pytest.raises(OperationReused):
            await work.tool_executions.finish(other, "ok", "of the other", 12, NOW)
    still = await intend(database, call())
    assert still is not None
    assert still.outcome_unknown


async def test_the_same_call_id_in_another_step_turn_or_thread_is_another_call(database: Database) -> None:
    others = [
        operation(step=2),
        operation(turn=2),
        *(operation(thread=Thread(*place)) for place in (("T2", "C1", "1"), ("T1", "C2", "1"), ("T1", "C1", "1"))),
    ]
    for each in (operation(), *others):
        assert await intend(database, call(operation=each)) is None


async def test_every_status_is_kept_and_success_follows_from_it(database: Database) -> None:
    await intend(database, call("intent"))
    for status in ("ok", "error", "blocked", "cached"):
        await finish(database, call(status), None, status=status)
    async with database.begin() as work:
        rows = await work.connection.exec_driver_sql("SELECT call_id, success FROM agent_tool_executions")
        assert {row.call_id: row.success for row in rows} == {
            "intent": False,
            "ok": True,
            "error": False,
            "blocked": False,
            "cached": True,
        }


@pytest.mark.parametrize(
    ("result", "kept"),
    [
        (None, None),
        ({"a": [1, 2.5, True, None, "ü🙂"], "b": {"c": {}}}, {"a": [1, 2.5, True, None, "ü🙂"], "b": {"c": {}}}),
        ({"log": "a\x00b", "\x00key": "\ud800"}, {"log": "ab", "key": "?"}),
        ([float("nan"), float("inf")], ["nan", "inf"]),
        ([1.0, 1e23, 123456789012345678.0, -1e-7], [1.0, 1e23, 123456789012345678.0, -1e-7]),
        ("x" * 2_000_000, "x" * 2_000_000),
    ],
)
async def test_any_result_is_kept_and_read_as_it_was_returned(database: Database, result: object, kept: object) -> None:
    done = await finish(database, call(), result)
    assert done.result == kept
    assert await intend(database, call()) == done


async def test_a_name_that_a_model_made_up_is_kept_as_far_as_it_fits(database: Database) -> None:
    done = await finish(database, call(tool_name="a\x00" * 300), "no such tool", status="error")
    assert done.tool_name == "a" * 100


async def test_a_call_is_found_by_its_id_and_told_from_another_with_the_same(database: Database) -> None:
    async with database.begin() as work:
        assert await work.tool_executions.of_call(call()) is None
        done = await work.tool_executions.finish(call(), "ok", "it", 12, NOW)
        assert await work.tool_executions.of_call(call()) == done
        with pytest.raises(OperationReused):
            await work.tool_executions.of_call(call(fingerprint="of others"))


async def test_what_a_turns_calls_have_to_show_comes_in_the_order_in_which_they_were_begun(database: Database) -> None:
    begun = (operation("b", step=2), operation("z"), operation("a"), operation("x", turn=2), operation("y"))
    for number, each in enumerate(begun):
        await intend(database, call(operation=each), NOW + number)
    for each in begun[:4]:
        await finish(database, call(operation=each), {"data": "not read", "structured": [{"kind": each.call_id}]})
    await finish(database, call("n"), None)
    await finish(database, call("f"), {"structured": [{"kind": "none"}]}, status="error")
    async with database.begin() as work:
        shown = await work.tool_executions.shown(THREAD, 1)
        assert await work.tool_executions.shown(Thread("T2", THREAD.channel, THREAD.ts), 1) == []
    assert shown == [None, [{"kind": "z"}], [{"kind": "a"}], [{"kind": "b"}]]


async def test_how_a_turns_calls_ended_is_told_without_what_they_returned(database: Database) -> None:
    for number, name in enumerate(("a", "b", "c")):
        await intend(database, call(name), NOW + number)
    await finish(database, call("a"), {"data": "much", "error": None})
    await finish(database, call("b"), {"error": {"code": "REFUSED"}}, status="error")
    async with database.begin() as work:
        ended = await work.tool_executions.outcomes(THREAD, 1)
        assert await work.tool_executions.outcomes(THREAD, 2) == []
    assert [(each.status, each.code) for each in ended] == [("ok", ""), ("error", "REFUSED"), (None, "")]


async def test_old_calls_are_forgotten_in_steps_and_young_ones_kept(database: Database) -> None:
    for number in range(5):
        await intend(database, call(f"call_{number}"), NOW + number)
    async with database.begin() as work:
        counts = [await work.tool_executions.prune(NOW + 3, 2) for _ in range(3)]
        left = [await work.tool_executions.recorded(operation(f"call_{number}")) for number in range(5)]
    assert counts == [2, 1, 0]
    assert [bool(each) for each in left] == [False, False, False, True, True]
