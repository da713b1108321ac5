"""`python -m tests.chaos`: many runs, each with a seed of its own, told while they go; `make chaos` calls it."""

import argparse
import asyncio
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from tests.chaos import results
from tests.chaos.plan import THREADS, plan_of
from tests.chaos.results import Record
from tests.chaos.run import evidence_of, play
from tests.chaos.stage import ROOT, Stage
from threadline.cli.main import leave

A_STAGE = 10
"""Runs that share their servers: then everything is put away, and built anew."""


@dataclass
class Sitting:
    """Runs under way. `bad` counts those that were not clean."""

    threads: int
    kinds: Sequence[str]
    code: str
    progress: Progress
    task: TaskID
    bad: int = 0
    _building: asyncio.Lock = field(default_factory=asyncio.Lock)
    """One at a time: Alembic keeps what it works on in globals."""

    async def play(self, stages: Iterator[Sequence[int]]) -> None:
        """Take the seeds of one stage after the other, until others have taken the rest."""
        for seeds in stages:
            folder = Path(tempfile.mkdtemp(prefix="threadline-chaos-"))
            async with AsyncExitStack() as opened:
                async with self._building:
                    stage = await opened.enter_async_context(Stage.running(folder))
                clean = await self._on(stage, seeds)
            if clean:
                await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
            else:
                self.progress.console.print(f"Logs and data are in {folder}.")

    async def _on(self, stage: Stage, seeds: Sequence[int]) -> bool:
        for seed in seeds:
            outcome = await play(stage, plan_of(seed, self.threads, self.kinds))
            record = results.record_of(outcome, self.code)
            if not self.kinds and self.threads == THREADS:
                results.add(record)
            self.progress.update(self.task, advance=1, description=f"seed {seed}")
            self.progress.console.print(_line(record), highlight=False, soft_wrap=True)
            if not record.clean:
                self.bad += 1
                self.progress.console.print(evidence_of(outcome), highlight=False, markup=False, soft_wrap=True)
                return False  # what is stuck would be in the way of the next run
        return True


async def sit(seeds: Sequence[int], threads: int, kinds: Sequence[str], console: Console, jobs: int = 1) -> int:
    """Run the seeds, on `jobs` stages at once, and keep what they come to; returns how many were not clean."""
    bar = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    code = results.code_digest(ROOT / "src" / "threadline", ROOT / "tests" / "chaos")
    stages = iter([seeds[first : first + A_STAGE] for first in range(0, len(seeds), A_STAGE)])
    with Progress(*bar, console=console) as progress:
        sitting = Sitting(threads, kinds, code, progress, progress.add_task("chaos", total=len(seeds)))
        async with asyncio.TaskGroup() as together:
            for _ in range(jobs):
                together.create_task(sitting.play(stages))
    return sitting.bad


def _line(record: Record) -> str:
    verdict = "[green]clean[/]" if record.clean else f"[red]{len(record.faults)} faults[/]"
    return (
        f"{record.seed:5} {verdict:14} {record.agent:8} {record.way:6} {record.messages:4} messages "
        f"{record.turns:3} turns {record.talk_turns:3} in talks {record.restarts:2} restarts {record.seconds:5.0f} s  "
        f"{', '.join(record.kinds)}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--runs", type=int, default=10, help="new seeds to run")
    parser.add_argument("--seed", type=int, action="append", help="run this one, again; may be given several times")
    parser.add_argument("--threads", type=int, default=THREADS, help="Slack threads in a run")
    parser.add_argument("--jobs", type=int, default=1, help="stages at once; each keeps about one core busy")
    parser.add_argument("--kind", action="append", default=[], help="let this go wrong, whatever the seed says")
    parser.add_argument("--table", action="store_true", help="print the table for docs/guarantees.md, and run nothing")
    given = parser.parse_args()
    console = Console()
    bad = 0
    if not given.table:
        seeds = given.seed or list(results.fresh_seeds(given.runs, results.read()))
        bad = asyncio.run(sit(seeds, given.threads, given.kind, console, given.jobs))
    known = results.read()
    if given.table:
        console.print(results.section(known), markup=False, highlight=False, soft_wrap=True)
    else:
        console.print(f"{len(known)} seeds are in {results.FILE.relative_to(ROOT)}.")
    sys.stdout.flush()
    leave(1 if bad else 0)


if __name__ == "__main__":
    main()
