"""The admin gets one message when a fault of the installation opens, and one when it ends."""

import pytest

from tests.support.faulty_sandboxes import FaultySlack
from tests.support.slack import Clock
from threadline.db.engine import Database
from threadline.errors import Permanent
from threadline.slack import formatting
from threadline.slack.client import SlackClient
from threadline.threads.fault_store import SETTLED, FaultStore
from threadline.threads.faults import InstallationFaults
from threadline.threads.outbox import Outbox, Post
from threadline_devstack.slack.identity import ESCALATIONS, GENERAL

TOKEN = (
    "slack_refuses",
    "",
    "Slack refuses the bot token. Set SLACK_BOT_TOKEN to a valid one and restart.",
)


@pytest.fixture
def faults(slack: SlackClient, database: Database, clock: Clock) -> InstallationFaults:
    return InstallationFaults(database, Outbox(slack, database, clock.rising), ESCALATIONS, clock)


def told(sandbox: FaultySlack) -> list[str]:
    return [
        each.text
        for each in sandbox.workspace.channel(ESCALATIONS).messages.values()
        if each.bot_id
    ]


async def sweep(database: Database, faults: InstallationFaults, clock: Clock) -> None:
    async with database.begin() as tx:
        untold = await FaultStore(tx).untold_after(0, 100, clock())
    for fault in untold:
        await faults.tell(fault)


async def open_kinds(database: Database) -> list[tuple[str, str]]:
    async with database.begin() as tx:
        return [(each.kind, each.subject) for each in await FaultStore(tx).open()]


async def test_fault_and_its_end_are_each_reported_once(
    faults: InstallationFaults, sandbox: FaultySlack, database: Database, clock: Clock
) -> None:
    for _ in range(3):
        await faults.report(*TOKEN)
    assert len(told(sandbox)) == 1
    assert TOKEN[2] in told(sandbox)[0]
    await faults.resolve("slack_refuses")
    assert await open_kinds(database) == []
    clock.now += SETTLED + 1
    for _ in range(2):
        await sweep(database, faults, clock)
    assert len(told(sandbox)) == 2
    assert "is over now" in told(sandbox)[1]
    await faults.report(*TOKEN)
    assert len(told(sandbox)) == 3


async def test_fault_that_comes_and_goes_is_reported_once(
    faults: InstallationFaults, sandbox: FaultySlack, database: Database, clock: Clock
) -> None:
    for _ in range(5):
        await faults.report(*TOKEN)
        await faults.resolve("slack_refuses")
        clock.now += SETTLED / 2
        await sweep(database, faults, clock)
    assert len(told(sandbox)) == 1


async def test_faults_of_two_subjects_are_two(
    faults: InstallationFaults, sandbox: FaultySlack, database: Database
) -> None:
    await faults.report("no_worker", "threadline", "No worker polls the queue threadline.")
    await faults.report(
        "no_worker", "threadline-agents", "No worker polls the queue threadline-agents."
    )
    assert len(told(sandbox)) == 2
    await faults.resolve("no_worker", "threadline")
    assert await open_kinds(database) == [("no_worker", "threadline-agents")]
    await faults.resolve("no_worker")
    assert await open_kinds(database) == []


async def test_sweep_reports_the_fault_that_slack_refused(
    faults: InstallationFaults,
    sandbox: FaultySlack,
    database: Database,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def refuse(self: Outbox, post: Post) -> str:
        raise Permanent("invalid_auth")

    with monkeypatch.context() as patch:
        patch.setattr(Outbox, "publish", refuse)
        await faults.report(*TOKEN)
    assert told(sandbox) == []
    assert await open_kinds(database) == [("slack_refuses", "")]
    await sweep(database, faults, clock)
    assert len(told(sandbox)) == 1


async def test_fault_that_ended_before_its_report_is_reported_in_one_message(
    faults: InstallationFaults,
    sandbox: FaultySlack,
    database: Database,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def refuse(self: Outbox, post: Post) -> str:
        raise Permanent("invalid_auth")

    with monkeypatch.context() as patch:
        patch.setattr(Outbox, "publish", refuse)
        await faults.report(*TOKEN)
    await faults.resolve("slack_refuses")
    clock.now += SETTLED + 1
    for _ in range(2):
        await sweep(database, faults, clock)
    assert len(told(sandbox)) == 1
    assert "is over now" in told(sandbox)[0]


async def test_post_that_slack_takes_again_ends_the_fault_of_its_channel(
    slack: SlackClient, sandbox: FaultySlack, database: Database, clock: Clock
) -> None:
    outbox = Outbox(slack, database, clock.rising)
    faults = InstallationFaults(database, outbox, ESCALATIONS, clock)
    for kind, subject in (
        ("slack_access", "token"),
        ("slack_channel", "C1"),
        ("slack_channel", GENERAL),
    ):
        await faults.report(kind, subject, "Slack refuses it.")
    await outbox.publish(Post("a", GENERAL, None, formatting.notice("hello")))
    assert await open_kinds(database) == [("slack_channel", "C1")]
    other = Outbox(
        slack, database, clock.rising
    )  # another worker reads the faults that it did not report
    await other.recovery.refresh()
    await other.recovery.works("slack_channel")
    assert await open_kinds(database) == []
