"""A proposed action waits for somebody's word, or for its time to run out; what follows is done once."""

import asyncio
from typing import Any

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from threadline.approvals.contract import (
        APPROVAL_WORKFLOW,
        ActionRef,
        ActionState,
        ApprovalActivities,
        DecideReply,
        DecideRequest,
        Expiry,
        Stage,
    )
    from threadline.approvals.model import APPROVE, ApprovalRun
    from threadline.threads.display import format_utc
    from threadline.threads.model import ButtonPress

from threadline.threads.buttons import ButtonWorkflow
from threadline.threads.calls import attempt, call_until_done


@workflow.defn(name=APPROVAL_WORKFLOW)
class ApprovalWorkflow(ButtonWorkflow[ApprovalRun]):
    """One for each proposed action. It ends when what was decided is done and said; a later press starts another run,
    which answers it from the record."""

    @workflow.init
    def __init__(self, given: ApprovalRun) -> None:
        super().__init__(given)
        self._ref = ActionRef(given.team, given.action_id)
        self._state = ActionState(Stage.OPEN)
        self._followed = False

    @workflow.run
    async def run(self, given: ApprovalRun) -> str:
        """Wait until the action is decided and what follows is done; returns the decision."""
        self._enter(await call_until_done(ApprovalActivities.open_approval, self._ref, summary="load the action"))
        workflow.upsert_memo({"correlation_id": self._state.correlation_id, "action": given.action_id})
        await self.serve()
        return self._state.stage.value

    def describe(self) -> dict[str, Any]:
        return {
            "action": self._ref.action_id,
            "stage": self._state.stage.value,
            "until": format_utc(self._state.expires_at),
        }

    async def on_press(self, press: ButtonPress) -> str:
        request = DecideRequest(self._ref.team, self._ref.action_id, press)
        word = "approve" if press.action_id == APPROVE else "reject"
        reply: DecideReply = await call_until_done(
            ApprovalActivities.decide_action, request, summary=f"{press.user_id}: {word}"
        )
        self._enter(reply.state)
        return reply.words

    async def on_timer(self) -> None:
        """A press that was made in time is answered before, and may have decided."""
        if self._state.stage is Stage.OPEN:
            expiry = Expiry(self._ref.team, self._ref.action_id, workflow.now().timestamp())
            self._enter(await call_until_done(ApprovalActivities.expire_action, expiry, summary="expire"))

    def follow_up(self) -> None:
        """Start the wait for the expiry, or what follows from the decision."""
        if self._state.stage is Stage.OPEN and not self.timer.is_set:
            until = self._state.expires_at
            self.timer.set(until, f"expires at {format_utc(until)}")
        if self._state.decided:
            self.timer.clear()
            if not self._followed:
                self._followed = True
                self.background.add(asyncio.create_task(self._follow()))

    @property
    def is_over(self) -> bool:
        return self._state.stage is not Stage.OPEN

    async def _follow(self) -> None:
        """What follows from the decision; each part is found done when a run comes to it again."""
        showing = asyncio.create_task(attempt(ApprovalActivities.show_decision, self._ref, summary="show the decision"))
        if self._state.stage is Stage.APPROVED and not self._state.told:
            await attempt(ApprovalActivities.carry_out, self._ref, summary="carry out the action")
            await attempt(ApprovalActivities.post_outcome, self._ref, summary="post the outcome")
        await showing

    def _enter(self, state: ActionState) -> None:
        self._state = state
        details = {
            Stage.UNKNOWN: "This action is not on record.",
            Stage.OPEN: f"Waiting for a decision until {format_utc(state.expires_at)}.",
            Stage.APPROVED: "Approved. The action is carried out and its outcome is posted.",
            Stage.REJECTED: "Rejected. Nothing is done.",
            Stage.EXPIRED: "Expired. Nothing is done.",
        }[state.stage]
        workflow.set_current_details(f"**{self._ref.action_id}** {details}")
