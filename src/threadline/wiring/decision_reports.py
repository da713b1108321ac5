"""What the command line asks of decisions."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

from threadline.db.engine import Database
from threadline.decisions.outcomes import Outcome
from threadline.settings import DatabaseSettings


class DecisionDesk:
    """Reads what was decided."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def outcomes(self, days: float, team: str = "") -> list[Outcome]:
        """Each turn's decision of the last days, oldest first. Args: `team`, the workspace's id; empty for all."""
        async with self._database.begin() as work:
            return await work.decision_reports.since(datetime.now(UTC) - timedelta(days=days), team)


@asynccontextmanager
async def decision_desk() -> AsyncIterator[DecisionDesk]:
    database = Database(DatabaseSettings.read().url.get_secret_value(), pool_size=1, application="threadline-cli")
    try:
        yield DecisionDesk(database)
    finally:
        await database.dispose()
