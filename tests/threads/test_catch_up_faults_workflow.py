"""Faults during a catch-up delay its findings: no message stays hidden, and no existing message is
removed.
"""

import time

import pytest
from temporalio.workflow import Info

from tests.support.case_scene import CaseScene
from tests.threads.catch_up_scene import home, install, look, opened, resent, until_ended
from threadline.cases.model import CaseStatus
from threadline.cases.store.messages import CaseMessageStore
from threadline.errors import Permanent
from threadline.gateway.router import EventRouter
from threadline.gateway.routes import Route
from threadline.slack.history import History, ListedThread
from threadline.threads.catch_up_store import CatchUpStore, FollowedChannel
from threadline.threads.contract import (
    CATCH_UP_ID,
    LOOK_BACK,
    SWEEP_WORKFLOW,
    Handled,
    SweepRequest,
)
from threadline.threads.model import CORE_QUEUE, MessageKind, SenderType
from threadline.wiring.doctor import check_catch_up
from threadline_devstack.slack import identity

__all__ = ["home"]

REPORTS = identity.REPORTS
ESCALATIONS = identity.ESCALATIONS
REPORTER = identity.REPORTER


async def followed(home: CaseScene, channel: str) -> FollowedChannel:
    async with home.database.begin() as tx:
        [found] = [
            each
            for each in await CatchUpStore(tx, identity.TEAM).channels()
            if each.channel == channel
        ]
        return found


async def failed_threads(home: CaseScene) -> list[tuple[str, str, str]]:
    async with home.database.begin() as tx:
        return await CatchUpStore(tx, identity.TEAM).failed_threads(time.time() - LOOK_BACK)


async def plans(home: CaseScene) -> list[bytes]:
    """Return the plan in the last pass: the activities' answer that names a depth."""
    history = await home.environment.client.get_workflow_handle(CATCH_UP_ID).fetch_history()
    ended = [
        event.activity_task_completed_event_attributes.result.payloads for event in history.events
    ]
    return [
        payload.data for payloads in ended for payload in payloads if b'"deep"' in payload.data
    ]


async def test_short_pages_and_rate_limits_hide_nothing(home: CaseScene) -> None:
    await install(home, before_report=True)
    faults = home.slack.faults
    faults.short("conversations.history", 2, count=50)
    faults.rate_limit("conversations.replies", 2)
    faults.short("conversations.replies", 1, count=50)
    for number in range(4):
        report = home.slack.workspace.post(REPORTS, REPORTER, f"Report {number}")
    for number in range(3):
        home.slack.workspace.post(REPORTS, REPORTER, f"Detail {number}", thread_ts=report.ts)
    await look(home)
    assert await resent(home) == 8


async def test_unreadable_channel_keeps_no_other_waiting(home: CaseScene) -> None:
    await install(home, before_report=True)
    home.slack.workspace.leave(ESCALATIONS, identity.BOT_USER)
    await look(home)
    assert await resent(home) == 1
    assert "/invite" in (await followed(home, ESCALATIONS)).error
    assert (await followed(home, REPORTS)).error == ""
    await look(home, deep=False)
    assert [b'"deep":true' in plan for plan in await plans(home)] == [False], (
        "every pass would be deep"
    )
    home.slack.workspace.join(ESCALATIONS, identity.BOT_USER)
    await look(home, deep=False)
    channel = await followed(home, ESCALATIONS)
    assert channel.error == ""
    assert channel.read_at


@pytest.mark.parametrize(
    ("where", "error"),
    [
        ("reading", Permanent("no scope")),
        ("reading", KeyError("user")),
        ("handing over", KeyError("user")),
    ],
    ids=repr,
)
async def test_thread_that_cannot_be_compared_waits_alone(
    home: CaseScene, monkeypatch: pytest.MonkeyPatch, where: str, error: Exception
) -> None:
    monkeypatch.setattr("threadline.threads.catch_up.MAX_ATTEMPTS", 2)
    await install(home, before_report=True)
    await look(home)
    poison = home.slack.workspace.post(REPORTS, REPORTER, "A second report")
    home.slack.workspace.post(REPORTS, REPORTER, "A third report")
    read = History.read_thread
    deliver = EventRouter.deliver

    async def thread(self: History, channel: str, root: str, oldest: str) -> ListedThread:
        if root == poison.ts:
            raise error
        return await read(self, channel, root, oldest)

    async def refusing(self: EventRouter, route: Route) -> Handled:
        if route.message.ts == poison.ts:
            raise error
        return await deliver(self, route)

    with monkeypatch.context() as broken:
        if where == "reading":
            broken.setattr(History, "read_thread", thread)
        else:
            broken.setattr(EventRouter, "deliver", refusing)
        await look(home, deep=False)
        assert await resent(home) == 2, "the others do not wait for it"
        [(channel, root, why)] = await failed_threads(home)
        assert (channel, root) == (REPORTS, poison.ts)
        assert why
    await look(home, deep=False)
    assert await resent(home) == 3, "it is found after the fault"
    assert await failed_threads(home) == []


async def test_long_pass_continues_in_a_new_run(
    home: CaseScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("threadline.threads.catch_up.BATCH_SIZE", 1)
    monkeypatch.setattr(Info, "is_continue_as_new_suggested", lambda info: True)
    await install(home, before_report=True)
    home.slack.workspace.post(REPORTS, REPORTER, "Another report")
    await look(home)
    assert await resent(home) == 2
    runs = home.environment.client.get_workflow_handle(CATCH_UP_ID)
    first = (await runs.fetch_history()).events[0].workflow_execution_started_event_attributes
    assert first.continued_execution_run_id, "the ended run was not the first"


async def test_message_that_is_never_stored_is_reported_and_not_sent_for_ever(
    home: CaseScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = {
        "THREADLINE_REPORTS_CHANNEL": REPORTS,
        "THREADLINE_SUMMARIES_CHANNEL": identity.SUMMARIES,
        "THREADLINE_ESCALATION_CHANNEL": ESCALATIONS,
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    await install(home, before_report=True)
    with monkeypatch.context() as lossy:

        async def lose(self: EventRouter, route: Route) -> Handled:
            return Handled("report", signalled=True)

        lossy.setattr(EventRouter, "deliver", lose)
        for _ in range(2):
            await look(home)
        assert "nothing is missing" in await check_catch_up(
            home.database, identity.TEAM, identity.BOT_USER
        )
        for _ in range(2):
            await look(home)
    assert await resent(home) == 3
    with pytest.raises(Permanent, match=home.thread.ts):
        await check_catch_up(home.database, identity.TEAM, identity.BOT_USER)
    await home.report()
    await home.until_status(CaseStatus.PENDING_VERIFICATION)
    assert "nothing is missing; missed mentions" in await check_catch_up(
        home.database, identity.TEAM, identity.BOT_USER
    )


async def test_sweep_does_not_wait_for_slack(home: CaseScene) -> None:
    await opened(home)
    await home.handle.terminate("by accident")
    said = home.message(
        MessageKind.MESSAGE,
        SenderType.REPORTER,
        REPORTER,
        "Is it the discount?",
        f"{time.time():.6f}",
    )
    async with home.database.begin() as tx:
        await CaseMessageStore(tx).flush(home.thread, [said])
    home.slack.faults.rate_limit("conversations.history", 1000, 1)
    client = home.environment.client
    request = SweepRequest(["cases"])
    await client.start_workflow(SWEEP_WORKFLOW, request, id="sweep", task_queue=CORE_QUEUE)

    async def answered() -> bool:
        return ["Is it the discount?"] in home.agent.batches

    await home.until(answered, "the case goes on")
    home.slack.faults.clear()
    await until_ended(home)
