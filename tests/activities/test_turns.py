"""One attempt at a turn: what it commits, what stops it, and what it leaves behind."""

import asyncio
import errno
import os
from pathlib import Path
from typing import Any, NoReturn

import psutil  # type: ignore[import-untyped]
import pytest

from tests.activities.conftest import Bench
from tests.db.scene import report, said
from threadline.cases.model import Action, CaseStatus, Limits
from threadline.errors import ClaimLost, Permanent, Transient
from threadline.investigator.workspace import Workspaces
from threadline.threads import messages
from threadline.threads.messages import FileRef
from threadline_devstack.models import Turn
from threadline_devstack.models.investigation import _outcome

BULK = "The cart total is too high with the discount code SAVE10 and twelve notebooks"


def _children() -> set[int]:
    return {child.pid for child in psutil.Process(os.getpid()).children(recursive=True)}


async def _open(bench: Bench, *more: messages.IncomingMessage) -> None:
    await bench.scene.flush(report(BULK), *more)
    await bench.scene.become(CaseStatus.INVESTIGATING)


async def test_a_turn_investigates_the_real_code_and_commits_what_it_came_to(bench: Bench) -> None:
    await _open(bench)
    ended = await bench.run()
    settled = await bench.scene.settle(1)
    assert ended.action is settled.action is Action.POST_FINDINGS
    [turn] = await bench.scene.rows("SELECT * FROM agent_turns")
    assert turn["result"]["evidence"][0]["file"] == "sample-shop/shop/cart.py"
    assert turn["base"]["sample-shop"]
    assert turn["cost_usd"] > 0
    [finding] = await bench.scene.rows("SELECT file FROM findings")
    assert finding["file"].endswith("shop/cart.py")
    [entries] = await bench.scene.rows("SELECT count(*) FROM agent_session_entries")
    assert entries["count"] > 5


async def test_a_developers_request_edits_the_code_and_the_diff_is_kept(bench: Bench) -> None:
    await _open(bench)
    await bench.run()
    await bench.scene.settle(1)
    await bench.scene.flush(said(10, "Please fix it and open a pull request", by=messages.DEVELOPER))
    await bench.run(turn=2)
    settled = await bench.scene.settle(2)
    assert settled.has_fix
    assert settled.developer_spoke
    [turn] = await bench.scene.rows("SELECT diffs, parent_session FROM agent_turns WHERE turn = 2")
    assert "+++ b/shop/cart.py" in turn["diffs"]["sample-shop"]
    assert turn["parent_session"] == bench.request(turn=1).session_id


async def test_a_reporters_request_for_a_fix_edits_nothing(bench: Bench) -> None:
    await _open(bench, said(5, "Please fix it and open a pull request"))
    await bench.run()
    assert not (await bench.scene.settle(1)).has_fix
    assert not any("Edit" in exchange.conversation.tools for exchange in bench.model.log)


async def test_an_attempt_that_lost_its_claim_stops_within_seconds_and_leaves_no_process(bench: Bench) -> None:
    async def thinks(turn: Turn) -> None:
        await turn.hold("thinking")
        await turn.finish(action="post_findings")

    bench.model.script(thinks)
    await _open(bench)
    before = _children()
    attempt = asyncio.create_task(bench.run())
    await asyncio.wait_for(bench.model.reached("thinking"), 20)
    await bench.scene.settle(1)
    with pytest.raises((ClaimLost, Transient)):  # whichever notices first: its lease, or its transcript
        await asyncio.wait_for(attempt, 15)
    assert not {pid for pid in _children() - before if psutil.pid_exists(pid) and _is_agent(pid)}
    assert (await bench.scene.settle(1)).action is None


def _is_agent(pid: int) -> bool:
    try:
        return "claude" in " ".join(psutil.Process(pid).cmdline())
    except psutil.Error:
        return False


async def test_a_broken_attempt_is_charged_and_the_next_one_has_the_same_batch(bench: Bench) -> None:
    bench.model.fail_next(3, status=500)  # the agent asks twice more by itself
    await _open(bench)
    with pytest.raises(Transient):
        await bench.run()
    assert (await bench.scene.settle(1)).action is None
    bench.model.log.clear()
    ended = await asyncio.wait_for(_until_it_works(bench), 60)
    assert ended is Action.POST_FINDINGS
    assert any(BULK in exchange.conversation.prompt for exchange in bench.model.log)
    [turn] = await bench.scene.rows("SELECT attempt, session_id FROM agent_turns")
    assert turn["attempt"] >= 2


async def _until_it_works(bench: Bench) -> Action:
    for attempt in range(2, 12):
        try:
            return (await bench.run(attempt=attempt)).action
        except Transient:
            await bench.scene.settle(1)
    raise AssertionError("the model never recovered")


async def test_a_turn_that_is_done_is_not_run_again(bench: Bench) -> None:
    await _open(bench)
    first = await bench.run()
    asked = len(bench.model.log)
    again = await bench.run(attempt=2)
    assert again.action == first.action
    assert len(bench.model.log) == asked


async def test_a_case_that_has_used_up_its_budget_is_for_people(bench: Bench) -> None:
    await _open(bench)
    await bench.run()
    await bench.scene.settle(1)
    await bench.scene.flush(said(10, "and now?"))
    with pytest.raises(Permanent, match="THREADLINE_CASE_BUDGET_USD"):
        await bench.run(turn=2, limits=Limits(case_budget_usd=0.001))


async def test_an_unanswered_question_forbids_another(bench: Bench) -> None:
    await _open(bench)
    await bench.run(unanswered=True)
    prompt = bench.model.log[0].conversation.prompt
    assert "The reporter did not answer the last question in time." in prompt
    assert "You may not ask the reporter in this turn." in prompt


async def test_the_workspace_goes_when_the_case_ends(bench: Bench) -> None:
    await _open(bench)
    await bench.run()
    assert (bench.root / "cases" / "BUG-1" / "sample-shop" / "shop" / "cart.py").exists()
    await bench.activities.cleanup_workspace("BUG-1")
    assert not (bench.root / "cases" / "BUG-1").exists()


async def test_what_the_agent_hands_over_is_stored_without_its_secrets(bench: Bench) -> None:
    token = "gh" + "p_" + "a1B2" * 9

    async def found_a_token(turn: Turn) -> None:
        found = _outcome(action="post_findings", title=f"Leak of {token}", summary=f"config.py holds {token}")
        await turn.finish(**found)

    bench.model.script(found_a_token)
    await _open(bench)
    await bench.run()
    [turn] = await bench.scene.rows("SELECT result FROM agent_turns")
    assert turn["result"]["summary"] == "config.py holds [redacted: GitHub token]"
    assert token not in str(turn["result"])


class _Unwritable(Workspaces):
    """A disk cannot be filled without privileges; this raises what one raises."""

    def __init__(self, root: Path, number: int) -> None:
        super().__init__(root, [])
        self._number = number

    def open(self, *_: Any, **__: Any) -> NoReturn:
        raise OSError(self._number, os.strerror(self._number))


@pytest.mark.parametrize(
    ("number", "todo"),
    [(errno.ENOSPC, "free some space"), (errno.EROFS, "mend THREADLINE_WORKSPACES"), (errno.ENOTDIR, "mend")],
    ids=["full", "read-only", "no folder"],
)
async def test_a_disk_that_cannot_be_written_has_the_turn_tried_again_and_says_what_to_do(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, number: int, todo: str
) -> None:
    await _open(bench)
    monkeypatch.setattr(bench.activities, "_workspaces", _Unwritable(bench.root, number))
    with pytest.raises(Transient, match=todo):
        await bench.run()
    monkeypatch.undo()
    assert (await bench.run(attempt=2)).action is Action.POST_FINDINGS


async def test_a_turn_that_would_show_a_message_without_its_file_is_tried_again_with_it(bench: Bench) -> None:
    """The workflow looked what to fetch before this message was stored, and the turn took its batch after."""
    await _open(bench, said(5, "Here is what I saw", files=(FileRef("F1", "log.txt"),)))
    with pytest.raises(Transient, match="attached while the turn began"):
        await bench.run()
    assert (await bench.scene.settle(1)).action is None
    async with bench.scene.database.begin() as work:
        [file] = await work.attachments.pending("BUG-1")
        await work.attachments.store(file.id, b"the log's words")
    assert (await bench.run(attempt=2)).action is Action.POST_FINDINGS
    assert "Here is what I saw" in bench.model.log[0].conversation.prompt
