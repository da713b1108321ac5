"""`python -m tests.chaos`: many runs, each with its own seed, and their results; `make chaos`
calls it.
"""

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

from tests.chaos import results
from tests.chaos.plan import THREADS, plan_of
from tests.chaos.results import Record
from tests.chaos.run import play
from tests.chaos.stack import ROOT, ChaosStack
from threadline.cli.main import exit_now

RUNS_PER_STACK = 10
"""After this many runs, the servers and their data are discarded and created afresh."""


@dataclass
class Session:
    """The runs in progress. `failed` counts those that were not clean."""

    threads: int
    kinds: Sequence[str]
    console: Console
    failed: int = 0
    code: str = field(
        default_factory=lambda: results.code_digest(
            ROOT / "src" / "threadline", ROOT / "tests" / "chaos"
        )
    )
    _starting: asyncio.Lock = field(default_factory=asyncio.Lock)
    """One stack starts at a time: Alembic keeps its state in globals."""

    async def run(self, seeds: Sequence[int], jobs: int) -> None:
        """Run the seeds on `jobs` stacks at once, and keep their records."""
        batches = iter(
            [
                seeds[first : first + RUNS_PER_STACK]
                for first in range(0, len(seeds), RUNS_PER_STACK)
            ]
        )
        async with asyncio.TaskGroup() as together:
            for _ in range(jobs):
                together.create_task(self._take(batches))

    async def _take(self, batches: Iterator[Sequence[int]]) -> None:
        """Run one stack's seeds in sequence, until the parallel jobs have taken the rest."""
        for seeds in batches:
            folder = Path(tempfile.mkdtemp(prefix="threadline-chaos-"))
            async with AsyncExitStack() as opened:
                async with self._starting:
                    stack = await opened.enter_async_context(ChaosStack.running(folder))
                clean = await self._play(stack, seeds)
            if clean:
                await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
            else:
                self.console.print(f"Logs and data are in {folder}.")

    async def _play(self, stack: ChaosStack, seeds: Sequence[int]) -> bool:
        for seed in seeds:
            outcome = await play(stack, plan_of(seed, self.threads, self.kinds))
            record = results.record_of(outcome, self.code)
            if not self.kinds and self.threads == THREADS:
                results.add(record)
            self.console.print(_line(record), highlight=False, soft_wrap=True)
            if not record.clean:
                self.failed += 1
                self.console.print(outcome.report, highlight=False, markup=False, soft_wrap=True)
                return False  # leftovers of a stuck run would disturb the next one
        return True


def _line(record: Record) -> str:
    verdict = "[green]clean[/]" if record.clean else f"[red]{len(record.faults)} faults[/]"
    counts = record.counts
    return (
        f"{record.seed:5} {verdict:14} {record.agent:8} {record.transport:6} "
        f"{counts['messages']:4} messages {counts['turns']:3} turns "
        f"{counts['conversation_turns']:3} in conversations {counts['restarts']:2} restarts "
        f"{record.seconds:5.0f} s  {', '.join(record.kinds)}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--runs", type=int, default=10, help="new seeds to run")
    parser.add_argument(
        "--seed", type=int, action="append", help="run this one, again; may be given several times"
    )
    parser.add_argument("--threads", type=int, default=THREADS, help="Slack threads in a run")
    parser.add_argument(
        "--jobs", type=int, default=1, help="stacks at once; each keeps about one core busy"
    )
    parser.add_argument(
        "--kind", action="append", default=[], help="let this go wrong, whatever the seed says"
    )
    parser.add_argument(
        "--table",
        action="store_true",
        help="print the table for docs/guarantees.md, and run nothing",
    )
    given = parser.parse_args()
    console = Console()
    session = Session(given.threads, given.kind, console)
    if given.table:
        console.print(
            results.tables(results.read()), markup=False, highlight=False, soft_wrap=True
        )
    else:
        seeds = given.seed or results.fresh_seeds(given.runs)
        asyncio.run(session.run(seeds, given.jobs))
        console.print(f"{len(results.read())} seeds are in {results.FILE.relative_to(ROOT)}.")
    sys.stdout.flush()
    exit_now(1 if session.failed else 0)


if __name__ == "__main__":
    main()
