"""A file in a thread, once for its key, whatever happens between showing and remembering."""

from collections.abc import Callable

import pytest

from tests.slack.ledger import MemoryLedger
from tests.support.slack import Clock
from threadline.errors import Permanent, Transient
from threadline.slack.client import Slack
from threadline.slack.uploads import Upload, Uploads
from threadline.threads.outbox_posts import LEASE
from threadline_devstack.slack import SlackSandbox
from threadline_devstack.slack.identity import BOT_USER, DEVELOPER, GENERAL
from threadline_devstack.slack.model import Message

COMPLETE, BEGIN = "files.completeUploadExternal", "files.getUploadURLExternal"


@pytest.fixture
def ledger() -> MemoryLedger:
    return MemoryLedger()


@pytest.fixture
def uploads(slack: Slack, ledger: MemoryLedger, clock: Clock) -> Uploads:
    return Uploads(slack, ledger, clock)


@pytest.fixture
async def upload(sandbox: SlackSandbox) -> Upload:
    root = sandbox.workspace.post(GENERAL, DEVELOPER, "the thread").ts
    return Upload("k:1", GENERAL, root, "invite.ics", "APT-1", "Open this.", b"BEGIN:VCALENDAR\r\n")


def shown(sandbox: SlackSandbox) -> list[Message]:
    return [each for each in sandbox.workspace.channel(GENERAL).messages.values() if each.files]


async def test_file_is_shown_in_its_thread_once(sandbox: SlackSandbox, uploads: Uploads, upload: Upload) -> None:
    for _ in range(2):
        await uploads.share(upload)
    [message] = shown(sandbox)
    [file] = message.files
    assert (message.thread_ts, message.text, message.user) == (upload.thread_ts, "Open this.", BOT_USER)
    assert (file.name, file.title, file.content) == ("invite.ics", "APT-1", b"BEGIN:VCALENDAR\r\n")


async def test_file_whose_answer_was_lost_is_found_by_its_title(
    sandbox: SlackSandbox, uploads: Uploads, upload: Upload, ledger: MemoryLedger, clock: Clock
) -> None:
    sandbox.faults.fail_after(COMPLETE)
    with pytest.raises(Transient):
        await uploads.share(upload)
    with pytest.raises(Transient, match="may still arrive"):
        await uploads.share(upload)
    clock.now += LEASE
    await uploads.share(upload)
    assert len(shown(sandbox)) == 1
    assert ledger.rows[upload.key].ts == shown(sandbox)[0].files[0].id


@pytest.mark.parametrize("lost", [lambda faults: faults.fail_before(COMPLETE), lambda faults: faults.fail_after(BEGIN)])
async def test_file_that_did_not_arrive_is_shown_later(
    sandbox: SlackSandbox, uploads: Uploads, upload: Upload, clock: Clock, lost: Callable[[object], None]
) -> None:
    lost(sandbox.faults)
    with pytest.raises(Transient):
        await uploads.share(upload)
    assert shown(sandbox) == []
    clock.now += LEASE
    await uploads.share(upload)
    assert len(shown(sandbox)) == 1


async def test_files_of_the_same_name_and_other_titles_are_both_shown(
    sandbox: SlackSandbox, uploads: Uploads, upload: Upload
) -> None:
    other = Upload("k:2", GENERAL, upload.thread_ts, upload.name, "APT-1, update 1", upload.words, upload.content)
    await uploads.share(upload)
    await uploads.share(other)
    assert [each.files[0].title for each in shown(sandbox)] == ["APT-1", "APT-1, update 1"]


async def test_refused_file_is_not_remembered_as_shown(
    sandbox: SlackSandbox, uploads: Uploads, upload: Upload, ledger: MemoryLedger
) -> None:
    empty = Upload("k:3", GENERAL, upload.thread_ts, upload.name, "APT-2", upload.words, b"")
    with pytest.raises(Permanent):
        await uploads.share(empty)
    assert "k:3" not in ledger.rows
