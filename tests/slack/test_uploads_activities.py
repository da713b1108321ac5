"""A file is shown in a thread once for its key, also when the worker fails between the upload and
its record.
"""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.faulty_sandboxes import FaultySlack
from tests.support.slack import Clock
from threadline.db.engine import Database
from threadline.errors import Permanent, Transient
from threadline.slack.client import CALL_TIMEOUT, SlackClient
from threadline.slack.files import FileUpload
from threadline.threads.outbox import RESEND_AFTER, Outbox
from threadline.threads.store import PostStore
from threadline_devstack.slack.identity import BOT_USER, DEVELOPER, GENERAL
from threadline_devstack.slack.model import SandboxMessage

COMPLETE = "files.completeUploadExternal"
BEGIN = "files.getUploadURLExternal"


@pytest.fixture
def outbox(slack: SlackClient, database: Database, clock: Clock) -> Outbox:
    return Outbox(slack, database, clock.rising)


async def shown_as(database: Database, key: str) -> str | None:
    async with database.begin() as tx:
        return await PostStore(tx).ts_of(key)


@pytest.fixture
async def upload(sandbox: FaultySlack) -> FileUpload:
    root = sandbox.workspace.post(GENERAL, DEVELOPER, "the thread").ts
    return FileUpload(
        "k:1", GENERAL, root, "invite.ics", "APT-1", "Open this.", b"BEGIN:VCALENDAR\r\n"
    )


def shown(sandbox: FaultySlack) -> list[SandboxMessage]:
    return [each for each in sandbox.workspace.channel(GENERAL).messages.values() if each.files]


async def test_file_is_shown_in_its_thread_once(
    sandbox: FaultySlack, outbox: Outbox, upload: FileUpload
) -> None:
    for _ in range(2):
        await outbox.share(upload)
    [message] = shown(sandbox)
    [file] = message.files
    assert (message.thread_ts, message.text, message.user) == (
        upload.thread_ts,
        "Open this.",
        BOT_USER,
    )
    assert (file.name, file.title, file.content) == ("invite.ics", "APT-1", b"BEGIN:VCALENDAR\r\n")


async def test_file_whose_answer_was_lost_is_found_by_its_title(
    sandbox: FaultySlack, outbox: Outbox, upload: FileUpload, database: Database, clock: Clock
) -> None:
    sandbox.faults.fail_after(COMPLETE)
    with pytest.raises(Transient):
        await outbox.share(upload)
    clock.now += 1
    await outbox.share(upload)
    assert len(shown(sandbox)) == 1
    assert await shown_as(database, upload.key) == shown(sandbox)[0].files[0].id


@pytest.mark.parametrize(
    "lost", [lambda faults: faults.fail_before(COMPLETE), lambda faults: faults.fail_after(BEGIN)]
)
async def test_file_that_did_not_arrive_is_shown_later(
    sandbox: FaultySlack,
    outbox: Outbox,
    upload: FileUpload,
    clock: Clock,
    lost: Callable[[object], None],
) -> None:
    lost(sandbox.faults)
    with pytest.raises(Transient):
        await outbox.share(upload)
    assert shown(sandbox) == []
    clock.now += RESEND_AFTER
    await outbox.share(upload)
    assert len(shown(sandbox)) == 1


async def test_call_that_shows_a_file_has_the_whole_time_to_arrive(
    sandbox: FaultySlack,
    slack: SlackClient,
    outbox: Outbox,
    clock: Clock,
    upload: FileUpload,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begin = slack.client.files_getUploadURLExternal

    async def slow(**given: Any) -> Any:
        clock.now += 2 * CALL_TIMEOUT
        return await begin(**given)

    sandbox.faults.fail_before(COMPLETE)
    with monkeypatch.context() as patched:
        patched.setattr(slack.client, "files_getUploadURLExternal", slow)
        with pytest.raises(Transient):
            await outbox.share(upload)
    clock.now += RESEND_AFTER - 1
    with pytest.raises(Transient, match="may still arrive"):
        await outbox.share(upload)
    assert shown(sandbox) == []
    clock.now += 1
    await outbox.share(upload)
    assert len(shown(sandbox)) == 1


async def test_files_of_the_same_name_and_other_titles_are_both_shown(
    sandbox: FaultySlack, outbox: Outbox, upload: FileUpload
) -> None:
    other = FileUpload(
        "k:2",
        GENERAL,
        upload.thread_ts,
        upload.name,
        "APT-1, update 1",
        upload.comment,
        upload.content,
    )
    await outbox.share(upload)
    await outbox.share(other)
    assert [each.files[0].title for each in shown(sandbox)] == ["APT-1", "APT-1, update 1"]


async def test_refused_file_is_not_remembered_as_shown(
    sandbox: FaultySlack, outbox: Outbox, upload: FileUpload, database: Database
) -> None:
    empty = FileUpload("k:3", GENERAL, upload.thread_ts, upload.name, "APT-2", upload.comment, b"")
    with pytest.raises(Permanent):
        await outbox.share(empty)
    assert await shown_as(database, "k:3") is None
