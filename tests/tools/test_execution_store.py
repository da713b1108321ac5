"""Calls of tools on record: intended before, finished after, and never made twice."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from tests.support.tool_store import NOW, THREAD, operation
from threadline.db.engine import Database
from threadline.slack.model import Thread
from threadline.tools.model import Operation, ToolStatus
from threadline.tools.store import LoggedCall, ToolExecution, ToolExecutionStore

ARGUMENTS = {"project": "PRJ-1", "items": [{"title": "Design", "days": "2.5"}]}


def call(call_id: str = "call_1", **changes: Any) -> LoggedCall:
    return replace(
        LoggedCall(
            operation(call_id), "R1", "U1", "estimates.createWbsItems", ARGUMENTS, "same", NOW
        ),
        **changes,
    )


async def intend(database: Database, made: LoggedCall, now: float = NOW) -> ToolExecution | None:
    async with database.begin() as tx:
        return await ToolExecutionStore(tx).intend(replace(made, now=now))


async def finish(
    database: Database, made: LoggedCall, result: object, status: ToolStatus = ToolStatus.OK
) -> ToolExecution:
    async with database.begin() as tx:
        await ToolExecutionStore(tx).finish(made, status, result, 12, NOW + 1)
        kept = await ToolExecutionStore(tx).get(made.operation)
    assert kept
    return kept


async def test_call_is_made_once_and_then_its_result_is_read(database: Database) -> None:
    assert await intend(database, call()) is None
    done = await finish(database, call(), {"created": [1]})
    again = await intend(database, call(), NOW + 100)
    assert again == done
    assert (done.status, done.result) == ("ok", {"created": [1]})
    assert (done.created_at.timestamp(), done.finished_at and done.finished_at.timestamp()) == (
        NOW,
        NOW + 1,
    )
    async with database.begin() as tx:
        rows = await tx.exec_driver_sql(
            "SELECT parameters, execution_time_ms FROM agent_tool_executions"
        )
        assert [tuple(row) for row in rows] == [(ARGUMENTS, 12)]


async def test_one_of_many_intents_makes_the_call(database: Database) -> None:
    answers = await asyncio.gather(*(intend(database, call()) for _ in range(20)))
    assert [answer for answer in answers if answer is None] == [None]
    assert all(answer.status is None for answer in answers if answer)


async def test_intent_that_is_withdrawn_meanwhile_makes_way_for_the_next(
    database: Database,
) -> None:
    """The intent is withdrawn between two statements of the next one."""

    class _Late(ToolExecutionStore):
        async def _row(self, operation: Operation, seconds: float | None = None) -> Any:
            async with database.begin() as other:
                await other.exec_driver_sql("DELETE FROM agent_tool_executions")
            return await super()._row(operation, seconds)

    assert await intend(database, call()) is None
    async with database.begin() as tx:
        assert await _Late(tx).intend(call()) is None
    await finish(database, call(), {"created": [1]})
    async with database.begin() as tx:
        assert (
            await _Late(tx).finish(
                call(), ToolStatus.OK, {"created": [2]}, 12, NOW + 2, over_intent=False
            )
            is None
        )
        kept = await ToolExecutionStore(tx).get(call().operation)
    assert kept
    assert kept.result == {"created": [2]}


async def test_uncommitted_intent_is_none(database: Database) -> None:
    async def fail() -> None:
        async with database.begin() as tx:
            await ToolExecutionStore(tx).intend(call())
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await fail()
    assert await intend(database, call()) is None


async def test_call_id_belongs_to_its_step_turn_and_thread(database: Database) -> None:
    others = [
        operation(step=2),
        operation(turn=2),
        *(
            operation(thread=Thread(*place))
            for place in (("T2", "C1", "1"), ("T1", "C2", "1"), ("T1", "C1", "1"))
        ),
    ]
    for each in (operation(), *others):
        assert await intend(database, call(operation=each)) is None


async def test_success_follows_from_the_status(database: Database) -> None:
    await intend(database, call("intent"))
    for status in set(ToolStatus) - {ToolStatus.UNKNOWN}:
        await finish(database, call(status), None, status)
    async with database.begin() as tx:
        rows = await tx.exec_driver_sql("SELECT call_id, success FROM agent_tool_executions")
        assert {row.call_id for row in rows if row.success} == {"ok", "cached", "pending"}


async def test_any_result_is_kept_as_postgres_can_hold_it(database: Database) -> None:
    result = {
        "log": "a\x00b",
        "\x00key": "\ud800",
        "numbers": [float("nan"), float("inf")],
        "long": "x" * 2_000_000,
    }
    done = await finish(database, call(), result)
    assert done.result == {
        "log": "ab",
        "key": "?",
        "numbers": ["nan", "inf"],
        "long": "x" * 2_000_000,
    }
    assert await intend(database, call()) == done


async def test_made_up_name_is_kept_as_far_as_it_fits(database: Database) -> None:
    await finish(database, call(tool_name="a\x00" * 300), {}, ToolStatus.ERROR)
    async with database.begin() as tx:
        (ended,) = await ToolExecutionStore(tx).outcomes(THREAD, 1)
    assert ended.tool_name == "a" * 100


async def test_records_come_in_the_order_of_the_calls(database: Database) -> None:
    begun = (
        operation("b", step=2),
        operation("z"),
        operation("a"),
        operation("x", turn=2),
        operation("y"),
    )
    for number, each in enumerate(begun):
        await intend(database, call(operation=each), NOW + number)
    for each in begun[:4]:
        await finish(
            database,
            call(operation=each),
            {"data": "not read", "structured": [{"kind": each.call_id}]},
        )
    await finish(database, call("n"), None)
    await finish(database, call("f"), {"structured": [{"kind": "none"}]}, ToolStatus.ERROR)
    async with database.begin() as tx:
        shown = await ToolExecutionStore(tx).record_groups(THREAD, 1)
        assert (
            await ToolExecutionStore(tx).record_groups(Thread("T2", THREAD.channel, THREAD.ts), 1)
            == []
        )
    assert shown == [None, [{"kind": "z"}], [{"kind": "a"}], [{"kind": "b"}]]


async def test_outcomes_of_a_turn_have_status_and_code(database: Database) -> None:
    for number, name in enumerate(("a", "b", "c")):
        await intend(database, call(name), NOW + number)
    await finish(database, call("a"), {"data": "much", "error": None})
    await finish(database, call("b"), {"error": {"code": "REFUSED"}}, ToolStatus.ERROR)
    async with database.begin() as tx:
        ended = await ToolExecutionStore(tx).outcomes(THREAD, 1)
        assert await ToolExecutionStore(tx).outcomes(THREAD, 2) == []
    assert [(each.status, each.code) for each in ended] == [
        ("ok", ""),
        ("error", "REFUSED"),
        (None, ""),
    ]


async def test_old_calls_are_deleted_in_steps(database: Database) -> None:
    for number in range(5):
        await intend(database, call(f"call_{number}"), NOW + number)
    async with database.begin() as tx:
        counts = [await ToolExecutionStore(tx).prune(NOW + 3, 2) for _ in range(3)]
        left = [
            await ToolExecutionStore(tx).get(operation(f"call_{number}")) for number in range(5)
        ]
    assert counts == [2, 1, 0]
    assert [bool(each) for each in left] == [False, False, False, True, True]
