"""PostgresProposals: records a proposed action and starts the workflow that waits for its decision."""

from threadline.approvals.blocks import fits_on_card
from threadline.approvals.contract import approval_start
from threadline.approvals.model import ActionRefused, ApprovalRules, NewAction, Proposals, ProposedAction
from threadline.approvals.store import ApprovalStore
from threadline.db.engine import Database
from threadline.threads.workflow_client import WorkflowClient
from threadline.tools.model import Change, Risk


class PostgresProposals(Proposals):
    def __init__(self, database: Database, rules: ApprovalRules, workflows: WorkflowClient) -> None:
        self._database = database
        self._rules = rules
        self._workflows = workflows

    async def propose(self, change: Change, new: NewAction) -> ProposedAction:
        waits = new.risk is not Risk.LOW
        approvers = self._approvers(new) if waits else ()
        if waits and not fits_on_card(new.action.get("arguments") or {}):
            raise ActionRefused(
                "The proposal is too long to show in full with its buttons: propose less at once. Nothing was proposed."
            )
        async with self._database.begin() as tx:
            store = ApprovalStore(tx)
            proposed = await store.propose(change, new, approvers, change.now + self._rules.expiry)
            waits = proposed.risk is not Risk.LOW  # what is on record counts, also where the risk has changed since
            if waits:
                await store.record_proposal(proposed)
        if waits:
            await self._workflows.start(approval_start(change.team, proposed.action_id))
        return proposed

    async def record_failure(self, action: ProposedAction, status: str, now: float) -> None:
        async with self._database.begin() as tx:
            await ApprovalStore(tx).record_execution(action, status, now)

    def _approvers(self, new: NewAction) -> tuple[str, ...]:
        """Return the approvers who are stored with an action: for a high risk without any who asked for it."""
        if not self._rules.approvers:
            raise ActionRefused(
                f"This has {new.risk} risk, and no approvers are set: the administrator must set THREADLINE_APPROVERS. "
                "Nothing was proposed."
            )
        requesters = {new.author.user_id, *new.co_requesters}
        found = tuple(each for each in self._rules.approvers if new.risk is not Risk.HIGH or each not in requesters)
        if not found:
            raise ActionRefused(
                f"This has {new.risk} risk. The person who asks may not approve it, and there is no other approver: "
                "somebody else must ask for it. Nothing was proposed."
            )
        return found
