"""Approvals on Temporal, Postgres and Slack's wire: clicks race, workers stop, time runs out."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from temporalio.client import WorkflowHandle
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Replayer

from tests.approvals.approval_scene import (
    APPROVER,
    ASKER,
    OTHER,
    ApprovalScene,
    MakeDesk,
    make_desk,
    make_talk,
)
from tests.gateway.conftest import KnownThreads
from tests.support.patience import patient
from tests.support.sweeps import repaired
from tests.support.temporal import real_time, until, worker
from tests.support.unhurried import unhurried
from threadline.approvals.contract import (
    ApprovalRef,
    DecideAction,
    approval_start,
    approval_workflow_id,
)
from threadline.approvals.model import APPROVE, REJECT, ApprovalStage, button_value
from threadline.approvals.workflow import ApprovalWorkflow
from threadline.gateway.router import EventRouter
from threadline.gateway.routes import RoutingConfig
from threadline.threads.activities import LiveThreadActivities
from threadline.threads.activity_options import activities_of
from threadline.threads.model import BUTTON_PRESSED, ButtonPress
from threadline.threads.sweep import WorkflowSweeps
from threadline.threads.workflow_client import WorkflowClient
from threadline.wiring.sweeps import open_approvals
from threadline.wiring.temporal import workflow_runner
from threadline_devstack.slack.identity import BOT_USER, GENERAL, TEAM
from threadline_devstack.slack.model import SandboxMessage

__all__ = ["make_desk", "make_talk"]

pytestmark = pytest.mark.timeout(120)


@dataclass
class ApprovalWorkflows:
    desk: ApprovalScene
    environment: WorkflowEnvironment
    gateway: EventRouter

    def working(self) -> AbstractAsyncContextManager[None]:
        workflows = WorkflowClient(self.environment.client)
        threads = LiveThreadActivities(
            self.desk.talk.database, self.desk.slack, BOT_USER, workflows, {}, {}
        )
        activities = activities_of(self.desk.activities())
        activities += activities_of(threads)
        return worker(self.environment, [ApprovalWorkflow], activities)

    def handle(self, action_id: str = "ACT-1") -> WorkflowHandle[Any, Any]:
        return self.environment.client.get_workflow_handle(approval_workflow_id(TEAM, action_id))

    async def sweep(self) -> int:
        """Sweep all approvals once; return the number of workflows that were started again."""
        database = self.desk.talk.database
        workflows = WorkflowClient(self.environment.client)
        return await repaired(database, open_approvals(WorkflowSweeps(database, workflows)))

    async def proposed(self) -> SandboxMessage:
        """Propose an action; return the message with its buttons."""
        await self.desk.propose()
        return await self.desk.say()

    def payload(self, message: SandboxMessage, by: str, button: str = APPROVE) -> dict[str, Any]:
        """The payload that Slack delivers when a person presses a button of a message."""
        return self.desk.talk.slack._interactions.click(by, GENERAL, message.ts, button)

    async def press(self, message: SandboxMessage, by: str, button: str = APPROVE) -> None:
        assert (await self.gateway.handle(self.payload(message, by, button))).signalled

    async def ended(self) -> str:
        """Return the result of the run, after checking that its history replays."""
        async with asyncio.timeout(patient(40)):
            outcome = str(await self.handle().result())
            again = Replayer(
                workflows=[ApprovalWorkflow],
                data_converter=pydantic_data_converter,
                workflow_runner=workflow_runner(),
            )
            await again.replay_workflow(await self.handle().fetch_history())
            return outcome

    async def waits(self) -> bool:
        return (await self.handle().describe()).history_length > 5

    async def is_executed(self) -> bool:
        return bool(self.desk.works.done)

    def shown(self, message: SandboxMessage) -> str:
        return self.desk.talk.slack.workspace.message(GENERAL, message.ts).text

    async def said(self, who: str, words: str, times: int = 1) -> None:
        """Wait until the text was shown to `who` alone."""

        async def told() -> bool:
            return sum(words in each for each in self.desk.whispers(who)) >= times

        await until(told, f"{who} is told {words!r}")


MakeHouse = Callable[..., AbstractAsyncContextManager[ApprovalWorkflows]]


@pytest.fixture
def make_house(make_desk: MakeDesk) -> MakeHouse:
    @asynccontextmanager
    async def make(
        expiry: float = 3600.0,
        server: Callable[[], AbstractAsyncContextManager[WorkflowEnvironment]] = real_time,
    ) -> AsyncIterator[ApprovalWorkflows]:
        with unhurried():
            async with server() as environment:
                desk = make_desk(WorkflowClient(environment.client), expiry=expiry)
                routing = RoutingConfig("", "", "", "U0THREADLINE", "B0THREADLINE", team=TEAM)
                gateway = EventRouter(routing, environment.client, KnownThreads())
                yield ApprovalWorkflows(desk, environment, gateway)

    return make


@pytest.fixture
async def house(make_house: MakeHouse) -> AsyncIterator[ApprovalWorkflows]:
    async with make_house() as house:
        yield house


@pytest.mark.records("approval_given")
async def test_approval_is_shown_executed_and_reported(house: ApprovalWorkflows) -> None:
    async with house.working():
        message = await house.proposed()
        await house.press(message, APPROVER)
        assert await house.ended() == "approved"
    assert f"Approved* by <@{APPROVER}>" in house.shown(message)
    assert house.desk.works.done == [f"ticket new for {ASKER}"]
    assert "carried out: T-1 is open." in house.desk.thread()[-1]
    memo = await (await house.handle().describe()).memo()
    assert memo["correlation_id"] == f"{house.desk.talk.thread.key}:1"


async def test_refused_decision_and_outcome_are_posted_once_slack_accepts_them(
    house: ApprovalWorkflows, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused() -> bool:
        pending = (await house.handle().describe()).raw_description.pending_activities
        tried = {each.activity_type.name for each in pending if each.attempt > 1}
        return {"show_decision", "post_outcome"} <= tried

    monkeypatch.setattr("threadline.threads.model.FIRST_MENDING_DELAY", 0.3)
    async with house.working():
        message = await house.proposed()
        house.desk.talk.slack.faults.denied = "invalid_auth"
        await house.press(message, APPROVER)
        await until(refused, "Slack has refused both")
        house.desk.talk.slack.faults.denied = ""
        assert await house.ended() == "approved"
    assert f"Approved* by <@{APPROVER}>" in house.shown(message)
    assert house.desk.works.done == [f"ticket new for {ASKER}"]
    assert sum("carried out: T-1 is open." in each for each in house.desk.thread()) == 1


@pytest.mark.records("approval_rejected")
async def test_rejection_is_shown_and_nothing_is_done(house: ApprovalWorkflows) -> None:
    async with house.working():
        message = await house.proposed()
        await house.press(message, ASKER, REJECT)
        assert await house.ended() == "rejected"
    assert "Rejected" in house.shown(message)
    assert (house.desk.works.done, len(house.desk.thread())) == ([], 1)


async def test_one_of_many_clicks_decides_and_the_others_get_a_notice(
    house: ApprovalWorkflows,
) -> None:
    async with house.working():
        message = await house.proposed()
        clicks = [
            (APPROVER, APPROVE),
            (ASKER, REJECT),
            (APPROVER, APPROVE),
            (APPROVER, APPROVE),
            (ASKER, REJECT),
        ]
        await asyncio.gather(*(house.press(message, *each) for each in clicks))
        outcome = await house.ended()
        for person in (APPROVER, ASKER):
            await house.said(person, "ACT-1 was already decided")
    action = await house.desk.action()
    assert outcome == action.decision
    assert len(house.desk.works.done) == (action.decision is ApprovalStage.APPROVED)
    assert len(house.desk.whispers(APPROVER)) + len(house.desk.whispers(ASKER)) == 4


@pytest.mark.records("approval_not_allowed")
async def test_click_of_a_stranger_is_refused_and_the_wait_continues(
    house: ApprovalWorkflows,
) -> None:
    async with house.working():
        message = await house.proposed()
        await house.press(message, OTHER)
        await house.said(OTHER, "You are not among those who may decide ACT-1")
        assert (await house.handle().query(ApprovalWorkflow.state))["stage"] == "open"
        assert any(each["type"] == "actions" for each in message.blocks)
        await house.press(message, APPROVER)
        assert await house.ended() == "approved"


@pytest.mark.records("approval_expired")
async def test_action_expires_and_a_later_click_gets_a_notice(make_house: MakeHouse) -> None:
    async with make_house(expiry=2.0) as house, house.working():
        message = await house.proposed()
        late = house.payload(message, APPROVER)
        assert await house.ended() == "expired"
        assert "Expired" in house.shown(message)
        late["actions"][0]["action_ts"] = str(
            (await house.desk.action()).expires_at.timestamp() + 1
        )
        assert (await house.gateway.handle(late)).signalled
        await house.said(APPROVER, "Expired")
        assert (await house.ended(), house.desk.works.done) == ("expired", [])


async def test_terminated_approval_is_started_again_and_expires(make_house: MakeHouse) -> None:
    async with make_house(expiry=2.0) as house, house.working():
        message = await house.proposed()
        assert await house.sweep() == 0, "a running workflow is left alone"
        await house.handle().terminate("by accident")
        assert await house.sweep() == 1
        assert await house.ended() == "expired"
        assert "Expired" in house.shown(message)
        assert await house.sweep() == 0


async def test_approved_action_of_a_terminated_workflow_is_executed_and_reported(
    house: ApprovalWorkflows,
) -> None:
    async with house.working():
        message = await house.proposed()
        await house.handle().terminate("by accident")
        action = await house.desk.action()
        value = button_value("ACT-1", action.action_hash)
        pressed = ButtonPress(APPROVER, APPROVE, value, "k1", 0.0, GENERAL, message.thread_ts)
        decide = house.desk.activities().decide_action
        await house.desk.talk.run(decide, DecideAction(ApprovalRef(TEAM, "ACT-1"), pressed))
        assert await house.sweep() == 1
        assert await house.ended() == "approved"
        assert f"Approved* by <@{APPROVER}>" in house.shown(message)
        assert house.desk.works.done == [f"ticket new for {ASKER}"]
        assert "carried out: T-1 is open." in house.desk.thread()[-1]
        assert await house.sweep() == 0


async def test_action_in_progress_when_its_workflow_was_terminated_is_not_done_twice(
    house: ApprovalWorkflows,
) -> None:
    begun = asyncio.Event()

    async def hang() -> None:
        house.desk.works.done.append("begun")
        begun.set()
        await asyncio.Event().wait()

    house.desk.works.hooks.append(hang)
    async with house.working():
        message = await house.proposed()
        await house.press(message, APPROVER)
        await asyncio.wait_for(begun.wait(), patient(20))
        await house.handle().terminate("by accident")
    async with house.working():
        assert await house.sweep() == 1
        assert await house.ended() == "approved"
        assert await house.sweep() == 0
    assert house.desk.works.done == ["begun"]
    assert "may have taken effect or not" in house.desk.thread()[-1]


async def test_later_sweep_retries_an_outcome_that_slack_refused(
    house: ApprovalWorkflows,
) -> None:
    async with house.working():
        message = await house.proposed()
        house.desk.talk.slack.faults.refuse("chat.postMessage", "thread_not_found")
        await house.press(message, APPROVER)
        assert await house.ended() == "approved"
        assert await house.sweep() == 1
        assert await house.ended() == "approved"
        assert await house.sweep() == 0
    assert house.desk.works.done == [f"ticket new for {ASKER}"]
    assert "carried out: T-1 is open." in house.desk.thread()[-1]


async def test_click_while_no_worker_runs_is_handled_before_the_expiry(
    make_house: MakeHouse,
) -> None:
    async with make_house(expiry=3.0) as house:
        async with house.working():
            message = await house.proposed()
            await until(house.waits, "it waits")
        await house.press(message, APPROVER)

        async def is_over() -> bool:
            events = [each async for each in house.handle().fetch_history_events()]
            return any(each.HasField("timer_fired_event_attributes") for each in events)

        await until(is_over, "its time is up", seconds=10)
        async with house.working():
            assert await house.ended() == "approved"
    assert len(house.desk.works.done) == 1


async def test_click_before_the_message_is_in_slack_is_shown_later(
    house: ApprovalWorkflows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("threadline.conversations.posting._NOT_YET", 0.2)
    async with house.working():
        await house.desk.propose()
        action = await house.desk.action()
        thread = house.desk.talk.thread
        button = {
            "action_id": APPROVE,
            "value": button_value("ACT-1", action.action_hash),
            "action_ts": "",
        }
        place = {"channel_id": thread.channel, "thread_ts": thread.ts, "message_ts": thread.ts}
        pressed = {
            "type": "block_actions",
            "team": {"id": TEAM},
            "user": {"id": APPROVER},
            "container": place,
        }
        assert (await house.gateway.handle(pressed | {"actions": [button]})).signalled
        await until(house.is_executed, "it is executed")
        message = await house.desk.say()
        assert await house.ended() == "approved"
    assert "Approved" in house.shown(message)
    assert len(house.desk.works.done) == 1


async def test_action_of_a_stopped_worker_is_not_done_twice(
    house: ApprovalWorkflows,
) -> None:
    begun = asyncio.Event()

    async def hang() -> None:
        house.desk.works.done.append("begun")
        begun.set()
        await asyncio.Event().wait()

    house.desk.works.hooks.append(hang)
    async with house.working():
        message = await house.proposed()
        await house.press(message, APPROVER)
        await asyncio.wait_for(begun.wait(), patient(20))
    async with house.working():
        assert await house.ended() == "approved"
    assert house.desk.works.done == ["begun"]
    assert "may have taken effect or not" in house.desk.thread()[-1]


async def test_unreadable_signals_are_counted_and_skipped(house: ApprovalWorkflows) -> None:
    async with house.working():
        message = await house.proposed()
        await house.handle().signal(BUTTON_PRESSED, "nonsense")
        await house.handle().signal(BUTTON_PRESSED)
        await house.handle().signal("a signal that nobody knows", {"at": "noon"})
        assert (await house.handle().query(ApprovalWorkflow.state))["unreadable"] == 3
        await house.press(message, APPROVER)
        assert await house.ended() == "approved"


@pytest.mark.records("approval_cancelled")
@pytest.mark.usefixtures("activation_order")
async def test_cancel_does_not_end_the_wait(house: ApprovalWorkflows) -> None:
    async with house.working():
        message = await house.proposed()
        await until(house.waits, "it waits")
        await house.handle().cancel()
        await house.press(message, APPROVER)
        assert await house.ended() == "approved"
    assert len(house.desk.works.done) == 1


async def test_click_on_an_unknown_action_is_answered(house: ApprovalWorkflows) -> None:
    async with house.working():
        message = await house.proposed()
        pressed = house.payload(message, APPROVER)
        pressed["actions"][0]["value"] = button_value("ACT-99", "0" * 64)
        assert (await house.gateway.handle(pressed)).signalled
        await house.said(APPROVER, "no longer on record")
        assert await house.handle("ACT-99").result() == "unknown"


async def test_endless_clicks_continue_as_new(
    house: ApprovalWorkflows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("threadline.threads.model.MAX_PRESS_EVENTS", 40)
    async with house.working():
        message = await house.proposed()
        first = (await house.handle().describe()).run_id
        for _ in range(10):
            await house.press(message, OTHER)

        async def continued() -> bool:
            return (await house.handle().describe()).run_id != first

        await until(continued, "the run continued as new")
        await house.press(message, APPROVER)
        assert await house.ended() == "approved"
    assert len(house.desk.works.done) == 1


async def test_action_proposed_twice_has_one_workflow(house: ApprovalWorkflows) -> None:
    async with house.working():
        await house.desk.propose(calls=2)
        await WorkflowClient(house.environment.client).start(approval_start(TEAM, "ACT-1"))
        message = await house.desk.say()
        await house.press(message, APPROVER)
        assert await house.ended() == "approved"
    assert len(house.desk.works.done) == 1
