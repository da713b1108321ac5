"""The records of the policies on Postgres: what was done is found again, and no secret is kept."""

import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from tests.support.tool_fakes import Clock, context
from tests.support.tool_results import code_of
from threadline.db.engine import Database
from threadline.db.rate_limit_rules import Rate
from threadline.errors import Permanent, Transient
from threadline.models.model import ToolCall
from threadline.tools.access import allowed
from threadline.tools.context import Port, Ports, ToolContext
from threadline.tools.ledger import Entry, Intent
from threadline.tools.model import Code, Status, Structured, ToolError, ToolResult, failure
from threadline.tools.operations import Change, Operation
from threadline.tools.output import fitted
from threadline.tools.policies import CallKey
from threadline.tools.postgres_ports import PostgresExecutionLog, PostgresMutationLimit, PostgresResultCache
from threadline.tools.registry import Cache, Registry, tool
from threadline.tools.runner import Guards, pipeline

_examples = itertools.count(1)
"""Examples share a database, so each has a call of its own."""
NOWHERE = "postgresql://nobody@/none?host=/nowhere"
SECRET = "xoxb-123456789012-1234567890123-AbCdEfGhIjKlMnOpQrStUvWx"

any_json: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
).map(lambda value: fitted(value, 4_000).value)
"""What a tool may answer, as the policies let it pass."""
any_text = st.text(max_size=40).map(lambda words: str(fitted(words, 1_000).value))
any_records = st.builds(
    Structured, any_text, st.lists(st.dictionaries(st.sampled_from("abc"), any_json, max_size=3), max_size=3).map(tuple)
)
any_notes = st.lists(any_text, max_size=2).map(tuple)
any_result = st.builds(
    ToolResult,
    st.sampled_from([Status.OK, Status.CACHED]),
    any_json,
    any_text,
    st.lists(any_records, max_size=2).map(tuple),
    st.none(),
    any_notes,
) | st.builds(
    ToolResult,
    st.sampled_from([Status.ERROR, Status.BLOCKED]),
    any_json,
    error=st.builds(ToolError, st.sampled_from(Code), st.text(max_size=40), st.text(max_size=40)),
    notes=any_notes,
)
of_many = settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])


def entry(result: ToolResult | None = None, *, arguments: str = "{}", **where: Any) -> Entry:
    key = CallKey("estimates.listRoles", arguments, "T1/")
    return Entry(context(**where), key.tool, {"project": "PRJ-1"}, key, True, result, 12)


@pytest.fixture
def log(database: Database) -> PostgresExecutionLog:
    return PostgresExecutionLog(database)


@of_many
@given(any_result)
@example(ToolResult(data=[1e23, 123456789012345678.0, -0.0, 5e-324, 2**53 + 1, 10**18]))
@example(failure(Code.OUTCOME_UNKNOWN, "Traceback (most recent call last)"))
async def test_any_result_comes_back_equal(database: Database, result: ToolResult) -> None:
    log, cache = PostgresExecutionLog(database), PostgresResultCache(database)
    done = entry(result, call_id=f"c{next(_examples)}")
    await log.record(done)
    assert await log.recorded(done) == result
    await cache.put(done.key, result, 10.0)
    assert await cache.get(done.key, 9.9) == result


async def test_change_is_intended_once_and_its_first_result_stands(log: PostgresExecutionLog) -> None:
    assert await log.recorded(entry()) is None
    first = await log.intend(entry())
    assert first.new
    assert await log.intend(entry()) == replace(first, new=False)
    assert await log.recorded(entry()) is None
    await log.record(entry(ToolResult(data=1)))
    await log.record(entry(ToolResult(data=2)))
    assert await log.recorded(entry()) == ToolResult(data=1)


async def test_withdrawn_intent_leaves_others_and_results(log: PostgresExecutionLog) -> None:
    clock = Clock()
    first = await log.intend(entry(clock=clock))
    clock.advance(1)
    await log.withdraw(entry(clock=clock), replace(first, at=clock().timestamp()))
    assert await log.intend(entry(clock=clock)) == replace(first, new=False), "that was another try's"
    await log.withdraw(entry(clock=clock), first)
    second = await log.intend(entry(clock=clock))
    assert (second.new, second.at) == (True, clock().timestamp())
    await log.record(entry(ToolResult(data=1)))
    await log.withdraw(entry(clock=clock), second)
    assert await log.recorded(entry()) == ToolResult(data=1)


async def test_call_id_of_another_call_is_refused(log: PostgresExecutionLog) -> None:
    await log.intend(entry())
    other = entry(ToolResult(), arguments='{"a":1}')
    for refused in (log.recorded(other), log.intend(other), log.record(other)):
        with pytest.raises(Permanent):
            await refused
    assert await log.recorded(entry()) is None


@pytest.mark.parametrize("call_id", ["a\x00b", "half \ud800", "x" * 100_000])
async def test_call_id_may_be_any_text(log: PostgresExecutionLog, call_id: str) -> None:
    assert (await log.intend(entry(call_id=call_id))).new
    await log.record(entry(ToolResult(data=1), call_id=call_id))
    assert await log.recorded(entry(call_id=call_id)) == ToolResult(data=1)
    assert await log.recorded(entry(call_id=f"{call_id}.")) is None


async def test_record_says_whose_call_it_was_and_holds_no_secret(database: Database, log: PostgresExecutionLog) -> None:
    registry = Registry([post])
    run = pipeline(registry, allowed(registry, PORTS, read_only=False), Guards(log))
    given = json.dumps({"amount": 5, "token": SECRET})
    await run(ToolCall("c1", "accounts.post", given), context(ports=PORTS, call_id="c1"))
    async with database.begin() as work:
        rows = await work.tx.execute(text("SELECT e::text AS whole, e.* FROM agent_tool_executions e"))
        row = rows.one()
    assert (row.tool_name, row.user_id, row.turn, row.step, row.status) == ("accounts.post", "U1", 1, 1, "ok")
    assert row.parameters["amount"] == 5
    assert SECRET not in row.whole
    assert row.fingerprint != json.dumps(given)


async def test_change_voids_answers_of_its_toolset_and_team(database: Database) -> None:
    cache = PostgresResultCache(database)
    keys = [
        CallKey("estimates.listRoles", "{}", "T1/"),
        CallKey("estimates.getProject", "{}", "T1/T1:C1:1/U1"),
        CallKey("estimates.listRoles", "{}", "T11/"),
        CallKey("estimatesOf.listRoles", "{}", "T1/"),
    ]
    for key in keys:
        await cache.put(key, ToolResult(data=key.scope), 10.0)
    await cache.forget("T1", "estimates")
    assert [await cache.get(key, 0.0) is None for key in keys] == [True, True, False, False]


async def test_answer_is_given_until_it_is_too_old_or_replaced(database: Database) -> None:
    cache, key = PostgresResultCache(database), CallKey("estimates.listRoles", "{}", "T1/")
    await cache.put(key, ToolResult(data=1), 10.0)
    assert await cache.get(key, 10.0) is None
    await cache.put(key, ToolResult(data=2), 20.0)
    assert await cache.get(key, 19.9) == ToolResult(data=2)
    async with database.begin() as work:
        assert [await work.tool_results.prune(20.0), await work.tool_results.prune(20.1)] == [0, 1]


async def test_rate_of_a_record_holds_for_its_team(database: Database) -> None:
    limit = PostgresMutationLimit(database, Rate(2, 60.0))
    asked = ("k1", "k2", "k3", "k1", "odd \x00 key")
    assert [await limit.admit("T1", "PRJ-1", key, 0.0) for key in asked] == [True, True, False, True, False]
    assert await limit.admit("T1", "PRJ-2", "k3", 0.0)
    assert await limit.admit("T2", "PRJ-1", "k3", 0.0)
    assert await limit.admit("T1", "PRJ-1", "k4", 60.0)


async def test_change_counts_once_for_policy_and_record(database: Database) -> None:
    rate = Rate(1, 60.0)
    here = context(call_id="c1")
    operation = Operation(here.thread, here.turn, here.step, here.call_id)
    assert await PostgresMutationLimit(database, rate).admit("T1", "PRJ-1", here.operation_key, 0.0)
    async with database.begin() as work:
        await work.operations.spend(Change(operation, 1.0, rate), "PRJ-1")


async def test_unreachable_database_is_transient() -> None:
    away = Database(NOWHERE)
    log, cache, limit = PostgresExecutionLog(away), PostgresResultCache(away), PostgresMutationLimit(away)
    key = entry().key
    for asked in (
        log.recorded(entry()),
        log.intend(entry()),
        log.withdraw(entry(), Intent(0.0, new=False)),
        log.record(entry(ToolResult())),
        cache.get(key, 0.0),
        cache.put(key, ToolResult(), 1.0),
        cache.forget("T1", "estimates"),
        limit.admit("T1", "PRJ-1", "k1", 0.0),
    ):
        with pytest.raises(Transient):
            await asked
    await away.dispose()


LEDGER = Port[Iterator[int]]("Accounts", "")
PORTS = Ports().having(LEDGER, itertools.count(1))


@tool("accounts.post", "Post an amount.", mutating=True)
async def post(context: ToolContext, *, amount: int, token: str = "") -> int:
    numbers = context.ports[LEDGER]
    return next(numbers)


@tool("accounts.total", "The sum.", cache=Cache(60.0))
async def total(context: ToolContext) -> int:
    numbers = context.ports[LEDGER]
    return next(numbers)


async def test_two_workers_run_each_call_once(database: Database, database_url: str) -> None:
    registry, clock, other = Registry([post, total]), Clock(), Database(database_url)
    ports = Ports().having(LEDGER, itertools.count(1))
    everything = allowed(registry, ports, read_only=False)
    runs = [
        pipeline(
            registry,
            everything,
            Guards(PostgresExecutionLog(each), PostgresMutationLimit(each, Rate(1, 60.0)), PostgresResultCache(each)),
        )
        for each in (database, other)
    ]

    async def call(worker: int, call_id: str, name: str, given: str = "{}") -> ToolResult:
        where = context(ports=ports, clock=clock, call_id=call_id)
        return await runs[worker](ToolCall(call_id, name, given), where)

    try:
        first = await call(0, "c1", "accounts.total")
        assert (first.status, first.data) == (Status.OK, 1)
        assert await call(1, "c1", "accounts.total") == first
        again = await call(1, "c2", "accounts.total")
        assert (again.status, again.data) == (Status.CACHED, 1)
        assert (await call(1, "c3", "accounts.post", '{"amount":1}')).data == 2
        assert (await call(0, "c3", "accounts.post", '{"amount":1}')).data == 2
        assert code_of(await call(0, "c4", "accounts.post", '{"amount":1}')) is Code.TOO_MANY_CHANGES
        assert (await call(0, "c5", "accounts.total")).data == 3
        clock.advance(61)
        assert (await call(0, "c6", "accounts.total")).data == 4
    finally:
        await other.dispose()
