"""The cost of a run: latencies, CPU, memory, caches, the two databases and their slowest
statements.
"""

import os
import re
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from sqlalchemy import text

from bench.figures import percentile
from bench.machine import Machine
from bench.usage import cpu_seconds, proportional_mib, resident_mib
from tests.chaos.stack import CORES
from tests.scale.stack import OWN, ScaleStack
from threadline.threads.contract import CATCH_UP_WORKFLOW, SWEEP_WORKFLOW

SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "most": 1.0}
HARNESS = "harness"
"""The process that runs the sandboxes of Slack and of the model, and the people."""
CACHE = {
    "cached": "temporal_sticky_cache_size",
    "misses": "temporal_sticky_cache_miss",
    "evictions": "temporal_sticky_cache_total_forced_eviction",
    "failed_tasks": "temporal_workflow_task_execution_failed",
}
"""`misses` are tasks of an evicted workflow: its whole history is fetched and replayed.

After a restart the server sends the whole history by itself, which does not count.
"""
_SAMPLE = re.compile(r"^(\w+)(?:\{[^}]*\})? ([-+.\deE]+)$", re.MULTILINE)

_TIMES = text("""
SELECT 'case' AS kind, m.said_at::float8 AS said,
       extract(epoch FROM m.created_at)::float8 AS stored, (
    SELECT min(p.ts::float8) FROM posts p
    WHERE p.key = ANY (ARRAY[m.bug_id || ':turn:' || m.turn || ':' || 'told',
                             m.bug_id || ':turn:' || m.turn || ':' || 'question'])
) AS answered
FROM bug_conversations m WHERE m.sender_type <> 'bot' AND m.said_at >= :since
UNION ALL
SELECT 'conversation', m.said_at::float8, extract(epoch FROM m.created_at)::float8, (
    SELECT p.ts::float8 FROM posts p
    WHERE p.key = 'conversation:' || c.team || ':' || c.channel || ':' || c.thread_ts
        || ':turn:' || m.turn
)
FROM conversation_messages m JOIN conversations c ON c.id = m.conversation_id
WHERE m.said_at >= :since
""")
_STATEMENTS = text(f"""
SELECT left(regexp_replace(query, '\\s+', ' ', 'g'), 160) AS query, calls,
       total_exec_time AS total_ms, mean_exec_time AS mean_ms, max_exec_time AS max_ms,
       (shared_blks_hit + shared_blks_read)::float8 / calls AS blocks
FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid
WHERE d.datname = current_database() AND query NOT LIKE '%{OWN}%'
ORDER BY total_exec_time DESC LIMIT 8
""")  # noqa: S608 - all parts are written here
RESET = text("SELECT pg_stat_statements_reset()")
_TABLES = text("""
SELECT s.relname AS name, pg_table_size(s.relid) AS bytes, pg_indexes_size(s.relid) AS indexes,
       s.n_live_tup AS live, s.n_dead_tup AS dead,
       (a.approx_free_space + a.dead_tuple_len)::bigint AS unused
FROM pg_stat_user_tables s CROSS JOIN LATERAL pgstattuple_approx(s.relid) a
ORDER BY pg_total_relation_size(s.relid) DESC
""")
_DATABASE = text("SELECT pg_database_size(current_database())")


@dataclass
class Watch:
    """CPU, memory and caches of all processes by name, also of those that were killed
    meanwhile.
    """

    stack: ScaleStack
    at: dict[str, float] = field(default_factory=dict)
    """Moments by name, in seconds since 1970."""
    cpu: dict[str, dict[str, float]] = field(default_factory=dict)
    """CPU seconds since the start, by moment and process; those of dead predecessors count as the
    process's own.
    """
    memory: dict[str, dict[str, float]] = field(default_factory=dict)
    """MiB by moment and process, shared pages counted once, children included."""
    sizes: dict[str, dict[str, int]] = field(default_factory=dict)
    """Bytes of the two databases by moment."""
    _cpu: dict[tuple[str, int], float] = field(default_factory=dict)
    _metrics: dict[tuple[str, int], dict[str, float]] = field(default_factory=dict)

    async def look(self) -> None:
        """Note the usage and counts of each process: they are lost when the process is killed."""
        for name in self.stack.family.names():
            pid = self.stack.family.pid(name)
            if (used := cpu_seconds(pid)) > 0:
                self._cpu[name, pid] = used
        self._cpu[HARNESS, os.getpid()] = time.process_time()
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20)) as session:
            for name in CORES:
                worker = (name, self.stack.family.pid(name))
                try:
                    async with session.get(f"http://{self.stack.metrics[name]}/metrics") as answer:
                        told = await answer.text()
                except (aiohttp.ClientError, TimeoutError):
                    self._metrics.pop(worker, None)  # its earlier metrics may be wrong by now
                    continue
                self._metrics[worker] = defaultdict(float)
                for metric, value in _SAMPLE.findall(told):
                    self._metrics[worker][metric] += float(value)

    async def mark(self, moment: str, at: float | None = None) -> None:
        """Note everything under the name of this moment, which was `at`, by default now."""
        self.at[moment] = at or time.time()
        await self.look()
        total = defaultdict[str, float](float)
        for (name, _), used in self._cpu.items():
            total[name] += used
        self.cpu[moment] = dict(total)
        memory = {
            name: proportional_mib(self.stack.family.pid(name))
            for name in self.stack.family.names()
        }
        self.memory[moment] = memory | {HARNESS: resident_mib(os.getpid())}
        async with self.stack.database.begin() as tx:
            stored = int(await tx.scalar(_DATABASE) or 0)
        files = (self.stack.home.root / "temporal").iterdir()
        self.sizes[moment] = {
            "postgres": stored,
            "temporal": sum(each.stat().st_size for each in files),
        }

    def used(self, begin: str, end: str, parts: float) -> dict[str, float]:
        """Return the CPU seconds between two moments for each of so many parts, by process."""
        before = self.cpu[begin]
        return {
            name: (used - before.get(name, 0.0)) / parts for name, used in self.cpu[end].items()
        }

    def is_scraped(self, name: str) -> bool:
        """Return whether the running worker of this name has returned its metrics."""
        return (name, self.stack.family.pid(name)) in self._metrics

    def caches(self) -> dict[str, dict[str, float]]:
        """Return the values named in `CACHE`, by core worker: the size now, and the counts of the
        others.
        """
        found = {name: dict.fromkeys(CACHE, 0.0) for name in CORES}
        for (name, _), values in self._metrics.items():
            for key, metric in CACHE.items():
                before = found[name][key] if key != "cached" else 0.0
                found[name][key] = before + values.get(metric, 0.0)
        return found


async def gather(watch: Watch, cases: int, conversations: int) -> dict[str, Any]:
    """Return all figures of a run at rest, with so many cases and conversations."""
    stack = watch.stack
    at = watch.at
    async with stack.database.begin() as tx:
        rows = list(await tx.execute(_TIMES, {"since": at["opened"]}))
        tables = [dict(row._mapping) for row in await tx.execute(_TABLES)]
        statements = [dict(row._mapping) for row in await tx.execute(_STATEMENTS)]
    return {
        "cases": cases,
        "conversations": conversations,
        "opened_per_s": (cases + conversations) / (at["opened"] - at["empty"]),
        "messages": len(rows),
        "answered": sum(row.answered is not None for row in rows),
        "answered_per_s": len(rows) / (at["rest"] - at["opened"]),
        "rested_after_s": at["rest"] - at["written"],
        "restart_s": at["restarted"] - at["restart"],
        "latency_s": latencies(rows, at["restart"]),
        "cpu_s_a_thread": watch.used("empty", "opened", cases + conversations),
        "cpu_s_a_message": watch.used("opened", "rest", len(rows)),
        "cores_in_use": watch.used("opened", "restart", at["restart"] - at["opened"]),
        "memory_mib": watch.memory,
        "caches": watch.caches(),
        "bytes": watch.sizes,
        "tables": tables,
        "sweeps_s": await _durations(stack, SWEEP_WORKFLOW),
        "catch_ups_s": await _durations(stack, CATCH_UP_WORKFLOW),
        "workflows": (await stack.client.count_workflows("ExecutionStatus = 'Running'")).count,
        "statements": statements,
    }


async def _durations(stack: ScaleStack, workflow: str) -> list[float]:
    """Return the seconds of each ended run of a workflow."""
    runs = [run async for run in stack.client.list_workflows(f"WorkflowType = '{workflow}'")]
    return [(run.close_time - run.start_time).total_seconds() for run in runs if run.close_time]


def latencies(rows: Sequence[Any], restart: float) -> dict[str, dict[str, dict[str, float]]]:
    """Return the seconds until messages were stored and answered, by the kind of thread and before
    or after the restart.
    """
    parts = defaultdict[str, list[Any]](list)
    for row in sorted(rows, key=lambda row: (row.kind, row.said)):
        parts[f"{row.kind}, {'before' if row.said < restart else 'after'} the restart"].append(row)
    return {
        part: {
            "stored": _percentiles([row.stored - row.said for row in mine]),
            "answered": _percentiles([row.answered - row.said for row in mine if row.answered]),
        }
        for part, mine in parts.items()
    }


def _percentiles(seconds: Sequence[float]) -> dict[str, float]:
    shares = (
        {name: percentile(seconds, share) for name, share in SHARES.items()} if seconds else {}
    )
    return {"count": float(len(seconds)), **shares}


# -- the table


def markdown(told: Mapping[str, Any], faults: int, machine: Machine) -> str:
    """Return the block of docs/performance.md."""
    return "\n\n".join(
        (_summary(told, faults, machine), _waits(told), _processes(told), _databases(told))
    )


def _summary(told: Mapping[str, Any], faults: int, machine: Machine) -> str:
    return (
        f"Measured {machine.measured} on {machine.cores} cores ({machine.processor}), "
        f"{machine.memory_gib} GiB; load when it began: {machine.load}. {told['cases']:,} cases "
        f"and {told['conversations']:,} conversations were opened at "
        f"{told['opened_per_s']:.1f}/s. Then {told['messages']:,} messages came at "
        f"{told['rate']:g}/s and were worked off at {told['answered_per_s']:.1f}/s; all was at "
        f"rest {told['rested_after_s']:.0f} s after the last. Every worker was restarted within "
        f"{told['restart_s']:.0f} s. The catch-up sent {told['caught_up']:,} messages again. "
        "Lost, mixed up, failed or answered twice: "
        f"{f'{faults} faults' if faults else 'nothing'}."
    )


def _waits(told: Mapping[str, Any]) -> str:
    head = [f"{end}, {name}" for end in _ENDS for name in SHARES]
    rows = [
        [
            part,
            *(
                f"{waits[end][name]:.3g}" if waits[end]["count"] else "–"
                for end in _ENDS
                for name in SHARES
            ),
        ]
        for part, waits in told["latency_s"].items()
    ]
    return _table(["seconds until a message is", *head], rows)


_ENDS = ("stored", "answered")


def _processes(told: Mapping[str, Any]) -> str:
    """Return a row for each process, the busiest first, and their sum without the harness."""
    columns: dict[str, tuple[Mapping[str, float], Callable[[float], str]]] = {
        "CPU a thread opened, ms": (
            told["cpu_s_a_thread"],
            lambda seconds: f"{1e3 * seconds:,.1f}",
        ),
        "CPU a message (with the restart), ms": (
            told["cpu_s_a_message"],
            lambda seconds: f"{1e3 * seconds:,.1f}",
        ),
        "cores in use": (told["cores_in_use"], lambda cores: f"{cores:.2f}"),
        "MiB, all open": (told["memory_mib"]["opened"], lambda mib: f"{mib:,.0f}"),
        "MiB, at the end": (told["memory_mib"]["rest"], lambda mib: f"{mib:,.0f}"),
    }
    names = sorted(
        told["cpu_s_a_message"], key=lambda name: (name == HARNESS, -told["cpu_s_a_message"][name])
    )
    rows = []
    for name in names:
        cache = told["caches"].get(name, {})
        counts = [f"{cache[key]:,.0f}" if key in cache else "–" for key in _COUNTED]
        rows.append(
            [name, *(show(values.get(name, 0.0)) for values, show in columns.values()), *counts]
        )
    ours = [
        sum(value for name, value in values.items() if name != HARNESS)
        for values, _ in columns.values()
    ]
    total = [show(value) for value, (_, show) in zip(ours, columns.values(), strict=True)]
    rows.append(
        [
            f"all but the {HARNESS}",
            *total,
            *([f"{told['workflows']:,} run"] + ["–"] * (len(_COUNTED) - 1)),
        ]
    )
    return _table(["process", *columns, "workflows cached", "cache misses", "evictions"], rows)


_COUNTED = ("cached", "misses", "evictions")


def _databases(told: Mapping[str, Any]) -> str:
    """Return five points: the databases with their bloat, and the three slowest statements."""
    tables = told["tables"]
    threads = told["cases"] + told["conversations"]
    before = told["bytes"]["empty"]
    after = told["bytes"]["rest"]
    sizes = {
        name: (
            f"{_mib(size)} MiB, {(size - before[name]) / threads / 1024:.1f} KiB a thread beyond "
            "an empty one"
        )
        for name, size in after.items()
    }
    largest = ", ".join(
        f"{each['name']} {_mib(each['bytes'])} + {_mib(each['indexes'])}" for each in tables[:4]
    )
    dead = sorted(tables, key=lambda each: -each["dead"])[:3]
    shown = ", ".join(
        f"{each['name']} {each['dead']:,} of {each['live'] + each['dead']:,}" for each in dead
    )
    unused, whole = (_mib(sum(each[name] for each in tables)) for name in ("unused", "bytes"))
    points = [
        f"Postgres: {sizes['postgres']}; the largest tables + their indexes: {largest} MiB. "
        f"Bloat: {unused} MiB of the tables' {whole} are free or dead; most dead rows: {shown}.",
        f"Temporal's database: {sizes['temporal']}. Sweeps: {_lasting(told['sweeps_s'])}; "
        f"catch-ups: {_lasting(told['catch_ups_s'])}.",
    ]
    points += [
        f"`{each['query'][:70].replace('`', '')}…`: {each['calls']:,} calls, "
        f"{each['mean_ms']:.2f} ms each, at most {each['max_ms']:.0f}; {each['blocks']:.0f} "
        "blocks."
        for each in told["statements"][:3]
    ]
    return "\n".join(f"- {point}" for point in points)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---", *["--:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _lasting(seconds: Sequence[float]) -> str:
    return f"{len(seconds)} ended, the longest after {max(seconds, default=0.0):,.0f} s"


def _mib(size: float) -> str:
    return f"{size / 2**20:,.1f}"
