"""The tool ledger, real and fake: recorded results are found again, and no secret is kept."""

import itertools
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sqlalchemy import text
from structlog.testing import capture_logs

from tests.support.examples import examples
from tests.support.tool_fakes import Clock, MemoryLedger, context, unheld
from tests.support.tool_results import code_of
from threadline.db.engine import Database, Transaction
from threadline.db.rate_limits import Rate, RateLimits
from threadline.errors import Permanent, Transient
from threadline.models.model import ToolCall, ToolKind
from threadline.slack.model import Thread
from threadline.tools.context import ToolContext
from threadline.tools.model import (
    CallIdReused,
    ErrorCode,
    Operation,
    RecordGroup,
    ToolError,
    ToolResult,
    ToolStatus,
    error_result,
)
from threadline.tools.output import fit_json
from threadline.tools.registry import Cache, ToolRegistry, allowed_tools, tool
from threadline.tools.runner import ToolRunner
from threadline.tools.store import CallIntent, EarlierIntent, LoggedCall, OpenResult, ToolLedger

Begun = ToolResult | OpenResult | EarlierIntent | CallIntent
_examples = itertools.count(1)
"""Examples share a database, so each has a call of its own."""
NOWHERE = "postgresql://nobody@/none?host=/nowhere"
SECRET = "xoxb-123456789012-1234567890123-AbCdEfGhIjKlMnOpQrStUvWx"

any_json: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4)
    ),
    max_leaves=12,
).map(lambda value: fit_json(value, 4_000).value)
"""Results of tools as the policies let them pass."""
any_text = st.text(max_size=40).map(lambda words: str(fit_json(words, 1_000).value))
any_records = st.builds(
    RecordGroup,
    any_text,
    st.lists(st.dictionaries(st.sampled_from("abc"), any_json, max_size=3), max_size=3).map(tuple),
)
any_notes = st.lists(any_text, max_size=2).map(tuple)
any_result = st.builds(
    ToolResult,
    st.sampled_from([ToolStatus.OK, ToolStatus.CACHED]),
    any_json,
    any_text,
    st.lists(any_records, max_size=2).map(tuple),
    st.none(),
    any_notes,
) | st.builds(
    ToolResult,
    st.sampled_from([ToolStatus.ERROR, ToolStatus.BLOCKED]),
    any_json,
    error=st.builds(
        ToolError, st.sampled_from(ErrorCode), st.text(max_size=40), st.text(max_size=40)
    ),
    notes=any_notes,
)
of_many = examples(1.5)


def call(
    name: str = "estimates.listRoles", *, arguments: str = "{}", call_id: str = "c1", **given: Any
) -> LoggedCall:
    thread = Thread(given.pop("team", "T1"), given.pop("channel", "C1"), "1760000000.000100")
    return LoggedCall(
        Operation(thread, 1, 1, call_id), "r1", "U1", name, {}, arguments, **({"now": 0.0} | given)
    )


async def begin(ledger: ToolLedger, call: LoggedCall, refusal: ToolResult | None) -> Begun:
    async with ledger.transaction() as tx:
        if refusal:
            return await ledger.refuse(tx, call, refusal)
        return await ledger.begin(tx, call)


async def withdraw(
    ledger: ToolLedger, call: LoggedCall, intent: CallIntent | EarlierIntent
) -> None:
    async with ledger.transaction() as tx:
        await ledger.withdraw(tx, call, intent)


async def finish(
    ledger: ToolLedger, call: LoggedCall, result: ToolResult, now: float, milliseconds: int
) -> ToolResult:
    async with ledger.transaction() as tx:
        return await ledger.finish(tx, call, result, now, milliseconds)


def change(**given: Any) -> LoggedCall:
    more: dict[str, Any] = {"changes": True, "voids_answers": True, "rate_key": "PRJ-1"}
    return call("estimates.addItem", **(more | given))


@pytest.fixture(params=["memory", "postgres"])
def ledger(request: pytest.FixtureRequest, database: Database) -> ToolLedger:
    """The fake must pass the tests of the real one."""
    return MemoryLedger() if request.param == "memory" else ToolLedger(database)


@of_many
@given(any_result)
@example(ToolResult(data=[1e23, 123456789012345678.0, -0.0, 5e-324, 2**53 + 1, 10**18]))
@example(error_result(ErrorCode.OUTCOME_UNKNOWN, "Traceback (most recent call last)"))
async def test_any_result_comes_back_equal(database: Database, result: ToolResult) -> None:
    ledger = ToolLedger(database)
    number = next(_examples)
    done = call(call_id=f"c{number}", arguments=f"{number}", cache_seconds=10.0)
    await finish(ledger, done, result, 0.0, 12)
    assert await begin(ledger, done, None) == result
    again = await begin(
        ledger, replace(done, operation=replace(done.operation, call_id=f"again{number}")), None
    )
    assert again == (
        replace(result, status=ToolStatus.CACHED)
        if result.status is ToolStatus.OK
        else CallIntent(0.0)
    )


async def test_change_begins_once_and_keeps_its_first_result(ledger: ToolLedger) -> None:
    assert await begin(ledger, change(now=5.0), None) == CallIntent(5.0)
    assert await begin(ledger, change(now=6.0), None) == EarlierIntent(5.0)
    assert await finish(ledger, change(now=6.0), ToolResult(data=1), 7.0, 12) == ToolResult(data=1)
    assert await finish(ledger, change(now=6.0), ToolResult(data=2), 7.0, 12) == ToolResult(data=1)
    assert await begin(ledger, change(now=8.0), None) == ToolResult(data=1)


async def test_read_is_begun_by_each_attempt_until_it_has_a_result(ledger: ToolLedger) -> None:
    assert await begin(ledger, call(now=5.0), None) == CallIntent(5.0)
    assert await begin(ledger, call(now=6.0), None) == CallIntent(6.0)
    await finish(ledger, call(now=6.0), ToolResult(data=1), 7.0, 12)
    assert await begin(ledger, call(now=8.0), None) == ToolResult(data=1)


async def test_refusal_is_recorded_and_leaves_no_intent(ledger: ToolLedger) -> None:
    refusal = error_result(ErrorCode.NOT_ALLOWED)
    assert await begin(ledger, change(), refusal) == refusal
    assert await begin(ledger, change(), None) == refusal


async def test_refusal_does_not_hide_the_result_of_an_earlier_attempt(ledger: ToolLedger) -> None:
    """The project was locked between two attempts of the call."""
    await begin(ledger, change(), None)
    assert await begin(ledger, change(), error_result(ErrorCode.NOT_ALLOWED)) == EarlierIntent(0.0)
    await finish(ledger, change(), ToolResult(data=1), 0.0, 12)
    assert await begin(ledger, change(), error_result(ErrorCode.NOT_ALLOWED)) == ToolResult(data=1)


async def test_withdrawn_intent_leaves_others_and_results(ledger: ToolLedger) -> None:
    first = await begin(ledger, change(now=5.0), None)
    assert isinstance(first, CallIntent)
    await withdraw(ledger, change(now=6.0), CallIntent(6.0))
    assert await begin(ledger, change(now=6.0), None) == EarlierIntent(5.0), (
        "that was another attempt's"
    )
    await withdraw(ledger, change(now=6.0), first)
    second = await begin(ledger, change(now=6.0), None)
    assert second == CallIntent(6.0)
    await finish(ledger, change(now=6.0), ToolResult(data=1), 6.0, 12)
    await withdraw(ledger, change(now=6.0), second)
    assert await begin(ledger, change(now=7.0), None) == ToolResult(data=1)


async def test_call_id_of_another_call_is_refused(ledger: ToolLedger) -> None:
    await finish(ledger, call(), ToolResult(), 0.0, 12)
    with pytest.raises(CallIdReused):
        await begin(ledger, call(arguments='{"a":1}'), None)


async def test_intent_of_another_call_is_refused(database: Database) -> None:
    ledger = ToolLedger(database)
    await begin(ledger, change(), None)
    with pytest.raises(CallIdReused):
        await begin(ledger, change(arguments='{"a":1}'), None)
    with pytest.raises(CallIdReused):
        await finish(ledger, change(arguments='{"a":1}'), ToolResult(), 0.0, 12)


@pytest.mark.parametrize(
    "call_id", ["a\x00b", "half \ud800", "x" * 100_000, "".join(map(chr, range(33, 40_033)))]
)
async def test_call_id_may_be_any_text(database: Database, call_id: str) -> None:
    ledger = ToolLedger(database)
    registry = ToolRegistry([post])
    runner = ToolRunner(registry, allowed_tools(registry, SERVICES, read_only=False), ledger)
    asked = ToolCall(call_id, "accounts.post", '{"amount":5}')
    first = await runner.run(asked, context(services=SERVICES, call_id=call_id))
    assert first.success, first.error
    assert await runner.run(asked, context(services=SERVICES, call_id=call_id)) == first
    assert await runner.run(asked, context(services=SERVICES, call_id=f"{call_id}.")) != first


async def test_record_names_the_caller_and_holds_no_secret(database: Database) -> None:
    registry = ToolRegistry([post])
    runner = ToolRunner(
        registry, allowed_tools(registry, SERVICES, read_only=False), ToolLedger(database)
    )
    given = json.dumps({"amount": 5, "token": SECRET})
    await runner.run(
        ToolCall("c1", "accounts.post", given), context(services=SERVICES, call_id="c1")
    )
    async with database.begin() as tx:
        rows = await tx.execute(text("SELECT e::text AS whole, e.* FROM agent_tool_executions e"))
        row = rows.one()
    assert (row.tool_name, row.user_id, row.turn, row.step, row.status) == (
        "accounts.post",
        "U1",
        1,
        1,
        "ok",
    )
    assert row.parameters["amount"] == 5
    assert SECRET not in row.whole
    assert row.fingerprint != json.dumps(given)


async def test_success_with_side_effects_stays_open_until_they_have_run(
    ledger: ToolLedger,
) -> None:
    booked = change(has_side_effects=True)
    done = ToolResult(data=1)
    noted = ToolResult(data=1, notes=("[Side Effect] An invitation is attached.",))
    assert await begin(ledger, booked, None) == CallIntent(0.0)
    assert await finish(ledger, booked, done, 1.0, 5) == done
    open_ = await begin(ledger, booked, None)
    assert open_ == OpenResult(done)
    async with ledger.transaction() as tx:
        await ledger.complete(tx, booked, noted, 2.0)
    assert await begin(ledger, booked, None) == noted


async def test_result_that_may_not_be_kept_is_fetched_again(
    database: Database, ledger: ToolLedger
) -> None:
    read = call(keep_result=False)
    await finish(ledger, read, ToolResult(data="what somebody may delete"), 0.0, 12)
    assert await begin(ledger, read, None) == CallIntent(0.0)
    refused = call(keep_result=False, call_id="c2")
    await finish(ledger, refused, error_result(ErrorCode.REFUSED), 0.0, 12)
    assert await begin(ledger, refused, None) == error_result(ErrorCode.REFUSED)
    async with database.begin() as tx:
        rows = await tx.execute(text("SELECT e::text FROM agent_tool_executions e"))
        assert "somebody" not in str(rows.all())


async def test_answer_is_reused_until_it_is_too_old(ledger: ToolLedger) -> None:
    async def asked(call_id: str, now: float) -> Begun:
        return await begin(ledger, call(call_id=call_id, cache_seconds=10.0, now=now), None)

    await finish(ledger, call(cache_seconds=10.0), ToolResult(data=1), 5.0, 12)
    cached = ToolResult(ToolStatus.CACHED, 1)
    assert await asked("c2", 14.9) == cached
    assert await asked("c3", 15.0) == CallIntent(15.0), (
        "the cached answer of c2 does not make it younger"
    )
    assert await asked("c2", 99.0) == cached, "a call gets its own recorded answer for ever"


async def test_change_voids_answers_of_its_toolset_and_team(ledger: ToolLedger) -> None:
    calls = [
        call("estimates.listRoles", arguments="1", call_id="a", cache_seconds=10.0),
        call("estimates.getProject", arguments="2", call_id="b", cache_seconds=10.0),
        call("estimates.listRoles", arguments="3", call_id="c", cache_seconds=10.0, team="T11"),
        call("estimatesOf.listRoles", arguments="4", call_id="d", cache_seconds=10.0),
    ]
    for each in calls:
        await finish(ledger, each, ToolResult(data=each.fingerprint), 0.0, 12)
    await finish(ledger, change(call_id="e"), ToolResult(), 1.0, 12)
    again = [
        replace(each, operation=replace(each.operation, call_id=f"{each.fingerprint}x"))
        for each in calls
    ]
    answers = [await begin(ledger, each, None) for each in again]
    assert [isinstance(each, ToolResult) for each in answers] == [False, False, True, True]


async def test_no_answer_is_reused_while_a_change_has_no_result(database: Database) -> None:
    """The change may have been made by a worker that died before it recorded the result."""
    ledger = ToolLedger(database)
    await finish(ledger, call(cache_seconds=1e6), ToolResult(data=1), 0.0, 12)
    assert isinstance(
        await begin(ledger, call(call_id="c2", cache_seconds=1e6, now=1.0), None), ToolResult
    )
    await begin(ledger, change(call_id="c3", now=2.0), None)
    assert await begin(ledger, call(call_id="c4", cache_seconds=1e6, now=3.0), None) == CallIntent(
        3.0
    )
    late = await begin(ledger, call(call_id="c5", cache_seconds=1e6, now=2.0 + 3600.0), None)
    assert isinstance(late, ToolResult), (
        "an intent without a result does not disable the cache for ever"
    )


async def test_rate_of_a_record_holds_for_its_team(database: Database) -> None:
    ledger = ToolLedger(database, Rate(2, 60.0))

    async def refused(call_id: str, now: float = 0.0, **given: Any) -> bool:
        return isinstance(
            await begin(ledger, change(call_id=call_id, now=now, **given), None), ToolResult
        )

    assert [await refused(key) for key in ("k1", "k2", "k3", "k1")] == [False, False, True, False]
    assert not await refused("k4", rate_key="PRJ-2")
    assert not await refused("k4", team="T2")
    assert not await refused("k5", now=60.0)


async def test_change_counts_once_for_ledger_and_record(database: Database) -> None:
    rate = Rate(1, 60.0)
    assert await begin(ToolLedger(database, rate), change(), None) == CallIntent(0.0)
    async with database.begin() as tx:
        await RateLimits(tx).count_change("T1", "PRJ-1", change().operation.key, 1.0, rate)


async def test_change_goes_on_when_it_cannot_be_counted(database: Database) -> None:
    async with database.begin() as tx:
        await tx.execute(text("ALTER TABLE rate_limit_events RENAME TO elsewhere"))
    with capture_logs() as logs:
        assert await begin(ToolLedger(database), change(), None) == CallIntent(0.0)
    assert [each["event"] for each in logs] == ["rate_limit_unavailable"]


async def test_unreachable_database_is_transient() -> None:
    away = Database(NOWHERE)
    ledger = ToolLedger(away)
    for asked in (
        begin(ledger, change(), None),
        withdraw(ledger, change(), EarlierIntent(0.0)),
        finish(ledger, change(), ToolResult(), 0.0, 12),
    ):
        with pytest.raises(Transient):
            await asked
    await away.dispose()


SERVICES = unheld().with_service(itertools.count, itertools.count(1))


@tool("accounts.post", "Post an amount.", kind=ToolKind.CHANGE, remote=True)
async def post(context: ToolContext, *, amount: int, token: str = "") -> int:
    return int(next(context.services[itertools.count]))


@tool("accounts.total", "The sum.", cache=Cache(60.0), remote=True)
async def total(context: ToolContext) -> int:
    return int(next(context.services[itertools.count]))


async def test_two_workers_run_each_call_once(database: Database, database_url: str) -> None:
    registry = ToolRegistry([post, total])
    clock = Clock()
    other = Database(database_url)
    services = unheld().with_service(itertools.count, itertools.count(1))
    everything = allowed_tools(registry, services, read_only=False)
    runners = [
        ToolRunner(registry, everything, ToolLedger(each, Rate(1, 60.0)))
        for each in (database, other)
    ]

    async def call(worker: int, call_id: str, name: str, given: str = "{}") -> ToolResult:
        where = context(services=services, clock=clock, call_id=call_id)
        return await runners[worker].run(ToolCall(call_id, name, given), where)

    try:
        first = await call(0, "c1", "accounts.total")
        assert (first.status, first.data) == (ToolStatus.OK, 1)
        assert await call(1, "c1", "accounts.total") == first
        again = await call(1, "c2", "accounts.total")
        assert (again.status, again.data) == (ToolStatus.CACHED, 1)
        assert (await call(1, "c3", "accounts.post", '{"amount":1}')).data == 2
        assert (await call(0, "c3", "accounts.post", '{"amount":1}')).data == 2
        assert (
            code_of(await call(0, "c4", "accounts.post", '{"amount":1}'))
            is ErrorCode.TOO_MANY_CHANGES
        )
        assert (await call(0, "c5", "accounts.total")).data == 3
        clock.advance(61)
        assert (await call(0, "c6", "accounts.total")).data == 4
    finally:
        await other.dispose()


async def test_remote_result_is_kept_when_its_report_fails(database: Database) -> None:
    """A change in another service cannot be rolled back, so the next attempt must find its
    result.
    """
    registry = ToolRegistry([post])
    told = list[ToolResult]()
    services = unheld().with_service(itertools.count, itertools.count(1))
    runner = ToolRunner(
        registry, allowed_tools(registry, services, read_only=False), ToolLedger(database)
    )
    asked = ToolCall("c1", "accounts.post", '{"amount":5}')
    where = context(services=services, call_id="c1")

    async def fail(tx: Transaction, _: ToolResult) -> None:
        await tx.execute(text("SELECT nothing"))

    async def tell(_: Transaction, result: ToolResult) -> None:
        told.append(result)

    with pytest.raises(Permanent):
        await runner.run(asked, where, fail)
    assert (await runner.run(asked, where, tell)).data == 1
    assert [each.data for each in told] == [1]


async def test_tool_answers_when_a_cached_answer_cannot_be_read(database: Database) -> None:
    ledger = ToolLedger(database)
    await finish(ledger, call(cache_seconds=10.0), ToolResult(data=1), 0.0, 12)
    async with database.begin() as tx:
        await tx.execute(
            text('UPDATE agent_tool_executions SET result = \'{"status": "unheard of"}\'')
        )
    with capture_logs() as logs:
        assert await begin(ledger, call(call_id="c2", cache_seconds=10.0), None) == CallIntent(0.0)
    assert [each["event"] for each in logs] == ["cached_answer_unavailable"]
