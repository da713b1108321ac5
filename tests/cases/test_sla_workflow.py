"""The clock of an escalation, with time skipped."""

from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from temporalio import activity
from temporalio.testing import WorkflowEnvironment

from tests.support.temporal import skipping_time, worker
from threadline.cases.contract import Escalation, SlaNotice
from threadline.cases.sla import DAY, HOUR, MINUTE, SlaEventKind, Target
from threadline.cases.sla_workflow import SLATrackingWorkflow
from threadline.errors import Permanent
from threadline.threads.addressing import CORE_QUEUE


@dataclass
class Desk:
    """Takes down what the clock reports; the case is closed after `open_for` events."""

    open_for: int = 100
    refuse_first: bool = False
    reported: list[SlaNotice] = field(default_factory=list)
    at: list[float] = field(default_factory=list)

    @activity.defn
    async def report_sla_event(self, notice: SlaNotice) -> bool:
        self.reported.append(notice)
        self.at.append(activity.info().scheduled_time.timestamp())
        if self.refuse_first and len(self.reported) == 1:
            raise Permanent("the channel is archived")
        return len(self.reported) < self.open_for

    @property
    def kinds(self) -> list[SlaEventKind]:
        return [notice.kind for notice in self.reported]


async def _escalation(environment: WorkflowEnvironment, tiers: int = 2) -> Escalation:
    started = (await environment.get_current_time()).timestamp()
    return Escalation("BUG-1", 1, Target(15 * MINUTE, 4 * HOUR), tiers, started)


async def _run(desk: Desk, tiers: int = 2) -> tuple[str, Escalation]:
    async with skipping_time() as environment, worker(environment, [SLATrackingWorkflow], [desk.report_sla_event]):
        escalation = await _escalation(environment, tiers)
        outcome = await environment.client.execute_workflow(
            SLATrackingWorkflow.run, escalation, id="sla:BUG-1:1", task_queue=CORE_QUEUE
        )
        return outcome, escalation


@pytest.mark.records("clock_without_answer")
async def test_nobody_answers_reminders_breaches_the_next_tier_and_then_once_a_day() -> None:
    desk = Desk(open_for=6)
    outcome, escalation = await _run(desk)
    assert outcome == "case closed"
    assert desk.kinds == [
        SlaEventKind.ACKNOWLEDGE_REMINDER,
        SlaEventKind.ACKNOWLEDGE_BREACH,
        SlaEventKind.RESOLVE_REMINDER,
        SlaEventKind.RESOLVE_BREACH,
        SlaEventKind.DAILY_REMINDER,
        SlaEventKind.DAILY_REMINDER,
    ]
    assert [notice.tier for notice in desk.reported] == [0, 0, 0, 1, 1, 1]
    assert [notice.ordinal for notice in desk.reported] == [1, 2, 3, 4, 5, 6]
    expected = [7.5 * MINUTE, 15 * MINUTE, 2 * HOUR, 4 * HOUR, 4 * HOUR + DAY, 4 * HOUR + 2 * DAY]
    assert all(0 <= at - escalation.started - due < MINUTE for at, due in zip(desk.at, expected, strict=True))


async def test_an_answer_in_time_leaves_only_the_target_of_the_resolution() -> None:
    desk = Desk(open_for=2)
    async with skipping_time() as environment, worker(environment, [SLATrackingWorkflow], [desk.report_sla_event]):
        handle = await environment.client.start_workflow(
            SLATrackingWorkflow.run, await _escalation(environment), id="sla:BUG-1:1", task_queue=CORE_QUEUE
        )
        await handle.signal("acknowledged")
        assert (await handle.query(SLATrackingWorkflow.state))["acknowledged"] is True
        await handle.result()
    assert desk.kinds == [SlaEventKind.RESOLVE_REMINDER, SlaEventKind.RESOLVE_BREACH]


async def test_resolution_stops_the_clock() -> None:
    desk = Desk()
    async with skipping_time() as environment, worker(environment, [SLATrackingWorkflow], [desk.report_sla_event]):
        handle = await environment.client.start_workflow(
            SLATrackingWorkflow.run, await _escalation(environment), id="sla:BUG-1:1", task_queue=CORE_QUEUE
        )
        await environment.sleep(timedelta(minutes=10))
        await handle.signal("resolved", args=["with", "any arguments"])
        assert await handle.result() == "resolved"
    assert desk.kinds == [SlaEventKind.ACKNOWLEDGE_REMINDER]


async def test_an_event_that_cannot_be_posted_does_not_stop_the_clock() -> None:
    desk = Desk(open_for=2, refuse_first=True)
    outcome, _ = await _run(desk)
    assert outcome == "case closed"
    assert desk.kinds == [SlaEventKind.ACKNOWLEDGE_REMINDER, SlaEventKind.ACKNOWLEDGE_BREACH]
