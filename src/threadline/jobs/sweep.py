"""The sweep of jobs: what runs a job that is not over is there."""

from collections.abc import Sequence

import structlog

from threadline.db.engine import Transaction
from threadline.jobs.model import OpenJob
from threadline.jobs.scheduling import PostgresJobs
from threadline.jobs.store import AgentJobs
from threadline.threads.sweep import Sweep

_log = structlog.get_logger(__name__)


class MissingJobWorkflows(Sweep[OpenJob]):
    """Jobs whose workflow, or whose schedule for a cron, is gone or was never started."""

    name = "jobs"

    def __init__(self, jobs: PostgresJobs) -> None:
        self._jobs = jobs

    async def find(self, tx: Transaction, after: int, limit: int) -> Sequence[OpenJob]:
        return await AgentJobs(tx).open_ones(after, limit)

    async def repair(self, item: OpenJob) -> bool:
        """Start it. The workflow of a job that is over by now finds that out, and ends."""
        if await self._jobs.is_running(item.job):
            return False
        await self._jobs.ensure(item.team, item.job)
        _log.warning("workflow_restarted", sweep=self.name, workflow_id=item.job.workflow_id)
        return True
