"""The costs of an agent's turn beyond its CLI: the real Claude Code CLI, and a model that answers
at once.
"""

import asyncio
import json
import statistics
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncGenerator
from dataclasses import asdict, dataclass
from typing import Any

from bench.figures import Figure, Goal, Row
from bench.ground import ROOT, Ground, machine_environment
from bench.parts.turn_probe import Given
from bench.path import Clock, said
from bench.scale import by_turns
from bench.usage import proportional_mib
from threadline.cases.store.messages import CaseMessageStore
from threadline.slack.model import Thread
from threadline.threads.model import MessageKind
from threadline_devstack.models.sandbox import ModelSandbox
from threadline_devstack.models.script import ScriptTurn
from threadline_devstack.slack import identity

AT_ONCE = (1, 4, 16)
FLOOR = "the SDK's bare `query()` with the same model, schema and answer"
OVERHEAD = Goal("median at most", 60)
CPU = Goal("ratio at most", 1.1)
_LOOK = 0.25
"""Seconds between two reads of the memory."""

_FOUND: dict[str, Any] = {
    "action": "post_findings",
    "title": "The total ignores the code",
    "summary": "The total adds list prices.",
    "root_cause": "It sums the wrong field.",
    "reply": "",
    "for_reporter": "",
    "evidence": [],
    "severity": "S2",
    "confidence": 0.9,
    "clarification_question": "",
    "recommended_actions": [],
    "affected_components": [],
    "fix_requested": False,
}


@dataclass(frozen=True)
class Took:
    """Median wall time of a turn in ms; CPU ms a turn of the process with its CLI; the peak of its
    memory in MiB.
    """

    wall: float
    cpu: float
    memory: float


async def measure(ground: Ground) -> AsyncGenerator[Row, None]:
    clock = Clock()
    alone = ground.scale.some(*AT_ONCE)
    async with ModelSandbox.running() as model:
        model.script(answer_at_once)
        for at_once in alone:
            rounds = ground.scale.rounds if at_once < 16 else min(2, ground.scale.rounds)
            # One turn takes half a second: several of them make a figure.
            repeats = ground.scale.of(5) if at_once == 1 else 1
            # B023: both are awaited in this iteration
            ours, floor = await by_turns(
                rounds,
                lambda: _turns(ground, clock, model.url, "ours", at_once, repeats),  # noqa: B023 - awaited
                lambda: _turns(ground, clock, model.url, "bare", at_once, repeats),  # noqa: B023 - awaited
            )
            for row in _rows(ours, floor, at_once):
                yield row


async def answer_at_once(turn: ScriptTurn) -> None:
    """Finish with findings, without a look at the code."""
    await turn.finish(**_FOUND)


def _rows(ours: list[Took], floor: list[Took], at_once: int) -> list[Row]:
    def figures(name: str, unit: str) -> tuple[Figure, Figure]:
        return (
            Figure(tuple(getattr(took, name) for took in ours), unit),
            Figure(tuple(getattr(took, name) for took in floor), unit),
        )

    how = f"agent's turn, {at_once} at once"
    rows = [
        Row("turn", f"{how}: wall time", *figures("wall", "ms"), FLOOR),
        Row("turn", f"{how}: CPU, CLI included", *figures("cpu", "ms"), FLOOR, CPU),
        Row(
            "turn",
            f"{how}: memory at its peak",
            *figures("memory", "MiB"),
            FLOOR,
            note="shared pages counted once",
        ),
    ]
    if at_once == 1:
        more = Figure(
            tuple(mine.wall - bare.wall for mine, bare in zip(ours, floor, strict=True)), "ms"
        )
        rows.append(Row("turn", f"{how}: ours minus the CLI's", more, goal=OVERHEAD))
    return rows


async def _turns(
    ground: Ground, clock: Clock, model_url: str, whose: str, at_once: int, repeats: int
) -> Took:
    took = [await _probe(ground, clock, model_url, whose, at_once) for _ in range(repeats)]
    return Took(
        *(
            statistics.median(getattr(each, name) for each in took)
            for name in ("wall", "cpu", "memory")
        )
    )


async def _probe(ground: Ground, clock: Clock, model_url: str, whose: str, at_once: int) -> Took:
    """Run turns in a separate process, so that its CPU and memory are those of the run."""
    cases = [await _case(ground, clock) for _ in range(at_once + 1)]
    given = Given(
        ground.databases.agent,
        model_url,
        str(ground.folder),
        ground.settings["THREADLINE_REPO"],
        cases,
    )
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.parts.turn_probe", whose, json.dumps(asdict(given))),
        env=machine_environment(),
        cwd=ROOT,
        stdout=PIPE,
        stderr=PIPE,
    )
    ended = asyncio.create_task(process.communicate())
    peak = 0.0
    while not ended.done():
        peak = max(peak, proportional_mib(process.pid))
        await asyncio.wait({ended}, timeout=_LOOK)
    output, errors = ended.result()
    if process.returncode:
        raise RuntimeError(
            f"the turns of {whose} failed: {errors.decode(errors='replace')[-2000:]}"
        )
    told = json.loads(output.splitlines()[-1])
    return Took(statistics.median(told["walls"]) * 1000, told["cpu"] * 1000 / at_once, peak)


async def _case(ground: Ground, clock: Clock) -> str:
    thread = Thread(identity.TEAM, identity.REPORTS, clock.next())
    async with ground.database.begin() as tx:
        flushed = await CaseMessageStore(tx).flush(
            thread, [said(thread, thread.ts, MessageKind.REPORT)]
        )
    return flushed.case.bug_id
