"""A proposed action waits for somebody's word, or for its time to run out; what follows is done once."""

import asyncio
from collections.abc import Sequence
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue

with workflow.unsafe.imports_passed_through():
    from threadline.approvals.buttons import Approval, ButtonClick
    from threadline.approvals.contract import (
        ActionRef,
        ActionState,
        ApprovalActivities,
        ClickAnswer,
        ClickRequest,
        Expiry,
        Stage,
        Whisper,
    )
    from threadline.threads import addressing
    from threadline.threads.display import format_utc

from threadline.threads import buttons as clicks
from threadline.threads.calls import BackgroundTasks, attempt, call_until_done
from threadline.threads.run_loop import Timer


@workflow.defn(name=addressing.APPROVAL_WORKFLOW)
class ApprovalWorkflow:
    """One for each proposed action. It ends when what was decided is done and said; a later click starts another run,
    which answers it from the record."""

    @workflow.init
    def __init__(self, approval: Approval) -> None:
        self._approval = approval
        self._ref = ActionRef(approval.team, approval.action_id)
        self._state = ActionState(Stage.OPEN)
        self._timer = Timer()
        self._whispers = BackgroundTasks()
        self._following: asyncio.Task[None] | None = None
        self._buttons = clicks.Buttons(ButtonClick, approval.take, {"action": approval.action_id})

    @workflow.signal(dynamic=True, description="button_pressed: somebody clicked a button of this approval.")
    def take(self, name: str, args: Sequence[RawValue]) -> None:
        """Dynamic, so that what the SDK cannot decode arrives as well: it is counted, and shown."""
        self._buttons.press(name, args)

    @workflow.query(description="The action, its stage, when it expires, and the pending clicks.")
    def state(self) -> dict[str, Any]:
        return {
            "action": self._approval.action_id,
            "stage": self._state.stage.value,
            "until": format_utc(self._state.expires_at),
            "pending": len(self._approval.clicks),
            "unreadable": self._buttons.unreadable,
        }

    @workflow.run
    async def run(self, approval: Approval) -> str:
        """Answer clicks in order until the action is decided and what follows is done; returns the decision."""
        self._enter(await call_until_done(ApprovalActivities.open_approval, self._ref, summary="load the action"))
        workflow.upsert_memo({"correlation_id": self._state.correlation_id, "action": approval.action_id})
        while True:
            while self._approval.clicks:
                await self._answer(self._approval.clicks[0])
                del self._approval.clicks[0]
            if self._timer.fired and self._state.stage is Stage.OPEN:
                await self._expire()
                continue
            self._proceed()
            if self._over:
                return self._state.stage.value
            if self._full:
                workflow.continue_as_new(self._approval)
            await self._buttons.until(self._awake)

    # Nothing between the last look at the clicks and the end awaits: a click that comes in between would be lost.

    @property
    def _over(self) -> bool:
        if self._approval.clicks or not self._whispers.idle:
            return False
        if self._state.stage is Stage.UNKNOWN:
            return True
        return self._following is not None and self._following.done()

    @property
    def _full(self) -> bool:
        """What is under way is finished first: of the next run it would be asked again."""
        return clicks.long() and self._following is None and self._whispers.idle

    def _proceed(self) -> None:
        """Start what is due: the wait for the expiry, or what follows from the decision."""
        if self._state.stage is Stage.OPEN and not self._timer.is_set:
            until = self._state.expires_at
            self._timer.set(until, f"expires at {format_utc(until)}")
        if self._state.decided:
            self._timer.clear()
            if self._following is None:
                self._following = asyncio.create_task(self._follow())

    def _awake(self) -> bool:
        return bool(self._approval.clicks) or self._timer.fired or self._over or self._full

    async def _answer(self, click: ButtonClick) -> None:
        request = ClickRequest(self._ref.team, self._ref.action_id, click)
        word = "approve" if click.approve else "reject"
        answer: ClickAnswer = await call_until_done(
            ApprovalActivities.decide_action, request, summary=f"{click.user_id}: {word}"
        )
        self._enter(answer.state)
        if answer.words:
            self._whispers.start(
                ApprovalActivities.whisper, Whisper(click, answer.words), summary=f"tell {click.user_id}"
            )

    async def _expire(self) -> None:
        self._timer.clear()
        expiry = Expiry(self._ref.team, self._ref.action_id, workflow.now().timestamp())
        self._enter(await call_until_done(ApprovalActivities.expire_action, expiry, summary="expire"))

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
        workflow.set_current_details(f"**{self._approval.action_id}** {details}")
