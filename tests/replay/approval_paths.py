"""The ways through an approval, each played to its end on Temporal's own server, and what its history must hold."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowHistory
from temporalio.testing import WorkflowEnvironment

from tests.approvals.approval_scene import APPROVER, ASKER, OTHER
from tests.approvals.test_approval_workflow import House
from tests.replay.stage import chain
from tests.support.temporal import continuing_soon, real_time, until
from threadline.approvals.buttons import REJECT

Server = Callable[[], AbstractAsyncContextManager[WorkflowEnvironment]]


@dataclass
class ApprovalStage:
    house: House
    runs: list[WorkflowHistory] = field(default_factory=list)

    async def record(self) -> None:
        """Wait for the end of the approval, and keep its last run with those that it continues."""
        self.runs += await chain(self.house.environment.client, self.house.handle().id)


Play = Callable[[ApprovalStage], Awaitable[None]]


@dataclass(frozen=True)
class ApprovalPath:
    play: Play
    holds: tuple[str, ...]
    expiry: float
    server: Server

    @property
    def name(self) -> str:
        return self.play.__name__


APPROVALS: list[ApprovalPath] = []


def path(*holds: str, expiry: float = 3600.0, server: Server = real_time) -> Callable[[Play], Play]:
    def listed(play: Play) -> Play:
        APPROVALS.append(ApprovalPath(play, holds, expiry, server))
        return play

    return listed


@path("open_approval", "whisper", "decide_action", "show_decision", "carry_out", "post_outcome", "result approved")
async def approval_given(stage: ApprovalStage) -> None:
    """After a click of somebody who may not."""
    house = stage.house
    await house.desk.propose()
    message = await house.desk.say()
    await house.press(message, OTHER)
    await house.said(OTHER, "You are not among those who may decide")
    await house.press(message, APPROVER)
    await stage.record()


@path("cancel requested", "signal button_pressed", "decide_action", "show_decision", "result rejected")
async def approval_refused_after_a_cancelling(stage: ApprovalStage) -> None:
    house = stage.house
    await house.desk.propose()
    message = await house.desk.say()
    await house.handle().cancel()

    async def heard() -> bool:
        kinds = [each.event_type async for each in house.handle().fetch_history_events()]
        asked = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED
        return asked in kinds and EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED in kinds[kinds.index(asked) :]

    await until(heard, "the workflow has heard that it is to be cancelled")
    await house.press(message, ASKER, REJECT)
    await stage.record()


@path("timer fired", "expire_action", "show_decision", "whisper", "result expired", expiry=2.0)
async def approval_expired_then_clicked(stage: ApprovalStage) -> None:
    house = stage.house
    await house.desk.propose()
    message = await house.desk.say()
    late = house.payload(message, APPROVER)
    await stage.record()
    late["actions"][0]["action_ts"] = str((await house.desk.action()).expires_at.timestamp() + 1)
    assert await house.gateway.take(late) == "click"
    await house.said(APPROVER, "Expired")
    await stage.record()


@path("whisper", "continued as new", "carry_out", "result approved", server=continuing_soon)
async def approval_clicked_again_and_again(stage: ApprovalStage) -> None:
    house = stage.house
    await house.desk.propose()
    message = await house.desk.say()
    for number in range(1, 7):
        await house.press(message, OTHER)
        await house.said(OTHER, "You are not among those who may decide", times=number)
    await house.press(message, APPROVER)
    await stage.record()
