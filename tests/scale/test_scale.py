"""A thousand open threads, messages in them, and a restart of every worker; `make scale` has ten
thousand.
"""

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from bench.machine import this_machine
from tests.scale import figures
from tests.scale.run import SHORT, measure

LONGEST = 25
"""Maximum lines of the block on its page."""
PROCESSES = ("core-1", "core-2", "agents", "gateway", "temporal", "postgres", figures.HARNESS)


@pytest.mark.alone
@pytest.mark.timeout(3600)  # the run's own bounds end it first, and name the unfinished work
async def test_nothing_is_lost_in_a_thousand_open_threads() -> None:
    outcome = await measure(SHORT, logging.getLogger(__name__).warning)
    assert not outcome.faults, "\n".join(map(str, outcome.faults[:50]))
    told = outcome.figures
    assert told["messages"] == SHORT.rate * SHORT.seconds
    assert told["answered"] > 0.9 * told["messages"], "too few messages were answered"
    assert set(told["latency_s"]) == {
        f"{kind}, {when} the restart"
        for kind in ("case", "conversation")
        for when in ("before", "after")
    }


def test_latencies_are_counted_apart_before_and_after_the_restart() -> None:
    rows = [
        SimpleNamespace(kind="case", said=said, stored=said + 0.25, answered=answered)
        for said, answered in ((99.0, 99.5), (100.0, 103.0), (169.0, None))
    ]
    found = figures.latencies(rows, restart=100.0)
    waits = {"p50": 0.25, "p95": 0.25, "p99": 0.25, "most": 0.25}
    assert found["case, before the restart"]["stored"] == {"count": 1, **waits}
    assert found["case, after the restart"]["stored"] == {"count": 2, **waits}
    assert found["case, after the restart"]["answered"] == {
        "count": 1,
        **dict.fromkeys(waits, 3.0),
    }


def test_counts_of_a_killed_worker_are_kept() -> None:
    stack = SimpleNamespace(
        family=SimpleNamespace(pid=lambda name: {"core-1": 2, "core-2": 4}[name])
    )
    watch = figures.Watch(stack)  # type: ignore[arg-type]  # it uses only `family`
    watch._metrics["core-1", 1] = {figures.CACHE["cached"]: 7.0, figures.CACHE["misses"]: 2.0}
    watch._metrics["core-1", 2] = {
        figures.CACHE["cached"]: 5.0,
        figures.CACHE["failed_tasks"]: 3.0,
    }
    watch._metrics["core-2", 3] = {figures.CACHE["cached"]: 4.0}
    assert watch.caches()["core-1"] == {
        "cached": 5.0,
        "misses": 2.0,
        "evictions": 0.0,
        "failed_tasks": 3.0,
    }
    assert [watch.is_scraped(name) for name in ("core-1", "core-2")] == [True, False]


def test_block_has_room_on_its_page() -> None:
    waits = {"count": 1, "p50": 0.01, "p95": 2.0, "p99": 30.0, "most": 400.0}
    parts = [
        f"{kind}, {when} the restart"
        for kind in ("case", "conversation")
        for when in ("before", "after")
    ]
    used = dict.fromkeys(PROCESSES, 1.0)
    sizes = {"postgres": 2**20, "temporal": 2**20}
    table = {
        "name": "posts",
        "bytes": 2**20,
        "indexes": 2**20,
        "live": 9,
        "dead": 1,
        "unused": 2**18,
    }
    slow = {
        "query": "SELECT 'a | `b`'" * 20,
        "calls": 1,
        "mean_ms": 1.0,
        "max_ms": 1.0,
        "blocks": 1.0,
    }
    told: dict[str, Any] = {
        **dict.fromkeys(
            ("opened_per_s", "answered_per_s", "rested_after_s", "restart_s", "rate"), 1.0
        ),
        **dict.fromkeys(("cases", "conversations", "messages", "caught_up", "workflows"), 4),
        **dict.fromkeys(("cpu_s_a_thread", "cpu_s_a_message", "cores_in_use"), used),
        "latency_s": {part: {"stored": waits, "answered": waits} for part in parts},
        "memory_mib": {"opened": used, "rest": used},
        "caches": {"core-1": dict.fromkeys(figures.CACHE, 1.0)},
        "bytes": {"empty": sizes, "rest": sizes},
        "sweeps_s": [1.0],
        "catch_ups_s": [],
        "tables": [table] * 20,
        "statements": [slow] * 8,
    }
    lines = figures.markdown(told, 0, this_machine()).splitlines()
    assert len(lines) <= LONGEST
    tables = [line.count("|") for line in lines if line.startswith("|")]
    assert tables == [10] * (2 + len(parts)) + [10] * (2 + len(PROCESSES) + 1)
