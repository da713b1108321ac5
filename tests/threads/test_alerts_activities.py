"""When operators are told of what keeps failing inside."""

import pytest

from tests.slack.ledger import MemoryLedger
from tests.support.slack import Clock, sandbox, session, slack
from threadline.slack.client import Slack
from threadline.threads.alerts import WINDOW, Alerts
from threadline.threads.outbox_posts import Post, Posts
from threadline_devstack.slack import SlackSandbox
from threadline_devstack.slack.identity import ESCALATIONS

__all__ = ["sandbox", "session", "slack"]


@pytest.fixture
def clock() -> Clock:
    clock = Clock()
    clock.now -= clock.now % WINDOW
    return clock


@pytest.fixture
def alerts(slack: Slack, clock: Clock) -> Alerts:
    return Alerts(Posts(slack, MemoryLedger(), clock), ESCALATIONS, clock)


def told(sandbox: SlackSandbox) -> list[str]:
    return [each.text for each in sandbox.workspace.channel(ESCALATIONS).messages.values() if each.bot_id]


async def test_the_third_failure_in_ten_minutes_is_told_and_the_fourth_says_nothing_new(
    alerts: Alerts, sandbox: SlackSandbox
) -> None:
    for number in range(6):
        await alerts.failed("jira.search")
        assert len(told(sandbox)) == (number >= 2)
    assert "jira.search" in told(sandbox)[0]


async def test_failures_of_different_things_are_counted_apart(alerts: Alerts, sandbox: SlackSandbox) -> None:
    for what in ("model", "jira.search", "model", "ci.rerun", "jira.search"):
        await alerts.failed(what)
    assert told(sandbox) == []


async def test_three_failures_over_a_longer_time_are_nobodys_alarm(
    alerts: Alerts, sandbox: SlackSandbox, clock: Clock
) -> None:
    for _ in range(6):
        await alerts.failed("model")
        clock.now += WINDOW / 2 + 1
    assert told(sandbox) == []


async def test_in_a_later_window_it_is_told_again(alerts: Alerts, sandbox: SlackSandbox, clock: Clock) -> None:
    for _ in range(2):
        for _ in range(3):
            await alerts.failed("model")
        clock.now += 2 * WINDOW
    assert len(told(sandbox)) == 2


async def test_two_workers_that_notice_the_same_tell_it_once(slack: Slack, sandbox: SlackSandbox, clock: Clock) -> None:
    ledger = MemoryLedger()
    for _ in range(2):
        alerts = Alerts(Posts(slack, ledger, clock), ESCALATIONS, clock)
        for _ in range(3):
            await alerts.failed("model")
    assert len(told(sandbox)) == 1


async def test_an_alert_that_fails_for_a_reason_nobody_foresaw_does_no_harm(
    alerts: Alerts, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def breaking(self: Posts, post: Post) -> None:
        raise KeyError("a fault in the code")

    monkeypatch.setattr(Posts, "publish", breaking)
    for _ in range(4):
        await alerts.failed("model")


async def test_an_alert_that_cannot_be_posted_does_no_harm(alerts: Alerts, sandbox: SlackSandbox) -> None:
    sandbox.workspace.archive(ESCALATIONS)
    for _ in range(4):
        await alerts.failed("model")
