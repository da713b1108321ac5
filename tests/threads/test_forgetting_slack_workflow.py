"""A Slack that forgets erases no stored message: the real catch-up over the sandbox's history."""

from collections.abc import Callable

import pytest
from sqlalchemy import text

from tests.support.case_scene import CaseScene
from tests.threads.catch_up_scene import (
    entries,
    home,
    look,
    look_twice,
    opened,
    reply,
    say_before_all,
    until_gone,
    until_stored,
)
from threadline.cases.store.lists import CaseLists
from threadline.threads.deletions import FAULT
from threadline.threads.fault_store import FaultStore, InstallationFault
from threadline_devstack.slack import identity
from threadline_devstack.slack.model import SandboxMessage

__all__ = ["home"]

REPORTS = identity.REPORTS
BYSTANDER = identity.BYSTANDER
REPORT = ("reporter", "The cart total is wrong")

Forget = Callable[[CaseScene], None]


async def faults(home: CaseScene) -> list[InstallationFault]:
    async with home.database.begin() as tx:
        return await FaultStore(tx).open()


async def titles(home: CaseScene) -> list[str]:
    async with home.database.begin() as tx:
        return [case.title for case in await CaseLists(tx).list(open_only=False)]


async def deletions(home: CaseScene) -> list[str]:
    """Return the deletions that the catch-up has signalled."""
    query = text("SELECT message_id FROM catch_up_messages WHERE message_id ~ ':(d|absent)$'")
    async with home.database.begin() as tx:
        return list((await tx.execute(query)).scalars())


async def told(home: CaseScene) -> list[str]:
    """Return the messages about it in the admin's channel."""
    shown = [str(each) for each in home.slack.messages(identity.ESCALATIONS)]
    return [each for each in shown if "no longer shows messages" in each]


def everything(home: CaseScene) -> None:
    """The sandbox of a second `make up`, or another workspace's token."""
    for channel in home.slack.workspace.channels:
        home.slack.workspace.forget(channel)


def everything_while_people_go_on(home: CaseScene) -> None:
    everything(home)
    home.slack.workspace.post(REPORTS, BYSTANDER, "Good evening")


def what_is_old(home: CaseScene) -> None:
    """A retention policy has reached the report."""
    newer = home.slack.workspace.post(REPORTS, BYSTANDER, "Good evening")
    home.slack.workspace.forget(REPORTS, before=newer.ts)


def first_replies(home: CaseScene) -> None:
    """A retention policy has reached some of the replies as well."""
    place = home.slack.workspace.channel(REPORTS)
    last = list(place.messages.values())[-1]
    home.slack.workspace.post(REPORTS, BYSTANDER, "Good evening")
    home.slack.workspace.forget(REPORTS, before=last.ts)


def replies_of_the_thread(home: CaseScene) -> None:
    """Pages in the middle are missing: the root is there, and so are newer messages."""
    place = home.slack.workspace.channel(REPORTS)
    root = home.slack.workspace.message(REPORTS, home.thread.ts)
    gone = {each.ts for each in root.replies if each.user == identity.REPORTER}
    root.replies = [each for each in root.replies if each.ts not in gone]
    place.messages = {ts: each for ts, each in place.messages.items() if ts not in gone}
    home.slack.workspace.post(REPORTS, BYSTANDER, "Good evening")


@pytest.mark.parametrize(
    "forget",
    [everything, everything_while_people_go_on, what_is_old, first_replies, replies_of_the_thread],
)
async def test_forgetting_slack_erases_nothing_and_is_reported_once(
    home: CaseScene, forget: Forget
) -> None:
    await opened(home)
    words = [f"It fails in shop {number}" for number in range(4)]
    for each in words:
        await home.reporter(each)
        await until_stored(home, each)
    kept = [REPORT, *(("reporter", each) for each in words)]
    before = await titles(home)

    forget(home)
    for _ in range(4):
        await look(home)

    assert await entries(home) == kept
    assert before[0] in await titles(home)
    assert await deletions(home) == []
    assert [each.kind for each in await faults(home)] == [FAULT]
    assert len(await told(home)) == 1


async def test_message_that_is_seen_again_needs_two_new_looks(home: CaseScene) -> None:
    """One pass does not find it, and a later one does: no two passes in a row have missed it."""
    await opened(home)
    await home.reporter("It is the discount code")
    await until_stored(home, "It is the discount code")
    root = home.slack.workspace.message(REPORTS, home.thread.ts)
    said = next(each for each in root.replies if each.user == identity.REPORTER)
    place = home.slack.workspace.channel(REPORTS)
    home.slack.workspace.post(REPORTS, BYSTANDER, "Good evening")

    def hide() -> None:
        root.replies.remove(said)
        del place.messages[said.ts]

    def show() -> None:
        root.replies.append(said)
        place.messages[said.ts] = said

    for _ in range(3):
        hide()
        await look(home)
        show()
        await look(home)
    assert await deletions(home) == []
    assert ("reporter", "It is the discount code") in await entries(home)


async def test_deletion_is_believed_at_the_second_look_and_survives_a_restart(
    home: CaseScene,
) -> None:
    await opened(home)
    await home.reporter("My card number is 1234")
    await until_stored(home, "My card number is 1234")
    root = home.slack.workspace.message(REPORTS, home.thread.ts)
    said = next(each for each in root.replies if each.user == identity.REPORTER)
    home.slack.workspace.delete(REPORTS, said.ts)
    home.slack.workspace.post(REPORTS, BYSTANDER, "Good evening")

    await look(home)
    assert await deletions(home) == []
    async with home.database.begin() as tx:
        looks = (await tx.execute(text("SELECT looks FROM catch_up_absences"))).scalars().all()
    assert list(looks) == [1]
    await look(home)
    await until_gone(home, "1234")
    assert await faults(home) == []


async def test_tombstone_is_believed_at_once(home: CaseScene) -> None:
    await opened(home)
    home.slack.workspace.delete(REPORTS, home.thread.ts)
    await look(home)
    await until_gone(home, "The cart total is wrong")
    assert await titles(home) == ["Report deleted by its author"]


async def test_fault_is_over_when_slack_shows_the_messages_again(home: CaseScene) -> None:
    await opened(home)
    place = home.slack.workspace.channel(REPORTS)
    before: dict[str, SandboxMessage] = dict(place.messages)
    root = home.slack.workspace.message(REPORTS, home.thread.ts)
    replies = list(root.replies)
    everything(home)
    await look_twice(home)
    assert await faults(home)

    place.messages = before
    root.replies = replies
    await look_twice(home)
    await look(home)
    assert await faults(home) == []
    assert REPORT in await entries(home)


@pytest.mark.slow
async def test_few_messages_of_each_of_many_threads_are_doubted(
    home: CaseScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each thread alone would be believed: older and newer messages are there, and only one is
    missing.
    """
    monkeypatch.setattr("threadline.threads.absence.MAX_IN_CHANNEL", 2)
    say_before_all(home, REPORTS)
    await opened(home)
    workspace = home.slack.workspace
    reports = [
        workspace.post(REPORTS, identity.REPORTER, f"Report {number}") for number in range(3)
    ]
    await look(home)

    async def stored() -> bool:
        return len(await titles(home)) == 4 and all(await titles(home))

    await home.until(stored, "all reports are cases")
    place = workspace.channel(REPORTS)
    workspace.post(REPORTS, BYSTANDER, "Good evening")
    for each in reports:
        for reply_ts in [answer.ts for answer in each.replies]:
            place.messages.pop(reply_ts, None)
        place.messages.pop(each.ts)
    for _ in range(3):
        await look(home)

    async with home.database.begin() as tx:
        texts = (
            (await tx.execute(text("SELECT message_text FROM bug_conversations"))).scalars().all()
        )
    assert {f"Report {number}" for number in range(3)} <= set(texts)
    assert [each.kind for each in await faults(home)] == [FAULT]
    reply(home, "The first thread goes on")
