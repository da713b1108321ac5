"""The sweep of approvals: a proposed action is decided or expires, and the outcome of an approved one is posted."""

from collections.abc import Sequence

from threadline.approvals.contract import approval_start
from threadline.approvals.model import ProposedAction
from threadline.approvals.store import ApprovalStore
from threadline.db.engine import Transaction
from threadline.threads.sweep import WorkflowSweep
from threadline.threads.workflow_client import WorkflowStart


class OpenApprovals(WorkflowSweep[ProposedAction]):
    """Restarts the workflow of an action that is not decided, or that was approved and whose outcome is not posted.

    Otherwise only a click starts it again. The record of executions keeps the action from being executed twice. An
    outcome that Slack refuses is tried again for a day.
    """

    name = "approvals"

    async def find(self, tx: Transaction, after: int, limit: int) -> Sequence[ProposedAction]:
        return await ApprovalStore(tx).unfinished_after(after, limit)

    def start_of(self, item: ProposedAction) -> WorkflowStart:
        return approval_start(item.team, item.action_id)
