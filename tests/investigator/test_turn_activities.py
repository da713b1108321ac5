"""One attempt at a turn: its commits, and the events that stop it."""

import asyncio
import errno
import os
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.investigator.investigator_scene import running_agents
from tests.investigator.turn_scene import ScriptedAgent, TurnScene, findings
from tests.support.case_store import report, said
from tests.support.patience import patient
from threadline.cases.model import Action, CaseLimits, CaseStatus
from threadline.cases.store.messages import CaseMessageStore
from threadline.errors import ClaimLost, Mendable, Permanent, Transient
from threadline.investigator.runner import TurnInput
from threadline.investigator.store import AgentStore, TurnClaim, TurnOutcome
from threadline.investigator.workspace import Workspace, Workspaces
from threadline.slack.model import FileRef
from threadline.threads.model import IncomingMessage, SenderType
from threadline_devstack.models.sandbox import ModelSandbox
from threadline_devstack.models.script import ScriptTurn

BULK = "The cart total is too high with the discount code SAVE10 and twelve notebooks"


async def _open(turns: TurnScene, *more: IncomingMessage) -> None:
    await turns.scene.flush(report(BULK), *more)
    await turns.scene.become(CaseStatus.INVESTIGATING)


async def test_turn_investigates_the_code_and_edits_it_when_a_developer_asks(
    cli_turns: TurnScene,
) -> None:
    turns = cli_turns
    await _open(turns)
    ended = await turns.run()
    settled = await turns.scene.settle(1)
    assert ended.action is settled.action is Action.POST_FINDINGS
    [turn] = await turns.scene.rows("SELECT * FROM agent_turns")
    assert turn["result"]["evidence"][0]["file"] == "sample-shop/shop/cart.py"
    assert turn["base"]["sample-shop"]
    assert turn["cost_usd"] > 0
    [finding] = await turns.scene.rows("SELECT file FROM findings")
    assert finding["file"].endswith("shop/cart.py")
    [entries] = await turns.scene.rows("SELECT count(*) FROM agent_session_entries")
    assert entries["count"] > 5

    await turns.scene.flush(
        said(10, "Please fix it and open a pull request", by=SenderType.DEVELOPER)
    )
    await turns.run(turn=2)
    settled = await turns.scene.settle(2)
    assert settled.has_fix
    [turn] = await turns.scene.rows("SELECT diffs, parent_session FROM agent_turns WHERE turn = 2")
    assert "+++ b/shop/cart.py" in turn["diffs"]["sample-shop"]
    assert turn["parent_session"] == turns.request(turn=1).session_id


async def test_reporters_request_for_a_fix_keeps_no_edit(
    turns: TurnScene, agent: ScriptedAgent
) -> None:
    def edits(turn: TurnInput) -> dict[str, Any]:
        (turn.workspace / "sample-shop" / "shop" / "cart.py").write_text("# mended\n")
        return findings(turn)

    agent.play = edits
    await _open(turns, said(5, "Please fix it and open a pull request"))
    await turns.run()
    assert not agent.turns[0].claim.may_fix
    assert not (await turns.scene.settle(1)).has_fix


async def test_attempt_that_lost_its_claim_stops_soon_and_leaves_no_process(
    cli_turns: TurnScene, cli_model: ModelSandbox
) -> None:
    async def thinks(turn: ScriptTurn) -> None:
        await turn.hold("thinking")
        await turn.finish(action="post_findings")

    turns = cli_turns
    cli_model.script(thinks)
    await _open(turns)
    attempt = asyncio.create_task(turns.run())
    await asyncio.wait_for(cli_model.holds.reached("thinking"), patient(20))
    await turns.scene.settle(1)
    # The lease or the transcript raises, depending on which notices first.
    with pytest.raises((ClaimLost, Transient)):
        await asyncio.wait_for(attempt, patient(15))
    assert running_agents() == []
    assert (await turns.scene.settle(1)).action is None


async def test_broken_attempt_is_charged_and_the_next_has_the_same_batch(
    turns: TurnScene, agent: ScriptedAgent
) -> None:
    def breaks(_: TurnInput) -> dict[str, Any]:
        raise Transient("The model's API did not answer: the turn is tried again.")

    agent.play = breaks
    agent.cost = 0.5
    await _open(turns)
    with pytest.raises(Transient):
        await turns.run()
    assert (await turns.scene.settle(1)).action is None
    agent.play = findings
    agent.cost = 0.01
    assert (await turns.run(attempt=2)).action is Action.POST_FINDINGS
    first, second = (turn.claim for turn in agent.turns)
    assert (
        [entry.text for entry in first.entries]
        == [entry.text for entry in second.entries]
        == [BULK]
    )
    [turn] = await turns.scene.rows("SELECT attempt, session_id FROM agent_turns")
    assert turn["attempt"] == 2
    await turns.scene.settle(1)
    [case] = await turns.scene.rows("SELECT cost_usd FROM cases")
    assert float(case["cost_usd"]) == pytest.approx(0.51), "the broken attempt's, too"


async def _cost(turns: TurnScene) -> float:
    """The turn's cost on record; the turn failed and has no outcome."""
    [turn] = await turns.scene.rows("SELECT status, cost_usd FROM agent_turns")
    assert turn["status"] == "failed"
    return float(turn["cost_usd"])


async def test_attempt_whose_changes_cannot_be_read_is_charged(
    turns: TurnScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(_: Workspace) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Workspace, "diff", full)
    await _open(turns, said(5, "Please fix it", by=SenderType.DEVELOPER))
    with pytest.raises(Mendable, match="free some space"):
        await turns.run()
    assert await _cost(turns) == pytest.approx(0.01)


async def test_attempt_whose_commit_fails_is_charged_once_postgres_is_back(
    turns: TurnScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    outages = 2
    finish = AgentStore.finish

    async def fails(store: AgentStore, claim: TurnClaim, outcome: TurnOutcome) -> None:
        nonlocal outages
        outages -= 1
        if outages >= 0:
            raise Transient("the database is not available")
        await finish(store, claim, outcome)

    monkeypatch.setattr(AgentStore, "finish", fails)
    await _open(turns)
    with pytest.raises(Transient, match="not available"):
        await turns.run()
    assert await _cost(turns) == pytest.approx(0.01)


async def test_cancelled_attempt_is_charged(cli_turns: TurnScene, cli_model: ModelSandbox) -> None:
    async def thinks(turn: ScriptTurn) -> None:
        await turn.call("mcp__bug__get_bug", bug_id="BUG-1")
        await turn.hold("thinking")

    cli_model.script(thinks)
    await _open(cli_turns)
    attempt = asyncio.create_task(cli_turns.run())
    await asyncio.wait_for(cli_model.holds.reached("thinking"), patient(20))
    for _ in range(3):
        attempt.cancel()
        await asyncio.wait({attempt}, timeout=0.05)
    with pytest.raises(asyncio.CancelledError):
        await attempt
    assert await _cost(cli_turns) > 0


async def test_case_that_has_used_up_its_budget_is_refused(turns: TurnScene) -> None:
    await _open(turns)
    await turns.run()
    await turns.scene.settle(1)
    await turns.scene.flush(said(10, "and now?"))
    with pytest.raises(Permanent, match="THREADLINE_CASE_BUDGET_USD"):
        await turns.run(turn=2, limits=CaseLimits(case_budget_usd=0.001))


async def test_turn_after_an_unanswered_question_runs_once_and_may_not_ask(
    turns: TurnScene, agent: ScriptedAgent
) -> None:
    await _open(turns)
    first = await turns.run(unanswered=True)
    again = await turns.run(attempt=2, unanswered=True)
    assert again.action == first.action
    [turn] = agent.turns
    assert (turn.request.unanswered, turn.may_ask) == (True, False)
    await turns.activities.cleanup_workspace("BUG-1")
    assert not (turns.root / "cases" / "BUG-1").exists()


async def test_outcome_is_stored_without_secrets(turns: TurnScene, agent: ScriptedAgent) -> None:
    token = "gh" + "p_" + "a1B2" * 9
    leak = {"title": f"Leak of {token}", "summary": f"config.py holds {token}"}
    agent.play = lambda turn: findings(turn) | leak
    await _open(turns)
    await turns.run()
    [turn] = await turns.scene.rows("SELECT result FROM agent_turns")
    assert turn["result"]["summary"] == "config.py holds [redacted: GitHub token]"
    assert token not in str(turn["result"])


class _Unwritable(Workspaces):
    """A disk cannot be filled without privileges; this raises the error of a full one."""

    def __init__(self, root: Path, number: int) -> None:
        super().__init__(root, [])
        self._number = number

    def open(self, *_: Any, **__: Any) -> NoReturn:
        raise OSError(self._number, os.strerror(self._number))


@pytest.mark.parametrize(
    ("number", "todo"),
    [
        (errno.ENOSPC, "free some space"),
        (errno.EROFS, "check THREADLINE_WORKSPACES"),
        (errno.ENOTDIR, "check THREADLINE_WORKSPACES"),
    ],
    ids=["full", "read-only", "no folder"],
)
async def test_turn_on_an_unwritable_disk_waits_for_the_admin(
    turns: TurnScene, monkeypatch: pytest.MonkeyPatch, number: int, todo: str
) -> None:
    await _open(turns)
    monkeypatch.setattr(turns.activities, "_workspaces", _Unwritable(turns.root, number))
    with pytest.raises(Mendable, match=todo) as raised:
        await turns.run()
    assert (raised.value.kind, raised.value.subject) == ("investigation", "disk")
    monkeypatch.undo()
    assert (await turns.run(attempt=2)).action is Action.POST_FINDINGS


async def test_turn_without_a_messages_file_is_tried_again_with_it(
    turns: TurnScene, agent: ScriptedAgent
) -> None:
    """The workflow listed the files to fetch before this message was stored, and the turn read its
    batch after that.
    """
    await _open(turns, said(5, "Here is what I saw", files=(FileRef("F1", "log.txt"),)))
    with pytest.raises(Transient, match="attached when the turn started"):
        await turns.run()
    assert (await turns.scene.settle(1)).action is None
    async with turns.scene.database.begin() as tx:
        [(file, _)] = await CaseMessageStore(tx).pending_files("BUG-1")
        await CaseMessageStore(tx).store_file(file, b"the log's words")
    assert (await turns.run(attempt=2)).action is Action.POST_FINDINGS
    assert "Here is what I saw" in [entry.text for entry in agent.turns[0].claim.entries]
