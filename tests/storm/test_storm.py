"""No message is lost, none is answered twice: under bursts, duplicates, lost results, killed workers, late answers."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from secrets import randbelow

import asyncpg
import pytest
from sqlalchemy import text

from tests.storm.oracle import faults, weather
from tests.storm.plan import CasePlan, dice
from tests.storm.scene import Storm, storm
from threadline.bootstrap import replayer
from threadline.db.engine import Database
from threadline.domain.messages import IncomingMessage

pytestmark = pytest.mark.timeout(300)

CASES, MESSAGES = 20, 25
KILLS = (2.0, 5.0)
"""Seconds after which a core worker is killed, and another one started."""

_FORGET_WHAT_ONE_TURN_SAW = text("""
UPDATE agent_turns SET result = result - 'seen' WHERE (bug_id, turn) = (
    SELECT bug_id, turn FROM agent_turns WHERE status = 'done' AND first_seq = 1 LIMIT 1)
""")


async def _rage(scene: Storm, plans: Sequence[CasePlan], kills: Sequence[float] = ()) -> None:
    async def kill(after: float, name: str) -> None:
        await asyncio.sleep(after)
        await scene.kill_and_replace(name)

    async with asyncio.TaskGroup() as together:
        for plan in plans:
            together.create_task(scene.play(plan))
        for after, name in zip(kills, scene.workers, strict=False):
            together.create_task(kill(after, name))
    await scene.until_calm(60, 150)


def _messages(plans: Sequence[CasePlan]) -> Mapping[str, IncomingMessage]:
    return {identity: message for plan in plans for identity, message in plan.messages.items()}


@pytest.mark.promise("intake:storing:storm", "order:marks:newest-counts")
async def test_a_storm_with_killed_workers_loses_nothing_and_answers_nothing_twice(
    database: Database, database_url: str, pool: asyncpg.Pool, tmp_path: Path
) -> None:
    """The seed gives the same messages again, in the same bursts; what meets what is up to the machine."""
    seed = int(os.environ.get("THREADLINE_STORM_SEED") or randbelow(10**6))
    print(f"THREADLINE_STORM_SEED={seed}")  # noqa: T201 - pytest shows it when the test fails
    async with storm(database, database_url, pool, tmp_path, seed) as scene:
        plans = [scene.report(MESSAGES, dice(f"{seed}:{number}")) for number in range(CASES)]
        await _rage(scene, plans, KILLS)
        found = await faults(scene, {**scene.sent, **_messages(plans)})
        assert not found, f"seed {seed}:\n" + "\n".join(found)
        calm = [what for what, times in (await weather(scene)).items() if not times]
        assert not calm, f"seed {seed} was no storm: nothing was {' or '.join(calm)}"
        runs = scene.client.list_workflows().map_histories()
        replayed = await replayer().replay_workflows(runs, raise_on_replay_failure=False)
        assert not replayed.replay_failures, f"seed {seed}"


@pytest.mark.promise("intake:storing:storm")
async def test_the_oracle_sees_what_is_lost_unused_unposted_or_posted_twice(
    database: Database, database_url: str, pool: asyncpg.Pool, tmp_path: Path
) -> None:
    async with storm(database, database_url, pool, tmp_path, 1, workers=1) as scene:
        plan = scene.report(6, dice("1"))
        withheld = plan.bursts[-1].messages[0]
        await _rage(scene, [CasePlan(plan.thread, plan.bursts[:-1])])

        async def seen(words: str) -> bool:
            return any(words in fault for fault in await faults(scene, {**scene.sent, **plan.messages}))

        assert await seen(f"{withheld.id} was never stored")
        await scene.deliver(plan.thread, withheld)
        await scene.until_calm(60, 150)
        assert await faults(scene, {**scene.sent, **plan.messages}) == []

        findings = next(post for post in scene.posts() if post.key.endswith(":findings"))
        place = scene.slack.workspace.channel(findings.channel).messages
        place["again"] = findings.message
        assert await seen(f"{findings.key} was posted 2 times")
        del place["again"], place[findings.message.ts]
        assert await seen("was not posted")
        async with scene.database.begin() as work:
            await work.connection.execute(_FORGET_WHAT_ONE_TURN_SAW)
        assert await seen("was used 0 times")
