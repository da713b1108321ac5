"""Alerts to the admin about repeated internal failures."""

import pytest
import structlog.testing

from tests.support.faulty_sandboxes import FaultySlack
from tests.support.slack import Clock
from threadline.db.engine import Database
from threadline.slack.client import SlackClient
from threadline.threads.alerts import WINDOW, FailureAlerts
from threadline.threads.outbox import Outbox, Post
from threadline_devstack.slack.identity import ESCALATIONS


@pytest.fixture
def alerts(slack: SlackClient, database: Database, clock: Clock) -> FailureAlerts:
    return FailureAlerts(Outbox(slack, database, clock.rising), ESCALATIONS, clock)


def told(sandbox: FaultySlack) -> list[str]:
    return [
        each.text
        for each in sandbox.workspace.channel(ESCALATIONS).messages.values()
        if each.bot_id
    ]


async def test_third_failure_in_a_window_is_posted_once(
    alerts: FailureAlerts, sandbox: FaultySlack, clock: Clock
) -> None:
    for number in range(6):
        await alerts.record("jira.search")
        assert len(told(sandbox)) == (number >= 2)
    assert "jira.search" in told(sandbox)[0]
    clock.now += 2 * WINDOW
    for _ in range(3):
        await alerts.record("jira.search")
    assert len(told(sandbox)) == 2


async def test_failures_of_different_things_or_over_a_longer_time_are_not_posted(
    alerts: FailureAlerts, sandbox: FaultySlack, clock: Clock
) -> None:
    for what in ("model", "jira.search", "model", "ci.rerun", "jira.search"):
        await alerts.record(what)
    for _ in range(6):
        clock.now += WINDOW / 2 + 1
        await alerts.record("store_messages")
    assert told(sandbox) == []


async def test_two_workers_that_notice_the_same_failure_post_it_once(
    slack: SlackClient, database: Database, sandbox: FaultySlack, clock: Clock
) -> None:
    for _ in range(2):
        alerts = FailureAlerts(Outbox(slack, database, clock.rising), ESCALATIONS, clock)
        for _ in range(3):
            await alerts.record("model")
    assert len(told(sandbox)) == 1


async def test_alert_is_logged_once_in_a_window(alerts: FailureAlerts, clock: Clock) -> None:
    with structlog.testing.capture_logs() as logs:
        for _ in range(6):
            await alerts.record("jira.search")
        assert [each["event"] for each in logs] == ["alert_raised"]
        clock.now += 2 * WINDOW
        for _ in range(4):
            await alerts.record("jira.search")
        assert len(logs) == 2


async def test_alert_that_cannot_be_posted_raises_nothing(
    alerts: FailureAlerts, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def breaking(self: Outbox, post: Post) -> None:
        raise KeyError("a fault in the code")

    monkeypatch.setattr(Outbox, "publish", breaking)
    with structlog.testing.capture_logs() as logs:
        for _ in range(4):
            await alerts.record("model")
    assert [each["event"] for each in logs] == ["alert_not_posted"] * 2
