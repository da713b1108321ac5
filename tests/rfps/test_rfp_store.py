"""RFPs: one for each file, found by id and by words, and never in another team."""

from datetime import date
from hashlib import sha256
from typing import Any

import pytest
from sqlalchemy import text

from tests.support.identifiers import FOUND
from tests.support.recording import HASH, create, create_from, explained
from tests.support.tool_store import change
from threadline.db.engine import Database
from threadline.rfps.model import (
    FileText,
    RfpFacts,
    RfpNotFound,
    RfpRefused,
    RfpStatus,
    RfpUsage,
    SourceFile,
    is_rfp_id,
)
from threadline.rfps.store import RfpStore


async def test_rfp_is_made_with_its_state(database: Database) -> None:
    facts: dict[str, Any] = {
        "title": " Website\n relaunch ",
        "due_date": date(2026, 3, 31),
        "owner": "U7",
    }
    rfp = await create(database, **facts)
    assert is_rfp_id(rfp.rfp_id)
    assert (rfp.title, rfp.client, rfp.status) == ("Website relaunch", "Acme", RfpStatus.NEW)
    assert rfp.due_date == date(2026, 3, 31)
    async with database.begin() as tx:
        assert await RfpStore(tx).get("T1", f" {rfp.rfp_id.upper()} ") == rfp
        assert await RfpStore(tx).listed("T1") == [rfp]
        state = await RfpStore(tx).ensure_state_exists("T1", rfp.rfp_id)
    assert state.document == {
        "title": "Website relaunch",
        "client": "Acme",
        "due_date": "2026-03-31",
        "status": "new",
        "owner": "U7",
    }


async def test_ids_are_short_without_confusable_letters(database: Database) -> None:
    ids = {(await create(database, f"c{number}")).rfp_id for number in range(20)}
    assert len(ids) == 20
    assert all(len(each) == len("rfp_") + 8 for each in ids)
    assert not set("".join(each.removeprefix("rfp_") for each in ids)) & set("aeiou01l")


async def test_same_file_is_the_same_rfp_in_one_team(database: Database) -> None:
    first = await create_from(database, "c1")
    again = await create_from(database, "c2")
    assert (first.new, again.new) == (True, False)
    assert again.rfp == first.rfp
    assert first.rfp.source_name == "brief.pdf"
    theirs = await create_from(database, "c1", team="T2")
    assert theirs.new
    assert theirs.rfp.rfp_id != first.rfp.rfp_id
    async with database.begin() as tx:
        assert await RfpStore(tx).part_of_text("T1", first.rfp.rfp_id, 0, 7) == FileText(
            "A crane", 24
        )


async def test_two_teams_may_have_the_same_id(database: Database) -> None:
    ours = await create(database, "c1", rfp_id="rfp_abc123", title="Crane", client="Harbour")
    theirs = await create(
        database, "c2", team="T2", rfp_id="rfp_abc123", title="Bridge", client="City"
    )
    async with database.begin() as tx:
        store = RfpStore(tx)
        await store.append_entry(change("j1", team="T2"), "rfp_abc123", "Theirs.")
        await store.patch_state(change("p1", team="T2"), "rfp_abc123", {"status": "won"})
        assert await store.get("T1", "rfp_abc123") == ours
        assert await store.search("T1", "bridge") == []
        assert await store.search("T1", "rfp_abc123") == [ours]
        assert (await store.ensure_state_exists("T1", "rfp_abc123")).version == 1
        assert await store.journal("T1", "rfp_abc123") == []
        assert await store.usage("T1", "rfp_abc123") == RfpUsage(ours, 0, 1, 0, 0)
        assert await store.delete("T1", "rfp_abc123")
        assert (await store.get("T2", "rfp_abc123")).title == theirs.title


async def test_deleted_rfp_is_not_found_and_its_file_makes_another(database: Database) -> None:
    first = (await create_from(database, "c1")).rfp
    async with database.begin() as tx:
        assert not await RfpStore(tx).delete("T2", first.rfp_id)
        assert await RfpStore(tx).delete("T1", first.rfp_id)
        assert not await RfpStore(tx).delete("T1", first.rfp_id)
        with pytest.raises(RfpNotFound, match="was deleted"):
            await RfpStore(tx).get("T1", first.rfp_id)
        assert await RfpStore(tx).listed("T1") == []
        assert await RfpStore(tx).search("T1", "crane") == []
    assert (await create_from(database, "c2")).new


async def test_unknown_id_is_refused_with_the_nearest(database: Database) -> None:
    for number, each in enumerate(("rfp_harbour7", "rfp_harbor8", "rfp_zzz999")):
        await create(database, f"c{number}", rfp_id=each)
    await create(database, "theirs", team="T2", rfp_id="rfp_harbour8")
    async with database.begin() as tx:
        with pytest.raises(RfpNotFound) as told:
            await RfpStore(tx).get("T1", "rfp_harbour8")
        assert set(told.value.nearest) == {"rfp_harbour7", "rfp_harbor8"}
        for unlike in ("rfp_qqqqqq", "", "\x00", "rfp_" + "\ud800" * 500, "%_"):
            with pytest.raises(RfpNotFound) as told:
                await RfpStore(tx).get("T1", unlike)
            assert told.value.nearest == ()


@pytest.mark.parametrize(
    ("facts", "rfp_id", "says"),
    [
        (RfpFacts(" \x00 "), "", "needs a title"),
        (RfpFacts("x", "y" * 201), "", "at most 200"),
        (RfpFacts("x"), "rfp_A", "is not an RFP id"),
        (RfpFacts("x"), "rfp_taken1", "is taken"),
    ],
)
async def test_bad_rfp_is_refused(
    database: Database, facts: RfpFacts, rfp_id: str, says: str
) -> None:
    await create(database, "earlier", rfp_id="rfp_taken1")
    with pytest.raises(RfpRefused, match=says):
        async with database.begin() as tx:
            await RfpStore(tx).create(change(), facts, rfp_id)
    async with database.begin() as tx:
        assert len(await RfpStore(tx).listed("T1")) == 1


async def test_lists_are_by_due_date_and_filtered(database: Database) -> None:
    await create(database, "c1", title="No date")
    await create(database, "c2", title="Later", due_date=date(2026, 5, 1), owner="U2")
    await create(database, "c3", title="Won", due_date=date(2026, 4, 1), status=RfpStatus.WON)
    await create(
        database, "c4", title="Sooner", due_date=date(2026, 3, 1), status=RfpStatus.IN_PROGRESS
    )
    await create(database, "c5", team="T2", title="Theirs")
    async with database.begin() as tx:
        assert [each.title for each in await RfpStore(tx).listed("T1")] == [
            "Sooner",
            "Won",
            "Later",
            "No date",
        ]
        assert [each.title for each in await RfpStore(tx).listed("T1", open_only=True)] == [
            "Sooner",
            "Later",
            "No date",
        ]
        assert [each.title for each in await RfpStore(tx).listed("T1", status=RfpStatus.WON)] == [
            "Won"
        ]
        assert [each.title for each in await RfpStore(tx).listed("T1", owner=" u2 ")] == ["Later"]
        assert [each.title for each in await RfpStore(tx).listed("T1", limit=1)] == ["Sooner"]


async def test_search_finds_words_and_misspelt_titles(database: Database) -> None:
    website = await create(database, "c1", title="Website relaunch", client="Harbour Authority")
    crane = (await create_from(database, "c2")).rfp
    await create(database, "c3", team="T2", title="Website")
    async with database.begin() as tx:
        assert await RfpStore(tx).search("T1", "the websites") == [website]
        assert await RfpStore(tx).search("T1", "harbour authority crane") == [website, crane]
        assert await RfpStore(tx).search("T1", "cranes") == [crane]
        assert await RfpStore(tx).search("T1", "webiste relanch") == [website]
        assert await RfpStore(tx).search("T1", website.rfp_id.upper()) == [website]
        for nothing in ("", "the", "zebra", "\x00", "' | (", "\ud800"):
            assert await RfpStore(tx).search("T1", nothing) == []


async def test_identifiers_and_scripts_without_blanks_are_found_in_any_spelling(
    database: Database,
) -> None:
    wrong = []
    async with database.begin() as tx:
        for number, (right, other, questions) in enumerate(FOUND):
            team = f"T{number}"
            # the first id wins a draw
            for rfp_id, words in (("rfp_other", other), ("rfp_right", right)):
                await RfpStore(tx).create(
                    change(rfp_id, team=team),
                    RfpFacts("A request"),
                    rfp_id,
                    source=SourceFile("a.pdf", sha256(words.encode()).hexdigest(), words),
                )
            for question in questions:
                found = [each.rfp_id for each in await RfpStore(tx).search(team, question)]
                if found[:1] != ["rfp_right"]:
                    wrong.append((question, found))
    assert wrong == []


async def test_identifier_in_a_title_is_found_until_the_title_is_changed(
    database: Database,
) -> None:
    rfp = await create(database, "c1", title="Portierung von C++ nach C#", client="退款公司")
    async with database.begin() as tx:
        for question in ("C#", "退款"):
            assert [each.rfp_id for each in await RfpStore(tx).search("T1", question)] == [
                rfp.rfp_id
            ]
        await RfpStore(tx).patch_state(
            change("p1"), rfp.rfp_id, {"title": "Portierung nach Node.js"}
        )
        assert await RfpStore(tx).search("T1", "C#") == []
        assert len(await RfpStore(tx).search("T1", "nodejs")) == 1


async def test_related_rfps_share_a_client_or_have_a_similar_title(database: Database) -> None:
    bridge = await create(database, "c1", title="Bridge repair", client="City")
    clinic = await create(database, "c2", title="Clinic software", client="CITY")
    other = await create(database, "c3", title="Bridge repairs north", client="County")
    await create(database, "c4", title="Shoes", client="")
    async with database.begin() as tx:
        assert await RfpStore(tx).related("T1", bridge.rfp_id, bridge) == [clinic, other]
        assert await RfpStore(tx).related("T1", other.rfp_id, other) == [bridge]


async def test_rfp_is_found_by_its_title_and_client(database: Database) -> None:
    bridge = await create(database, "c1", title="Bridge  repair", client="City")
    await create(database, "c2", title="Bridge repair", client="County")
    async with database.begin() as tx:
        assert await RfpStore(tx).find_by_title("T1", " bridge Repair", "CITY ") == [bridge]
        assert await RfpStore(tx).find_by_title("T2", "Bridge repair", "City") == []
        assert await RfpStore(tx).find_by_title("T1", "Bridge repair", "") == []
        await RfpStore(tx).delete("T1", bridge.rfp_id)
        assert await RfpStore(tx).find_by_title("T1", "Bridge repair", "City") == []


async def test_text_of_a_file_is_read_in_parts(database: Database) -> None:
    rfp = (await create_from(database, "c1")).rfp
    plain = await create(database, "c2")
    async with database.begin() as tx:
        assert await RfpStore(tx).part_of_text("T1", rfp.rfp_id, 2, 5) == FileText("crane", 24)
        assert await RfpStore(tx).part_of_text("T1", rfp.rfp_id, 10**9, 5) == FileText("", 24)
        assert await RfpStore(tx).part_of_text("T1", plain.rfp_id, 0, 5) == FileText("", 0)
        with pytest.raises(RfpNotFound):
            await RfpStore(tx).part_of_text("T2", rfp.rfp_id, 0, 5)


async def test_any_text_of_a_file_is_kept_and_searched(database: Database) -> None:
    told = "harbour \x00\ud800 " + " ".join(f"{number:06}é" for number in range(200_000))
    source = SourceFile("a\x00.pdf", HASH, told)
    async with database.begin() as tx:
        rfp = (await RfpStore(tx).create(change(), RfpFacts("Long"), source=source)).rfp
        assert await RfpStore(tx).search("T1", "harbour") == [rfp]
        assert (await RfpStore(tx).part_of_text("T1", rfp.rfp_id, 0, 0)).characters == 1_000_000


@pytest.mark.parametrize(
    "words",
    [
        [chr(0x20000 + number) for number in range(40_000)],
        [chr(0x20000 + number) + chr(0x2A000 - number) for number in range(40_000)],
        [f"a{number}-" for number in range(40_000)],
        ["退" * 2_000, *(chr(0x4E00 + number) for number in range(20_000))],
    ],
)
async def test_longest_text_of_long_words_is_kept_and_searched(
    database: Database, words: list[str]
) -> None:
    told = ("ERR-4012 " + " ".join(words * 6))[:200_000]
    async with database.begin() as tx:
        source = SourceFile("a.pdf", HASH, told)
        rfp = (await RfpStore(tx).create(change(), RfpFacts("Long"), source=source)).rfp
        assert await RfpStore(tx).search("T1", "ERR4012") == [rfp]


async def test_lists_and_searches_use_an_index(database: Database) -> None:
    insert = """
    INSERT INTO rfps (
        rfp_id, team, title, client, due_date, status, owner, source_name, source_text,
        source_unread, created_by, created_at
    )
    SELECT 'rfp_many' || n, CASE WHEN n % 50 = 0 THEN 'T1' ELSE 'T' || n % 50 + 2 END,
           md5(n::text) || ' ' || md5((n * 7)::text), 'Client ' || n,
           DATE '2026-01-01' + n % 500, 'new', '', '', '', '{}', 'U1', now()
    FROM generate_series(1, 20000) n
    """
    async with database.begin() as tx:
        await tx.execute(text(insert))
        for index in ("rfps_search_idx", "rfps_title_trgm_idx"):
            await tx.execute(text("SELECT gin_clean_pending_list(:index)"), {"index": index})
        await tx.execute(text("ANALYZE rfps"))
    async with explained(database) as (tx, asked):
        await RfpStore(tx).listed("T1", limit=10)
        await RfpStore(tx).listed("T1", open_only=True, limit=10)
        many = await RfpStore(tx).get("T1", "rfp_many50")
        await RfpStore(tx).search("T1", "harbour crane")
        await RfpStore(tx).related("T1", "rfp_many50", many)
    assert len(asked.plans) == 5
    for plan in asked.plans:
        assert "Seq Scan on rfps" not in plan, plan
    assert all("rfps_due_idx" in plan for plan in asked.plans[:2])
    assert "rfps_search_idx" in asked.plans[3]
    assert "rfps_title_trgm_idx" in asked.plans[3]
