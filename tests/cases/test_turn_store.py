"""Turns are claimed, fenced, finished once and settled once."""

import asyncio
from dataclasses import replace

import pytest

from tests.support.case_store import Scene, close, report, said
from threadline.cases.model import (
    Action,
    CaseStatus,
    Reason,
    Severity,
    TurnEnded,
    WorkflowState,
    session_id,
)
from threadline.cases.store.case import CaseStore
from threadline.cases.store.messages import CaseMessageStore
from threadline.errors import ClaimLost, Permanent
from threadline.forge.model import PullRequest
from threadline.investigator.store import TurnClaim, TurnOutcome
from threadline.slack.model import FileRef
from threadline.threads.model import SenderType, parse_message

DONE = TurnOutcome(Action.POST_FINDINGS)
FOUND = TurnOutcome(Action.POST_FINDINGS, result={"summary": "found it"})


async def lapse(scene: Scene) -> None:
    """Let the lease expire, as it does when the agent does not renew it."""
    await scene.rows(
        "UPDATE agent_turns SET lease_until = now() - interval '1 second' RETURNING turn"
    )


async def write_nothing(scene: Scene, claim: TurnClaim) -> None:
    """Check that every write with this claim is refused."""
    for write in (scene.agent.renew(claim, 60), scene.agent.finish(claim, DONE)):
        with pytest.raises(ClaimLost):
            await write


async def test_claim_gets_all_unused_messages_in_written_order(scene: Scene) -> None:
    await scene.opened(said(9, "c"), parse_message(["?"]))
    await scene.flush(said(2, "b"))
    claim = await scene.claim(1)
    assert [entry.text for entry in claim.entries] == ["The cart total is wrong", "b", "c"]
    assert (claim.state, claim.parent_session, claim.questions) == (
        WorkflowState.INVESTIGATING,
        None,
        0,
    )
    assert (await scene.snapshot()).has_unread, "assigned is not used"
    await scene.flush(said(1, "a"))
    claim = await scene.claim(1, attempt=2)
    assert [entry.text for entry in claim.entries] == ["The cart total is wrong", "a", "b", "c"]


async def test_message_during_a_turn_goes_to_the_next_turn(scene: Scene) -> None:
    await scene.opened()
    claim = await scene.claim(1)
    await scene.flush(said(1, "late"))
    await scene.agent.finish(claim, DONE)
    assert (await scene.settle(1)).case.has_unread
    assert [entry.text for entry in (await scene.claim(2)).entries] == ["late"]


async def test_turn_does_not_use_up_a_close(scene: Scene) -> None:
    await scene.opened(close(5))
    with pytest.raises(ClaimLost):
        await scene.claim(1)
    assert (await scene.snapshot()).close_requested
    await scene.flush(said(6, "wait, it is still wrong"))
    assert [entry.text for entry in (await scene.claim(1)).entries][
        -1
    ] == "wait, it is still wrong"


async def test_overtaken_attempt_can_write_nothing_more(scene: Scene) -> None:
    await scene.opened()
    zombie = await scene.claim(1)
    current = await scene.claim(1, attempt=2)
    assert current.token > zombie.token
    await write_nothing(scene, zombie)
    await scene.agent.finish(current, replace(DONE, result={"title": "by the second"}))
    with pytest.raises(ClaimLost):
        await scene.agent.finish(zombie, replace(DONE, result={"title": "by the zombie"}))
    assert (await scene.settle(1)).case.title == "by the second"


async def test_late_older_attempt_does_not_overtake_a_living_one(scene: Scene) -> None:
    await scene.opened()
    current = await scene.claim(1, attempt=2)
    with pytest.raises(ClaimLost):
        await scene.claim(1, attempt=1)
    await lapse(scene)
    assert (await scene.claim(1, attempt=1)).token > current.token, (
        "a restarted workflow counts attempts from 1"
    )


async def test_lapsed_lease_holds_nothing(scene: Scene) -> None:
    await scene.opened()
    claim = await scene.claim(1)
    await lapse(scene)
    await write_nothing(scene, claim)


async def test_settling_fences_out_a_running_attempt(scene: Scene) -> None:
    await scene.opened()
    zombie = await scene.claim(1)
    assert (await scene.settle(1)).action is None
    with pytest.raises(ClaimLost):
        await scene.agent.finish(zombie, DONE)
    assert (await scene.snapshot()).has_unread
    await scene.agent.finish(await scene.claim(1, attempt=2), DONE)
    assert (await scene.settle(1)).action is Action.POST_FINDINGS


async def test_finish_and_settle_at_once_agree(scene: Scene) -> None:
    await scene.opened()
    for turn in range(1, 9):
        claim = await scene.claim(turn)
        finished, settled = await asyncio.gather(
            scene.agent.finish(claim, DONE), scene.settle(turn), return_exceptions=True
        )
        assert not isinstance(settled, BaseException)
        assert (settled.action is None) == isinstance(finished, ClaimLost)
        if settled.action is None:
            await scene.agent.finish(await scene.claim(turn, attempt=2), DONE)
            await scene.settle(turn)


async def test_outcome_whose_answer_was_lost_is_found_and_settled_once(scene: Scene) -> None:
    await scene.opened()
    claim = await scene.claim(1)
    outcome = replace(DONE, cost_usd=0.5)
    await scene.agent.finish(claim, outcome)
    await scene.agent.finish(claim, outcome)
    again = await scene.agent.claim("BUG-1", 1, 2, "s", 60)
    assert again == TurnEnded(Action.POST_FINDINGS, 0.5)
    first = await scene.settle(1)
    second = await scene.settle(1)
    assert first == second
    assert first.case.cost_usd == 0.5


async def test_settling_copies_the_outcome_to_the_case(scene: Scene) -> None:
    await scene.opened()
    result = {
        "title": "Total is wrong from ten items on",
        "severity": "S2",
        "affected_components": ["cart"],
        "clarification_question": "Which code did you enter?",
        "summary": "…",
    }
    settled = await scene.turn(
        1, Action.ASK_REPORTER, result=result, base={"shop": "abc"}, cost_usd=0.25
    )
    snapshot = settled.case
    assert (snapshot.title, snapshot.severity, snapshot.turn) == (result["title"], Severity.S2, 1)
    assert (snapshot.questions, snapshot.question, snapshot.last_action) == (
        1,
        result["clarification_question"],
        "ask_reporter",
    )
    assert snapshot.session_id == session_id("BUG-1", 1, 1)
    async with scene.database.begin() as tx:
        assert (await CaseStore(tx).get("BUG-1")).components == ["cart"]
        with pytest.raises(Permanent):
            await CaseStore(tx).turn("BUG-1", 2)
    claim = await scene.claim(2)
    assert (claim.parent_session, claim.base, claim.cost_usd) == (
        snapshot.session_id,
        {"shop": "abc"},
        0.25,
    )
    assert (claim.state, claim.questions) == (WorkflowState.AWAITING_REPORTER, 1)


async def test_outcome_without_title_or_severity_keeps_the_known_ones(scene: Scene) -> None:
    await scene.opened()
    await scene.turn(1, result={"title": "A title", "severity": "S1"})
    snapshot = (
        await scene.turn(
            2, result={"title": " ", "severity": "terrible", "affected_components": "cart"}
        )
    ).case
    assert (snapshot.title, snapshot.severity) == ("A title", Severity.S1)


async def test_failed_attempts_cost_and_are_retried(scene: Scene) -> None:
    await scene.opened()
    await scene.agent.finish(
        await scene.claim(1), TurnOutcome(None, cost_usd=0.5, failure="overloaded")
    )
    assert (await scene.settle(1)).action is None
    claim = await scene.claim(1, attempt=2)
    assert claim.cost_usd == 0.5
    await scene.agent.finish(claim, replace(DONE, cost_usd=0.25))
    assert (await scene.settle(1)).case.cost_usd == 0.75


async def test_unknown_cost_of_an_attempt_leaves_the_cost_of_its_case_unknown(
    scene: Scene,
) -> None:
    await scene.opened()
    await scene.agent.finish(
        await scene.claim(1), TurnOutcome(None, cost_usd=0.5, cost_known=False)
    )
    claim = await scene.claim(1, attempt=2)
    assert claim.cost_usd == 0.5, "the budget counts an estimate"
    await scene.agent.finish(claim, replace(DONE, cost_usd=0.25))
    assert (await scene.settle(1)).case.cost_usd is None


@pytest.mark.parametrize("claimed", [True, False])
async def test_failed_turn_is_settled_as_an_escalation(scene: Scene, claimed: bool) -> None:
    await scene.opened()
    head = (await scene.turn(1)).case.session_id
    await scene.flush(said(3, "and this?"))
    zombie = await scene.claim(2) if claimed else None
    settled = await scene.settle(2, failure="the model refused")
    snapshot = settled.case
    assert (settled.action, snapshot.turn, snapshot.escalations, snapshot.escalated) == (
        Action.ESCALATE,
        2,
        1,
        True,
    )
    assert not snapshot.has_unread, "people have the case now; otherwise it would escalate forever"
    assert snapshot.session_id == head
    async with scene.database.begin() as tx:
        assert (await CaseStore(tx).turn("BUG-1", 2)).result == {"summary": "the model refused"}
    if zombie:
        with pytest.raises(ClaimLost):
            await scene.agent.finish(zombie, DONE)


async def test_failure_does_not_undo_a_committed_outcome(scene: Scene) -> None:
    await scene.opened()
    await scene.agent.finish(await scene.claim(1), DONE)
    assert (await scene.settle(1, failure="lost")).action is Action.POST_FINDINGS


async def test_turns_are_settled_in_order(scene: Scene) -> None:
    await scene.opened()
    with pytest.raises(Permanent, match="the last settled one is 0"):
        await scene.settle(2)
    with pytest.raises(ClaimLost):
        await scene.claim(2)


async def test_read_message_of_the_reporter_is_used_and_a_developers_is_shown_again(
    scene: Scene,
) -> None:
    await scene.opened()
    claim = await scene.claim(1)
    developer = said(2, "please fix it", by=SenderType.DEVELOPER)
    await scene.flush(said(1, "Firefox"), developer)
    async with scene.database.begin() as tx:
        open_fix = PullRequest("shop", "threadline/bug-1", "https://forge.example/1", 1, "abc")
        await CaseStore(tx).save_pull_request("BUG-1", open_fix)
    resolved = replace(DONE, action=Action.RESOLVED)
    await scene.agent.finish(claim, replace(resolved, read=[1, 2, 3]))
    settled = await scene.settle(1)
    assert settled.case.has_unread
    assert not settled.case.reporter_wrote
    assert not settled.may_resolve, "its fix is open, and the turn used no message of a developer"
    batch = await scene.claim(2)
    assert [(entry.text, entry.read) for entry in batch.entries] == [("please fix it", True)]
    await scene.agent.finish(batch, resolved)
    assert (await scene.settle(2)).may_resolve


async def test_close_read_by_the_agent_still_closes(scene: Scene) -> None:
    await scene.opened()
    claim = await scene.claim(1)
    await scene.flush(close(3))
    await scene.agent.finish(claim, replace(DONE, read=[2]))
    assert (await scene.settle(1)).case.close_requested


async def test_outcome_is_stored_without_unstorable_characters(scene: Scene) -> None:
    await scene.opened()
    snapshot = (
        await scene.turn(1, result={"title": "a\x00b\ud800", "n": [{"x\x00": "\x00"}]})
    ).case
    assert snapshot.title == "ab?"


async def test_agent_gets_files_and_the_reason_for_missing_ones(scene: Scene) -> None:
    files = (
        FileRef("F1", "screen.png", "image/png", 3),
        FileRef("F2", "huge.zip", "application/zip", 9),
    )
    await scene.opened(said(1, files=files))
    async with scene.database.begin() as tx:
        (first, _), (second, _) = await CaseMessageStore(tx).pending_files("BUG-1")
        await CaseMessageStore(tx).store_file(first, b"png")
        await CaseMessageStore(tx).fail_file(second, "larger than 20 MB")
    got = await scene.agent.attachments("BUG-1")
    assert [(file.name, file.content, file.error) for file in got] == [
        ("screen.png", b"png", ""),
        ("huge.zip", None, "larger than 20 MB"),
    ]


async def test_resolved_case_gives_no_claim(scene: Scene) -> None:
    await scene.opened()
    await scene.end(Reason.ADMIN_CANCELLED)
    with pytest.raises(ClaimLost):
        await scene.claim(1)
    await scene.flush(report("again"))
    assert (await scene.snapshot()).status is CaseStatus.RESOLVED


async def test_claim_of_an_unknown_case_is_refused(scene: Scene) -> None:
    with pytest.raises(ClaimLost):
        await scene.agent.claim("BUG-404", 1, 1, "s", 60)
    held = TurnClaim(
        "BUG-404", 1, 1, 1, "s", None, WorkflowState.INVESTIGATING, (), 0, 0.0, {}, {}, ""
    )
    with pytest.raises(ClaimLost):
        await scene.agent.renew(held, 60)


async def test_turn_that_a_close_has_dropped_gives_no_findings(scene: Scene) -> None:
    """Developers never saw them: the next turn has to give its own."""
    await scene.opened()
    claim = await scene.claim(1)
    assert not claim.has_findings
    await scene.agent.finish(claim, FOUND)
    await scene.flush(close(5))
    await scene.end(Reason.REPORTER_CLOSED)
    await scene.flush(said(9, "it is back"))
    await scene.become(CaseStatus.INVESTIGATING, Reason.REOPENED)
    again = await scene.claim((await scene.snapshot()).turn + 1)
    assert not again.has_findings
    await scene.agent.finish(again, FOUND)
    await scene.settle(again.turn)
    await scene.flush(said(12, "and now?"))
    assert (await scene.claim(again.turn + 1)).has_findings
