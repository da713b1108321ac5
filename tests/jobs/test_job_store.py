"""Jobs in the database are scheduled once per call, run unless they are cancelled, and are pruned
when old.
"""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import text

from tests.support.recording import AUTHOR, explained
from tests.support.tool_store import NOW, THREAD, change
from threadline.db.engine import Database
from threadline.jobs.model import AgentJob, JobFilter, JobRefused, JobSchedule, JobStatus, NewJob
from threadline.jobs.store import JobStore

AT = JobSchedule(at=datetime(2026, 3, 1, 9, tzinfo=UTC))
WEEKLY = JobSchedule(cron="0 9 * * 1", time_zone="Europe/Berlin")
START = datetime.fromtimestamp(NOW, UTC)
LATER = datetime.fromtimestamp(NOW + 5, UTC)


async def schedule(
    database: Database, call_id: str = "s1", when: JobSchedule = AT, **more: Any
) -> AgentJob:
    arguments = more.get("arguments", {"channel": "C1", "nul": "a\x00b"})
    new = NewJob(
        job_type=more.get("job_type", "status_digest"),
        arguments=arguments,
        schedule=when,
        rfp_id=more.get("rfp_id", ""),
    )
    async with database.begin() as tx:
        return await JobStore(tx).schedule(change(call_id), new)


async def cancel(database: Database, job_id: str, team: str = "T1") -> AgentJob:
    async with database.begin() as tx:
        return await JobStore(tx).cancel(team, job_id, NOW)


async def test_job_is_scheduled_once_per_call(database: Database) -> None:
    job, *others = await asyncio.gather(*(schedule(database) for _ in range(5)))
    assert others == [job] * 4
    assert job.workflow_id == f"job:T1:{job.job_id.removeprefix('JOB-')}"
    assert (job.status, job.schedule, job.arguments) == (
        JobStatus.SCHEDULED,
        AT,
        {"channel": "C1", "nul": "ab"},
    )
    assert (job.author, job.channel, job.thread_ts, job.runs) == (
        AUTHOR,
        THREAD.channel,
        THREAD.ts,
        0,
    )
    async with database.begin() as tx:
        assert await JobStore(tx).get("T1", job.job_id.lower()) == job
        assert await JobStore(tx).search("T1") == [job]
        for team, job_id in (("T2", job.job_id), ("T1", "JOB-999"), ("T1", "\x00")):
            with pytest.raises(JobRefused):
                await JobStore(tx).get(team, job_id)


@pytest.mark.parametrize(
    ("given", "refusal"),
    [
        ({"job_type": " \x00"}, "needs a type"),
        ({"when": JobSchedule()}, "either one time"),
        ({"when": JobSchedule(at=AT.at, cron="* * * * *")}, "either one time"),
        ({"when": JobSchedule(at=datetime(2026, 3, 1, 9))}, "with a time zone"),  # noqa: DTZ001
        ({"arguments": {"x": "y" * 20_000}}, "16,000"),
        ({"arguments": [1]}, "must be a JSON object"),
    ],
)
async def test_invalid_job_is_refused(
    database: Database, given: dict[str, Any], refusal: str
) -> None:
    with pytest.raises(JobRefused, match=refusal):
        await schedule(database, **given)


async def test_job_runs_once_and_is_done_or_failed(database: Database) -> None:
    job = await schedule(database)
    failing = await schedule(database, "s2")
    async with database.begin() as tx:
        jobs = JobStore(tx)
        running = await jobs.begin("T1", job.job_id, "run-1", NOW)
        assert running
        assert (running.status, running.runs) == (JobStatus.RUNNING, 1)
        assert await jobs.begin("T1", job.job_id, "run-1", NOW + 1) == running
        done = await jobs.finish("T1", job.job_id, "run-1", NOW + 5, result={"posted": True})
        assert (done.status, done.result, done.error, done.finished_at) == (
            JobStatus.DONE,
            {"posted": True},
            "",
            LATER,
        )
        assert (
            await jobs.finish("T1", job.job_id, "run-1", NOW + 5, result={"posted": True}) == done
        )
        assert await jobs.begin("T1", job.job_id, "run-2", NOW + 9) == done, "it is over"
        await jobs.begin("T1", failing.job_id, "run-1", NOW)
        failed = await jobs.finish(
            "T1", failing.job_id, "run-1", NOW + 5, error="no such\x00 channel"
        )
        assert (failed.status, failed.error, failed.result) == (
            JobStatus.FAILED,
            "no such channel",
            None,
        )
    assert await cancel(database, job.job_id) == done


async def test_cron_waits_for_its_next_time_after_each_run(database: Database) -> None:
    job = await schedule(database, when=WEEKLY)
    async with database.begin() as tx:
        for number, error in enumerate(("", "no such channel", ""), 1):
            await JobStore(tx).begin("T1", job.job_id, f"run-{number}", NOW)
            after = await JobStore(tx).finish(
                "T1", job.job_id, f"run-{number}", NOW + 5, error=error
            )
            assert (after.status, after.runs, after.error) == (JobStatus.SCHEDULED, number, error)
        await JobStore(tx).begin("T1", job.job_id, "run-4", NOW)
        late = await JobStore(tx).finish("T1", job.job_id, "run-3", NOW + 9, error="late")
        assert (late.status, late.error) == (JobStatus.RUNNING, ""), "only the latest run counts"


async def test_cancelled_job_stays_cancelled(database: Database) -> None:
    job = await schedule(database)
    async with database.begin() as tx:
        await JobStore(tx).begin("T1", job.job_id, "run-1", NOW)
    gone = await cancel(database, f" {job.job_id.lower()} ")
    assert gone.status is JobStatus.CANCELLED
    for _ in range(2):
        assert await cancel(database, job.job_id) == gone
    async with database.begin() as tx:
        late = await JobStore(tx).finish("T1", job.job_id, "run-1", NOW + 5, result=1)
        assert (late.status, late.result) == (JobStatus.CANCELLED, 1)
        again = await JobStore(tx).begin("T1", job.job_id, "run-2", NOW)
        assert again
        assert (again.status, again.run_key) == (JobStatus.CANCELLED, "run-1")
    with pytest.raises(JobRefused):
        await cancel(database, job.job_id, team="T2")


async def test_jobs_are_found_by_type_status_rfp_and_time(database: Database) -> None:
    first = await schedule(database, "s1")
    second = await schedule(database, "s2", WEEKLY, job_type="follow_up", rfp_id="rfp_abc123")
    gone = await cancel(database, first.job_id)
    async with database.begin() as tx:
        search = JobStore(tx).search
        assert await search("T1") == [second, gone]
        assert await search("T1", limit=1) == [second]
        assert await search("T1", JobFilter(status=JobStatus.CANCELLED)) == [gone]
        assert await search("T1", JobFilter(job_type="follow_up")) == [second]
        assert await search("T1", JobFilter(rfp_id="rfp_abc123")) == [second]
        assert await search("T2") == []
        assert await search("T1", JobFilter(open_only=True)) == [second]
        assert await search("T1", JobFilter(since=AT.at)) == [gone]
        assert await search("T1", JobFilter(since=START, until=AT.at)) == [second]
        begun = await JobStore(tx).begin("T1", second.job_id, "run-1", NOW + 10**6)
        assert await search("T1", JobFilter(since=AT.at)) == [begun, gone]


async def test_open_jobs_of_all_teams_come_page_by_page(database: Database) -> None:
    first, gone, last = [await schedule(database, call) for call in ("s1", "s2", "s3")]
    await cancel(database, gone.job_id)
    async with database.begin() as tx:
        (one,) = await JobStore(tx).open_jobs(0, 1)
        assert one == first
        assert await JobStore(tx).open_jobs(one.id, 10) == [last]


async def test_only_a_waiting_job_is_postponed(database: Database) -> None:
    once = await schedule(database, "s1")
    cron = await schedule(database, "s2", WEEKLY)
    async with database.begin() as tx:
        for job in (once, cron):
            await JobStore(tx).postpone("T1", job.job_id, LATER)
        assert (await JobStore(tx).get("T1", once.job_id)).schedule == JobSchedule(at=LATER)
        assert (await JobStore(tx).get("T1", cron.job_id)).schedule == WEEKLY
        await JobStore(tx).begin("T1", once.job_id, "run-1", NOW)
        await JobStore(tx).postpone("T1", once.job_id, START)
        assert (await JobStore(tx).get("T1", once.job_id)).schedule == JobSchedule(at=LATER)


async def test_only_ended_jobs_are_forgotten_by_when_they_ended(database: Database) -> None:
    waiting = await schedule(database, "s1")
    done = await schedule(database, "s2")
    idle = await schedule(database, "s3", WEEKLY)
    working = await schedule(database, "s4", WEEKLY)
    async with database.begin() as tx:
        jobs = JobStore(tx)
        await jobs.begin("T1", done.job_id, "run-1", NOW)
        await jobs.finish("T1", done.job_id, "run-1", NOW + 100)
        await jobs.begin("T1", working.job_id, "run-1", NOW)
        for job in (idle, working, done):
            await jobs.cancel("T1", job.job_id, NOW + 1_000)
        await jobs.cancel("T1", idle.job_id, NOW + 2_000)
        assert (await jobs.get("T1", done.job_id)).status is JobStatus.DONE
        dropped = await jobs.get("T1", idle.job_id)
        assert (dropped.status, dropped.is_running) == (JobStatus.CANCELLED, False)
        assert (await jobs.get("T1", working.job_id)).is_running, "its run goes on"
        await jobs.finish("T1", working.job_id, "run-1", NOW + 1_001)
        forgotten = [await jobs.prune(NOW + seconds) for seconds in (99, 101, 999, 1_002)]
        assert forgotten == [0, 1, 0, 2]
        assert [each.job_id for each in await jobs.search("T1")] == [waiting.job_id]


async def test_calls_at_once_do_not_pass_the_limit_of_open_jobs(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("threadline.jobs.store.MAX_OPEN_JOBS", 3)
    calls = (schedule(database, f"s{number}") for number in range(8))
    made = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(each) for each in made].count(AgentJob) == 3
    assert [type(each) for each in made].count(JobRefused) == 5


async def test_lists_read_by_an_index(database: Database) -> None:
    many = """
    INSERT INTO agent_jobs (team, job_type, arguments, run_at, cron, time_zone, status, rfp_id,
                            channel, thread_ts,
                            requested_by, correlation_id, operation_key, created_at)
    SELECT 'T1', 'x', '{}', now(), '', 'UTC',
           CASE WHEN n % 1000 = 0 THEN 'running' ELSE 'done' END, 'rfp_' || n,
           'C1', '1', 'U1', 'c', 'k' || n, now()
    FROM generate_series(1, 20000) n
    """
    async with database.begin() as tx:
        await tx.execute(text(many))
        await tx.execute(text("ANALYZE agent_jobs"))
    async with explained(database) as (tx, asked):
        await JobStore(tx).search("T1", limit=10)
        await JobStore(tx).search("T1", JobFilter(status=JobStatus.RUNNING), limit=10)
        await JobStore(tx).search("T1", JobFilter(rfp_id="rfp_7"), limit=10)
        await JobStore(tx).get("T1", "JOB-7")
    assert [plan for plan in asked.plans if "Seq Scan" in plan] == []
    assert len(asked.plans) == 4
