"""A case's steps and its end, and the writes that the database refuses from every caller."""

import asyncio
from dataclasses import replace

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from tests.support.case_store import THREAD, Scene, close, deletion, identity, report, said, ts
from threadline.cases.model import (
    SUMMARY,
    TRANSITIONS,
    Action,
    CaseStatus,
    Reason,
    Severity,
    SlaEventKind,
    case_owner,
)
from threadline.cases.store.case import CaseStore
from threadline.cases.store.lists import CaseLists, OpenCase, OpenEscalation
from threadline.cases.store.messages import CaseMessageStore
from threadline.db.errors import sqlstate
from threadline.errors import ClaimLost, IllegalTransition, Permanent
from threadline.investigator.store import TurnOutcome
from threadline.threads.model import ABSENT, SenderType, ThreadOwner
from threadline.threads.store import ThreadStore


async def reach(scene: Scene, status: CaseStatus) -> None:
    """Bring a new case to a status by legal steps."""
    await scene.flush(report())
    if status is not CaseStatus.NEW:
        await scene.become(CaseStatus.INVESTIGATING)
    if status not in (CaseStatus.NEW, CaseStatus.INVESTIGATING):
        await scene.become(status)


STEP = text("""
UPDATE cases SET status = CAST(:to AS text),
    close_reason = CASE WHEN CAST(:to AS text) = 'resolved' THEN 'no_reply' ELSE '' END,
    resolved_at = CASE WHEN CAST(:to AS text) = 'resolved' THEN now() END
""")


async def allowed(scene: Scene, to: CaseStatus) -> bool:
    """Return whether the database allows this step, and roll it back."""
    async with scene.database.begin() as tx:
        savepoint = await tx.begin_nested()
        try:
            await tx.execute(STEP, {"to": to})
        except DBAPIError as error:
            if sqlstate(error) != "TL003":
                raise
            return False
        else:
            return True
        finally:
            await savepoint.rollback()


@pytest.mark.parametrize("before", CaseStatus)
async def test_trigger_and_store_allow_exactly_the_steps_of_the_model(
    scene: Scene, before: CaseStatus
) -> None:
    await reach(scene, before)
    assert {to for to in CaseStatus if await allowed(scene, to)} == {before, *TRANSITIONS[before]}
    for to in set(CaseStatus) - {before, *TRANSITIONS[before]}:
        with pytest.raises(IllegalTransition, match=f"BUG-1 is {before} and cannot become {to}"):
            await scene.become(to)


async def test_unrecorded_step_cannot_be_committed(scene: Scene) -> None:
    await scene.flush(report())
    with pytest.raises(IllegalTransition, match="not recorded"):
        await scene.rows("UPDATE cases SET status = 'investigating', rev = rev + 1 RETURNING id")
    assert (await scene.snapshot()).status is CaseStatus.NEW


async def test_case_cannot_be_inserted_without_its_first_step(scene: Scene) -> None:
    insert = (
        "INSERT INTO cases (team, channel, thread_ts, reporter_id, status) VALUES ('t', 'c', "
        "'1', 'u', :status)"
    )
    for status in ("escalated", "new"):
        with pytest.raises(IllegalTransition):
            await scene.rows(insert + " RETURNING id", status=status)


async def test_repeated_step_is_recorded_once(scene: Scene) -> None:
    await scene.opened()
    first = await scene.become(
        CaseStatus.AWAITING_REPORTER, Reason.QUESTION_ASKED, wait_until=100.0
    )
    again = await scene.become(
        CaseStatus.AWAITING_REPORTER, Reason.QUESTION_ASKED, wait_until=200.0
    )
    assert (first.wait_until, again.wait_until) == (100.0, 200.0)
    assert again.rev > first.rev
    async with scene.database.begin() as tx:
        steps = [step.to for step in await CaseLists(tx).transitions("BUG-1")]
    assert steps == ["new", "investigating", "awaiting_reporter"]


async def test_question_is_unanswered_until_the_reporter_writes_or_a_turn_is_settled(
    scene: Scene,
) -> None:
    await asked_in_vain(scene)
    assert (await scene.flush(said(5, "a developer's guess", by=SenderType.DEVELOPER))).unanswered
    assert not (await scene.flush(said(6, "sorry, here it is"))).unanswered
    settled = await scene.turn(2, Action.ASK_REPORTER)
    assert not settled.case.unanswered, "the new question is not posted yet"


async def test_retracted_close_leaves_no_unanswered_question(scene: Scene) -> None:
    await asked_in_vain(scene)
    assert (await scene.flush(close(5))).close_requested
    taken_back = await scene.flush(said(6, "no, wait, it is still wrong"))
    assert (taken_back.close_requested, taken_back.unanswered, taken_back.has_unread) == (
        False,
        False,
        True,
    )


async def asked_in_vain(scene: Scene) -> None:
    """Create a case whose first turn asked a question that timed out."""
    await scene.opened()
    await scene.turn(1, Action.ASK_REPORTER)
    await scene.become(CaseStatus.AWAITING_REPORTER, Reason.QUESTION_ASKED)
    assert not (await scene.snapshot()).unanswered
    assert (await scene.become(CaseStatus.INVESTIGATING, Reason.QUESTION_UNANSWERED)).unanswered


async def test_step_of_an_unknown_case_is_refused(scene: Scene) -> None:
    with pytest.raises(Permanent, match="there is no case BUG-1"):
        await scene.become(CaseStatus.INVESTIGATING)


async def test_repeated_flush_starts_a_turn_once(scene: Scene) -> None:
    """The result of the first flush was lost."""
    flushed = []
    for _ in range(2):
        async with scene.database.begin() as tx:
            flushed.append(await CaseMessageStore(tx).flush(THREAD, [report()], start_turn=True))
    first, again = flushed
    assert (first.turn_started, again.turn_started) == (True, False)
    assert first.case.status is again.case.status is CaseStatus.INVESTIGATING
    assert again.case.has_unread
    assert again.case.title
    async with scene.database.begin() as tx:
        assert [step.to for step in await CaseLists(tx).transitions("BUG-1")] == [
            "new",
            "investigating",
        ]


@pytest.mark.parametrize("reason", [Reason.AGENT_RESOLVED, Reason.NO_REPLY, Reason.FIX_MERGED])
async def test_case_does_not_end_over_an_unread_message(scene: Scene, reason: Reason) -> None:
    await scene.opened()
    refused = await scene.end(reason)
    assert refused.status is CaseStatus.INVESTIGATING
    await scene.turn(1)
    assert (await scene.end(reason)).status is CaseStatus.RESOLVED


async def test_message_in_a_running_turn_prevents_an_end(scene: Scene) -> None:
    await scene.opened()
    claim = await scene.claim(1)
    assert (await scene.end(Reason.FIX_MERGED)).status is CaseStatus.INVESTIGATING
    await scene.agent.renew(claim, 60)


async def test_ending_again_changes_nothing(scene: Scene) -> None:
    await scene.opened()
    await scene.turn(1)
    first = await scene.end(Reason.NO_REPLY)
    assert (first.closings, await scene.end(Reason.NO_REPLY)) == (1, first)


async def test_retracted_close_closes_nothing(scene: Scene) -> None:
    await scene.opened(close(5), said(6, "wait, still broken"))
    assert (await scene.end(Reason.REPORTER_CLOSED)).status is CaseStatus.INVESTIGATING


async def test_close_uses_up_earlier_messages_and_no_later_ones(scene: Scene) -> None:
    developer = said(9, "I have a question", by=SenderType.DEVELOPER)
    await scene.opened(said(3), close(5), developer)
    snapshot = await scene.end(Reason.REPORTER_CLOSED)
    assert snapshot.status is CaseStatus.RESOLVED
    assert snapshot.has_unread
    assert not snapshot.reporter_wrote
    used = await scene.rows(
        "SELECT slack_ts FROM bug_conversations WHERE turn = 0 ORDER BY said_at"
    )
    assert [row["slack_ts"] for row in used] == [ts(0), ts(3), ts(5)]


async def test_restored_close_keeps_the_effect_that_it_got_while_it_was_deleted(
    scene: Scene,
) -> None:
    """A late close without effect, which a message from before it gives one in the meantime."""
    await scene.opened(close(5))
    await scene.end(Reason.REPORTER_CLOSED)
    absent = deletion(9)
    await scene.flush(close(9))
    await scene.flush(replace(absent, id=absent.id + ABSENT))
    await scene.flush(said(7, "it is back"))
    async with scene.database.begin() as tx:
        await CaseMessageStore(tx).restore(scene.bug_id, identity(9))
    assert (await scene.become(CaseStatus.INVESTIGATING, Reason.REOPENED)).close_requested


@pytest.mark.parametrize(("at", "closes"), [(5, False), (10, True)])
async def test_close_older_than_a_turns_messages_closes_nothing(
    scene: Scene, at: float, closes: bool
) -> None:
    """The message that took the close back was written at 9 and arrived first: a turn already has
    it when the close arrives.
    """
    await scene.opened(said(9, "wait, it is still broken"))
    claim = await scene.claim(1)
    assert (await scene.flush(close(at))).close_requested is closes
    await scene.agent.finish(claim, TurnOutcome(Action.POST_FINDINGS))
    settled = await scene.settle(1)
    assert settled.case.close_requested is closes
    assert settled.case.has_unread is closes


@pytest.mark.parametrize("reason", [Reason.ADMIN_CANCELLED, Reason.ADMIN_RESOLVED])
async def test_operator_ends_a_case_with_unread_messages(scene: Scene, reason: Reason) -> None:
    await scene.opened(said(3))
    snapshot = await scene.end(reason)
    assert snapshot.status is CaseStatus.RESOLVED
    assert not snapshot.has_unread


async def test_end_revokes_the_claim_of_a_running_turn(scene: Scene) -> None:
    await scene.opened()
    claim = await scene.claim(1)
    await scene.flush(close(5))
    await scene.end(Reason.REPORTER_CLOSED)
    with pytest.raises(ClaimLost):
        await scene.agent.renew(claim, 60)
    with pytest.raises(ClaimLost):
        await scene.claim(1, attempt=2)
    settled = await scene.settle(1)
    assert (settled.action, settled.case.status) == (None, CaseStatus.RESOLVED)


async def test_unsettled_outcome_is_dropped_at_the_end(scene: Scene) -> None:
    await scene.opened(said(9, "one more thing", by=SenderType.DEVELOPER))
    await scene.agent.finish(await scene.claim(1), TurnOutcome(Action.ASK_REPORTER, cost_usd=0.25))
    await scene.flush(close(5))
    ended = await scene.end(Reason.REPORTER_CLOSED)
    assert (await scene.settle(1)).action is None
    assert ended.has_unread, "the developer's message from after the close is still unread"
    assert (ended.questions, ended.cost_usd) == (0, 0.25)


async def test_reopened_case_counts_on(scene: Scene) -> None:
    await scene.opened()
    await scene.turn(1, Action.ESCALATE)
    await scene.claim(2)
    first = await scene.end(Reason.ADMIN_CANCELLED)
    assert (first.turn, first.closings, first.escalations, first.escalated) == (2, 1, 1, False)
    assert (await scene.flush(said(20, "broken again"))).has_unread
    reopened = await scene.become(CaseStatus.INVESTIGATING, Reason.REOPENED)
    assert reopened.turn == 2
    settled = await scene.turn(3, Action.ESCALATE)
    assert (settled.action, settled.case.escalations) == (Action.ESCALATE, 2)
    assert (await scene.end(Reason.ADMIN_RESOLVED)).closings == 2


async def test_reopened_case_keeps_its_conversation_and_the_agents_memory(scene: Scene) -> None:
    await scene.opened()
    memory = (await scene.turn(1)).case.session_id
    ended = await scene.end(Reason.AGENT_RESOLVED)
    await scene.flush(said(20, "broken again"))
    reopened = await scene.become(CaseStatus.INVESTIGATING, Reason.REOPENED)
    assert reopened.bug_id == ended.bug_id
    async with scene.database.begin() as tx:
        assert (await CaseStore(tx).get("BUG-1")).close_reason == ""
    assert await scene.rows("SELECT 1 FROM cases WHERE resolved_at IS NOT NULL") == []
    assert (await scene.claim(2)).parent_session == memory != ""
    assert await scene.texts() == ["The cart total is wrong", "broken again"]


async def test_end_and_message_at_once_never_lose_the_message(scene: Scene) -> None:
    await scene.opened()
    await scene.turn(1)
    for round_ in range(1, 9):
        await asyncio.gather(
            scene.end(Reason.NO_REPLY), scene.flush(said(round_ * 10, f"more {round_}"))
        )
        snapshot = await scene.snapshot()
        assert snapshot.has_unread
        if snapshot.status is CaseStatus.RESOLVED:
            await scene.become(CaseStatus.INVESTIGATING, Reason.REOPENED)
        await scene.turn(snapshot.turn + 1)


async def test_first_description_by_rule_is_kept(scene: Scene) -> None:
    first = await scene.flush(report("The cart crashes"))
    again = await scene.flush(said(5, "Production is down"))
    for snapshot in (first, again):
        assert (snapshot.title, snapshot.severity) == ("The cart crashes", Severity.S2)


async def test_summary_thread_leads_to_its_case(scene: Scene) -> None:
    await scene.flush(report())
    for _ in range(2):
        async with scene.database.begin() as tx:
            await ThreadStore(tx).register(case_owner(THREAD, SUMMARY), "C9", ts(1))
    async with scene.database.begin() as tx:
        case = await CaseStore(tx).get("BUG-1")
        assert case.summary is not None
        owner = await ThreadStore(tx).owner(case.summary)
        assert owner == ThreadOwner(f"bug:{THREAD.key}", "case:summary")
        assert (owner.feature, owner.thread) == ("case", THREAD)


async def test_second_copy_of_a_summary_becomes_a_thread_of_the_case_and_not_its_summary(
    scene: Scene,
) -> None:
    await scene.opened()
    await scene.turn(1)
    async with scene.database.begin() as tx:
        for at in (2, 1):
            await ThreadStore(tx).register(case_owner(THREAD, SUMMARY), "C9", ts(at))
    async with scene.database.begin() as tx:
        store = CaseStore(tx)
        cases = [
            await store.get("BUG-1"),
            (await store.for_post("BUG-1", 1)).case,
            *await CaseLists(tx).list(),
        ]
        assert [case.summary for case in cases] == [replace(THREAD, channel="C9", ts=ts(1))] * 3
        assert await ThreadStore(tx).owner(replace(THREAD, channel="C9", ts=ts(2))) is not None


async def test_sla_event_is_recorded_once(scene: Scene) -> None:
    await scene.flush(report())
    async with scene.database.begin() as tx:
        kinds = (
            SlaEventKind.ACKNOWLEDGE_REMINDER,
            SlaEventKind.ACKNOWLEDGE_BREACH,
            SlaEventKind.RESOLVE_BREACH,
        )
        for ordinal, kind in enumerate(kinds, start=1):
            assert await CaseStore(tx).record_sla_event("BUG-1", 1, ordinal, kind, 0)
        assert not await CaseStore(tx).record_sla_event("BUG-1", 1, 1, kinds[0], 0)
        assert await CaseStore(tx).record_sla_event("BUG-1", 2, 1, kinds[0], 0)


async def test_open_escalation_is_found_with_the_time_of_its_call(
    scene: Scene,
) -> None:
    await scene.opened()
    await scene.turn(1, Action.ESCALATE, result={"severity": "S1"})
    await scene.become(CaseStatus.ESCALATED, Reason.ESCALATED)
    async with scene.database.begin() as tx:
        assert await CaseLists(tx).open_escalations(0, 10) == [], "nobody has been called yet"
    await scene.rows(
        "INSERT INTO posts (key, channel, claimed_at, ts)"
        " VALUES ('BUG-1:escalation:1', 'C9', 1700000010, '1.0') RETURNING key"
    )
    for acknowledged in (False, True):
        async with scene.database.begin() as tx:
            [case] = await CaseLists(tx).open_cases(0, 10)
            [found] = await CaseLists(tx).open_escalations(0, 10)
        assert case == OpenCase(case.id, THREAD)
        assert found == OpenEscalation(
            case.id, "BUG-1", 1, Severity.S1, 1_700_000_010.0, acknowledged
        )
        await scene.flush(said(20, "I take it", by=SenderType.DEVELOPER))


async def test_cases_are_listed(scene: Scene) -> None:
    await scene.opened()
    async with scene.database.begin() as tx:
        assert [case.bug_id for case in await CaseLists(tx).list(open_only=True)] == ["BUG-1"]
    await scene.end(Reason.ADMIN_RESOLVED)
    async with scene.database.begin() as tx:
        assert await CaseLists(tx).list(open_only=True) == []
        assert [case.status for case in await CaseLists(tx).list()] == [CaseStatus.RESOLVED]


async def test_transactions_that_write_then_lock_a_case_do_not_deadlock(scene: Scene) -> None:
    await scene.opened()
    both = asyncio.Barrier(2)

    async def write_and_lock(at: int) -> None:
        async with scene.database.begin() as tx:
            await CaseMessageStore(tx).record_bot_message(
                "BUG-1", "findings", "words", replace(THREAD, channel="C9", ts=ts(at))
            )
            await both.wait()
            await CaseStore(tx).lock("BUG-1")

    await asyncio.gather(write_and_lock(1), write_and_lock(2))
