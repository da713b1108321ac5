"""The sweep of hand-overs: one that nobody has closed runs."""

from collections.abc import Sequence

from threadline.db.engine import Transaction
from threadline.handovers.contract import handover_start
from threadline.handovers.store import Handovers, OpenHandover
from threadline.threads.sweep import WorkflowSweep
from threadline.threads.workflow_client import WorkflowStart


class OpenHandovers(WorkflowSweep[OpenHandover]):
    name = "handovers"

    async def find(self, tx: Transaction, after: int, limit: int) -> Sequence[OpenHandover]:
        return await Handovers(tx).open_after(after, limit)

    def start_of(self, item: OpenHandover) -> WorkflowStart:
        return handover_start(item.ref)
