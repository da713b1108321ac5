"""Sweep: what must hold of a feature's rows, looked up page by page, and made to hold where it does not.
`wiring/sweeps.py` has those of all features."""

import time
from collections.abc import Awaitable, Callable, Sequence
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
"""Items that one activity looks at."""

_log = structlog.get_logger(__name__)


class SweepItem(Protocol):
    """A row that a sweep looks at. `id`: its place in the order of the pages, from 1."""

    @property
    def id(self) -> int: ...


Item = TypeVar("Item", bound=SweepItem)
Find = Callable[[Transaction, int, int], Awaitable[Sequence[Item]]]
"""The rows behind an id, in the order of their ids, and at most how many."""


@dataclass(eq=False)
class Sweep(Generic[Item]):
    """One thing that must hold.

    `name` is in the schedule's input, the activity's summary and the log. `find` finds rows of which it must hold, or
    for which it does not. `repair` makes it hold for one; returns whether it did not. It is safe to repeat; an item for
    which it raises is passed over, and found again by the next sweep. One that `waits_for_slack` runs last: the others
    do not wait for Slack.
    """

    name: str
    find: Find[Item]
    repair: Callable[[Item], Awaitable[bool]]
    _: KW_ONLY
    waits_for_slack: bool = False


class WorkflowSweep(Sweep[Item]):
    """Rows that must have a running workflow, which `start_of` describes. `restart_completed`: also one that has ended
    by itself."""

    def __init__(
        self,
        name: str,
        find: Find[Item],
        start_of: Callable[[Item], WorkflowStart],
        database: Database,
        workflows: WorkflowClient,
        *,
        restart_completed: bool = True,
    ) -> None:
        super().__init__(name, find, self._restart)
        self._database, self._workflows, self._start_of = database, workflows, start_of
        self._restart_completed = restart_completed

    async def _restart(self, item: Item) -> bool:
        """Start the workflow unless it runs. The row may have changed since the page was read: it is read again."""
        status = await self._workflows.status(self._start_of(item).workflow_id)
        if status is WorkflowExecutionStatus.RUNNING:
            return False
        if status is WorkflowExecutionStatus.COMPLETED and not self._restart_completed:
            return False
        async with self._database.begin() as tx:
            current = await self.find(tx, item.id - 1, 1)
        if [each.id for each in current] != [item.id]:
            return False  # it ended, and its workflow with it
        start = self._start_of(current[0])
        await self._workflows.start(start)
        _log.warning("workflow_restarted", sweep=self.name, workflow_id=start.workflow_id)
        return True


class LiveSweepActivities(SweepActivities):
    def __init__(self, database: Database, sweeps: Sequence[Sweep[Any]]) -> None:
        self._database = database
        self._sweeps = {each.name: each for each in sweeps}

    async def sweep(self, page: SweepPage) -> SweepPage | None:
        sweep = self._sweeps.get(page.name)
        if sweep is None:
            _log.info("sweep_unknown", sweep=page.name, reason="Another build has put it into the schedule.")
            return None
        async with self._database.begin() as tx:
            items = await sweep.find(tx, page.after, PAGE)
        return await _repair(sweep, items)


async def _repair(sweep: Sweep[Any], items: Sequence[Any]) -> SweepPage | None:
    """Repair what has to be; returns the next page. The page ends early when half of the attempt's time is over: Slack
    may be away, and each item waits for it."""
    limit = activity.info().start_to_close_timeout
    stop_at = float("inf") if limit is None else time.monotonic() + limit.total_seconds() / 2
    for number, item in enumerate(items, 1):
        try:
            await sweep.repair(item)
        except (Permanent, Transient) as error:
            _log.warning("sweep_item_failed", sweep=sweep.name, item=repr(item), reason=str(error))
        except Exception:  # noqa: BLE001 - one item that breaks must not keep the others from being repaired
            _log.exception("sweep_item_failed", sweep=sweep.name, item=repr(item))
        if number < len(items) and time.monotonic() >= stop_at:
            return SweepPage(sweep.name, item.id)
    return SweepPage(sweep.name, items[-1].id) if len(items) == PAGE else None
