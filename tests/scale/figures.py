"""What a run has cost: latencies, CPU, memory, caches, the two databases and their slowest statements."""

import os
import re
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import aiohttp
from sqlalchemy import text

from bench.figures import percentile
from bench.machine import Machine
from bench.usage import cpu_seconds, proportional_mib, resident_mib
from tests.scale.stack import WORKERS, ScaleStack
from threadline.threads.contract import CATCH_UP_WORKFLOW, SWEEP_WORKFLOW

SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}
HARNESS = "harness"
"""The process in which the sandboxes of Slack and of the model run, and the people."""
CACHE = {
    "cached": "temporal_sticky_cache_size",
    "hits": "temporal_sticky_cache_hit",
    "misses": "temporal_sticky_cache_miss",
    "evictions": "temporal_sticky_cache_total_forced_eviction",
    "failed_tasks": "temporal_workflow_task_execution_failed",
}
"""`misses` are tasks of a workflow that was evicted: its whole history is fetched and replayed. After a restart the
server sends the whole history by itself, which counts as none."""
AFTER_RESTART = 60.0
"""Seconds from the end of the restart on whose messages are counted apart."""
MOST_STATEMENTS, MOST_TABLES = 8, 8
_SAMPLE = re.compile(r"^(\w+)(?:\{[^}]*\})? ([-+.\deE]+)$", re.MULTILINE)

_CASE_TIMES = text("""
SELECT /* scale */ m.said_at::float8 AS said, extract(epoch FROM m.created_at)::float8 AS stored, (
    SELECT min(p.ts::float8) FROM posts p
    WHERE p.key = ANY (ARRAY[m.bug_id || ':turn:' || m.turn || ':' || 'told',
                             m.bug_id || ':turn:' || m.turn || ':' || 'question'])
) AS answered
FROM bug_conversations m WHERE m.sender_type <> 'bot' AND m.said_at >= :since
""")
_CONVERSATION_TIMES = text("""
SELECT /* scale */ m.said_at::float8 AS said, extract(epoch FROM m.created_at)::float8 AS stored, (
    SELECT p.ts::float8 FROM posts p
    WHERE p.key = 'conversation:' || c.team || ':' || c.channel || ':' || c.thread_ts || ':turn:' || m.turn
) AS answered
FROM conversation_messages m JOIN conversations c ON c.id = m.conversation_id WHERE m.said_at >= :since
""")
_STATEMENTS = text("""
SELECT /* scale */ queryid, query, calls, total_exec_time AS total, mean_exec_time AS mean, max_exec_time AS max,
       (shared_blks_hit + shared_blks_read)::float8 / calls AS blocks
FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid
WHERE d.datname = current_database() AND query NOT LIKE '%/* scale */%'
""")
_RESET = text("SELECT /* scale */ pg_stat_statements_reset()")
_TABLES = text("""
SELECT /* scale */ s.relname AS name, pg_table_size(s.relid) AS bytes, pg_indexes_size(s.relid) AS indexes,
       s.n_live_tup AS live, s.n_dead_tup AS dead, s.autovacuum_count AS vacuums,
       a.approx_free_percent AS free, a.dead_tuple_percent AS dead_share
FROM pg_stat_user_tables s CROSS JOIN LATERAL pgstattuple_approx(s.relid) a
ORDER BY pg_total_relation_size(s.relid) DESC
""")
_INDEXES = text("""
SELECT /* scale */ indexrelname AS name, pg_relation_size(indexrelid) AS bytes, idx_scan AS scans
FROM pg_stat_user_indexes ORDER BY pg_relation_size(indexrelid) DESC LIMIT :most
""")
_DUE = text("SELECT /* scale */ count(*) FROM catch_up_threads WHERE is_due")
_DATABASE = text("SELECT /* scale */ pg_database_size(current_database())")


class Times(Protocol):
    """Moments of a run, in seconds since 1970."""

    load_began: float
    restart_began: float
    restart_ended: float
    load_ended: float
    rest: float


@dataclass
class Watch:
    """CPU, memory and caches of all processes by name, also of those that were killed meanwhile."""

    stack: ScaleStack
    memory: dict[str, dict[str, float]] = field(default_factory=lambda: defaultdict(dict))
    """MiB by process and by when, shared pages counted once, children included."""
    steady_cpu: dict[str, float] = field(default_factory=dict)
    """CPU seconds from the beginning of the load until the restart."""
    _cpu: dict[tuple[str, int], float] = field(default_factory=dict)
    _metrics: dict[tuple[str, int], dict[str, float]] = field(default_factory=dict)
    _before_load: dict[str, float] = field(default_factory=dict)

    def look(self) -> None:
        """Note how much CPU each process has used."""
        for name in self.stack.family.names():
            pid = self.stack.family.pid(name)
            if (used := cpu_seconds(pid)) > 0:
                self._cpu[name, pid] = used
        self._cpu[HARNESS, os.getpid()] = time.process_time()

    def cpu(self) -> dict[str, float]:
        """CPU seconds so far by process; those of its dead predecessors count as its own."""
        total = defaultdict[str, float](float)
        for (name, _), used in self._cpu.items():
            total[name] += used
        return dict(total)

    def cpu_since(self, before: Mapping[str, float], parts: int) -> dict[str, float]:
        """Milliseconds of CPU for each of so many parts, by process."""
        return {name: round(1e3 * (used - before.get(name, 0.0)) / parts, 2) for name, used in self.cpu().items()}

    def begin_load(self) -> None:
        self.look()
        self._before_load = self.cpu()

    def end_steady(self) -> None:
        self.look()
        self.steady_cpu = {name: used - self._before_load.get(name, 0.0) for name, used in self.cpu().items()}

    def remember(self, when: str) -> None:
        """Note the memory of each process."""
        for name in self.stack.family.names():
            self.memory[name][when] = round(proportional_mib(self.stack.family.pid(name)), 1)
        self.memory[HARNESS][when] = round(resident_mib(os.getpid()), 1)

    async def scrape(self) -> None:
        """Note what the workers count of their caches."""
        async with aiohttp.ClientSession() as session:
            for name, address in self.stack.metrics.items():
                try:
                    async with session.get(f"http://{address}/metrics") as answer:
                        told = await answer.text()
                except aiohttp.ClientError:
                    continue  # it is being restarted
                values = defaultdict[str, float](float)
                for metric, value in _SAMPLE.findall(told):
                    values[metric] += float(value)
                self._metrics[name, self.stack.family.pid(name)] = dict(values)

    def caches(self) -> dict[str, dict[str, float]]:
        """What `CACHE` names, by worker: the size now, and how often the others happened."""
        found: dict[str, dict[str, float]] = {}
        for (name, _), values in self._metrics.items():
            if name in WORKERS and any(metric in values for metric in CACHE.values()):
                before, now = found.get(name, {}), {key: values.get(metric, 0.0) for key, metric in CACHE.items()}
                found[name] = {key: now[key] + (before.get(key, 0.0) if key != "cached" else 0.0) for key in CACHE}
        return found


async def statements(stack: ScaleStack, *, reset: bool = False) -> dict[int, Any]:
    """What Postgres has counted of each statement, by its id; `reset`: count from now on."""
    async with stack.database.begin() as tx:
        rows = {row.queryid: row for row in await tx.execute(_STATEMENTS)}
        if reset:
            await tx.execute(_RESET)
    return rows


async def sizes(stack: ScaleStack) -> dict[str, int]:
    """Bytes of the two databases."""
    async with stack.database.begin() as tx:
        stored = int(await tx.scalar(_DATABASE) or 0)
    files = (stack.home.root / "temporal").iterdir()
    return {"postgres": stored, "temporal": sum(each.stat().st_size for each in files)}


async def gather(stack: ScaleStack, watch: Watch, times: Times, opening: Mapping[int, Any]) -> dict[str, Any]:
    """Everything but what the opening and the oracle tell. `opening`: the statements of the opening."""
    during = await statements(stack)
    async with stack.database.begin() as tx:
        rows = {
            "case": list(await tx.execute(_CASE_TIMES, {"since": times.load_began})),
            "conversation": list(await tx.execute(_CONVERSATION_TIMES, {"since": times.load_began})),
        }
        tables = [_rounded(dict(row._mapping)) for row in await tx.execute(_TABLES)]
        indexes = [dict(row._mapping) for row in await tx.execute(_INDEXES, {"most": 2 * MOST_TABLES})]
        due = int(await tx.scalar(_DUE) or 0)
    answered = [row.answered for each in rows.values() for row in each if row.answered]
    steadily = sum(moment <= times.restart_began for moment in answered)
    return {
        "latency_ms": {kind: _latencies(each, times) for kind, each in rows.items()},
        "answered": len(answered),
        "answered_per_s": round(len(answered) / (max(answered) - times.load_began), 2) if answered else 0.0,
        "restart_s": round(times.restart_ended - times.restart_began, 1),
        "cpu_ms_a_message": {name: round(1e3 * s / steadily, 1) for name, s in watch.steady_cpu.items() if steadily},
        "cpu_share": {
            name: round(s / (times.restart_began - times.load_began), 3) for name, s in watch.steady_cpu.items()
        },
        "memory_mib": watch.memory,
        "caches": watch.caches(),
        "bytes": await sizes(stack),
        "tables": tables,
        "indexes": indexes,
        "sweeps_s": await _durations(stack, SWEEP_WORKFLOW),
        "catch_ups_s": await _durations(stack, CATCH_UP_WORKFLOW),
        "catch_up_due": due,
        "workflows": (await stack.client.count_workflows("ExecutionStatus = 'Running'")).count,
        "statements": _slowest(during, opening),
    }


async def _durations(stack: ScaleStack, workflow: str) -> list[float]:
    """Seconds that each run of a workflow took that has ended, the first first."""
    runs = [run async for run in stack.client.list_workflows(f"WorkflowType = '{workflow}'")]
    ended = sorted((run.start_time, run.close_time) for run in runs if run.close_time)
    return [round((end - start).total_seconds(), 1) for start, end in ended]


def _latencies(rows: Sequence[Any], times: Times) -> dict[str, dict[str, dict[str, float]]]:
    """By part of the run, until stored and until answered: the percentiles in ms, and how many there were."""
    until = times.restart_ended + AFTER_RESTART
    parts = {
        "steady": [row for row in rows if row.said < times.restart_began],
        "after the restart": [row for row in rows if times.restart_began <= row.said < until],
        "later": [row for row in rows if row.said >= until],
    }
    return {
        part: {
            "stored": _percentiles([row.stored - row.said for row in mine]),
            "answered": _percentiles([row.answered - row.said for row in mine if row.answered]),
        }
        for part, mine in parts.items()
        if mine
    }


def _percentiles(seconds: Sequence[float]) -> dict[str, float]:
    shares = SHARES if seconds else {}
    return {
        "count": float(len(seconds)),
        **{name: round(1e3 * percentile(seconds, share)) for name, share in shares.items()},
    }


def _slowest(during: Mapping[int, Any], opening: Mapping[int, Any]) -> list[dict[str, Any]]:
    """The statements that took the most time of the load together. `grown`: how many times as many blocks a call of it
    reads as while the threads were opened."""
    found = []
    for row in sorted(during.values(), key=lambda row: -row.total)[:MOST_STATEMENTS]:
        before = opening.get(row.queryid)
        found.append(
            {
                "query": " ".join(row.query.split())[:160],
                "calls": row.calls,
                "total_ms": round(row.total),
                "mean_ms": round(row.mean, 2),
                "max_ms": round(row.max, 1),
                "blocks": round(row.blocks, 1),
                "grown": round(row.blocks / before.blocks, 2) if before and before.blocks else None,
            }
        )
    return found


def _rounded(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: round(value, 1) if isinstance(value, float) else value for key, value in row.items()}


# ---- The table -------------------------------------------------------------------------------------------------------


def markdown(told: Mapping[str, Any], machine: Machine) -> str:
    """The table of docs/performance.md."""
    rows = [*_rates(told), *_waits(told), *_uses(told), *_sizes(told), *_slow(told)]
    faults = len(told["faults"])
    rows.append(("lost or answered twice, by the oracle of the chaos", f"{faults} faults" if faults else "nothing"))
    caption = (
        f"Measured {machine.measured} on {machine.cores} cores ({machine.processor}), {machine.memory_gib} GiB; load "
        f"when it began: {machine.load}."
    )
    return "\n".join(
        (caption, "", "| what | figure |", "|---|---|", *(f"| {what} | {figure} |" for what, figure in rows))
    )


Rows = Sequence[tuple[str, str]]


def _rates(told: Mapping[str, Any]) -> Rows:
    opening, load = told["opening"], told["load"]
    return [
        (
            "opened through the gateway",
            f"{opening['cases']:,} cases, {opening['conversations']:,} conversations in {opening['seconds']:,.0f} s: "
            f"{opening['threads_per_s']:.1f}/s",
        ),
        ("CPU a thread that is opened", _by_process(opening["cpu_ms_a_thread"], "ms")),
        (
            "messages",
            f"{load['messages']:,} at {load['rate']:g}/s; answered at {told['answered_per_s']:.1f}/s; at rest "
            f"{load['rested_after_s']:.0f} s after the last; every worker restarted within {told['restart_s']:.0f} s",
        ),
    ]


def _waits(told: Mapping[str, Any]) -> Rows:
    return [
        (
            f"{kind}, {part}: a message until stored; answered, p50 / p95 / p99 / most",
            "; ".join(
                " / ".join(f"{values[name]:,.0f}" for name in SHARES) + " ms" if values["count"] else "–"
                for values in (ways["stored"], ways["answered"])
            ),
        )
        for kind, parts in told["latency_ms"].items()
        for part, ways in parts.items()
        if part != "later"
    ]


def _uses(told: Mapping[str, Any]) -> Rows:
    last = {name: next(reversed(by.values())) for name, by in told["memory_mib"].items()}
    opened = {name: by.get("opened", 0.0) for name, by in told["memory_mib"].items()}
    caches = "; ".join(
        f"{name}: {each['cached']:,.0f} cached, {each['misses']:,.0f} misses, {each['evictions']:,.0f} evictions"
        for name, each in told["caches"].items()
        if name != "agents"
    )
    return [
        ("CPU a message", _by_process(told["cpu_ms_a_message"], "ms")),
        ("cores in use", _by_process(told["cpu_share"], "")),
        ("memory once opened", _by_process(opened, "MiB")),
        ("memory at the end", _by_process(last, "MiB")),
        ("workflows", f"{told['workflows']:,} run; {caches}"),
        (
            "sweeps of what is open; catch-ups that have ended",
            f"{_lasting(told['sweeps_s'])}; {_lasting(told['catch_ups_s'])}, "
            f"{told['catch_up_due']:,} threads are still to be compared with Slack",
        ),
    ]


def _sizes(told: Mapping[str, Any]) -> Rows:
    threads = told["opening"]["cases"] + told["opening"]["conversations"]
    shown_sizes = {
        name: f"{_mib(size)} MiB, {(size - told['opening']['bytes_before'][name]) / threads / 1024:.1f} KiB a thread"
        for name, size in told["bytes"].items()
    }
    largest = ", ".join(
        f"{each['name']} {_mib(each['bytes'])} + {_mib(each['indexes'])}" for each in told["tables"][:4]
    )
    dead = sorted(told["tables"], key=lambda each: -each["dead"])[:3]
    shown = ", ".join(f"{each['name']} {each['dead']:,} of {each['live'] + each['dead']:,}" for each in dead)
    return [
        ("Postgres", shown_sizes["postgres"]),
        ("largest tables + their indexes, MiB", largest),
        ("dead rows", shown),
        ("Temporal's database", shown_sizes["temporal"]),
    ]


def _slow(told: Mapping[str, Any]) -> Rows:
    return [
        (
            f"`{each['query'][:70].replace('|', '¦').replace('`', '')}…`",
            f"{each['calls']:,} calls, {each['mean_ms']:.2f} ms (at most {each['max_ms']:.0f}), {each['blocks']:.0f} "
            "blocks" + (f", {each['grown']:g}× of the opening's" if each["grown"] else ""),
        )
        for each in told["statements"][:3]
    ]


def _by_process(values: Mapping[str, float], unit: str) -> str:
    shown = sorted(values.items(), key=lambda item: -item[1])
    total = sum(value for name, value in shown if name != HARNESS)
    parts = ", ".join(f"{name} {value:,.3g}" for name, value in shown if name != HARNESS and value)
    aside = f"; {HARNESS} {values[HARNESS]:,.3g}" if HARNESS in values else ""
    return f"{total:,.4g} {unit} ({parts}{aside})".replace("  ", " ")


def _lasting(seconds: Sequence[float]) -> str:
    return f"{len(seconds)} of at most {max(seconds, default=0.0):,.0f} s"


def _mib(size: float) -> str:
    return f"{size / 2**20:,.1f}"
