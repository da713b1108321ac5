"""Sweep: an invariant of a feature's rows, which is checked page by page and restored where it is
broken. `wiring/sweeps.py` has the sweeps of all features.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from typing import Any, Generic, Protocol, TypeVar

import structlog
from temporalio import activity
from temporalio.client import WorkflowExecutionStatus

from threadline.db.engine import Database, Transaction
from threadline.errors import Permanent, Transient
from threadline.threads.contract import SweepActivities, SweepPage
from threadline.threads.workflow_client import WorkflowClient, WorkflowStart

PAGE = 100
"""Rows that one activity checks, and so workflows in one call of Temporal's list."""

_log = structlog.get_logger(__name__)


class SweepItem(Protocol):
    """A row that a sweep checks. `id`: its place in the order of the pages, from 1."""

    @property
    def id(self) -> int: ...


Item = TypeVar("Item", bound=SweepItem)
Find = Callable[[Transaction, int, int], Awaitable[Sequence[Item]]]
"""Returns rows after an id, in the order of their ids, and at most so many."""


@dataclass(eq=False)
class Sweep(Generic[Item]):
    """One invariant.

    - `name`: in the schedule's input, the activity's summary and the log;
    - `find`: finds rows to check, or rows that break the invariant;
    - `repair`: restores the invariant for one row; returns whether it was broken. It must be
      idempotent. When it raises, the row is skipped, and the next sweep finds it again;
    - `workflow_id`: of the workflow that must run; a row whose workflow Temporal lists as running
      is skipped;
    - `waits_for_slack`: runs last, so that the other sweeps do not wait for Slack.
    """

    name: str
    find: Find[Item]
    repair: Callable[[Item], Awaitable[bool]]
    _: KW_ONLY
    workflow_id: Callable[[Item], str] | None = None
    waits_for_slack: bool = False


@dataclass(frozen=True)
class WorkflowSweeps:
    """Makes sweeps of rows that must have a running workflow."""

    database: Database
    workflows: WorkflowClient

    def sweep(
        self,
        name: str,
        find: Find[Item],
        start_of: Callable[[Item], WorkflowStart],
        *,
        restart_completed: bool = True,
    ) -> Sweep[Item]:
        """Return a sweep that restarts missing workflows.

        Args:
            start_of: describes a row's workflow.
            restart_completed: restarts also a workflow that has ended by itself.
        """

        async def restart(item: Item) -> bool:
            """Start the workflow unless it runs. The row is read again, since it may have changed
            after the page was read.
            """
            status = await self.workflows.status(start_of(item).workflow_id)
            if status is WorkflowExecutionStatus.RUNNING:
                return False  # Temporal's list did not show it yet
            if status is WorkflowExecutionStatus.COMPLETED and not restart_completed:
                return False
            async with self.database.begin() as tx:
                current = await find(tx, item.id - 1, 1)
            if [each.id for each in current] != [item.id]:
                return False  # it ended, and its workflow with it
            start = start_of(current[0])
            await self.workflows.start(start)
            _log.warning("workflow_restarted", sweep=name, workflow_id=start.workflow_id)
            return True

        return Sweep(name, find, restart, workflow_id=lambda item: start_of(item).workflow_id)


class LiveSweepActivities(SweepActivities):
    def __init__(
        self, database: Database, workflows: WorkflowClient, sweeps: Sequence[Sweep[Any]]
    ) -> None:
        self._database = database
        self._workflows = workflows
        self._sweeps = {each.name: each for each in sweeps}

    async def sweep(self, page: SweepPage) -> SweepPage | None:
        sweep = self._sweeps.get(page.name)
        if sweep is None:
            _log.info(
                "sweep_unknown",
                sweep=page.name,
                reason="Another build has put it into the schedule.",
            )
            return None
        async with self._database.begin() as tx:
            items = await sweep.find(tx, page.after, PAGE)
        next_page = None if len(items) < PAGE else SweepPage(sweep.name, items[-1].id)
        return await _repair(sweep, await self._not_listed(sweep, items)) or next_page

    async def _not_listed(self, sweep: Sweep[Any], items: Sequence[Any]) -> Sequence[Any]:
        """Return the rows whose workflow Temporal does not list as running, or all rows when the
        list fails.
        """
        if not items or not sweep.workflow_id:
            return items
        workflow_ids = dict[int, str]()
        for item in items:
            with suppress(Exception):  # `_repair` meets the error again, and logs it
                workflow_ids[item.id] = sweep.workflow_id(item)
        try:
            running = await self._workflows.listed_as_running([*workflow_ids.values()])
        except Transient as error:
            _log.warning("workflows_not_listed", sweep=sweep.name, reason=str(error))
            return items
        return [item for item in items if workflow_ids.get(item.id) not in running]


async def _repair(sweep: Sweep[Any], items: Sequence[Any]) -> SweepPage | None:
    """Repair the rows. When half of the attempt's time is over, the page ends early and the rest
    is returned as the next page: Slack may be away, and each row waits for it.
    """
    limit = activity.info().start_to_close_timeout
    stop_at = float("inf") if limit is None else time.monotonic() + limit.total_seconds() / 2
    for number, item in enumerate(items, 1):
        try:
            await sweep.repair(item)
        except (Permanent, Transient) as error:
            _log.warning("sweep_item_failed", sweep=sweep.name, item=repr(item), reason=str(error))
        except Exception:  # noqa: BLE001 - the other items must be repaired
            _log.exception("sweep_item_failed", sweep=sweep.name, item=repr(item))
        if number < len(items) and time.monotonic() >= stop_at:
            return SweepPage(sweep.name, item.id)
    return None
