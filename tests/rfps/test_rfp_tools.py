"""Tools that look up RFPs, the team, and memories."""

from datetime import date
from typing import Any

import pytest

from tests.support.recording import HASH, create
from tests.support.tool_results import message_of
from tests.support.tool_scene import ToolScene
from tests.support.tool_store import NOW, change
from threadline.db.engine import Database
from threadline.operator import tools as memory
from threadline.operator.store import Memory, MemoryKind, MemoryStore
from threadline.rfps import tools as rfps
from threadline.rfps.model import RfpFacts, RfpStatus, SourceFile, TeamMember
from threadline.rfps.store import RfpStore, TeamMemberStore

TOOLS = [*rfps.TOOLS, *memory.TOOLS]


@pytest.fixture
def desk(database: Database) -> ToolScene:
    return ToolScene(database, TOOLS)


def ids(data: Any) -> list[str]:
    return [each["rfp_id"] for each in data["rfps"]]


async def test_open_rfps_are_listed_by_due_date(desk: ToolScene, database: Database) -> None:
    await create(database, "1", rfp_id="rfp_late", due_date=date(2026, 5, 1), owner="Ida")
    await create(
        database, "2", rfp_id="rfp_soon", due_date=date(2026, 4, 1), status=RfpStatus.SHORTLISTED
    )
    await create(database, "3", rfp_id="rfp_won", status=RfpStatus.WON, owner="ida")
    await create(database, "4", team="T2", rfp_id="rfp_other")
    result = await desk.ask("rfp.list")
    assert (ids(result.data), result.data["more"], result.display_text) == (
        ["rfp_soon", "rfp_late"],
        False,
        "2 RFPs.",
    )
    assert result.data["rfps"][0] == {
        "rfp_id": "rfp_soon",
        "title": "Website relaunch",
        "client": "Acme",
        "due_date": "2026-04-01",
        "status": "shortlisted",
    }
    assert ids(await desk.done("rfp.list", status="won")) == ["rfp_won"], (
        "a search for won RFPs includes them"
    )
    assert ids(await desk.done("rfp.list", open_only=False, owner="IDA")) == [
        "rfp_late",
        "rfp_won",
    ]
    none = await desk.ask("rfp.list", status="lost")
    assert (none.data["rfps"], none.structured) == ([], ())
    assert "in_progress" in message_of(await desk.refused("rfp.list", status="asleep"))


async def test_long_list_says_that_there_are_more(desk: ToolScene, database: Database) -> None:
    for number in range(rfps.MAX_LISTED + 1):
        await create(database, f"{number}")
    result = await desk.ask("rfp.list")
    assert (len(result.data["rfps"]), result.data["more"]) == (rfps.MAX_LISTED, True)
    assert "more than 30" in result.display_text


async def test_rfp_is_found_by_words(desk: ToolScene, database: Database) -> None:
    await create(database, "1", rfp_id="rfp_abc123")
    await create(
        database, "2", rfp_id="rfp_xyz789", title="Crane for the harbour", client="Port of Oslo"
    )
    assert ids(await desk.done("rfp.search", words="harbour cranes")) == ["rfp_xyz789"]
    assert ids(await desk.done("rfp.search", words="submarine")) == []


async def test_rfp_shows_its_file_in_parts(desk: ToolScene, database: Database) -> None:
    text = "".join(f"line {number}\n" for number in range(2_000))
    async with database.begin() as tx:
        new = RfpFacts("From a file", due_date=date(2026, 4, 1))
        source = SourceFile("brief.pdf", HASH, text, ("3 pictures",))
        await RfpStore(tx).create(change("file"), new, "rfp_file", source=source)
    first = await desk.ask("rfp.get", rfp_id="RFP_file")
    for fact in ("rfp_file (From a file)", "new", "2026-04-01"):
        assert fact in first.display_text
    assert (first.data["file"], first.data["created_by"], first.data["file_characters"]) == (
        "brief.pdf",
        "U1",
        len(text),
    )
    assert first.data["text"] == text[: rfps.TEXT_PART]
    assert first.data["file_not_read"] == ["3 pictures"]
    assert first.display_text.endswith("Not read from the file: 3 pictures.")
    rest = await desk.done("rfp.get", rfp_id="rfp_file", text_from=rfps.TEXT_PART)
    assert rest["file_not_read"] == ["3 pictures"]
    assert rest["text"] == text[rfps.TEXT_PART : 2 * rfps.TEXT_PART]
    assert (await desk.done("rfp.get", rfp_id="rfp_file", text_from=10**6))["text"] == ""
    assert "did you mean rfp_file" in message_of(await desk.refused("rfp.get", rfp_id="rfp_fille"))


async def test_team_is_listed_by_skill(desk: ToolScene, database: Database) -> None:
    assert (await desk.done("team.list"))["members"] == []
    async with database.begin() as tx:
        ida = TeamMember(
            "U7", "Ida", "ida@example.com", "Writer", "Wrote forty bids.", ("tenders", "law"), 16
        )
        await TeamMemberStore(tx).save("T1", ida)
        await TeamMemberStore(tx).save("T1", TeamMember("U8", "Otto"))
    listed = await desk.ask("team.list")
    assert [each["name"] for each in listed.data["members"]] == ["Ida", "Otto"]
    assert listed.data["members"][1] == {"name": "Otto", "user_id": "U8", "hours_per_week": 0}
    assert "biography" not in listed.data["members"][0]
    assert [
        each["name"] for each in (await desk.done("team.list", skill="Tender"))["members"]
    ] == ["Ida"]
    assert (await desk.done("team.list", skill="cooking"))["members"] == []
    for called in ("ida", "<@U7>", "U7"):
        [found] = (await desk.done("team.get", name=called))["members"]
        assert (found["biography"], found["hours_per_week"]) == ("Wrote forty bids.", 16)
    assert "'Ada'" in message_of(await desk.refused("team.get", name="Ada"))
    assert "'Ida'" in message_of(await desk.refused("team.get", team="T2", name="Ida"))


async def test_memories_are_found_by_channel_and_kind(desk: ToolScene, database: Database) -> None:
    async with database.begin() as tx:
        for key, channel in (("a", "C1"), ("b", "C2"), ("c", "")):
            new = Memory(
                MemoryKind.EPISODIC, "status of the harbour crane", f"said {key}", channel=channel
            )
            await MemoryStore(tx).remember("T1", [(key, new)], NOW)
        failed = Memory(
            MemoryKind.PROCEDURAL, "harbour", "opportunity_patch", error_class="REFUSED"
        )
        await MemoryStore(tx).remember("T1", [("d", failed)], NOW)
    result = await desk.ask("memory.search", question="How is the harbour?")
    assert sorted(each["text"] for each in result.data["episodic"]) == ["said a", "said c"]
    assert (result.data["semantic"], result.data["procedural"][0]["failed_with"]) == (
        [],
        "REFUSED",
    )
    assert "3 things" in result.display_text
    only = await desk.done("memory.search", question="harbour", kind="episodic", limit=1)
    assert [len(each) for each in only.values()] == [1]
    nothing = await desk.done("memory.search", question="submarine")
    assert not any(nothing.values())
