"""The oracle sees what is planted: a loss, a doubling, a stuck case, an orphan. A clean run shows none of them."""

import asyncio
import os
import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest

from tests.chaos import effects, talk_oracle, timeline
from tests.chaos import run as chaos
from tests.chaos.histories import Fault
from tests.chaos.oracle import Evidence, judge
from tests.chaos.people import Written
from tests.chaos.plan import plan_of
from tests.chaos.stage import Stage

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]


def _changed(row: Any, **values: Any) -> Any:
    return SimpleNamespace(**{**row._mapping, **values})


def _seen(evidence: Evidence) -> str:
    return "\n".join(map(str, judge(evidence)))


async def test_the_oracle_sees_a_loss_a_doubling_and_what_was_never_posted(stage: Stage) -> None:
    outcome = await chaos.play(stage, plan_of(4, threads=6, kinds=("duplicates",)))
    assert not outcome.faults, chaos.evidence_of(outcome)
    whole = outcome.evidence
    assert judge(whole) == []

    ghost = Written("T:C:1", "message", whole.cases[0].thread_ts, "who has seen me?")
    assert "T:C:1 (message, “who has seen me?”) was never stored" in _seen(
        replace(whole, written={**whole.written, ghost.id: ghost})
    )
    first = whole.stored[0]
    assert f"{first.message_id} was stored 2 times" in _seen(replace(whole, stored=[first, *whole.stored]))
    other = _changed(first, message_text="something else")
    assert "reads “something else”" in _seen(replace(whole, stored=[other, *whole.stored[1:]]))
    fewer = dict(whole.written)
    del fewer[first.message_id]
    assert f"{first.message_id} was stored, and is nobody's" in _seen(replace(whole, written=fewer))

    turn = next(turn for turn in whole.turns if turn.result["seen"])
    blind = [_changed(each, result={"seen": []}) if each is turn else each for each in whole.turns]
    assert "was used 0 times" in _seen(replace(whole, turns=blind))
    twice = [_changed(turn, result={"seen": turn.result["seen"] * 2}) if each is turn else each for each in whole.turns]
    assert "was used 2 times" in _seen(replace(whole, turns=twice))

    assert "posted 2 times" in _seen(replace(whole, posts=[*whole.posts, *whole.posts]))
    assert "was not posted" in _seen(replace(whole, posts=[]))
    assert ":closing:" in _seen(replace(whole, posts=[]))
    open_case = _changed(whole.cases[0], status="investigating")
    assert "was left investigating" in _seen(replace(whole, cases=[open_case, *whole.cases[1:]]))
    assert "opened no case" in _seen(replace(whole, cases=[]))
    held = SimpleNamespace(bug_id="BUG-1", what="turn 3 is still claimed")
    assert "turn 3 is still claimed" in _seen(replace(whole, held=[held], cut={"BUG-1"}))
    held = SimpleNamespace(bug_id="BUG-1", what="the post BUG-1:summary is claimed and was never sent")
    assert "never sent" in _seen(replace(whole, held=[held], cut={"BUG-2"}))

    lost = Written("T:C:2:e3", "edit", whole.cases[0].thread_ts, "other words", original="T:C:2")
    assert "T:C:2:e3 (edit, “other words”) was never stored" in _seen(
        replace(whole, written={**whole.written, lost.id: lost}, unheard=set())
    )
    assert _seen(replace(whole, written={**whole.written, lost.id: lost}, unheard={lost.id})) == ""
    gone = {**whole.written, first.message_id: replace(whole.written[first.message_id], text="", gone=True)}
    assert "was deleted, and still reads" in _seen(replace(whole, written=gone))


async def test_the_oracle_sees_what_is_planted_in_a_real_conversation_and_tells_its_story(stage: Stage) -> None:
    outcome = await chaos.play(stage, plan_of(4, threads=8, kinds=("duplicates",)))
    assert not outcome.faults, chaos.evidence_of(outcome)
    whole = outcome.talk
    assert whole.items
    assert talk_oracle.judge(whole) == []

    def seen(**changed: Any) -> str:
        return "\n".join(map(str, talk_oracle.judge(replace(whole, **changed))))

    assert "was posted 0 times" in seen(posts=[])
    assert "was called for 2 times" in seen(calls=[*whole.calls, *whole.calls])
    assert "was added, and is there 0 times" in seen(items={})
    blind = [_changed(row, shown=0) for row in whole.stored]
    assert "was shown to nobody" in seen(stored=blind)

    concerned = next(call.bug_id for call in whole.calls)
    told = await timeline.told(stage, outcome.evidence, (), [Fault(concerned, "planted")])
    for source in ("slack", "stored", "said", "turn", "tool", "ledger", "chaos"):
        assert f" {source} " in told


async def test_the_oracle_sees_a_fix_that_was_pushed_twice_or_nowhere_and_a_file_that_is_not_there() -> None:
    fix = SimpleNamespace(bug_id="BUG-1", turn=2, branch="threadline/bug-1", commit="a" * 40, pushed=2)
    file = SimpleNamespace(bug_id="BUG-1", file_id="F1", name="log.txt", there=True, error="", turn=2)

    def seen(branches: dict[str, tuple[str, int]], *files: Any, there: bool = True) -> str:
        whole = effects.Effects([fix], list(files), branches)
        return "\n".join(map(str, effects.judge(whole, ["BUG-1", "BUG-2"], {"F1": there})))

    right = {fix.branch: (fix.commit, 1)}
    assert seen(right, file) == ""
    assert "2 commits were pushed for 1 fixes" in seen({fix.branch: (fix.commit, 2)}, file)
    assert "its branch is at bbbbbbbb" in seen({fix.branch: ("b" * 40, 1)}, file)
    assert "BUG-1: its branch is not there" in seen({}, file)
    assert "BUG-2: its branch is there" in seen({**right, "threadline/bug-2": ("c" * 40, 0)}, file)
    assert "stored 2 times" in seen(right, file, file)
    assert "stored 0 times" in seen(right)
    assert "log.txt is kept" in seen(right, file, there=False)
    assert "nobody fetched it" in seen(right, SimpleNamespace(**{**vars(file), "there": False}))


async def test_the_oracle_sees_a_workspace_and_a_process_that_are_left(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chaos, "TIDY", 0.5)
    await stage.set_for(real=False, http=False)
    left = stage.workspaces / "cases" / "BUG-1"
    begin = "import os, time; print(os.getpid(), flush=True); os.close(1); time.sleep(60)"
    fork = f"import os, sys; os.fork() and os._exit(0); exec({begin!r})"
    parent = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", fork), cwd=stage.home.root, env={"PATH": os.defpath}, stdout=asyncio.subprocess.PIPE
    )
    orphan = psutil.Process(int((await parent.communicate())[0]))
    try:
        async with stage._hold("agents"):
            await stage.family.stop("agents")  # whose sweep would take the workspace away
            left.mkdir(parents=True, exist_ok=True)
            found = "\n".join(map(str, await chaos._left_behind(stage, ["BUG-1"])))
            left.rmdir()
        assert str(left) in found
        assert f"process {orphan.pid}" in found
    finally:
        orphan.kill()
    assert await chaos._left_behind(stage, ["BUG-1"]) == []


async def test_the_oracle_sees_a_case_that_is_stuck_and_tells_its_story(stage: Stage) -> None:
    async with stage._hold("agents"):
        await stage.family.stop("agents")
        outcome = await chaos.play(stage, plan_of(6, threads=2, kinds=("equal timestamps",)), longest=3.0)
    told = chaos.evidence_of(outcome)
    assert "has no end" in told
    assert "was left investigating" in told
    for source in ("slack", "stored", "status", "temporal", "chaos"):
        assert f" {source} " in told
    assert "make chaos SEED=6" in told
