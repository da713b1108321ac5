"""Proposed actions are put on record, and what waits for their decision is started."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from threadline.approvals import blocks as approvals
from threadline.approvals import event_log as approval_events
from threadline.approvals.contract import approval_start
from threadline.approvals.model import ActionRefused, ApprovalRules, NewAction, ProposedAction
from threadline.approvals.tools import Proposals
from threadline.db.engine import Database
from threadline.threads.workflow_client import WorkflowClient
from threadline.tools.model import Author, Change, Risk


class PostgresProposals(Proposals):
    def __init__(self, database: Database, settings: ApprovalRules, workflows: WorkflowClient) -> None:
        self._database = database
        self._settings = settings
        self._workflows = workflows

    async def propose(
        self, change: Change, action: Mapping[str, Any], risk: Risk, author: Author, rfp_id: str, others: Sequence[str]
    ) -> ProposedAction:
        approvers = () if risk is Risk.LOW else self._deciders(risk, author, others)
        if risk is not Risk.LOW and not approvals.is_whole(action.get("arguments") or {}):
            raise ActionRefused(
                "The proposal is too long to show in full with its buttons: propose less at once. Nothing was proposed."
            )
        new = NewAction(dict(action), risk, approvers, change.now + self._settings.expiry, rfp_id)
        async with self._database.begin() as work:
            proposed = await work.proposed_actions.propose(change, new, author)
            if proposed.risk is not Risk.LOW:
                await approval_events.proposed(work.tx, change.team, proposed)
        if proposed.risk is not Risk.LOW:
            await self._workflows.start(approval_start(change.team, proposed.action_id))
        return proposed

    async def failed(self, team: str, action: ProposedAction, status: str, now: float) -> None:
        async with self._database.begin() as work:
            await approval_events.made(work.tx, team, action, status, datetime.fromtimestamp(now, UTC))

    def _deciders(self, risk: Risk, author: Author, others: Sequence[str]) -> tuple[str, ...]:
        """The approvers that are kept with an action: of a high risk without any who asked for it."""
        if not self._settings.approvers:
            raise ActionRefused(
                f"This has {risk} risk, and no approvers are set: the administrator must set THREADLINE_APPROVERS. "
                "Nothing was proposed."
            )
        asked = (author.user_id, *others)
        found = tuple(each for each in self._settings.approvers if risk is not Risk.HIGH or each not in asked)
        if not found:
            raise ActionRefused(
                f"This has {risk} risk. The person who asks may not approve it, and there is no other approver: "
                "somebody else must ask for it. Nothing was proposed."
            )
        return found
