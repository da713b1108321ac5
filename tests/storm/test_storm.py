"""No message is lost, none is answered twice: under bursts, duplicates, lost results, killed workers, late answers."""

import asyncio
import os
import random
import time
from pathlib import Path

import asyncpg
import pytest
from sqlalchemy import text

from tests.storm.oracle import faults
from tests.storm.scene import Storm, storm
from threadline.db.engine import Database
from threadline.domain.messages import IncomingMessage

CASES, MESSAGES = 20, 25


async def _rage(scene: Storm, cases: int, count: int, seed: int, kills: tuple[float, ...]) -> dict[str, IncomingMessage]:
    plans = [scene.report(count, random.Random(f"{seed}:{number}")) for number in range(cases)]
    async with asyncio.TaskGroup() as together:
        for plan in plans:
            together.create_task(scene.play(plan))
        for number, after in enumerate(kills):
            together.create_task(_kill(scene, after, scene.workers[number % len(scene.workers)]))
    return {identity: message for plan in plans for identity, message in plan.messages.items()}


async def _kill(scene: Storm, after: float, name: str) -> None:
    await asyncio.sleep(after)
    await scene.kill_and_replace(name)


async def test_a_storm_with_killed_workers_loses_nothing_and_answers_nothing_twice(
    database: Database, database_url: str, pool: asyncpg.Pool, tmp_path: Path
) -> None:
    seed = int(os.environ.get("THREADLINE_STORM_SEED") or random.randrange(10**6))
    print(f"THREADLINE_STORM_SEED={seed}")  # noqa: T201 - pytest shows it when the test fails
    t = time.monotonic()
    async with storm(database, database_url, pool, tmp_path, seed) as scene:
        print("up", time.monotonic() - t)
        expected = await _rage(scene, CASES, MESSAGES, seed, kills=(2.0, 5.0))
        print("sent", time.monotonic() - t)
        try:
            await scene.until_calm(60)
        finally:
            print("calm", time.monotonic() - t)
        found = await faults(scene, expected | scene.sent)
        print("judged", time.monotonic() - t)
        from collections import Counter
        print(Counter([(w.workflow_type, w.status.name) async for w in scene.client.list_workflows()]))
        async with scene.database.begin() as work:
            for q in ("select to_status, reason, count(*) from case_transitions group by 1,2 order by 3", "select status, action, count(*), max(attempt) from agent_turns group by 1,2", "select count(*), count(*) filter (where turn=0), count(*) filter (where turn is null), count(*) filter (where read_through is not null) from bug_conversations where sender_type<>'bot'"):
                for row in await work.connection.execute(text(q)): print(tuple(row))
        assert not found, "\n".join(found)
