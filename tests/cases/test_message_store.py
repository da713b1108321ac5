"""Messages of a case are stored once, numbered, and corrected in any order of arrival."""

import asyncio
import itertools
import re
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import event, text

from tests.support.case_store import (
    DEVELOPER,
    REPORTER,
    STRANGER,
    THREAD,
    Scene,
    close,
    deletion,
    edit,
    identity,
    report,
    said,
    ts,
)
from threadline.cases.model import Action, CaseSnapshot, CaseStatus, Reason
from threadline.cases.store import case as case_store
from threadline.cases.store.case import CaseStore
from threadline.cases.store.lists import CaseLists
from threadline.cases.store.messages import CaseMessageStore
from threadline.errors import Permanent
from threadline.investigator import store as agent_turns
from threadline.slack.model import FileRef, Thread
from threadline.threads.model import (
    IncomingMessage,
    MessageKind,
    SenderType,
    ThreadOwner,
    parse_message,
)
from threadline.threads.store import ThreadStore

FORWARDED = "[Forwarded message by Bob (U9)]\n> never mind"


async def test_report_opens_its_case_and_registers_its_thread(scene: Scene) -> None:
    snapshot = await scene.flush(report())
    assert (snapshot.bug_id, snapshot.status, snapshot.reporter_id, snapshot.message_count) == (
        "BUG-1",
        CaseStatus.NEW,
        REPORTER,
        1,
    )
    assert snapshot.has_unread
    assert snapshot.reporter_wrote
    async with scene.database.begin() as tx:
        assert await ThreadStore(tx).owner(THREAD) == ThreadOwner(
            f"bug:{THREAD.key}", "case:report"
        )
        assert [(step.before, step.to) for step in await CaseLists(tx).transitions("BUG-1")] == [
            (None, "new")
        ]


@pytest.mark.parametrize("kind", [MessageKind.MESSAGE, MessageKind.CLOSE])
async def test_reporters_message_that_overtook_the_report_opens_the_case(
    scene: Scene, kind: MessageKind
) -> None:
    assert (await scene.flush(said(5, kind=kind))).bug_id == "BUG-1"
    snapshot = await scene.flush(report())
    assert (snapshot.bug_id, snapshot.message_count) == ("BUG-1", 2)


async def test_messages_without_a_report_open_no_case(scene: Scene) -> None:
    batch = (
        said(1, by=SenderType.UNKNOWN),
        edit(0, "new words", 2),
        deletion(0),
        parse_message([1, 2, 3]),
        said(3, by=SenderType.DEVELOPER),
    )
    assert await scene.flush(*batch) == CaseSnapshot()
    assert await scene.rows("SELECT bug_id FROM cases") == []


async def test_repeated_batch_changes_nothing_but_the_revision(scene: Scene) -> None:
    batch = (report(), said(1), said(1), edit(1, "better", 2))
    first = await scene.flush(*batch)
    again = await scene.flush(*batch)
    assert first.message_count == again.message_count == 3
    assert again.rev > first.rev
    assert [
        row["seq"] for row in await scene.rows("SELECT seq FROM bug_conversations ORDER BY seq")
    ] == [1, 2, 3]


async def test_two_flushes_at_once_open_one_case_and_store_each_message_once(scene: Scene) -> None:
    batches = [
        (report(), *(said(at) for at in range(1, 12))),
        (*(said(at) for at in range(6, 20)), report()),
    ]
    results = await asyncio.gather(*(scene.flush(*batch) for batch in batches * 3))
    assert {snapshot.bug_id for snapshot in results} == {results[0].bug_id}
    rows = await scene.rows("SELECT seq, message_id FROM bug_conversations ORDER BY seq")
    assert [row["seq"] for row in rows] == list(range(1, 21))
    assert len({row["message_id"] for row in rows}) == 20


async def test_late_results_are_known_by_their_revision(scene: Scene) -> None:
    results = await asyncio.gather(*(scene.flush(report(), said(at)) for at in range(1, 9)))
    by_revision = sorted(results, key=lambda snapshot: snapshot.rev)
    assert len({snapshot.rev for snapshot in results}) == len(results)
    counts = [snapshot.message_count for snapshot in by_revision]
    assert counts == sorted(counts)
    assert await scene.snapshot() == by_revision[-1]


async def test_messages_are_read_in_the_order_in_which_they_were_written(scene: Scene) -> None:
    await scene.flush(report("first"), said(9, "third"))
    await scene.flush(said(10, "fourth"), said(2, "second"))
    assert await scene.texts() == ["first", "second", "third", "fourth"]


async def test_message_of_an_unknown_sender_who_is_not_the_reporter_is_dropped(
    scene: Scene,
) -> None:
    await scene.flush(report("report"))
    third = said(1, "me too", by=SenderType.UNKNOWN, sender_id=STRANGER)
    snapshot = await scene.flush(third, said(2, "mine", by=SenderType.UNKNOWN, sender_id=REPORTER))
    assert snapshot.message_count == 2
    assert await scene.texts() == ["report", "mine"]
    assert (
        await scene.rows("SELECT bug_id FROM bug_conversations WHERE sender_type = 'unknown'")
        == []
    )


ORDERS = list(itertools.permutations(("original", "first edit", "second edit")))


@pytest.mark.parametrize("order", ORDERS)
async def test_newest_edit_wins_in_any_order_of_arrival(
    scene: Scene, order: tuple[str, ...]
) -> None:
    which = {
        "original": said(1, "v0"),
        "first edit": edit(1, "v1", 5),
        "second edit": edit(1, "v2", 50),
    }
    await scene.flush(report("report"))
    for name in order:
        await scene.flush(which[name])
    assert await scene.texts() == ["report", "v2"]


@pytest.mark.parametrize("order", list(itertools.permutations(("original", "edit", "deletion"))))
async def test_deletion_wins_in_any_order_of_arrival(scene: Scene, order: tuple[str, ...]) -> None:
    which = {
        "original": said(1, "secret"),
        "edit": edit(1, "still secret", 5),
        "deletion": deletion(1),
    }
    await scene.flush(report("report"))
    for name in order:
        await scene.flush(which[name])
    assert await scene.texts() == ["report", "(deleted by its author)"]
    left = await scene.rows(
        "SELECT message_text FROM bug_conversations WHERE message_text LIKE '%secret%'"
    )
    assert left == []


async def test_edit_in_the_opening_batch_is_applied(scene: Scene) -> None:
    await scene.flush(edit(0, "corrected", 1), report("first"))
    assert await scene.texts() == ["corrected"]


async def test_files_of_a_deleted_message_are_deleted_also_when_fetched_later(
    scene: Scene,
) -> None:
    picture = FileRef("F1", "screen.png", "image/png", 3)
    await scene.flush(
        report(), said(1, files=(picture,)), said(2, files=(FileRef("F2", "log.txt"),))
    )
    async with scene.database.begin() as tx:
        (first, _), (second, _) = await CaseMessageStore(tx).pending_files("BUG-1")
        await CaseMessageStore(tx).store_file(second, b"log")
    await scene.flush(deletion(1), deletion(2))
    async with scene.database.begin() as tx:
        assert await CaseMessageStore(tx).pending_files("BUG-1") == []
        await CaseMessageStore(tx).store_file(first, b"png")
    assert await scene.rows("SELECT 1 FROM attachments WHERE content IS NOT NULL") == []


async def test_only_the_reporters_edit_is_due(scene: Scene) -> None:
    await scene.opened()
    await scene.turn(1)
    snapshot = await scene.flush(
        deletion(40), edit(0, "better words", 5), parse_message([{"no": "id"}])
    )
    assert not snapshot.has_unread
    assert snapshot.reporter_wrote


async def test_thanks_and_a_late_close_do_not_reopen_the_case(scene: Scene) -> None:
    await scene.opened()
    await scene.turn(1)
    await scene.end(Reason.AGENT_RESOLVED)
    snapshot = await scene.flush(said(10, "Thanks a lot!"), close(11), said(12, "never mind"))
    assert not snapshot.has_unread
    assert not snapshot.close_requested
    snapshot = await scene.flush(said(13, "It is broken again"))
    assert snapshot.has_unread


async def test_forwarded_words_close_nothing_and_reopen_the_case(scene: Scene) -> None:
    await scene.opened()
    snapshot = await scene.flush(said(9, "", forwarded=FORWARDED))
    assert (snapshot.close_requested, snapshot.has_unread) == (False, True)
    await scene.turn(1)
    await scene.end(Reason.AGENT_RESOLVED)
    assert (await scene.flush(said(13, "", forwarded=FORWARDED))).has_unread


async def test_forwarded_words_are_shown_edited_and_deleted_with_the_authors_own(
    scene: Scene,
) -> None:
    await scene.flush(report("It breaks", forwarded=FORWARDED))
    assert await shown(scene) == [f"It breaks\n{FORWARDED}"]
    await scene.flush(edit(0, "It breaks badly", 5, forwarded="[Quoted]\n> when?"))
    assert await shown(scene) == ["It breaks badly\n[Quoted]\n> when?"]
    await scene.flush(deletion(0))
    assert await shown(scene) == ["(deleted by its author)"]
    kept = await scene.rows("SELECT forwarded FROM bug_conversations WHERE forwarded <> ''")
    assert kept == []


async def test_case_that_was_reported_by_forwarding_has_a_title_and_is_found(scene: Scene) -> None:
    snapshot = await scene.flush(
        report("", forwarded="[Forwarded message by Bob (U9)]\n> The cart total is wrong")
    )
    assert snapshot.title == "The cart total is wrong"
    async with scene.database.begin() as tx:
        found = await CaseLists(tx).search(THREAD.team, words="cart")
    assert [each.case.bug_id for each in found] == ["BUG-1"]


async def shown(scene: Scene) -> list[str]:
    """Return the texts of a case's messages as readers see them."""
    async with scene.database.begin() as tx:
        return [each.text for each in (await CaseMessageStore(tx).page("BUG-1")).entries]


async def test_late_message_from_before_the_close_does_not_reopen(scene: Scene) -> None:
    await scene.opened()
    await scene.turn(1)
    await scene.flush(close(20))
    await scene.end(Reason.REPORTER_CLOSED)
    snapshot = await scene.flush(
        said(10, "It is in Firefox"),
        said(20, "In the same moment", by=SenderType.DEVELOPER, id="x"),
    )
    assert not snapshot.has_unread
    assert "It is in Firefox" in await scene.texts()
    late = await scene.rows(
        "SELECT turn FROM bug_conversations WHERE message_type = 'message' ORDER BY seq"
    )
    assert [row["turn"] for row in late] == [0, 0], "the close answered them"
    assert (await scene.flush(said(21, "It is back"))).has_unread


async def test_close_that_ended_nothing_answers_nothing(scene: Scene) -> None:
    await scene.opened()
    await scene.turn(1)
    await scene.end(Reason.AGENT_RESOLVED)
    await scene.flush(close(20))
    assert (await scene.flush(said(10, "It is in Firefox"))).has_unread


@pytest.mark.parametrize(
    "unstorable",
    [
        {"words": "nul \x00 byte"},
        {"words": "half \ud800 pair"},
        {"id": "a\x00b"},
        {"channel": "\x00"},
        {"by": "third_party"},
    ],
)
async def test_message_that_postgres_refuses_is_quarantined(
    scene: Scene, unstorable: dict[str, Any]
) -> None:
    batch = (report("report"), said(1, **unstorable), said(2, "after", version="1\x00"))
    first = await scene.flush(*batch)
    again = await scene.flush(*batch)
    assert first.message_count == again.message_count == 2
    assert await scene.texts() == ["report", "after"]
    [row] = await scene.rows("SELECT * FROM quarantine")
    assert row["error"].startswith("the database refused this message")


async def test_row_refused_next_to_a_known_message_blocks_no_other(scene: Scene) -> None:
    await scene.flush(report("report"))
    too_big = said(1, "its file has no size that fits", files=(FileRef("F1", size=2**63),))
    for _ in range(2):
        await scene.flush(report("report"), too_big, said(2, "after"))
    assert await scene.texts() == ["report", "after"]
    assert [row["message_text"] for row in await scene.rows("SELECT * FROM quarantine")] == [
        too_big.text
    ]


async def test_close_is_due_only_as_the_reporters_last_message(scene: Scene) -> None:
    await scene.opened()
    assert not (
        await scene.flush(said(4, "close", kind=MessageKind.CLOSE, by=SenderType.DEVELOPER))
    ).close_requested
    assert (await scene.flush(close(5))).close_requested
    assert not (await scene.flush(said(6, "wait, still broken"))).close_requested
    assert (await scene.flush(close(7))).close_requested
    assert (await scene.flush(said(3, "said before, came after"))).close_requested
    assert (await scene.flush(said(9, "a developer", by=SenderType.DEVELOPER))).close_requested


@pytest.mark.parametrize("answers_at", [CaseStatus.AWAITING_REPORTER, CaseStatus.INVESTIGATING])
async def test_bare_cancel_after_a_question_is_an_answer(
    scene: Scene, answers_at: CaseStatus
) -> None:
    """Also as the second message of an answer, while the turn that the first one started is
    running.
    """
    await scene.opened()
    await scene.turn(1, Action.ASK_REPORTER)
    if answers_at is CaseStatus.AWAITING_REPORTER:
        await scene.become(answers_at, Reason.QUESTION_ASKED)
    cancel = said(5, "Cancel", kind=MessageKind.CLOSE)
    snapshot = await scene.flush(cancel)
    assert (snapshot.close_requested, snapshot.reporter_wrote) == (False, True)
    assert not (await scene.flush(cancel)).close_requested
    assert (await scene.flush(close(6))).close_requested


async def test_bare_cancel_without_a_question_closes(scene: Scene) -> None:
    await scene.opened()
    assert (await scene.flush(said(5, "cancel", kind=MessageKind.CLOSE))).close_requested


@pytest.mark.parametrize("status", [CaseStatus.AWAITING_REPORTER, CaseStatus.INVESTIGATING])
async def test_admin_closes_also_after_a_question(scene: Scene, status: CaseStatus) -> None:
    await scene.opened()
    await scene.turn(1, Action.ASK_REPORTER)
    if status is CaseStatus.AWAITING_REPORTER:
        await scene.become(status, Reason.QUESTION_ASKED)
    reason = said(5, "cancel", kind=MessageKind.CLOSE, by=SenderType.ADMIN)
    assert (await scene.flush(reason)).close_requested


async def test_pages_cover_the_messages_once_and_a_foreign_cursor_is_refused(scene: Scene) -> None:
    await scene.flush(report("0"), *(said(at, str(at)) for at in range(1, 8)))
    seen = []
    cursor = None
    async with scene.database.begin() as tx:
        while True:
            page = await CaseMessageStore(tx).page("BUG-1", cursor, limit=3)
            seen += [entry.text for entry in page.entries]
            cursor = page.next_cursor
            if cursor is None:
                break
        assert seen == [str(at) for at in range(8)]
        with pytest.raises(Permanent):
            await CaseMessageStore(tx).page("BUG-1", "elsewhere")


async def test_posts_of_the_bot_are_read_but_neither_numbered_nor_due(scene: Scene) -> None:
    await scene.opened()
    await scene.turn(1)
    for _ in range(2):
        async with scene.database.begin() as tx:
            await CaseMessageStore(tx).record_bot_message(
                "BUG-1", "question", "Which browser?", replace(THREAD, ts=ts(3))
            )
    snapshot = await scene.flush(said(4, "Firefox", by=SenderType.DEVELOPER))
    assert snapshot.message_count == 2
    assert await scene.texts() == ["The cart total is wrong", "Which browser?", "Firefox"]
    assert [entry.sender_id for entry in (await scene.claim(2)).entries] == [DEVELOPER]


async def test_posts_of_a_turn_know_the_messages_that_it_used(scene: Scene) -> None:
    await scene.opened(said(1), said(2), deletion(2), edit(1, "x", 3))
    await scene.turn(1)
    async with scene.database.begin() as tx:
        assert (await CaseStore(tx).for_post("BUG-1", 1)).used == (("C1", ts(0)), ("C1", ts(1)))


async def test_edit_reads_no_message_of_another_thread(scene: Scene) -> None:
    other = Thread("T1", "C1", ts(100))
    await scene.flush(said(100, kind=MessageKind.REPORT), thread=other)

    async def updates(*batch: IncomingMessage) -> int:
        found: list[str] = []

        def note(_: Any, __: Any, statement: str, *___: Any) -> None:
            found.extend(
                [statement] if re.match(r"\s*UPDATE bug_conversations o", statement) else []
            )

        async with scene.database.begin() as tx:
            event.listen(tx.sync_connection, "before_cursor_execute", note)
            await CaseMessageStore(tx).flush(other, batch)
            event.remove(tx.sync_connection, "before_cursor_execute", note)
        return len(found)

    await scene.opened(said(1), edit(1, "other words", 2))
    assert await updates(said(101)) == 0
    assert await updates(edit(101, "corrected", 102)) > 0
    assert await updates(edit(103, "comes before its original", 104)) > 0
    assert await updates(said(103)) > 0


async def test_another_thread_opens_another_case(scene: Scene) -> None:
    await scene.flush(report())
    other = Thread("T1", "C1", ts(100))
    snapshot = await scene.flush(said(100, kind=MessageKind.REPORT), thread=other)
    assert snapshot.bug_id not in ("", "BUG-1")
    assert snapshot.message_count == 1
    assert identity(100) != identity(0)


_MANY_SHORT = """
WITH made AS (INSERT INTO cases (team, channel, thread_ts, reporter_id, turn)
              SELECT 'T1', 'C2', n::text, 'U1', 1 FROM generate_series(1, 300) n RETURNING bug_id),
     noted AS (INSERT INTO case_transitions (bug_id, rev, to_status, reason, actor)
               SELECT bug_id, 1, 'new', 'reported', 'U1' FROM made)
INSERT INTO bug_conversations (bug_id, seq, message_id, sender_type, sender_id, message_type,
                               message_text, channel, slack_ts, said_at, wants_turn, turn)
SELECT bug_id, n, 'm' || n, 'reporter', 'U1', 'message', 'words', 'C2', n::text, n, true, n / 5
FROM made, generate_series(1, 10) n
"""
_ONE_LONG = """
INSERT INTO bug_conversations (bug_id, seq, message_id, sender_type, sender_id, message_type,
                               message_text, channel, slack_ts, said_at, wants_turn, turn)
SELECT 'BUG-1', n, 'm' || n, 'reporter', 'U1', 'message', 'words', 'C1', n::text, n, true, n / 20
FROM generate_series(2, 3001) n
"""
_OF_THE_BOT = """
INSERT INTO bug_conversations (bug_id, message_id, sender_type, sender_id, message_type,
                               message_text, channel, slack_ts, said_at)
SELECT 'BUG-1', 'b' || n, 'bot', '', 'findings', 'words', 'C1', n::text, n
FROM generate_series(2, 3001) n
"""


@pytest.mark.parametrize(
    "asked", [case_store.SNAPSHOT.text, agent_turns._BATCH], ids=["snapshot", "batch"]
)
async def test_unused_messages_are_found_by_an_index(scene: Scene, asked: str) -> None:
    """A query plan instead of a time: with one long thread among many short ones, the query reads
    no unwanted row.
    """
    await scene.opened()
    async with scene.database.begin() as tx:
        await tx.execute(text(_MANY_SHORT))
        await tx.execute(text("ANALYZE bug_conversations"))
        await tx.execute(text(_ONE_LONG))
        await tx.execute(text(_OF_THE_BOT))
        await tx.execute(text("UPDATE cases SET turn = 149, rev = rev + 1 WHERE bug_id = 'BUG-1'"))
        given = re.sub(":bug_id|[$]1", "'BUG-1'", asked).replace("$2", "150")
        plan = "\n".join(
            (await tx.execute(text("EXPLAIN (ANALYZE, COSTS OFF) " + given))).scalars()
        )
    assert "bug_conversations_turn_idx" in plan
    assert not re.search(r"Rows Removed by Filter: \d{2,}", plan), plan
