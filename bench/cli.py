"""The command line: choice of rows, amount of load, and destination of the results."""

import argparse
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from pathlib import Path

from rich.console import Console

from bench import report
from bench.figures import Row
from bench.ground import Ground, ground
from bench.machine import this_machine
from bench.rows import (
    cache,
    conversation,
    decision,
    gateway,
    growth,
    latency,
    operator,
    recovery,
    replay,
    start,
    talk,
    throughput,
    turn,
)
from bench.scale import FULL, QUICK, SCALES, Scale

Measure = Callable[[Ground], AsyncGenerator[Row, None]]
TOPICS: dict[str, Measure] = {
    "gateway": gateway.measure,
    "latency": latency.measure,
    "throughput": throughput.measure,
    "growth": growth.measure,
    "cache": cache.measure,
    "replay": replay.measure,
    "conversation": conversation.measure,
    "turn": turn.measure,
    "talk": talk.measure,
    "operator": operator.measure,
    "decision": decision.measure,
    "recovery": recovery.measure,
    "start": start.measure,
}


def arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--rows", default="", help=f"some of {','.join(TOPICS)}; all when left out"
    )
    parser.add_argument("--scale", choices=SCALES, default=FULL.name, help="how much is measured")
    parser.add_argument(
        "--json", type=Path, default=Path("bench.json"), help="where the figures go"
    )
    parser.add_argument(
        "--page", type=Path, help="a Markdown page whose table is replaced by this run's"
    )
    asked = parser.parse_args(words)
    asked.topics = [name.strip() for name in asked.rows.split(",") if name.strip()] or list(TOPICS)
    if unknown := [name for name in asked.topics if name not in TOPICS]:
        parser.error(f"there is no row {', '.join(unknown)}; there are {', '.join(TOPICS)}")
    return asked


async def run(asked: argparse.Namespace, folder: Path) -> int:
    """Measure the requested rows. Return the exit code, which is 0 also when a goal is missed."""
    console = Console()
    scale = SCALES[asked.scale]
    machine = this_machine()
    found: list[Row] = []
    async for row in measured(asked.topics, scale, folder, console):
        found.append(row)
        # save after each row, so that a later failure loses none
        report.write(asked.json, found, scale, machine)
    console.print(report.table(found, scale, machine))
    if asked.page:
        report.replace_table(asked.page, found, scale, machine)
    return 0


async def measured(
    topics: Sequence[str], scale: Scale, folder: Path, console: Console | None = None
) -> AsyncIterator[Row]:
    """Yield the rows, one topic after the other. Each topic has its own servers, so that no topic
    pays for another's data.
    """
    for topic in topics:
        with (console or Console(quiet=True)).status(f"measuring {topic}, {scale.name} …"):
            async with (
                ground(scale, folder / topic) as under,
                aclosing(TOPICS[topic](under)) as rows,
            ):
                async for row in rows:
                    yield row


__all__ = ["QUICK", "TOPICS", "arguments", "measured", "run"]
