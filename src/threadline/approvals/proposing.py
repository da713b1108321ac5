"""Proposed actions are put on record, and what waits for their decision is started."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.service import RPCError

from threadline.approvals import blocks as approvals
from threadline.approvals import event_log as approval_events
from threadline.approvals.buttons import Approval
from threadline.approvals.model import ActionRefused, NewAction, ProposedAction, Risk
from threadline.approvals.tools import Proposals
from threadline.db.engine import Database
from threadline.errors import Transient
from threadline.threads import addressing
from threadline.tools.author import Author
from threadline.tools.operations import Change

Start = Callable[[str, str], Awaitable[None]]
"""Have an action waited for, by team and id; once, however often it is called."""


@dataclass(frozen=True)
class Approving:
    """The settings of now: who may decide (Slack's user ids), and for how many seconds an action waits."""

    approvers: tuple[str, ...] = ()
    expiry: float = 24 * 3600.0


class PostgresProposals(Proposals):
    def __init__(self, database: Database, settings: Approving, start: Start) -> None:
        self._database = database
        self._settings = settings
        self._start = start

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
            await approval_events.proposed(self._database, change.team, proposed)
            await self._start(change.team, proposed.action_id)
        return proposed

    async def failed(self, team: str, action: ProposedAction, status: str, now: float) -> None:
        await approval_events.made(self._database, team, action, status, datetime.fromtimestamp(now, UTC))

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


def starter(client: Client) -> Start:
    """Starts the workflow of an approval; nothing happens to one that runs."""

    async def start(team: str, action_id: str) -> None:
        try:
            await client.start_workflow(
                addressing.APPROVAL_WORKFLOW,
                Approval(team, action_id),
                id=addressing.approval_workflow_id(team, action_id),
                task_queue=addressing.CORE_QUEUE,
                id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
                id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            )
        except RPCError as error:
            raise Transient("The approval workflow could not be started.") from error

    return start
