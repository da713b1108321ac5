"""Cases are found by the reporter's words and the title, as long as the words are there."""

import pytest
from sqlalchemy import text

from tests.support.case_store import THREAD, Scene, deletion, edit, identity, report, said, ts
from tests.support.identifiers import FOUND, NOT_FOUND
from tests.support.recording import explained
from threadline.cases.model import Action
from threadline.cases.store.lists import CaseLists
from threadline.cases.store.messages import CaseMessageStore
from threadline.slack.model import Thread
from threadline.threads.model import ABSENT


async def open_case(scene: Scene, words: str, at: float = 100, team: str = THREAD.team) -> None:
    opening = report(words, id=f"{team}:{at}")
    await scene.flush(opening, thread=Thread(team, THREAD.channel, ts(at)))


async def found(scene: Scene, words: str, team: str = THREAD.team) -> list[str]:
    async with scene.database.begin() as tx:
        return [each.report for each in await CaseLists(tx).search(team, words=words)]


async def test_identifiers_and_scripts_without_blanks_are_found_in_any_spelling(
    scene: Scene,
) -> None:
    wrong = []
    for number, (right, other, questions) in enumerate(FOUND):
        team = f"T{number}"
        await open_case(scene, right, team=team)
        await open_case(scene, other, at=200, team=team)  # the newest case wins a draw
        for question in questions:
            reports = await found(scene, question, team)
            if reports[:1] != [right]:
                wrong.append((question, reports))
    assert wrong == []


@pytest.mark.parametrize(("words", "question"), NOT_FOUND)
async def test_case_without_the_identifier_is_not_found(
    scene: Scene, words: str, question: str
) -> None:
    await open_case(scene, words)
    assert await found(scene, question) == []


async def test_identifier_is_found_in_the_agents_title_and_in_forwarded_words(
    scene: Scene,
) -> None:
    await scene.opened(said(1, "look", forwarded="[Forwarded message]\n> 退款 fails"))
    await scene.turn(1, Action.POST_FINDINGS, result={"title": "Payment fails with ERR-4012"})
    await open_case(scene, "Another report")
    told = ["The cart total is wrong"]
    assert await found(scene, "ERR4012") == told
    assert await found(scene, "退款") == told


async def test_edited_message_is_found_by_its_present_words_only(scene: Scene) -> None:
    await scene.opened(said(1, "It shows ERR-4012"))
    await scene.flush(edit(1, "It shows ERR-5033", 5))
    assert await found(scene, "5033") == ["The cart total is wrong"]
    [row] = await scene.rows(
        "SELECT words, search_vector::text AS vector FROM bug_conversations "
        "WHERE message_id = :id",
        id=identity(1),
    )
    assert "=5033" in row["words"]
    assert "4012" not in str(row)


async def test_deleted_message_is_not_found_and_leaves_no_word(scene: Scene) -> None:
    await scene.flush(report("The export fails with ERR-4012"))
    await scene.flush(said(1, "退款 fails in v2.3.1", forwarded="> C# and maxRetries"))
    await scene.flush(edit(1, "退款 fails in v2.3.2", 5))
    await scene.flush(deletion(0), deletion(1))
    for question in ("ERR4012", "退款", "2.3.1", "2.3.2", "C#", "max_retries"):
        assert await found(scene, question) == [], question
    left = await scene.rows("""
        SELECT words, search_vector::text AS vector FROM bug_conversations
        UNION SELECT title_words, title FROM cases
    """)
    assert {(*row["words"], row["vector"]) for row in left} == {
        ("",),
        ("Report deleted by its author",),
    }


async def test_restored_message_is_found_again(scene: Scene) -> None:
    await scene.flush(report("The export fails with ERR-4012", forwarded="> 退款 in C#"))
    absent = deletion(0)
    await scene.flush(said(1))
    stored = await scene.rows("SELECT title, title_words FROM cases")
    messages = "SELECT message_text, forwarded, words FROM bug_conversations ORDER BY seq LIMIT 1"
    before = await scene.rows(messages)
    await scene.flush(
        said(0, "", kind=absent.kind, id=absent.id + ABSENT, correction_of=identity(0))
    )
    assert await found(scene, "ERR4012") == []
    async with scene.database.begin() as tx:
        await CaseMessageStore(tx).restore(scene.bug_id, identity(0))
    assert await scene.rows("SELECT title, title_words FROM cases") == stored
    assert await scene.rows(messages) == before
    for question in ("ERR4012", "退款", "C#"):
        assert len(await found(scene, question)) == 1, question


async def test_search_uses_the_word_indexes(scene: Scene) -> None:
    many = [
        """
        INSERT INTO cases (team, channel, thread_ts, reporter_id, title)
        SELECT 'T1', 'C1', n::text, 'U1', md5(n::text) FROM generate_series(1, 20000) n
        """,
        """
        INSERT INTO case_transitions (bug_id, rev, to_status, reason, actor)
        SELECT bug_id, rev, status, 'reported', 'U1' FROM cases
        """,
        """
        INSERT INTO bug_conversations (bug_id, seq, message_id, sender_type, sender_id,
                                       message_type, message_text, channel, slack_ts, said_at)
        SELECT bug_id, 1, bug_id, 'reporter', 'U1', 'report', md5(title), 'C1', '1', 1 FROM cases
        """,
        "SELECT gin_clean_pending_list('cases_words_idx')",
        "SELECT gin_clean_pending_list('bug_conversations_words_idx')",
        "ANALYZE cases",
        "ANALYZE bug_conversations",
    ]
    async with scene.database.begin() as tx:
        for statement in many:
            await tx.execute(text(statement))
    async with explained(scene.database) as (tx, asked):
        await CaseLists(tx).search("T1", words="ERR-4012 退款")
    plan = asked.plans[0]
    assert "bug_conversations_words_idx" in plan, plan
    assert "cases_words_idx" in plan, plan
    assert "Seq Scan on bug_conversations" not in plan, plan
    async with scene.database.begin() as tx:
        await tx.execute(
            text("SELECT * FROM agent_similar_cases('BUG-1', '', ARRAY['=err4012'], 5)")
        )
        scans = text("SELECT pg_stat_get_xact_numscans('bug_conversations_words_idx'::regclass)")
        assert (await tx.execute(scans)).scalar_one() > 0
