"""One page of a sweep: repaired rows, skipped rows, and the start of the next page."""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest
import structlog
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import ActivityEnvironment

from tests.support.temporal import connect
from threadline.db.engine import Database, Transaction
from threadline.errors import Permanent
from threadline.threads.contract import SweepPage
from threadline.threads.sweep import LiveSweepActivities, Sweep, WorkflowSweeps
from threadline.threads.workflow_client import WorkflowClient, WorkflowStart
from threadline_devstack.processes import poll

RUNNING = range(1, 5)
"""Rows whose workflow runs, for `client`."""


@dataclass(frozen=True)
class Row:
    id: int


@dataclass
class Rows:
    """Rows from 1 to 5, of which these fail."""

    failing: dict[int, Exception] = field(default_factory=dict)
    repaired: list[int] = field(default_factory=list)

    async def find(self, tx: Transaction, after: int, limit: int) -> Sequence[Row]:
        return [Row(each) for each in range(1, 6) if each > after][:limit]

    async def repair(self, item: Row) -> bool:
        if item.id in self.failing:
            raise self.failing[item.id]
        self.repaired.append(item.id)
        return True


async def run(
    database: Database, rows: Rows, after: int = 0, attempt_seconds: float = 60
) -> SweepPage | None:
    environment = ActivityEnvironment()
    environment.info = replace(
        environment.info, start_to_close_timeout=timedelta(seconds=attempt_seconds)
    )
    sweep = Sweep("rows", rows.find, rows.repair)
    activities = LiveSweepActivities(database, WorkflowClient(await connect()), [sweep])
    return await environment.run(activities.sweep, SweepPage("rows", after))


async def test_pages_hold_every_row_once(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("threadline.threads.sweep.PAGE", 2)
    rows = Rows()
    assert await run(database, rows) == SweepPage("rows", 2)
    assert await run(database, rows, 2) == SweepPage("rows", 4)
    assert await run(database, rows, 4) is None
    assert rows.repaired == [1, 2, 3, 4, 5]


async def test_row_that_fails_is_passed_over(database: Database) -> None:
    rows = Rows({1: Permanent("it is refused"), 3: RuntimeError("nobody foresaw this")})
    assert await run(database, rows) is None
    assert rows.repaired == [2, 4, 5]


async def test_page_whose_time_is_up_ends_early_and_the_next_goes_on(database: Database) -> None:
    """For example, Slack does not answer and each row waits for it."""
    rows = Rows()
    assert await run(database, rows, attempt_seconds=0) == SweepPage("rows", 1)
    assert await run(database, rows, 1) is None
    assert rows.repaired == [1, 2, 3, 4, 5]


async def test_unknown_sweep_has_no_pages(database: Database) -> None:
    activities = LiveSweepActivities(database, WorkflowClient(await connect()), [])
    assert await ActivityEnvironment().run(activities.sweep, SweepPage("rows")) is None


def start_of(row: Row) -> WorkflowStart:
    """Start a workflow that keeps running, since no worker ends it."""
    return WorkflowStart("Waiting", f"waiting:{row.id}", None)


async def swept(
    database: Database, client: Client, start_of: Callable[[Row], WorkflowStart] = start_of
) -> None:
    workflows = WorkflowClient(client)
    sweep = WorkflowSweeps(database, workflows).sweep("rows", Rows().find, start_of)
    assert await ActivityEnvironment().run(
        LiveSweepActivities(database, workflows, [sweep]).sweep, SweepPage("rows")
    ) == SweepPage("rows", 5)


async def run_ids(client: Client, rows: Sequence[int]) -> list[str]:
    described = [await client.get_workflow_handle(f"waiting:{each}").describe() for each in rows]
    return [each.run_id for each in described]


@pytest.fixture
async def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    """Four of the workflows run, and a page has five rows."""
    monkeypatch.setattr("threadline.threads.sweep.PAGE", 5)
    client = await connect()
    for each in RUNNING:
        await WorkflowClient(client).start(start_of(Row(each)))
    async for _ in poll(30):
        if (await client.count_workflows("ExecutionStatus = 'Running'")).count == 4:
            break
    return client


async def test_page_lists_workflows_once_and_describes_only_unlisted_ones(
    database: Database, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = list[str]()

    def count(name: str) -> None:
        call = getattr(client.workflow_service, name)

        async def counted(*given: Any, **options: Any) -> Any:
            calls.append(name)
            return await call(*given, **options)

        monkeypatch.setattr(client.workflow_service, name, counted)

    for name in (
        "list_workflow_executions",
        "describe_workflow_execution",
        "start_workflow_execution",
    ):
        count(name)
    await swept(database, client)
    assert calls == [
        "list_workflow_executions",
        "describe_workflow_execution",
        "start_workflow_execution",
    ]


@pytest.mark.parametrize("is_away", [False, True])
async def test_unlisted_workflow_is_started_if_it_does_not_run(
    database: Database, client: Client, monkeypatch: pytest.MonkeyPatch, is_away: bool
) -> None:
    """The list is late or not available."""
    before = await run_ids(client, RUNNING)
    started = list[str]()

    async def start(self: WorkflowClient, start: WorkflowStart) -> None:
        started.append(start.workflow_id)

    async def nothing() -> AsyncIterator[Any]:
        return
        yield

    def empty(*_: object, **__: object) -> AsyncIterator[Any]:
        if is_away:
            raise RPCError("the list is away", RPCStatusCode.UNAVAILABLE, b"")
        return nothing()

    monkeypatch.setattr(WorkflowClient, "start", start)
    monkeypatch.setattr(client, "list_workflows", empty)
    await swept(database, client)
    assert started == ["waiting:5"]
    assert await run_ids(client, RUNNING) == before


async def test_row_without_a_known_workflow_is_passed_over(
    database: Database, client: Client
) -> None:
    def broken(row: Row) -> WorkflowStart:
        if row.id == 2:
            raise LookupError("its channel is gone")
        return start_of(row)

    before = await run_ids(client, RUNNING)
    with structlog.testing.capture_logs() as logs:
        await swept(database, client, broken)
    assert [(each["event"], each.get("item", "")) for each in logs] == [
        ("sweep_item_failed", "Row(id=2)"),
        ("workflow_restarted", ""),
    ]
    assert await run_ids(client, RUNNING) == before
    assert await WorkflowClient(client).status("waiting:5") is WorkflowExecutionStatus.RUNNING
