"""The operator's memories are found by words, each kind separately, and recalled only where they
may be seen.
"""

from dataclasses import replace

import pytest
from sqlalchemy import text

from tests.support.identifiers import FOUND, NOT_FOUND
from tests.support.recording import explained
from tests.support.tool_store import NOW
from threadline.db.engine import Database
from threadline.operator.store import Memory, MemoryKind, MemoryStore

EPISODIC, SEMANTIC, PROCEDURAL = MemoryKind
DONE = Memory(
    PROCEDURAL,
    "Update the status to won",
    "opportunity_load, opportunity_patch, slack_post_summary",
    "U1",
)


async def keep(database: Database, *memories: Memory) -> None:
    async with database.begin() as tx:
        for number, memory in enumerate(memories):
            await MemoryStore(tx).remember("T1", [(f"k{number}", memory)], NOW + number)


async def test_memory_is_kept_once_for_its_key_and_kind(database: Database) -> None:
    await keep(database, DONE)
    await keep(database, DONE)
    failed = Memory(
        PROCEDURAL, "Update the status", "x", "U1", rfp_id="rfp_abc123", error_class="StateMoved"
    )
    async with database.begin() as tx:
        await MemoryStore(tx).remember("T1", [("other", failed)], NOW)
        found = (await MemoryStore(tx).recall("T1", "what updates a status to be won"))[PROCEDURAL]
    assert [(each.search_text, each.text, each.error_class, each.rfp_id) for each in found] == [
        (DONE.search_text, DONE.text, "", ""),
        ("Update the status", "x", "StateMoved", "rfp_abc123"),
    ]
    assert (found[0].user_id, found[0].created_at.timestamp()) == ("U1", NOW)


async def test_recall_for_a_turn_keeps_room_for_own_and_others_patterns_and_for_failures(
    database: Database,
) -> None:
    pattern = replace(DONE, search_text="Update the status")
    new = [*(replace(pattern, text=f"mine {n}") for n in range(3))]
    new += [replace(pattern, text=f"theirs {n}", user_id="U2") for n in range(3)]
    new += [
        replace(pattern, text=f"failed {n}", user_id=f"U{n}", error_class="validation")
        for n in range(3)
    ]
    new += [replace(pattern, kind=EPISODIC, text=f"told {n}", user_id=f"U{n}") for n in range(3)]
    await keep(database, *new)
    async with database.begin() as tx:
        found = await MemoryStore(tx).recall_for_turn(
            "T1", "what updates a status", channel="C1", user_id="U1", limit=1, patterns=2
        )
    assert [each.text for each in found if not each.is_pattern] == ["told 2", "failed 2"]
    assert sorted(each.text for each in found if each.is_pattern) == [
        "mine 1",
        "mine 2",
        "theirs 1",
        "theirs 2",
    ]


async def test_recall_finds_the_most_similar_of_each_kind(database: Database) -> None:
    likely = [Memory(EPISODIC, f"bridge {number}", "The budget was told.") for number in range(8)]
    await keep(
        database,
        *likely,
        Memory(EPISODIC, "bridge budget", "."),
        Memory(SEMANTIC, "bridge", "Made of steel."),
    )
    async with database.begin() as tx:
        found = await MemoryStore(tx).recall("T1", "What is the bridge's budget?", limit=3)
        assert set(found) == set(MemoryKind)
        assert len(found[EPISODIC]) == 3
        assert [each.text for each in found[SEMANTIC]] == ["Made of steel."]
        assert found[PROCEDURAL] == []
        assert await MemoryStore(tx).recall("T1", "the bridge", [SEMANTIC]) == {
            SEMANTIC: found[SEMANTIC]
        }
        for nothing in ("", "of the", "zebra", "\x00", "' & !"):
            assert not any((await MemoryStore(tx).recall("T1", nothing)).values())


async def test_memory_is_recalled_in_its_team_and_channel_alone(database: Database) -> None:
    await keep(
        database,
        Memory(EPISODIC, "bridge", "Everywhere.", "U1"),
        Memory(EPISODIC, "bridge", "In C1.", "U2", channel="C1"),
    )
    async with database.begin() as tx:

        async def told(team: str, channel: str = "") -> set[str]:
            found = await MemoryStore(tx).recall(team, "bridge", channel=channel)
            return {each.text for each in found[EPISODIC]}

        assert await told("T1", channel="C1") == {"Everywhere.", "In C1."}
        assert await told("T1", channel="C2") == {"Everywhere."}
        assert await told("T1") == {"Everywhere."}
        assert await told("T2", channel="C1") == set()


async def test_long_or_odd_words_are_stored_cut(database: Database) -> None:
    await keep(
        database,
        Memory(EPISODIC, "c\x00ue " * 2_000, "bridge\ud800 " * 2_000),
        Memory(EPISODIC, "", " "),
    )
    async with database.begin() as tx:
        [found] = (await MemoryStore(tx).recall("T1", "bridge"))[EPISODIC]
    assert (len(found.search_text), len(found.text)) == (1_000, 4_000)


async def test_old_memories_are_pruned(database: Database) -> None:
    await keep(database, Memory(EPISODIC, "bridge", "Old."), Memory(EPISODIC, "bridge", "New."))
    async with database.begin() as tx:
        assert await MemoryStore(tx).prune(NOW + 1) == 1
        assert await MemoryStore(tx).prune(NOW + 1) == 0
        assert [
            each.text for each in (await MemoryStore(tx).recall("T1", "bridge"))[EPISODIC]
        ] == ["New."]


async def test_identifiers_and_scripts_without_blanks_are_recalled_in_any_spelling(
    database: Database,
) -> None:
    wrong = []
    async with database.begin() as tx:
        for number, (right, other, questions) in enumerate(FOUND):
            team = f"T{number}"
            # the newest memory wins a draw
            for place, words in enumerate((right, other)):
                memory = Memory(EPISODIC, words, "It was told.")
                await MemoryStore(tx).remember(team, [(f"k{place}", memory)], NOW + place)
            for question in questions:
                found = (await MemoryStore(tx).recall(team, question))[EPISODIC]
                if [each.search_text for each in found][:1] != [right]:
                    wrong.append((question, found))
    assert wrong == []


@pytest.mark.parametrize(("words", "question"), NOT_FOUND)
async def test_memory_without_the_identifier_is_not_recalled(
    database: Database, words: str, question: str
) -> None:
    await keep(database, Memory(EPISODIC, "A request", words))
    async with database.begin() as tx:
        assert (await MemoryStore(tx).recall("T1", question))[EPISODIC] == []


async def test_recall_uses_the_word_index(database: Database) -> None:
    many = """
    INSERT INTO memories (team, kind, search_text, text, error_class, user_id, channel, rfp_id,
                          key, created_at)
    SELECT 'T1', 'episodic', md5(n::text), md5((n * 7)::text), '', 'U1', '', '', 'm' || n, now()
    FROM generate_series(1, 20000) n
    """
    async with database.begin() as tx:
        await tx.execute(text(many))
        await tx.execute(text("SELECT gin_clean_pending_list('memories_search_idx')"))
        await tx.execute(text("ANALYZE memories"))
    async with explained(database) as (tx, asked):
        await MemoryStore(tx).recall("T1", "bridge budget")
    [plan] = asked.plans
    assert "memories_search_idx" in plan, plan


async def test_words_are_forgotten_by_key_and_tool_patterns_stay(database: Database) -> None:
    async with database.begin() as tx:
        for kind in MemoryKind:
            for key in ("mine", "other", "x" * 300):
                await MemoryStore(tx).remember(
                    "T1", [(key, Memory(kind, "bridge", "It was told."))], NOW
                )
        assert await MemoryStore(tx).forget_user_content("T2", ["mine"]) == 0
        assert await MemoryStore(tx).forget_user_content("T1", ["mine", "x" * 300]) == 4
        assert await MemoryStore(tx).forget_user_content("T1", []) == 0
        rows = await tx.execute(text("SELECT kind, left(key, 6) FROM memories ORDER BY 1, 2"))
    kept = [
        ("episodic", "other"),
        ("procedural", "mine"),
        ("procedural", "other"),
        ("procedural", "sha256"),
    ]
    assert [tuple(each) for each in rows] == [*kept, ("semantic", "other")]
