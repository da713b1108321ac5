"""Doctor finds faults without a visible failure, on a real Temporal and a real Postgres."""

import asyncio
import base64
import time
from collections.abc import Awaitable, Callable

import pytest
from sqlalchemy import text
from temporalio import workflow
from temporalio.client import Client
from temporalio.worker import Worker

from tests.support.patience import patient
from tests.support.temporal import connect
from threadline.db.engine import Database
from threadline.errors import Permanent
from threadline.privacy.keys import KeyRing, parse_keys
from threadline.threads.fault_store import FaultStore
from threadline.wiring import silent_faults
from threadline.wiring.temporal import data_converter

pytestmark = pytest.mark.asyncio(loop_scope="session")

SOON = "system.numConsecutiveWorkflowTaskProblemsToTriggerSearchAttribute=1"
"""The server reports a workflow after the first failure of its task; by default it waits for the
fifth.
"""


@workflow.defn(name="patient", sandboxed=False)
class Patient:
    @workflow.run
    async def run(self, given: str) -> str:
        await workflow.sleep(3600)
        return given


def ring(*names: str) -> KeyRing:
    return parse_keys(
        ",".join(f"{name}:{base64.b64encode(name[:1].encode() * 32).decode()}" for name in names)
    )


async def with_keys(client: Client, keys: KeyRing) -> Client:
    address = client.service_client.config.target_host
    return await Client.connect(
        address, namespace=client.namespace, data_converter=data_converter(keys)
    )


async def advice(check: Callable[[], Awaitable[str]]) -> str:
    with pytest.raises(Permanent) as raised:
        await check()
    return str(raised.value)


async def until_advised(check: Callable[[], Awaitable[str]]) -> str:
    async with asyncio.timeout(patient(60)):
        while True:
            try:
                await check()
            except Permanent as told:
                return str(told)
            await asyncio.sleep(0.1)


async def test_key_that_was_dropped_too_early_is_named_before_anything_fails() -> None:
    server = await connect()
    client = await with_keys(server, ring("old"))
    await client.start_workflow(Patient.run, "x", id="case-1", task_queue="q")

    async def check() -> str:
        return await silent_faults.check_payload_keys(client, ring("new"))

    told = await until_advised(check)
    assert "lacks keys that open workflows need: 'old' (case-1)" in told
    assert "Add them after the others" in told
    assert (await silent_faults.check_payload_keys(client, ring("new", "old"))).startswith(
        "the 1 oldest"
    )
    assert "'old' (case-1)" in await advice(lambda: silent_faults.check_payload_keys(client, None))


async def test_workflow_whose_tasks_fail_is_named_with_advice() -> None:
    server = await connect(SOON)
    client = await with_keys(server, ring("old"))
    assert await silent_faults.check_reported_problems(client) == "none are reported"
    await client.start_workflow(Patient.run, "x", id="case-2", task_queue="q")
    async with Worker(await with_keys(server, ring("new")), task_queue="q", workflows=[Patient]):
        told = await until_advised(lambda: silent_faults.check_reported_problems(client))
    assert told.startswith("1 open workflow cannot go on")
    assert "case-2: WorkflowWorkerUnhandledFailure (the workers' log" in told
    assert "THREADLINE_PAYLOAD_KEYS" in told


@pytest.mark.parametrize(
    ("problems", "told"),
    [
        (
            ["category=WorkflowTaskFailed", "cause=WorkflowTaskFailedCauseNonDeterministicError"],
            (
                "NonDeterministicError (the code decides differently from what is recorded: see "
                "`threadline replay`)"
            ),
        ),
        (
            ["category=WorkflowTaskTimedOut", "cause=Started"],
            "Started (the workers' log has the reason)",
        ),
        ([], " (the workers' log has the reason)"),
    ],
)
async def test_problem_is_reported_in_temporals_words_with_advice(
    problems: list[str], told: str
) -> None:
    assert silent_faults.advice_for(problems) == told


ADD_POST = text("INSERT INTO posts (key, channel, claimed_at, ts) VALUES (:key, 'C1', :at, :ts)")
ADD_TURNS = text("""
WITH thread AS (
    INSERT INTO conversations (team, channel, thread_ts, stored)
    VALUES ('T1', 'C2', '100.000001', 1) RETURNING id
)
INSERT INTO conversation_turns (
    conversation_id, turn, kind, answer, user_id, settled_at, posted_at
)
SELECT id, t.turn, 'answered', t.answer, 'U1', now() - make_interval(secs => t.age),
       t.posted_at
FROM thread, (
    VALUES (1, 'Yes.', 400, NULL::timestamptz), (2, 'No.', 400, now()), (3, '', 400, NULL),
           (4, 'Soon.', 60, NULL), (5, 'Long ago.', 2600000, NULL)
) AS t (turn, answer, age, posted_at)
""")


async def test_posts_that_are_late_are_named(database: Database) -> None:
    assert (await silent_faults.check_unposted(database)).startswith("nothing has been due")
    now = time.time()
    claims = (
        ("late", 400, None),
        ("sent", 400, "1.2"),
        ("fresh", 60, None),
        ("old", 2_600_000, None),
    )
    async with database.begin() as tx:
        for key, age, ts in claims:
            await tx.execute(ADD_POST, {"key": key, "at": now - age, "ts": ts})
    told = await advice(lambda: silent_faults.check_unposted(database))
    assert told.startswith("Not in Slack yet: the post 'late' in C1. ")


async def test_answers_that_are_late_are_named(database: Database) -> None:
    async with database.begin() as tx:
        await tx.execute(ADD_TURNS)
    told = await advice(lambda: silent_faults.check_unposted(database))
    assert told.startswith("Not in Slack yet: the answer of turn 1 in C2/100.000001. ")
    assert "the next sweep then posts the answers" in told


async def test_open_faults_are_reported_until_they_are_over(database: Database) -> None:
    assert await silent_faults.check_faults(database) == "none are open"
    async with database.begin() as tx:
        await FaultStore(tx).report("disk_full", "", "The disk is full: make room.", time.time())
    told = await advice(lambda: silent_faults.check_faults(database))
    assert told.startswith("Since ")
    assert told.endswith("The disk is full: make room.")
    async with database.begin() as tx:
        await FaultStore(tx).resolve("disk_full", "", time.time())
    assert await silent_faults.check_faults(database) == "none are open"
