"""How a turn ends before its time: cancelled once or often, or with its worker killed. Nothing stays behind."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import psutil  # type: ignore[import-untyped]
import pytest

from threadline.investigator.errors import TurnBroken
from threadline.investigator.ports import TurnResult
from threadline_devstack.models import Turn

if TYPE_CHECKING:
    from tests.investigator.conftest import Bench

pytestmark = pytest.mark.asyncio(loop_scope="module")

PROMPT_END = 2.0
"""Seconds within which a cancelled turn must have ended: under one on an idle machine, twice that on a busy one."""


def _hold(bench: "Bench", *, after_a_tool: bool = False) -> None:
    async def script(turn: Turn) -> None:
        if after_a_tool:
            await turn.call("mcp__bug__get_bug", bug_id="BUG-12")
        await turn.hold("here")
        await turn.finish(**bench.outcome())

    bench.model.script(script)


async def _cancel(running: asyncio.Task[TurnResult], times: int) -> float:
    started = time.monotonic()
    for _ in range(times):
        running.cancel()
        await asyncio.wait({running}, timeout=0.1)
    with pytest.raises(asyncio.CancelledError):
        await running
    return time.monotonic() - started


@pytest.mark.parametrize("times", [1, 3])
async def test_cancelled_turn_ends_at_once_with_its_process(
    bench: "Bench", times: int, leftovers: Callable[[], list[str]]
) -> None:
    _hold(bench, after_a_tool=True)
    running = asyncio.create_task(bench.first_turn())
    await bench.model.reached("here")
    assert len(bench.running()) == 1
    assert await _cancel(running, times) < PROMPT_END
    assert bench.running() == []
    assert leftovers() == []


@pytest.mark.parametrize("times", [1, 3])
async def test_turn_that_is_cancelled_while_it_starts_leaves_no_process(
    bench: "Bench", times: int, leftovers: Callable[[], list[str]]
) -> None:
    bench.answers()
    running = asyncio.create_task(bench.first_turn())
    await bench.eventually(lambda: bool(bench.running()))
    assert await _cancel(running, times) < PROMPT_END
    assert bench.running() == []
    assert leftovers() == []


async def test_turn_that_is_cancelled_before_its_first_step_leaves_nothing(
    bench: "Bench", leftovers: Callable[[], list[str]]
) -> None:
    running = asyncio.create_task(bench.first_turn())
    await asyncio.sleep(0)
    assert await _cancel(running, 2) < PROMPT_END
    assert bench.running() == []
    assert leftovers() == []


async def test_frozen_process_is_killed(bench: "Bench") -> None:
    _hold(bench)
    running = asyncio.create_task(bench.first_turn())
    await bench.model.reached("here")
    os.kill(bench.running()[0], signal.SIGSTOP)
    assert await _cancel(running, 3) < PROMPT_END
    assert bench.running() == []


async def test_killed_process_is_a_turn_that_may_be_tried_again(bench: "Bench") -> None:
    _hold(bench)
    running = asyncio.create_task(bench.first_turn())
    await bench.model.reached("here")
    os.kill(bench.running()[0], signal.SIGKILL)
    with pytest.raises(TurnBroken, match="was killed"):
        await running


async def test_interrupted_process_is_a_turn_that_may_be_tried_again(bench: "Bench") -> None:
    """Ctrl-C in a terminal reaches the CLI too; it then ends without a result and without an error."""
    _hold(bench)
    running = asyncio.create_task(bench.first_turn())
    await bench.model.reached("here")
    os.kill(bench.running()[0], signal.SIGINT)
    with pytest.raises(TurnBroken):
        await running


WORKER = """
import asyncio, sys, uuid
from pathlib import Path
from claude_agent_sdk import InMemorySessionStore
from threadline.investigator.ports import (TurnBrief)
from threadline.investigator.runner import Investigator, InvestigatorConfig

config = InvestigatorConfig(model="claude-sonnet-5", api_key=sys.argv[2], base_url=sys.argv[1])
place = Path(sys.argv[3])
brief = TurnBrief("BUG-12", 1, 1, str(uuid.uuid4()), None, "investigating", (), place, True, False, False, 5, 60)
asyncio.run(Investigator(config).run_investigation(brief, None, InMemorySessionStore()))
"""


async def test_process_dies_with_its_worker(bench: "Bench", tmp_path: Path) -> None:
    _hold(bench)
    command = [sys.executable, "-c", WORKER, bench.model.url, bench.config.api_key, str(bench.workspace)]
    worker = await asyncio.create_subprocess_exec(*command, env={**os.environ, "TMPDIR": str(tmp_path)})
    try:
        async with asyncio.timeout(30):
            await bench.model.reached("here")
        agents = bench.running()
        assert len(agents) == 1
    finally:
        worker.kill()
        await worker.wait()
    await bench.eventually(lambda: not any(psutil.pid_exists(pid) for pid in agents), within=5)
