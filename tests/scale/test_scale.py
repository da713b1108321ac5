"""A thousand open threads, messages over them, and a restart of every worker; `make scale` has ten thousand."""

import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench.machine import this_machine
from tests.scale import figures
from tests.scale.run import SHORT, Run
from tests.scale.stack import ScaleStack

LONGEST = 25
"""Lines that the table may have on its page."""
PROCESSES = ("core-1", "core-2", "agents", "gateway", "temporal", "postgres", figures.HARNESS)


@pytest.mark.alone
@pytest.mark.timeout(1800)
async def test_nothing_is_lost_in_a_thousand_open_threads() -> None:
    with tempfile.TemporaryDirectory(prefix="threadline-scale-", ignore_cleanup_errors=True) as folder:
        async with ScaleStack.serving(Path(folder)) as stack:
            outcome = await Run(stack, SHORT, lambda _: None).play()
    assert not outcome.faults, "\n".join(map(str, outcome.faults[:50]))
    told = outcome.figures
    assert told["answered"] > 0.9 * told["load"]["messages"], "too few messages were answered"
    assert told["latency_ms"]["case"]["after the restart"], "nothing was said after the restart"


def test_latencies_are_counted_apart_around_the_restart() -> None:
    times = SimpleNamespace(restart_began=100.0, restart_ended=110.0)
    rows = [
        SimpleNamespace(said=said, stored=said + 0.1, answered=answered)
        for said, answered in ((99.0, 99.5), (100.0, 103.0), (169.9, None), (170.0, 171.0))
    ]
    found = figures._latencies(rows, times)
    assert {part: ways["stored"]["count"] for part, ways in found.items()} == {
        "steady": 1,
        "after the restart": 2,
        "later": 1,
    }
    assert found["steady"]["answered"]["max"] == 500
    assert found["after the restart"]["answered"] == {"count": 1, "p50": 3000, "p95": 3000, "p99": 3000, "max": 3000}


def test_what_a_killed_worker_counted_is_kept() -> None:
    watch = figures.Watch(SimpleNamespace())  # type: ignore[arg-type]  # it is not asked
    watch._metrics["core-1", 1] = {figures.CACHE["cached"]: 7.0, figures.CACHE["misses"]: 2.0}
    watch._metrics["core-1", 2] = {figures.CACHE["cached"]: 5.0, figures.CACHE["misses"]: 3.0}
    watch._cpu = {("core-1", 1): 1.5, ("core-1", 2): 1.0}
    assert watch.caches()["core-1"] | {"hits": 0} == {
        "cached": 5.0,
        "hits": 0,
        "misses": 5.0,
        "evictions": 0.0,
        "failed_tasks": 0.0,
    }
    assert watch.cpu() == {"core-1": 2.5}


def test_table_has_room_on_its_page() -> None:
    waits = {"count": 1, "p50": 1, "p95": 2, "p99": 3, "max": 4}
    parts = {part: {"stored": waits, "answered": waits} for part in ("steady", "after the restart", "later")}
    used = dict.fromkeys(PROCESSES, 1.0)
    table = {"name": "posts", "bytes": 2**20, "indexes": 2**20, "live": 9, "dead": 1}
    slow = {"query": "SELECT 'a | b'" * 20, "calls": 1, "mean_ms": 1.0, "max_ms": 1.0, "blocks": 1.0, "grown": 1.2}
    told: dict[str, Any] = {
        "opening": {
            "cases": 3,
            "conversations": 1,
            "seconds": 2.0,
            "threads_per_s": 2.0,
            "cpu_ms_a_thread": used,
            "bytes_before": {"postgres": 2**20, "temporal": 0},
        },
        "load": {"messages": 1, "rate": 1.0, "rested_after_s": 1.0},
        "answered_per_s": 1.0,
        "restart_s": 1.0,
        "latency_ms": {"case": parts, "conversation": parts},
        "cpu_ms_a_message": used,
        "cpu_share": used,
        "memory_mib": {name: {"opened": 1.0, "at the end": 2.0} for name in PROCESSES},
        "caches": {"core-1": dict.fromkeys(figures.CACHE, 1.0)},
        "workflows": 4,
        "sweeps_s": [1.0, 2.0],
        "catch_ups_s": [],
        "catch_up_due": 0,
        "bytes": {"postgres": 2**21, "temporal": 2**20},
        "tables": [table] * 20,
        "statements": [slow] * figures.MOST_STATEMENTS,
        "faults": [],
    }
    lines = figures.markdown(told, this_machine()).splitlines()
    assert len(lines) <= LONGEST
    assert all(line.count("|") == 3 for line in lines[2:])
