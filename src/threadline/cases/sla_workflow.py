"""The clock of one escalation: reminds at half of a target, calls the next tier when it is missed, then once a day."""

from dataclasses import asdict
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ActivityError, FailureError, is_cancelled_exception
from temporalio.workflow import ChildWorkflowCancellationType, ParentClosePolicy

with workflow.unsafe.imports_passed_through():
    from threadline.cases import sla
    from threadline.cases.contract import Escalation, SlackActivities, SlaNotice
    from threadline.threads import addressing

from threadline.threads.calls import call, fault_of


@workflow.defn(name=addressing.SLA_WORKFLOW)
class SLATrackingWorkflow:
    """A child of the case's workflow, left running when that continues as new; it ends when the case is resolved."""

    @workflow.init
    def __init__(self, escalation: Escalation) -> None:
        self._escalation = escalation
        self._acknowledged = False
        self._resolved = False
        self._fired = 0
        self._breaches = 0
        self._last_at = escalation.started

    @workflow.signal(description="A developer has answered the escalation.")
    def acknowledged(self, *_: Any) -> None:
        self._acknowledged = True

    @workflow.signal(description="The case is resolved, or was escalated again.")
    def resolved(self, *_: Any) -> None:
        self._resolved = True

    @workflow.query(description="What was promised, what has happened, and what is due next.")
    def state(self) -> dict[str, Any]:
        return {
            "bug_id": self._escalation.bug_id,
            "escalation": self._escalation.number,
            "acknowledged": self._acknowledged,
            "breaches": self._breaches,
            "target": asdict(self._escalation.target),
            "next": asdict(self._next()),
        }

    @workflow.run
    async def run(self, escalation: Escalation) -> str:
        """Wait for what is due next, report it, and wait again."""
        while not self._resolved:
            due, acknowledged = self._next(), self._acknowledged
            workflow.set_current_details(f"**{escalation.bug_id}**: the next event is {due.kind.replace('_', ' ')}.")
            if await self._interrupted(due, acknowledged=acknowledged):
                continue
            # From now, not from when it was due: after an outage the reminders of the days between stay unsaid.
            self._fired, self._last_at = due.ordinal, max(due.at, workflow.now().timestamp())
            self._breaches += sla.is_breach(due.kind)
            if not await self._report(due):
                break
        return "resolved" if self._resolved else "case closed"

    def _next(self) -> sla.SlaEvent:
        target = self._escalation.target
        return sla.next_event(
            self._escalation.started, target, self._fired, self._last_at, acknowledged=self._acknowledged
        )

    async def _interrupted(self, due: sla.SlaEvent, *, acknowledged: bool) -> bool:
        """Whether the clock was stopped or its next event changed before `due` came."""
        seconds = due.at - workflow.now().timestamp()
        if seconds <= 0:
            return False
        try:
            await workflow.wait_condition(
                lambda: self._resolved or self._acknowledged != acknowledged,
                timeout=seconds,
                timeout_summary=due.kind.replace("_", " "),
            )
        except TimeoutError:
            return False
        return True

    async def _report(self, due: sla.SlaEvent) -> bool:
        tier = sla.tier_for(due.kind, self._breaches, self._escalation.tiers)
        notice = SlaNotice(self._escalation.bug_id, self._escalation.number, due.kind, due.ordinal, tier)
        try:
            return await call(SlackActivities.report_sla_event, notice, summary=due.kind.replace("_", " "))
        except ActivityError as error:  # the channel is gone, say: the clock goes on, a later event may get through
            workflow.logger.warning("sla_event_not_posted", extra={"reason": fault_of(error).message})
            return True


async def start_clock(escalation: Escalation, before: int) -> None:
    """Start the clock of an escalation, and stop that of the one `before`, 0 for none.

    `ABANDON`: with any other policy the parent's first continue-as-new would end it.
    """
    if before:
        await tell_clock(escalation.bug_id, before, "resolved")
    try:
        await workflow.start_child_workflow(
            SLATrackingWorkflow.run,
            escalation,
            id=addressing.sla_workflow_id(escalation.bug_id, escalation.number),
            parent_close_policy=ParentClosePolicy.ABANDON,
            cancellation_type=ChildWorkflowCancellationType.ABANDON,
            static_summary=f"{escalation.bug_id}: SLA clock of escalation {escalation.number}",
        )
    except FailureError as error:  # it runs already: the step was repeated
        if is_cancelled_exception(error):
            raise
        workflow.logger.info("sla_clock_not_started", extra={"case": escalation.bug_id, "reason": str(error)})


async def tell_clock(bug_id: str, escalation: int, signal: str) -> None:
    """Signal an escalation's clock; one that has ended needs no telling."""
    try:
        await workflow.get_external_workflow_handle(addressing.sla_workflow_id(bug_id, escalation)).signal(signal)
    except FailureError as error:
        if is_cancelled_exception(error):
            raise
