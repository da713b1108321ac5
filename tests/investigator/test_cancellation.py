"""A turn that ends early leaves nothing: it is cancelled, or its process or its worker is
killed.
"""

import asyncio
import errno
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

from tests.investigator.investigator_scene import InvestigatorScene, running_agents
from tests.support.patience import patient
from threadline.errors import Transient
from threadline.investigator import runner
from threadline.investigator.store import TurnOutcome
from threadline_devstack.models.script import ScriptTurn

pytestmark = pytest.mark.asyncio(loop_scope="module")

PROMPT_END = patient(1)
"""Seconds within which a cancelled turn must have ended."""


async def _hold(
    bench: InvestigatorScene, *, after_a_tool: bool = False
) -> asyncio.Task[TurnOutcome]:
    """A turn in which the model thinks for ever."""

    async def script(turn: ScriptTurn) -> None:
        if after_a_tool:
            await turn.call("mcp__bug__get_bug", bug_id="BUG-12")
        await turn.hold("here")
        await turn.finish(**bench.outcome())

    bench.model.script(script)
    running = asyncio.create_task(bench.run())
    await bench.model.holds.reached("here")
    assert len(running_agents()) == 1
    return running


async def _cancel(running: asyncio.Task[TurnOutcome], times: int) -> None:
    started = time.monotonic()
    for _ in range(times):
        running.cancel()
        await asyncio.wait({running}, timeout=0.1)
    with pytest.raises(asyncio.CancelledError):
        await running
    assert time.monotonic() - started < PROMPT_END
    assert running_agents() == []


@pytest.mark.parametrize("times", [1, 3])
async def test_cancelled_turn_ends_at_once_with_its_process(
    bench: InvestigatorScene, times: int, leftovers: Callable[[], list[str]]
) -> None:
    await _cancel(await _hold(bench, after_a_tool=True), times)
    assert leftovers() == []
    assert bench.usage.cost_usd > 0, "its cost up to then is known"


@pytest.mark.parametrize(("started", "times"), [(True, 1), (True, 3), (False, 2)])
async def test_turn_that_is_cancelled_while_it_starts_leaves_nothing(
    bench: InvestigatorScene, started: bool, times: int, leftovers: Callable[[], list[str]]
) -> None:
    bench.answers()
    running = asyncio.create_task(bench.run())
    if started:
        await bench.eventually(lambda: bool(running_agents()))
    else:
        await asyncio.sleep(0)
    await _cancel(running, times)
    assert leftovers() == []


async def test_turn_that_fails_before_its_process_starts_leaves_nothing(
    bench: InvestigatorScene, leftovers: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(runner, "case_tools", refuses)
    with pytest.raises(OSError, match="No space"):
        await bench.run()
    monkeypatch.setattr(Path, "write_text", refuses)
    with pytest.raises(OSError, match="No space"):
        await bench.run()
    assert leftovers() == []


async def test_frozen_process_is_killed(bench: InvestigatorScene) -> None:
    running = await _hold(bench)
    os.kill(running_agents()[0], signal.SIGSTOP)
    await _cancel(running, 3)


@pytest.mark.parametrize(("sent", "told"), [(signal.SIGKILL, "was killed"), (signal.SIGINT, None)])
async def test_turn_of_a_killed_process_may_be_tried_again(
    bench: InvestigatorScene, sent: signal.Signals, told: str | None
) -> None:
    """Ctrl-C in a terminal also reaches the CLI, which then ends without a result and without an
    error.
    """
    running = await _hold(bench)
    os.kill(running_agents()[0], sent)
    with pytest.raises(Transient, match=told):
        await running


WORKER = """
import asyncio, sys
from pathlib import Path
from tests.investigator.investigator_scene import InvestigatorScene
from threadline.investigator.runner import InvestigatorConfig

config = InvestigatorConfig(model="claude-sonnet-5", api_key=sys.argv[2], base_url=sys.argv[1])
asyncio.run(InvestigatorScene(None, Path(sys.argv[3]), config).run())
"""


async def test_process_dies_with_its_worker(bench: InvestigatorScene, tmp_path: Path) -> None:
    async def script(turn: ScriptTurn) -> None:
        await turn.hold("here")

    bench.model.script(script)
    command = [
        sys.executable,
        "-c",
        WORKER,
        bench.model.url,
        bench.config.api_key,
        str(bench.workspace),
    ]
    worker = await asyncio.create_subprocess_exec(
        *command, env={**os.environ, "TMPDIR": str(tmp_path)}
    )
    try:
        async with asyncio.timeout(patient(30)):
            await bench.model.holds.reached("here")
        agents = running_agents()
        assert len(agents) == 1
    finally:
        worker.kill()
        await worker.wait()
    await bench.eventually(lambda: not any(psutil.pid_exists(pid) for pid in agents), within=5)
