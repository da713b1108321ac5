"""A tool that works in Postgres: its changes and the record of its call are one transaction."""

import asyncio
import itertools
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from tests.support.tool_fakes import LossyLedger, context, unheld
from tests.support.tool_results import code_of
from threadline.db.engine import Database, Transaction
from threadline.db.rate_limits import Rate
from threadline.errors import Permanent, Transient
from threadline.models.model import ToolCall, ToolKind
from threadline.slack.model import User
from threadline.slack.users import UserDirectory
from threadline.tools.arguments import InvalidTool
from threadline.tools.context import Services, ToolContext
from threadline.tools.model import ErrorCode, ToolResult, error_result
from threadline.tools.registry import ToolRegistry, allowed_tools, tool
from threadline.tools.runner import ToolRunner

_then: list[Callable[[ToolContext], Any]] = []
"""Hooks that run in the next call after its change."""


@tool("desks.assign", "Give a colleague a desk.", kind=ToolKind.CHANGE, timeout=0.5)
async def assign(context: ToolContext, *, desk: str, person: str) -> object:
    await context.tx.execute(
        text("INSERT INTO desks VALUES (:desk, :person)"), {"desk": desk, "person": person}
    )
    if _then:
        return await _then.pop()(context)
    return ToolResult(data={"desk": desk}, display_text=f"{desk} is {person}'s now.")


@tool("desks.list", "Who sits where.")
async def listed(context: ToolContext) -> list[str]:
    return list((await context.tx.scalars(text("SELECT person FROM desks ORDER BY person"))).all())


async def _announce(context: ToolContext, given: Any, result: ToolResult) -> str:
    """Posts under a key, as a side effect must: a second post changes nothing."""
    office: Office = context.services[Office]
    office.posts += 1
    if office.lost:
        lost = office.lost
        office.lost = None
        raise lost
    office.posted.add(context.operation_key)
    return "The move is announced."


@tool(
    "desks.move", "Give a colleague another desk.", kind=ToolKind.CHANGE, side_effects=(_announce,)
)
async def move(context: ToolContext, *, desk: str) -> str:
    await context.count_change(f"desk:{desk}")
    await context.tx.execute(text("INSERT INTO desks VALUES (:desk, 'moved')"), {"desk": desk})
    return desk


@tool("desks.plan", "The plan of all desks.", members_only=True)
async def plan(context: ToolContext) -> str:
    return context.requester.user.name if context.requester.user else ""


REGISTRY = ToolRegistry([assign, listed, move, plan])


class Office:
    def __init__(self, database: Database) -> None:
        self.database = database
        self.ledger = LossyLedger(database)
        self.told: list[ToolResult] = []
        self.posts = 0
        self.posted: set[str] = set()
        self.lost: BaseException | None = None
        self.slack_fault: Exception | None = None
        self._ids = (f"call_{number}" for number in itertools.count(1))

    @property
    def services(self) -> Services:
        return (
            unheld()
            .with_service(Office, self)
            .with_service(UserDirectory, UserDirectory(self._find))
        )

    async def _find(self, user_id: str) -> User | None:
        if self.slack_fault:
            raise self.slack_fault
        return User("T1", name="Rina") if user_id == "U1" else User("T1", guest=True)

    async def call(
        self, name: str, call_id: str = "", retries_left: int = 0, **given: str
    ) -> ToolResult:
        runner = ToolRunner(
            REGISTRY, allowed_tools(REGISTRY, self.services, read_only=False), self.ledger
        )
        where_: dict[str, Any] = {"approved_action_id": given.pop("approved", "")}
        where_["co_requesters"] = dict.fromkeys(given.pop("with_", "").split(), "Somebody")
        id_ = call_id or next(self._ids)
        where = context(call_id=id_, retries_left=retries_left, services=self.services, **where_)
        return await runner.run(ToolCall(id_, name, json.dumps(given)), where, self._tell)

    async def assign(self, call_id: str = "", retries_left: int = 0) -> ToolResult:
        return await self.call("desks.assign", call_id, retries_left, desk="4-12", person="Rina")

    async def people(self) -> object:
        return (await self.call("desks.list")).data

    async def executions(self) -> list[tuple[str, str | None]]:
        async with self.database.begin() as tx:
            rows = await tx.execute(
                text("SELECT tool_name, status FROM agent_tool_executions ORDER BY call_id")
            )
            return [(row.tool_name, row.status) for row in rows]

    async def _tell(self, tx: Transaction, result: ToolResult) -> None:
        await tx.execute(text("INSERT INTO told VALUES (1)"))
        self.told.append(result)


@pytest.fixture
async def office(database: Database) -> Office:
    async with database.begin() as tx:
        await tx.execute(text("CREATE TABLE desks (desk text CHECK (desk <> ''), person text)"))
        await tx.execute(text("CREATE TABLE told (number int)"))
    return Office(database)


async def test_change_is_made_once_however_often_it_is_tried(office: Office) -> None:
    first = await office.assign("c1")
    assert (first.data, first.display_text) == ({"desk": "4-12"}, "4-12 is Rina's now.")
    assert await office.assign("c1") == first
    assert await office.people() == ["Rina"]
    assert office.told[:2] == [first, first]


async def test_attempts_at_once_make_one_change(office: Office) -> None:
    results = await asyncio.gather(*(office.assign("c1") for _ in range(8)))
    assert results == [results[0]] * 8
    assert await office.people() == ["Rina"]


async def test_worker_that_dies_before_the_record_has_changed_nothing(office: Office) -> None:
    office.ledger.lost = RuntimeError("the worker died")
    with pytest.raises(RuntimeError):
        await office.assign("c1")
    assert await office.people() == []
    assert (await office.assign("c1")).success
    assert await office.people() == ["Rina"]


async def test_worker_that_dies_while_it_reports_the_result_has_changed_nothing(
    office: Office,
) -> None:
    async with office.database.begin() as tx:
        await tx.execute(text("ALTER TABLE told RENAME TO elsewhere"))
    with pytest.raises(Permanent):
        await office.assign("c1")
    assert await office.executions() == []


async def _raise(error: Exception) -> None:
    raise error


@pytest.mark.parametrize(
    ("then", "code"),
    [
        (lambda _: _raise(Permanent("The desk is taken.")), ErrorCode.REFUSED),
        (lambda _: _raise(ValueError("a bug")), ErrorCode.TOOL_EXECUTION_FAILED),
        (lambda _: _raise(Transient("Not now.")), ErrorCode.SERVICE_UNAVAILABLE),
        (
            lambda at: at.tx.execute(text("INSERT INTO desks VALUES ('', 'nobody')")),
            ErrorCode.TOOL_EXECUTION_FAILED,
        ),
        (lambda at: at.tx.execute(text("SELECT nothing")), ErrorCode.TOOL_EXECUTION_FAILED),
        (
            lambda _: asyncio.sleep(0, error_result(ErrorCode.REFUSED, "The desk is taken.")),
            ErrorCode.REFUSED,
        ),
        (lambda at: at.tx.execute(text("SELECT pg_sleep(5)")), ErrorCode.TOOL_TIMEOUT),
    ],
    ids=[
        "refusal",
        "bug",
        "unavailable",
        "refused value",
        "bad statement",
        "error result",
        "timeout",
    ],
)
async def test_failed_call_changes_nothing_and_is_recorded(
    office: Office, then: Callable[[ToolContext], Any], code: ErrorCode
) -> None:
    _then.append(then)
    failed = await office.assign("c1")
    assert code_of(failed) is code
    assert await office.assign("c1") == failed, "the failure is recorded"
    assert await office.people() == []
    assert (await office.executions())[0] == ("desks.assign", "error")


async def test_timed_out_change_is_reported_as_not_made(office: Office) -> None:
    _then.append(lambda at: at.tx.execute(text("SELECT pg_sleep(5)")))
    assert "nothing was changed" in (await office.assign("c1")).user_text
    assert (await office.assign("c2")).success


async def test_fault_that_may_pass_is_tried_again_as_a_whole(office: Office) -> None:
    _then.append(lambda _: _raise(Transient("Not now.")))
    with pytest.raises(Transient):
        await office.assign("c1", retries_left=1)
    assert await office.executions() == []
    assert (await office.assign("c1")).success
    assert await office.people() == ["Rina"]


async def test_worker_that_freezes_commits_nothing_later(office: Office) -> None:
    """By then its call is recorded as lost, and another attempt may have made it."""

    async def freeze(at: ToolContext) -> ToolResult:
        limit = (await at.tx.execute(text("SHOW transaction_timeout"))).scalar_one()
        return ToolResult(data=limit)

    _then.append(freeze)
    assert (await office.assign()).data == "15500ms"


async def test_refused_attempt_returns_the_result_of_an_earlier_one(office: Office) -> None:
    """The first attempt is slow, but alive; meanwhile no change is allowed."""
    changed = asyncio.Event()
    go_on = asyncio.Event()

    async def wait(_: ToolContext) -> ToolResult:
        changed.set()
        await go_on.wait()
        return ToolResult(data="done")

    _then.append(wait)
    first = asyncio.create_task(office.assign("c1"))
    await changed.wait()
    locked = ToolRunner(
        REGISTRY, allowed_tools(REGISTRY, Services(), read_only=True), office.ledger
    )
    call = ToolCall("c1", "desks.assign", json.dumps({"desk": "4-12", "person": "Rina"}))
    second = asyncio.create_task(locked.run(call, context(call_id="c1")))
    async with office.database.begin() as other:  # it waits for the first one's transaction
        waiting = text("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
        while not await other.scalar(waiting):
            await other.execute(text("SELECT pg_stat_clear_snapshot()"))
    go_on.set()
    assert (await second).data == (await first).data == "done"


async def test_call_whose_connection_is_cut_on_its_last_attempt_is_reported_as_not_made(
    office: Office,
) -> None:
    _then.append(lambda at: at.tx.execute(text("SELECT pg_terminate_backend(pg_backend_pid())")))
    assert code_of(await office.assign("c1")) is ErrorCode.SERVICE_UNAVAILABLE
    assert await office.people() == []
    assert (await office.executions())[0] == ("desks.assign", "error")


async def test_side_effect_follows_the_committed_change_once(office: Office) -> None:
    moved = await office.call("desks.move", "c1", desk="4-12")
    assert moved.notes == ("[Side Effect] The move is announced.",)
    assert await office.call("desks.move", "c1", desk="4-12") == moved
    assert (office.posts, office.told) == (1, [moved, moved])
    assert await office.people() == ["moved"]


async def test_side_effect_of_a_dead_worker_runs_in_the_next_attempt(office: Office) -> None:
    office.lost = asyncio.CancelledError()
    with pytest.raises(asyncio.CancelledError):
        await office.call("desks.move", "c1", desk="4-12")
    assert office.told == []
    assert await office.people() == ["moved"], "the change is committed"
    moved = await office.call("desks.move", "c1", desk="4-12")
    assert moved.notes == ("[Side Effect] The move is announced.",)
    assert (len(office.posted), await office.people()) == (1, ["moved"])


async def test_change_that_failed_has_no_side_effect(office: Office) -> None:
    assert not (await office.call("desks.move", desk="")).success
    assert office.posts == 0


async def test_change_waits_for_the_rate_of_its_record_if_it_was_approved(office: Office) -> None:
    office.ledger.rate = Rate(0, 60.0)
    with pytest.raises(Transient, match="limit of 0 changes"):
        await office.call("desks.move", "c1", 1, desk="4-12", approved="ACT-1")
    refused = await office.call("desks.move", "c2", 1, desk="4-12")
    assert code_of(refused) is ErrorCode.TOO_MANY_CHANGES
    office.ledger.rate = Rate(1, 60.0)
    assert (await office.call("desks.move", "c1", 1, desk="4-12", approved="ACT-1")).success
    assert await office.people() == ["moved"]


async def test_tool_for_members_is_refused_when_a_guest_asks(office: Office) -> None:
    assert (await office.call("desks.plan")).data == "Rina"
    refused = await office.call("desks.plan", with_="UGUEST")
    assert code_of(refused) is ErrorCode.NOT_ALLOWED
    assert "members" in refused.user_text
    assert (await office.executions())[1] == ("desks.plan", "blocked")


async def test_call_waits_until_slack_describes_the_requester(office: Office) -> None:
    office.slack_fault = Transient("Slack is away.")
    with pytest.raises(Transient):
        await office.call("desks.plan", "c1", retries_left=1)
    office.slack_fault = None
    assert (await office.call("desks.plan", "c1")).data == "Rina"
    office.slack_fault = Transient("Slack is away.")
    assert code_of(await office.call("desks.plan", "c2")) is ErrorCode.SERVICE_UNAVAILABLE
    assert (await office.call("desks.plan", "c1")).data == "Rina", "the result is recorded"


async def test_example_of_the_documentation_works(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`desks` is a feature that does not exist: its store is written here."""

    class DeskStore:
        def __init__(self, tx: Transaction) -> None:
            self._tx = tx

        async def assign(self, team: str, desk: str, person: str) -> dict[str, str]:
            await self._tx.execute(
                text("INSERT INTO desks VALUES (:desk, :person)"), {"desk": desk, "person": person}
            )
            return {"desk": desk, "person": person}

    store = ModuleType("threadline.desks.store")
    store.DeskStore = DeskStore  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "threadline.desks.store", store)
    page = (Path(__file__).parents[2] / "docs" / "tools.md").read_text("utf-8")
    (example,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    namespace: dict[str, Any] = {}
    exec(compile(example, "example.py", "exec"), namespace)  # noqa: S102 - our own documentation
    registry = ToolRegistry(namespace["TOOLS"])
    runner = ToolRunner(
        registry, allowed_tools(registry, Services(), read_only=False), office.ledger
    )
    here = context(call_id="c1", services=office.services)
    for _ in range(2):
        result = await runner.run(ToolCall("c1", "desks_assign", '{"desk": "4-12"}'), here)
        assert result.display_text == "4-12 is taken by U1 now."
    assert await office.people() == ["U1"]


async def test_tool_that_swallows_an_error_of_the_database_has_changed_nothing(
    office: Office,
) -> None:
    async def swallow(at: ToolContext) -> ToolResult:
        with pytest.raises(DBAPIError):
            await at.tx.execute(text("SELECT nothing"))
        return ToolResult(data="fine")

    _then.append(swallow)
    assert code_of(await office.assign("c1")) is ErrorCode.TOOL_EXECUTION_FAILED
    assert await office.people() == []


@pytest.mark.parametrize(
    "said",
    [{"look_up": None, "settle_seconds": 5.0}, {"look_up": lambda *_: None}, {"timeout": 21.0}],
)
def test_local_tool_needs_no_look_up(said: dict[str, Any]) -> None:
    with pytest.raises(InvalidTool, match="local"):
        tool("x.y", "Something.", kind=ToolKind.CHANGE, **said)(assign.function)
