"""ApprovalWorkflow: waits until a proposed action is decided or expires, then executes it and
posts the outcome.
"""

import asyncio
from typing import Any

from temporalio import workflow

from threadline.approvals.contract import (
    APPROVAL_WORKFLOW,
    ApprovalActivities,
    ApprovalRef,
    ApprovalState,
    DecideAction,
    ExpireAction,
)
from threadline.approvals.model import APPROVE, ApprovalRun, ApprovalStage
from threadline.threads.buttons import ButtonWorkflow
from threadline.threads.calls import attempt, call_until_done
from threadline.threads.model import ButtonPress, format_utc


@workflow.defn(name=APPROVAL_WORKFLOW)
class ApprovalWorkflow(ButtonWorkflow[ApprovalRun]):
    """One run for each proposed action. It ends after the decision is shown and an approved
    action's outcome is posted. A later press starts another run, which answers it from the record.
    """

    @workflow.init
    def __init__(self, given: ApprovalRun) -> None:
        super().__init__(given)
        self._ref = ApprovalRef(given.team, given.action_id)
        self._state = ApprovalState(ApprovalStage.OPEN)
        self._follow_up_started = False

    @workflow.run
    async def run(self, given: ApprovalRun) -> str:
        """Wait until the action is decided and the follow-up is done, and return the decision."""
        self._enter(
            await call_until_done(
                ApprovalActivities.load_approval, self._ref, summary="load the action"
            )
        )
        workflow.upsert_memo(
            {"correlation_id": self._state.correlation_id, "action": given.action_id}
        )
        await self.serve()
        return self._state.stage.value

    def describe(self) -> dict[str, Any]:
        return {
            "action": self._ref.action_id,
            "stage": self._state.stage.value,
            "until": format_utc(self._state.expires_at),
        }

    async def on_press(self, press: ButtonPress) -> str:
        request = DecideAction(self._ref, press)
        verb = "approve" if press.action_id == APPROVE else "reject"
        state: ApprovalState = await call_until_done(
            ApprovalActivities.decide_action, request, summary=f"{press.user_id}: {verb}"
        )
        self._enter(state)
        return state.reply

    async def on_timer(self) -> None:
        """Expire the action, after any presses that arrived in time."""
        if self._state.stage is ApprovalStage.OPEN:
            request = ExpireAction(self._ref, workflow.now().timestamp())
            self._enter(
                await call_until_done(ApprovalActivities.expire_action, request, summary="expire")
            )

    def follow_up(self) -> None:
        """Start the timer of the expiry, or the follow-up of the decision."""
        if self._state.stage is ApprovalStage.OPEN and not self.timer.is_set:
            until = self._state.expires_at
            self.timer.set(until, f"expires at {format_utc(until)}")
        if self._state.decided:
            self.timer.clear()
            if not self._follow_up_started:
                self._follow_up_started = True
                self.background.add(asyncio.create_task(self._act_on_decision()))

    @property
    def is_over(self) -> bool:
        return self._state.stage is not ApprovalStage.OPEN

    async def _act_on_decision(self) -> None:
        """Show the decision and execute an approved action. Completed parts are not repeated."""
        showing = asyncio.create_task(
            attempt(ApprovalActivities.show_decision, self._ref, summary="show the decision")
        )
        if self._state.stage is ApprovalStage.APPROVED and not self._state.finished:
            await attempt(
                ApprovalActivities.execute_action, self._ref, summary="carry out the action"
            )
            await attempt(ApprovalActivities.post_outcome, self._ref, summary="post the outcome")
        await showing

    def _enter(self, state: ApprovalState) -> None:
        self._state = state
        details = {
            ApprovalStage.UNKNOWN: "This action is not on record.",
            ApprovalStage.OPEN: f"Waiting for a decision until {format_utc(state.expires_at)}.",
            ApprovalStage.APPROVED: (
                "Approved. The action is carried out and its outcome is posted."
            ),
            ApprovalStage.REJECTED: "Rejected. Nothing is done.",
            ApprovalStage.EXPIRED: "Expired. Nothing is done.",
        }[state.stage]
        workflow.set_current_details(f"**{self._ref.action_id}** {details}")
