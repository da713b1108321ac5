"""SLATrackingWorkflow: the clock of one escalation. It reminds people at half of a target, calls
the next tier when a target is missed, and reminds once a day from then on. The arithmetic takes
seconds and reads no clock.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ActivityError, FailureError, is_cancelled_exception
from temporalio.workflow import ChildWorkflowCancellationType, ParentClosePolicy

from threadline.cases.contract import CasePostActivities, Escalation, SlaNotice
from threadline.cases.model import DAY, SLA_WORKFLOW, SlaEventKind, SlaTarget, sla_workflow_id
from threadline.threads.calls import call, fault_of


@dataclass(frozen=True)
class SlaEvent:
    """An event due at `at`, in seconds since 1970; `ordinal` counts an escalation's from 1."""

    at: float
    kind: SlaEventKind
    ordinal: int


_ACKNOWLEDGE = (SlaEventKind.ACKNOWLEDGE_REMINDER, SlaEventKind.ACKNOWLEDGE_BREACH)
BREACHES = (SlaEventKind.ACKNOWLEDGE_BREACH, SlaEventKind.RESOLVE_BREACH)


def next_event(
    started: float, target: SlaTarget, fired: int, last_at: float, *, acknowledged: bool
) -> SlaEvent:
    """Return the next due event.

    Args:
        started: Time of the escalation, in seconds since 1970.
        target: The time limits of the escalation.
        fired: Ordinal of the last event that happened or was skipped; 0 at first.
        last_at: Time of that event, from which the daily reminders count.
        acknowledged: A developer has answered, so the first target is met and its events are
            skipped.
    """
    plan: Sequence[tuple[float, SlaEventKind]] = sorted(
        (
            (started + target.acknowledge / 2, SlaEventKind.ACKNOWLEDGE_REMINDER),
            (started + target.acknowledge, SlaEventKind.ACKNOWLEDGE_BREACH),
            (started + target.resolve / 2, SlaEventKind.RESOLVE_REMINDER),
            (started + target.resolve, SlaEventKind.RESOLVE_BREACH),
        )
    )
    for ordinal, (at, kind) in enumerate(plan, start=1):
        if ordinal > fired and not (acknowledged and kind in _ACKNOWLEDGE):
            return SlaEvent(at, kind, ordinal)
    return SlaEvent(
        max(last_at, plan[-1][0]) + DAY, SlaEventKind.DAILY_REMINDER, max(fired, len(plan)) + 1
    )


def tier_for(kind: SlaEventKind, breaches: int, tiers: int) -> int:
    """Return the tier of on-call that an event is addressed to; 0 is the first.

    Args:
        kind: The event.
        breaches: Number of breaches so far, this event included.
        tiers: Number of tiers.
    """
    return min(max(breaches - 1, 0), max(tiers - 1, 0)) if kind in BREACHES or breaches else 0


@workflow.defn(name=SLA_WORKFLOW)
class SLATrackingWorkflow:
    """A child of the case's workflow, left running when that continues as new; it ends when the
    case is resolved.
    """

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

    @workflow.query(description="The targets, the events so far, and the next event.")
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
        while not self._resolved:
            due = self._next()
            acknowledged = self._acknowledged
            workflow.set_current_details(
                f"**{escalation.bug_id}**: the next event is {due.kind.replace('_', ' ')}."
            )
            if await self._interrupted(due, acknowledged=acknowledged):
                continue
            # Count from now, not from the due time: after an outage, the reminders of the missed
            # days are skipped.
            self._fired = due.ordinal
            self._last_at = max(due.at, workflow.now().timestamp())
            self._breaches += due.kind in BREACHES
            number = escalation.number
            tier = tier_for(due.kind, self._breaches, escalation.tiers)
            notice = SlaNotice(escalation.bug_id, number, due.kind, due.ordinal, tier)
            try:
                if not await call(
                    CasePostActivities.report_sla_event, notice, summary=due.kind.replace("_", " ")
                ):
                    break
            except ActivityError as error:
                # The channel may be gone, for example: the clock goes on, and a later event may
                # get through.
                workflow.logger.warning(
                    "sla_event_not_posted", extra={"reason": fault_of(error).message}
                )
        return "resolved" if self._resolved else "case closed"

    def _next(self) -> SlaEvent:
        target = self._escalation.target
        return next_event(
            self._escalation.started,
            target,
            self._fired,
            self._last_at,
            acknowledged=self._acknowledged,
        )

    async def _interrupted(self, due: SlaEvent, *, acknowledged: bool) -> bool:
        """Wait until `due`; return whether the clock was stopped, or its next event changed."""
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


async def start_clock(escalation: Escalation, before: int) -> None:
    """Start the clock of an escalation, and stop that of the one `before`; 0 for none.

    `ABANDON`: with any other policy the parent's first continue-as-new would end the clock.
    """
    if before:
        await signal_clock(escalation.bug_id, before, "resolved")
    try:
        await workflow.start_child_workflow(
            SLATrackingWorkflow.run,
            escalation,
            id=sla_workflow_id(escalation.bug_id, escalation.number),
            parent_close_policy=ParentClosePolicy.ABANDON,
            cancellation_type=ChildWorkflowCancellationType.ABANDON,
            static_summary=f"{escalation.bug_id}: SLA clock of escalation {escalation.number}",
        )
    except FailureError as error:  # it runs already: the step was repeated
        if is_cancelled_exception(error):
            raise
        workflow.logger.info(
            "sla_clock_not_started", extra={"case": escalation.bug_id, "reason": str(error)}
        )


async def signal_clock(bug_id: str, escalation: int, signal: str) -> None:
    """Signal an escalation's clock; a clock that has ended is ignored."""
    try:
        clock = workflow.get_external_workflow_handle(sla_workflow_id(bug_id, escalation))
        await clock.signal(signal)
    except FailureError as error:
        if is_cancelled_exception(error):
            raise
