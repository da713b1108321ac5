"""What stands in the catch-up's way delays what it finds, and neither hides it nor takes away what is there."""

import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from temporalio.workflow import Info

from tests.support.case_scene import House
from tests.threads.test_catch_up_workflow import home, install, look, opened, resent, until_ended
from threadline.cases.model import CaseStatus
from threadline.errors import Permanent, Transient
from threadline.gateway.dispatcher import Dispatcher, NotAccepted, Outcome
from threadline.gateway.routes import Route
from threadline.slack.history import History
from threadline.threads import addressing
from threadline.threads.catch_up_model import LOOK_BACK
from threadline.threads.catch_up_store import ChannelMark
from threadline.wiring.catch_up import check_catch_up
from threadline_devstack.slack import identity

__all__ = ["home"]

REPORTER, DEVELOPER = identity.REPORTER, identity.DEVELOPER


async def marks(home: House) -> dict[str, ChannelMark]:
    async with home.database.begin() as work:
        return {mark.channel: mark for mark in await work.followed.marks()}


async def troubled(home: House) -> list[tuple[str, str, str]]:
    async with home.database.begin() as work:
        return await work.followed.troubled(time.time() - LOOK_BACK)


async def plans(home: House) -> list[bytes]:
    """What the last look's activities answered that names a depth: its plan."""
    history = await home.environment.client.get_workflow_handle(addressing.CATCH_UP_ID).fetch_history()
    ended = [event.activity_task_completed_event_attributes.result.payloads for event in history.events]
    return [payload.data for payloads in ended for payload in payloads if b'"deep"' in payload.data]


@pytest.mark.parametrize("short", [False, True])
async def test_no_page_is_the_last_as_long_as_slack_says_there_is_more(
    home: House, monkeypatch: pytest.MonkeyPatch, short: bool
) -> None:
    await install(home, float(home.thread.ts) - 60)
    if short:
        home.slack.faults.short("conversations.history", 2, count=50)
        home.slack.faults.short("conversations.replies", 1, count=50)
    else:
        monkeypatch.setattr("threadline.slack.history.PAGE", 2)
    for number in range(4):
        report = home.slack.workspace.post(identity.REPORTS, REPORTER, f"Report {number}")
    for number in range(3):
        home.slack.workspace.post(identity.REPORTS, REPORTER, f"Detail {number}", thread_ts=report.ts)
    await look(home)
    assert await resent(home) == 8


async def test_a_channel_that_cannot_be_read_keeps_no_other_waiting(home: House) -> None:
    await install(home, float(home.thread.ts) - 60)
    home.slack.workspace.leave(identity.ESCALATIONS, identity.BOT_USER)
    await look(home)
    assert await resent(home) == 1
    assert "/invite" in (await marks(home))[identity.ESCALATIONS].error
    assert (await marks(home))[identity.REPORTS].error == ""
    await look(home, deep=False)
    assert [b'"deep":true' in plan for plan in await plans(home)] == [False], "it would be deep for ever"
    home.slack.workspace.join(identity.ESCALATIONS, identity.BOT_USER)
    await look(home, deep=False)
    mark = (await marks(home))[identity.ESCALATIONS]
    assert mark.error == ""
    assert mark.looked_at


@pytest.mark.parametrize(
    ("where", "error"),
    [
        ("reading", Permanent("no scope")),
        ("reading", KeyError("user")),
        ("handing over", Transient("again")),
        ("handing over", KeyError("user")),
    ],
    ids=repr,
)
async def test_a_thread_that_cannot_be_compared_waits_alone(
    home: House, monkeypatch: pytest.MonkeyPatch, where: str, error: Exception
) -> None:
    monkeypatch.setattr("threadline.threads.catch_up_activities.PATIENCE", 2)
    await install(home, float(home.thread.ts) - 60)
    await look(home)
    poison = home.slack.workspace.post(identity.REPORTS, REPORTER, "A second report")
    home.slack.workspace.post(identity.REPORTS, REPORTER, "A third report")
    with monkeypatch.context() as broken:
        _break(broken, where, poison.ts, error)
        await look(home, deep=False)
        assert await resent(home) == 2, "the others do not wait for it"
        [(channel, root, why)] = await troubled(home)
        assert (channel, root) == (identity.REPORTS, poison.ts)
        assert why
    await look(home, deep=False)
    assert await resent(home) == 3, "it is found once the trouble is over"
    assert await troubled(home) == []


def _break(patch: pytest.MonkeyPatch, where: str, ts: str, error: Exception) -> None:
    """Make one thread fail where it is read, or where what it says is handed over."""
    read, dispatch = History.thread, Dispatcher.dispatch

    async def thread(self: History, channel: str, root: str, oldest: str) -> AsyncIterator[Any]:
        if root == ts:
            raise error
        async for message in read(self, channel, root, oldest):
            yield message

    async def refusing(self: Dispatcher, route: Route) -> str:
        if getattr(getattr(route, "message", None), "ts", "") == ts:
            raise NotAccepted("nobody knows who it is") if isinstance(error, Transient) else error
        return await dispatch(self, route)

    if where == "reading":
        patch.setattr(History, "thread", thread)
    else:
        patch.setattr(Dispatcher, "dispatch", refusing)


async def test_a_long_look_goes_on_in_a_new_run(home: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("threadline.threads.catch_up_activities.BATCH", 1)
    monkeypatch.setattr(Info, "is_continue_as_new_suggested", lambda info: True)
    await install(home, float(home.thread.ts) - 60)
    home.slack.workspace.post(identity.REPORTS, REPORTER, "Another report")
    await look(home)
    assert await resent(home) == 2
    runs = home.environment.client.get_workflow_handle(addressing.CATCH_UP_ID)
    first = (await runs.fetch_history()).events[0].workflow_execution_started_event_attributes
    assert first.continued_execution_run_id, "the run that ended was not the first"


async def test_what_is_never_stored_is_told_and_not_sent_for_ever(
    home: House, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = {
        "DATABASE_URL": database_url,
        "THREADLINE_REPORTS_CHANNEL": identity.REPORTS,
        "THREADLINE_SUMMARIES_CHANNEL": identity.SUMMARIES,
        "THREADLINE_ESCALATION_CHANNEL": identity.ESCALATIONS,
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    await install(home, float(home.thread.ts) - 60)
    with monkeypatch.context() as lossy:

        async def lose(self: Dispatcher, route: Route) -> str:
            return Outcome.REPORT

        lossy.setattr(Dispatcher, "dispatch", lose)
        for _ in range(2):
            await look(home)
        assert "nothing is owed" in await check_catch_up()
        for _ in range(2):
            await look(home)
    assert await resent(home) == 3
    with pytest.raises(Permanent, match=home.thread.ts):
        await check_catch_up()
    await home.report()
    await home.until_status(CaseStatus.PENDING_VERIFICATION)
    assert "nothing is owed; mentions and direct messages that were missed" in await check_catch_up()


async def test_the_sweep_does_not_wait_for_slack(home: House) -> None:
    await opened(home)
    await home.handle.terminate("by accident")
    async with home.database.begin() as work:
        said = home.message("message", "reporter", REPORTER, "Is it the discount?", f"{time.time():.6f}")
        await work.conversation.flush(home.thread, [said])
    home.slack.faults.rate_limit("conversations.history", 1000, 1)
    client = home.environment.client
    await client.start_workflow(addressing.CATCH_UP_TICK_WORKFLOW, id="tick", task_queue=addressing.CORE_QUEUE)

    async def answered() -> bool:
        return ["Is it the discount?"] in home.agent.batches

    await home.until(answered, "the case goes on")
    home.slack.faults.clear()
    await until_ended(home)
