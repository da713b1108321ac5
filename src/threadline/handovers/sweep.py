"""OpenHandovers: a handover that nobody has closed has a running workflow."""

from collections.abc import Sequence

from threadline.db.engine import Transaction
from threadline.handovers.contract import handover_start
from threadline.handovers.model import Handover
from threadline.handovers.store import HandoverStore
from threadline.threads.sweep import WorkflowSweep
from threadline.threads.workflow_client import WorkflowStart


class OpenHandovers(WorkflowSweep[Handover]):
    name = "handovers"

    async def find(self, tx: Transaction, after: int, limit: int) -> Sequence[Handover]:
        return await HandoverStore(tx).open_page(after, limit)

    def start_of(self, item: Handover) -> WorkflowStart:
        return handover_start(item.ref)
