"""`threadline messages` on a real database: it restores only messages that were removed by
inference.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from tests.cli.command import Command
from tests.support import case_store, conversation_store
from tests.support.case_store import Scene, report, said
from tests.support.conversation_store import StoredConversation, mention, says
from threadline.db.engine import Database
from threadline.investigator.store import AgentStore
from threadline.slack.model import FileRef
from threadline.threads.absence_store import AbsenceStore
from threadline.threads.model import ABSENT, IncomingMessage
from threadline.threads.removed_store import RemovedStore

CARD = "My card is 1234"


def inferred(deletion: IncomingMessage) -> IncomingMessage:
    """Return the same deletion, inferred from an absence instead of seen."""
    return replace(deletion, id=f"{deletion.correction_of}{ABSENT}")


@pytest.fixture
def run(database_url: str, tmp_path: Path) -> Command:
    return Command("messages", database_url, tmp_path)


@pytest.fixture
def scene(database: Database) -> Scene:
    return Scene(database, AgentStore(database))


@pytest.fixture
def talk(database: Database) -> StoredConversation:
    return StoredConversation(database)


async def rows(database: Database, query: str) -> list[dict[str, Any]]:
    async with database.begin() as tx:
        return [dict(row) for row in (await tx.execute(text(query))).mappings()]


CASE = """
SELECT c.title, m.message_id, m.message_text, m.redacted_at IS NULL AS there, m.wants_turn,
       a.content, a.error
FROM cases c JOIN bug_conversations m USING (bug_id)
LEFT JOIN attachments a USING (bug_id, message_id)
WHERE m.message_type IN ('report', 'message', 'edit') ORDER BY m.message_id
"""
CONVERSATION = """
SELECT m.message_id, m.message_text, m.files, m.redacted_at IS NULL AS there, m.wants_turn,
       m.turn, t.body
FROM conversation_messages m LEFT JOIN transcript_entries t ON t.key = 'u:' || m.message_id
WHERE m.message_type IN ('message', 'edit') ORDER BY m.message_id
"""
COPIES = "SELECT message_id FROM removed_content"


async def a_case(scene: Scene) -> None:
    await scene.flush(
        replace(report(), text="The cart total is wrong", files=(FileRef("F1", "cart.png"),))
    )
    await scene.flush(replace(said(1), text=CARD), case_store.edit(1, f"{CARD} 5678", 2))
    await rows(scene.database, "UPDATE attachments SET content = 'png' RETURNING id")


async def test_case_reads_as_before_with_its_title_and_files(scene: Scene, run: Command) -> None:
    await a_case(scene)
    before = await rows(scene.database, CASE)
    await scene.flush(inferred(case_store.deletion(0)), inferred(case_store.deletion(1)))
    removed = await rows(scene.database, CASE)
    assert "cart" not in str(removed)
    assert "1234" not in str(removed)
    assert removed[0]["title"] == "Report deleted by its author"

    listed = run("list")
    assert listed.stdout.count("BUG-1") == 2
    assert CARD not in listed.stdout, "the list shows no texts"
    restored = run("restore", "--all")
    assert (restored.returncode, restored.stdout) == (0, "Restored: 2.\n")
    assert await rows(scene.database, CASE) == before
    assert await rows(scene.database, COPIES) == []
    assert "nothing to restore" in run("list").stdout


async def test_conversation_reads_as_before_with_its_transcript(
    talk: StoredConversation, run: Command
) -> None:
    await talk.hear(
        mention(1, CARD, files=(FileRef("F1", "card.png"),)),
        conversation_store.edit(1, f"{CARD} 5", 5),
    )
    await talk.take_up(1)
    await talk.settle(1)
    await talk.hear(says(2, "and this waits for an answer", addressed=True))
    before = await rows(talk.database, CONVERSATION)
    await talk.hear(
        inferred(conversation_store.deletion(1)), inferred(conversation_store.deletion(2))
    )
    assert "1234" not in str(await rows(talk.database, CONVERSATION))
    assert not (await talk.snapshot()).turn_due

    assert run("restore", "--all").returncode == 0
    assert await rows(talk.database, CONVERSATION) == before
    assert (await talk.snapshot()).turn_due, "the unanswered message waits for an answer again"
    assert await rows(talk.database, COPIES) == []


@pytest.mark.parametrize("is_late", [False, True])
async def test_seen_deletion_leaves_no_copy(
    scene: Scene, talk: StoredConversation, is_late: bool
) -> None:
    """The seen deletion arrives before the inferred one, or after it."""
    await a_case(scene)
    await talk.hear(mention(1, CARD))
    await talk.take_up(1)
    of_case = [case_store.deletion(1), inferred(case_store.deletion(1))]
    of_talk = [conversation_store.deletion(1), inferred(conversation_store.deletion(1))]
    for each, other in zip(
        reversed(of_case) if is_late else of_case,
        reversed(of_talk) if is_late else of_talk,
        strict=True,
    ):
        await scene.flush(each)
        await talk.hear(other)
    assert await rows(scene.database, COPIES) == []
    for table in (
        "bug_conversations",
        "conversation_messages",
        "transcript_entries",
        "removed_content",
    ):
        found = await rows(scene.database, f"SELECT 1 FROM {table} t WHERE t::text LIKE '%1234%'")  # noqa: S608
        assert found == [], table


async def test_restored_message_is_deleted_for_good_when_its_deletion_is_seen(
    scene: Scene, run: Command
) -> None:
    await a_case(scene)
    await scene.flush(inferred(case_store.deletion(1)))
    run("restore", case_store.identity(1))
    await scene.flush(case_store.deletion(1))
    assert "1234" not in str(await rows(scene.database, CASE))
    assert await rows(scene.database, COPIES) == []


async def test_restored_message_is_not_removed_by_the_same_absence(
    scene: Scene, run: Command
) -> None:
    """The message stays when the signal comes again, and after an edit."""
    await a_case(scene)
    await scene.flush(inferred(case_store.deletion(1)))
    async with scene.database.begin() as tx:
        await AbsenceStore(tx, "T1").record("C1", "1.0", [case_store.identity(1)], 1.0)
    run("restore", case_store.identity(1))
    await scene.flush(inferred(case_store.deletion(1)))
    await scene.flush(case_store.edit(1, f"{CARD} and more", 9))
    assert "1234 and more" in str(await rows(scene.database, CASE))
    async with scene.database.begin() as tx:
        assert await AbsenceStore(tx, "T1").restored([case_store.identity(1)]) == {
            case_store.identity(1)
        }


async def test_copies_are_deleted_after_their_retention(scene: Scene, run: Command) -> None:
    await a_case(scene)
    await scene.flush(inferred(case_store.deletion(1)))
    (kept,) = await rows(
        scene.database,
        "SELECT extract(epoch FROM max(removed_at))::float AS at FROM removed_content",
    )
    async with scene.database.begin() as tx:
        assert await RemovedStore(tx).prune(kept["at"] - 1) == 0
        assert await RemovedStore(tx).prune(kept["at"] + 1) > 0
    refused = run("restore", case_store.identity(1))
    assert refused.returncode == 1
    assert "no such message to restore" in refused.stderr
    assert "1234" not in str(await rows(scene.database, CASE))


async def test_restore_needs_ids_or_all_and_another_workspace_sees_nothing(
    scene: Scene, run: Command
) -> None:
    await a_case(scene)
    await scene.flush(inferred(case_store.deletion(1)))
    assert run("restore").returncode == 1
    assert run("restore", case_store.identity(1), "--all").returncode == 1
    async with scene.database.begin() as tx:
        assert await RemovedStore(tx).listed("T2", 10) == []
