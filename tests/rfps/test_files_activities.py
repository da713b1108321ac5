"""Files of Slack become RFPs."""

import asyncio
import hashlib
import json

import pytest

from tests.documents import document_samples as papers
from tests.documents.pdf_samples import scan, with_attachments
from tests.rfps.file_scene import BRIEF, MIB, FileScene, desk
from tests.support.tool_results import code_of
from threadline.rfps.files import AGAIN, CREATED
from threadline.rfps.store import RfpStore
from threadline.slack.model import Thread
from threadline.tools.model import ErrorCode
from threadline_devstack.slack.identity import DEVELOPER, REPORTER, REPORTS, TEAM
from threadline_devstack.slack.model import SandboxUser

__all__ = ["desk"]


async def test_file_becomes_an_rfp_with_state_event_and_thread(desk: FileScene) -> None:
    file = desk.upload(BRIEF)
    result = await desk.ask(file.id, client="Harbour Ltd", due_date="2026-03-31")
    assert result.success, result.error
    rfp_id = result.data["rfp_id"]
    assert result.data == {
        "rfp_id": rfp_id,
        "title": "A crane for the harbour",
        "client": "Harbour Ltd",
        "due_date": "2026-03-31",
        "status": "new",
        "existed_already": False,
        "file": {"name": "brief.pdf", "kind": "pdf", "pages": 2, "characters": 40, "not_read": []},
        "thread_is_about": rfp_id,
        "file_begins": "A crane for the harbour\n\nDue on 31 March",
    }
    assert f"{rfp_id} (A crane for the harbour)" in result.display_text
    assert await desk.about(desk.thread) == rfp_id
    async with desk.database.begin() as tx:
        state = await RfpStore(tx).ensure_state_exists(TEAM, rfp_id)
        [event] = await RfpStore(tx).events(TEAM, rfp_id)
        part = await RfpStore(tx).part_of_text(TEAM, rfp_id, 0, 1_000)
        assert part.text == "A crane for the harbour\n\nDue on 31 March"
    assert (state.version, state.document["client"]) == (1, "Harbour Ltd")
    assert (event.event_type, event.author.correlation_id, event.author.user_id) == (
        CREATED,
        "turn-1",
        REPORTER,
    )
    assert event.payload["sha256"] == hashlib.sha256(BRIEF).hexdigest()


async def test_unread_parts_are_named_to_model_and_people(desk: FileScene) -> None:
    content = scan("A crane for the harbour", scans=10)
    content = with_attachments(content, ["password=hunter2! prices.xlsx"])
    result = await desk.ask(desk.upload(content).id)
    scans = "pages 2–11 (no text, like a scan or a drawing)"
    told = result.data["file"]["not_read"]
    assert told[0] == scans
    assert "prices.xlsx" in told[1]
    assert "hunter2" not in json.dumps(result.data)
    assert f"Not read from the file: {scans}; attached files:" in result.display_text
    again = await desk.ask(desk.upload(content).id)
    assert f"Not read from the file: {scans}" in again.display_text
    async with desk.database.begin() as tx:
        part = await RfpStore(tx).part_of_text(TEAM, result.data["rfp_id"], 0, 0)
    assert list(part.unread) == told


async def test_title_of_the_model_overrides_that_of_the_file(desk: FileScene) -> None:
    data = await desk.made(
        desk.upload(papers.word("Some words of the file"), "brief.docx").id, title="Crane  2"
    )
    assert data["title"] == "Crane 2"
    assert (await desk.made(desk.upload(b"7", "the_big-crane.txt").id))["title"] == "the big crane"


async def test_same_file_twice_is_the_same_rfp(desk: FileScene) -> None:
    first = await desk.made(desk.upload(BRIEF).id)
    elsewhere = desk.new_thread(REPORTS)
    result = await desk.ask(
        desk.upload(BRIEF, "copy.pdf", elsewhere).id, elsewhere, title="Another"
    )
    assert result.data["rfp_id"] == first["rfp_id"]
    assert result.data["title"] == "A crane for the harbour"
    assert result.data["existed_already"]
    assert await desk.about(elsewhere) == first["rfp_id"]
    async with desk.database.begin() as tx:
        told = await RfpStore(tx).events(TEAM, first["rfp_id"])
    assert [each.event_type for each in told] == [AGAIN, CREATED]
    assert (await desk.kept())["rfps"] == 1


async def test_same_file_at_once_makes_one_rfp(desk: FileScene) -> None:
    threads = [desk.new_thread() for _ in range(4)]
    uploads = [desk.upload(BRIEF, thread=each) for each in threads]
    made = await asyncio.gather(
        *(desk.made(file.id, thread=each) for file, each in zip(uploads, threads, strict=True))
    )
    assert len({each["rfp_id"] for each in made}) == 1
    assert sum(not each["existed_already"] for each in made) == 1
    kept = await desk.kept()
    assert (kept["rfps"], kept["opportunity_states"], kept["events"], kept["thread_bindings"]) == (
        1,
        1,
        4,
        4,
    )


async def test_thread_keeps_its_rfp_until_it_is_deleted(desk: FileScene) -> None:
    first = await desk.made(desk.upload(BRIEF).id)
    result = await desk.ask(desk.upload(b"A second harbour", "second.md").id)
    assert result.data["thread_is_about"] == first["rfp_id"]
    assert f"link {result.data['rfp_id']}" in result.display_text
    async with desk.database.begin() as tx:
        await RfpStore(tx).delete(TEAM, first["rfp_id"])
    third = await desk.made(desk.upload(b"A third harbour", "third.md").id)
    assert third["thread_is_about"] == third["rfp_id"] == await desk.about(desk.thread)


async def test_secrets_in_a_file_are_not_kept(desk: FileScene) -> None:
    data = await desk.made(
        desk.upload(b"Crane at postgres://shop:hunter2!@db/shop", "brief.txt").id
    )
    assert "hunter2" not in json.dumps(data)
    async with desk.database.begin() as tx:
        assert (
            "hunter2"
            not in (await RfpStore(tx).part_of_text(TEAM, data["rfp_id"], 0, 10_000)).text
        )


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("brief.pdf", b"MZ\x90\x00" + bytes(500), "is a program"),
        ("brief.pdf", b"%PDF-1.7\n" + b"\x93" * 5_000, "cannot be read"),
        ("brief.pdf", papers.locked_pdf("hunter2", "A crane"), "has a password"),
        ("scan.pdf", papers.pdf("", ""), "contains no text"),
        ("brief.docx", papers.with_macros(), "contains macros"),
        (
            "brief.docx",
            papers.with_entities('<!ENTITY x SYSTEM "file:///etc/passwd">', "&x;"),
            "declares XML entities",
        ),
        ("brief.docx", papers.bomb(150), "would unpack to 1"),
    ],
)
async def test_unreadable_document_is_refused(
    desk: FileScene, name: str, content: bytes, says: str
) -> None:
    assert says in await desk.refused(desk.upload(content, name).id)


async def test_login_page_in_place_of_a_file_is_refused(desk: FileScene) -> None:
    desk.sandbox.faults.login_page()
    assert "files:read" in await desk.refused(desk.upload(BRIEF).id)


async def test_large_file_is_refused_before_the_download(desk: FileScene) -> None:
    file = desk.upload(BRIEF)
    file.announced = 60 * MIB
    desk.sandbox.faults.fail_before("files.download")
    assert "larger than 20 MiB" in await desk.refused(file.id)
    assert desk.sandbox.faults.ordered("files.download") == 1  # the file was not requested


async def test_download_ends_at_the_limit(desk: FileScene) -> None:
    file = desk.upload(BRIEF + b" " * (20 * MIB))
    file.announced = 3
    assert "larger than 20 MiB" in await desk.refused(file.id)


async def test_file_of_another_channel_is_not_disclosed(desk: FileScene) -> None:
    private = Thread(TEAM, desk.sandbox.workspace.open_im(DEVELOPER).id, "")
    for hidden in (
        desk.upload(BRIEF, "salaries.pdf", desk.new_thread(REPORTS)),
        desk.upload(BRIEF, "salaries.pdf", private),
        desk.sandbox.workspace.add_file("salaries.pdf", REPORTER, BRIEF),
    ):
        told = await desk.refused(hidden.id)
        assert "not shared in this channel" in told
        assert "salaries" not in told


async def test_file_in_a_direct_message_becomes_an_rfp(desk: FileScene) -> None:
    direct = desk.new_thread(desk.sandbox.workspace.open_im(REPORTER).id)
    told = await desk.ask(desk.upload(BRIEF, thread=direct).id, direct)
    assert told.success
    assert "can now be read in every channel" in told.display_text
    assert "stays when the file is deleted" in told.display_text


async def test_file_without_shares_is_found_in_its_thread(desk: FileScene) -> None:
    file = desk.upload(BRIEF)
    file.shares.clear()
    assert await desk.made(file.id)


async def test_search_for_a_file_ends_when_it_is_found(desk: FileScene) -> None:
    file = desk.upload(BRIEF)
    file.shares.clear()
    desk.sandbox.workspace.post(desk.thread.channel, REPORTER, "thanks", thread_ts=desk.thread.ts)
    desk.sandbox.faults.short("conversations.replies", 2)
    desk.sandbox.faults.fail_before("conversations.replies", 5)
    assert await desk.made(file.id)


@pytest.mark.parametrize("file_id", ["F0", "../etc", "brief.pdf", "", "F" * 60])
async def test_malformed_id_is_refused(desk: FileScene, file_id: str) -> None:
    result = await desk.ask(file_id)
    assert code_of(result) is ErrorCode.INVALID_ARGUMENTS


async def test_missing_file_is_reported(desk: FileScene) -> None:
    assert "was deleted" in await desk.refused("F0GONE")


@pytest.mark.parametrize(
    "who",
    [
        SandboxUser("U0GUEST", "gus", "Gus", is_restricted=True),
        SandboxUser("U0STRANGER", "sam", "Sam", is_stranger=True),
        SandboxUser("U0ELSEWHERE", "ella", "Ella", team="T0ELSEWHERE"),
    ],
)
async def test_file_of_an_external_user_counts_when_a_member_shares_it(
    desk: FileScene, who: SandboxUser
) -> None:
    desk.sandbox.workspace.add_user(who)
    file = desk.upload(BRIEF, user=who.id)
    assert "from a guest or another company" in await desk.refused(file.id)
    desk.share(file, DEVELOPER)
    assert (await desk.made(file.id))["title"] == "A crane for the harbour"


async def test_file_of_an_unknown_author_makes_nothing(desk: FileScene) -> None:
    file = desk.upload(BRIEF)
    desk.sandbox.faults.fail_before("users.info")
    before = await desk.kept()
    assert code_of(await desk.ask(file.id)) is ErrorCode.SERVICE_UNAVAILABLE
    assert await desk.kept() == before
    await desk.made(file.id)
