"""One page of a sweep: what is repaired, what is passed over, and where the next page begins."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest
from temporalio.testing import ActivityEnvironment

from threadline.db.engine import Database, Transaction
from threadline.errors import Permanent
from threadline.threads.contract import SweepPage
from threadline.threads.sweep import LiveSweepActivities, Sweep


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


async def run(database: Database, rows: Rows, after: int = 0, attempt_seconds: float = 60) -> SweepPage | None:
    environment = ActivityEnvironment()
    environment.info = replace(environment.info, start_to_close_timeout=timedelta(seconds=attempt_seconds))
    activities = LiveSweepActivities(database, [Sweep("rows", rows.find, rows.repair)])
    return await environment.run(activities.sweep, SweepPage("rows", after))


async def test_pages_hold_every_row_once(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
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


async def test_page_whose_time_is_up_ends_early_and_goes_on_behind(database: Database) -> None:
    """Slack is away, say, and each row waits for it."""
    rows = Rows()
    assert await run(database, rows, attempt_seconds=0) == SweepPage("rows", 1)
    assert await run(database, rows, 1) is None
    assert rows.repaired == [1, 2, 3, 4, 5]


async def test_unknown_sweep_has_no_pages(database: Database) -> None:
    activities = LiveSweepActivities(database, [])
    assert await ActivityEnvironment().run(activities.sweep, SweepPage("rows")) is None
