"""A sweep without its activity and its workflow."""

from typing import Any

from threadline.db.engine import Database
from threadline.threads.sweep import PAGE, Sweep


async def repaired(database: Database, sweep: Sweep[Any]) -> int:
    """Sweep the first page; returns the number of repaired items."""
    async with database.begin() as tx:
        found = await sweep.find(tx, 0, PAGE)
    return sum([await sweep.repair(each) for each in found])
