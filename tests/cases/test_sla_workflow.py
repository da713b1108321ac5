"""The SLA clock of an escalation, with time skipping."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from temporalio import activity
from temporalio.client import WorkflowHandle
from temporalio.testing import WorkflowEnvironment

from tests.support.temporal import skipping_time, worker
from threadline.cases.contract import Escalation, SlaNotice
from threadline.cases.model import DAY, HOUR, MINUTE, SlaEventKind, SlaTarget
from threadline.cases.sla import SLATrackingWorkflow
from threadline.errors import Permanent
from threadline.threads.model import CORE_QUEUE


@dataclass
class EventLog:
    """Records the notices of the clock; the case is closed after `open_for` of them."""

    open_for: int = 100
    refuse_first: bool = False
    reported: list[SlaNotice] = field(default_factory=list)
    at: list[float] = field(default_factory=list)
    started: float = 0.0

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


Clock = tuple[WorkflowEnvironment, WorkflowHandle[SLATrackingWorkflow, str]]


@asynccontextmanager
async def _clock(log: EventLog) -> AsyncIterator[Clock]:
    async with (
        skipping_time() as environment,
        worker(environment, [SLATrackingWorkflow], [log.report_sla_event]),
    ):
        log.started = (await environment.get_current_time()).timestamp()
        escalation = Escalation("BUG-1", 1, SlaTarget(15 * MINUTE, 4 * HOUR), 2, log.started)
        yield (
            environment,
            await environment.client.start_workflow(
                SLATrackingWorkflow.run, escalation, id="sla:BUG-1:1", task_queue=CORE_QUEUE
            ),
        )


@pytest.mark.records("clock_without_answer")
async def test_unanswered_escalation_calls_the_next_tier_and_then_reminds_daily() -> None:
    log = EventLog(open_for=6)
    async with _clock(log) as (_, handle):
        assert await handle.result() == "case closed"
    assert [notice.tier for notice in log.reported] == [0, 0, 0, 1, 1, 1]
    assert [notice.ordinal for notice in log.reported] == [1, 2, 3, 4, 5, 6]
    assert log.kinds[3:5] == [SlaEventKind.RESOLVE_BREACH, SlaEventKind.DAILY_REMINDER]
    expected = [7.5 * MINUTE, 15 * MINUTE, 2 * HOUR, 4 * HOUR, 4 * HOUR + DAY, 4 * HOUR + 2 * DAY]
    assert all(
        0 <= at - log.started - due < MINUTE for at, due in zip(log.at, expected, strict=True)
    )


async def test_answer_in_time_leaves_only_the_target_of_the_resolution() -> None:
    log = EventLog(open_for=2)
    async with _clock(log) as (_, handle):
        await handle.signal("acknowledged")
        assert (await handle.query(SLATrackingWorkflow.state))["acknowledged"] is True
        await handle.result()
    assert log.kinds == [SlaEventKind.RESOLVE_REMINDER, SlaEventKind.RESOLVE_BREACH]


async def test_resolution_stops_the_clock() -> None:
    log = EventLog()
    async with _clock(log) as (environment, handle):
        await environment.sleep(timedelta(minutes=10))
        await handle.signal("resolved", args=["with", "any arguments"])
        assert await handle.result() == "resolved"
    assert log.kinds == [SlaEventKind.ACKNOWLEDGE_REMINDER]


async def test_event_that_cannot_be_posted_does_not_stop_the_clock() -> None:
    log = EventLog(open_for=2, refuse_first=True)
    async with _clock(log) as (_, handle):
        assert await handle.result() == "case closed"
    assert log.kinds == [SlaEventKind.ACKNOWLEDGE_REMINDER, SlaEventKind.ACKNOWLEDGE_BREACH]
