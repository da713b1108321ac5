"""The sweep of approvals: one that is not decided waits for its decision and its expiry."""

from collections.abc import Sequence

from threadline.approvals.contract import approval_start
from threadline.approvals.store import OpenAction, ProposedActions
from threadline.db.engine import Transaction
from threadline.threads.sweep import WorkflowSweep
from threadline.threads.workflow_client import WorkflowStart


class OpenApprovals(WorkflowSweep[OpenAction]):
    """Without its workflow an action would never expire: only a click starts it again."""

    name = "approvals"

    async def find(self, tx: Transaction, after: int, limit: int) -> Sequence[OpenAction]:
        return await ProposedActions(tx).undecided(after, limit)

    def start_of(self, item: OpenAction) -> WorkflowStart:
        return approval_start(item.team, item.action_id)
