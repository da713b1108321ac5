"""Work for later: scheduled once for each call, run as long as nobody cancels it."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import text

from tests.support.recording import AUTHOR, explained
from tests.support.tool_store import NOW, THREAD, change
from threadline.db.engine import Database
from threadline.jobs.model import AgentJob, JobNotFound, JobQuery, JobRefused, JobSchedule, JobStatus, NewJob

AT = JobSchedule(at=datetime(2026, 3, 1, 9, tzinfo=UTC))
WEEKLY = JobSchedule(cron="0 9 * * 1", time_zone="Europe/Berlin")
LATER = datetime.fromtimestamp(NOW + 5, UTC)


async def schedule(database: Database, call_id: str = "s1", when: JobSchedule = AT, **more: Any) -> AgentJob:
    arguments = more.get("arguments", {"channel": "C1", "nul": "a\x00b"})
    new = NewJob(more.get("job_type", "status_digest"), arguments, when, more.get("rfp_id", ""))
    async with database.begin() as work:
        return await work.agent_jobs.schedule(change(call_id), new, AUTHOR)


async def cancel(database: Database, job_id: str, call_id: str = "x1", team: str = "T1") -> AgentJob:
    async with database.begin() as work:
        return await work.agent_jobs.cancel(change(call_id, team=team), job_id)


async def test_a_job_is_scheduled_once_for_each_call(database: Database) -> None:
    jobs = await asyncio.gather(*(schedule(database) for _ in range(5)))
    assert all(each == jobs[0] for each in jobs)
    job = jobs[0]
    assert job.workflow_id == f"job:T1:{job.job_id.removeprefix('JOB-')}"
    assert (job.status, job.schedule, job.arguments) == (JobStatus.SCHEDULED, AT, {"channel": "C1", "nul": "ab"})
    assert (job.author, job.channel, job.thread_ts, job.runs) == (AUTHOR, THREAD.channel, THREAD.ts, 0)
    async with database.begin() as work:
        assert await work.agent_jobs.get("T1", job.job_id.lower()) == job
        assert await work.agent_jobs.listed("T1") == [job]
        for team, job_id in (("T2", job.job_id), ("T1", "JOB-999"), ("T1", "\x00")):
            with pytest.raises(JobNotFound):
                await work.agent_jobs.get(team, job_id)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"job_type": " \x00"}, "needs a type"),
        ({"when": JobSchedule()}, "either one time"),
        ({"when": JobSchedule(at=AT.at, cron="* * * * *")}, "either one time"),
        ({"when": JobSchedule(at=datetime(2026, 3, 1, 9))}, "with a time zone"),  # noqa: DTZ001
        ({"arguments": {"x": "y" * 20_000}}, "the maximum is 16,000"),
        ({"arguments": [1]}, "must be a JSON object"),
    ],
)
async def test_what_is_no_job_is_refused_in_plain_words(database: Database, given: dict[str, Any], says: str) -> None:
    with pytest.raises(JobRefused, match=says):
        await schedule(database, **given)


async def test_a_job_runs_once_and_is_done(database: Database) -> None:
    job = await schedule(database)
    async with database.begin() as work:
        running = await work.agent_jobs.begin("T1", job.job_id, "run-1", NOW)
        assert (running.status, running.runs) == (JobStatus.RUNNING, 1)
        assert await work.agent_jobs.begin("T1", job.job_id, "run-1", NOW + 1) == running
        done = await work.agent_jobs.settle("T1", job.job_id, "run-1", NOW + 5, result={"posted": True})
        assert (done.status, done.result, done.error, done.finished_at) == (JobStatus.DONE, {"posted": True}, "", LATER)
        assert await work.agent_jobs.settle("T1", job.job_id, "run-1", NOW + 5, result={"posted": True}) == done
        assert await work.agent_jobs.begin("T1", job.job_id, "run-2", NOW + 9) == done, "it is over"
    with pytest.raises(JobRefused, match="cannot be cancelled"):
        await cancel(database, job.job_id)


async def test_a_cron_waits_for_its_next_time_whatever_came_of_the_last(database: Database) -> None:
    job = await schedule(database, when=WEEKLY)
    async with database.begin() as work:
        for number, error in enumerate(("", "no such channel", ""), 1):
            await work.agent_jobs.begin("T1", job.job_id, f"run-{number}", NOW)
            after = await work.agent_jobs.settle("T1", job.job_id, f"run-{number}", NOW + 5, error=error)
            assert (after.status, after.runs, after.error) == (JobStatus.SCHEDULED, number, error)
        await work.agent_jobs.begin("T1", job.job_id, "run-4", NOW)
        late = await work.agent_jobs.settle("T1", job.job_id, "run-3", NOW + 9, error="late")
        assert (late.status, late.error) == (JobStatus.RUNNING, ""), "a run before the latest says nothing any more"


async def test_a_failure_is_told(database: Database) -> None:
    job = await schedule(database)
    async with database.begin() as work:
        await work.agent_jobs.begin("T1", job.job_id, "run-1", NOW)
        failed = await work.agent_jobs.settle("T1", job.job_id, "run-1", NOW + 5, error="no such\x00 channel")
    assert (failed.status, failed.error, failed.result) == (JobStatus.FAILED, "no such channel", None)


async def test_a_cancelled_job_stays_cancelled(database: Database) -> None:
    job = await schedule(database)
    async with database.begin() as work:
        await work.agent_jobs.begin("T1", job.job_id, "run-1", NOW)
    gone = await cancel(database, f" {job.job_id.lower()} ")
    assert gone.status is JobStatus.CANCELLED
    assert await cancel(database, job.job_id) == gone
    assert await cancel(database, job.job_id, "x2") == gone
    async with database.begin() as work:
        late = await work.agent_jobs.settle("T1", job.job_id, "run-1", NOW + 5, result=1)
        assert (late.status, late.result) == (JobStatus.CANCELLED, 1)
        assert (await work.agent_jobs.begin("T1", job.job_id, "run-2", NOW)).status is JobStatus.CANCELLED
    with pytest.raises(JobNotFound):
        await cancel(database, job.job_id, "x3", team="T2")


async def test_lists_are_narrowed_as_asked(database: Database) -> None:
    first = await schedule(database, "s1")
    second = await schedule(database, "s2", job_type="follow_up", rfp_id="rfp_abc123")
    gone = await cancel(database, first.job_id)
    async with database.begin() as work:
        listed = work.agent_jobs.listed
        assert await listed("T1") == [second, gone]
        assert await listed("T1", limit=1) == [second]
        assert await listed("T1", status=JobStatus.CANCELLED) == [gone]
        assert await listed("T1", job_type="follow_up") == [second]
        assert await listed("T1", rfp_id="rfp_abc123") == [second]
        assert await listed("T2") == []


async def test_a_query_narrows_by_time_and_by_what_is_open(database: Database) -> None:
    first, second = await schedule(database, "s1"), await schedule(database, "s2", when=WEEKLY)
    await cancel(database, first.job_id)
    async with database.begin() as work:
        found = work.agent_jobs.found
        assert [each.job_id for each in await found("T1", JobQuery(open_only=True))] == [second.job_id]
        assert await work.agent_jobs.count_open("T1") == 1
        moment = datetime.fromtimestamp(NOW, UTC)
        assert [each.job_id for each in await found("T1", JobQuery(since=AT.at))] == [first.job_id]
        assert [each.job_id for each in await found("T1", JobQuery(since=moment, until=AT.at))] == [second.job_id]
        await work.agent_jobs.begin("T1", second.job_id, "run-1", NOW + 10**6)
        assert [each.job_id for each in await found("T1", JobQuery(since=AT.at))] == [second.job_id, first.job_id]


async def test_open_jobs_of_all_teams_come_page_by_page(database: Database) -> None:
    first, gone, last = [await schedule(database, call) for call in ("s1", "s2", "s3")]
    await cancel(database, gone.job_id)
    async with database.begin() as work:
        (one,) = await work.agent_jobs.open_ones(0, 1)
        assert (one.team, one.job) == ("T1", first)
        assert [each.job for each in await work.agent_jobs.open_ones(one.id, 10)] == [last]


async def test_only_a_job_that_waits_gets_another_moment(database: Database) -> None:
    once, cron = await schedule(database, "s1"), await schedule(database, "s2", when=WEEKLY)
    async with database.begin() as work:
        for job in (once, cron):
            await work.agent_jobs.postpone("T1", job.job_id, LATER)
        assert (await work.agent_jobs.get("T1", once.job_id)).schedule == JobSchedule(at=LATER)
        assert (await work.agent_jobs.get("T1", cron.job_id)).schedule == WEEKLY
        await work.agent_jobs.begin("T1", once.job_id, "run-1", NOW)
        await work.agent_jobs.postpone("T1", once.job_id, datetime.fromtimestamp(NOW, UTC))
        assert (await work.agent_jobs.get("T1", once.job_id)).schedule == JobSchedule(at=LATER)


async def test_what_is_dropped_is_cancelled_and_what_is_over_stays_so(database: Database) -> None:
    dropped, done = await schedule(database, "s1"), await schedule(database, "s2")
    async with database.begin() as work:
        await work.agent_jobs.begin("T1", done.job_id, "run-1", NOW)
        await work.agent_jobs.settle("T1", done.job_id, "run-1", NOW)
        for job in (dropped, dropped, done):
            await work.agent_jobs.drop("T1", job.job_id, NOW + 9)
        assert (await work.agent_jobs.get("T1", dropped.job_id)).status is JobStatus.CANCELLED
        assert (await work.agent_jobs.get("T1", done.job_id)).status is JobStatus.DONE


async def test_only_jobs_that_are_over_are_forgotten(database: Database) -> None:
    waiting, done, gone = [await schedule(database, call) for call in ("s1", "s2", "s3")]
    await cancel(database, gone.job_id)
    async with database.begin() as work:
        await work.agent_jobs.begin("T1", done.job_id, "run-1", NOW)
        await work.agent_jobs.settle("T1", done.job_id, "run-1", NOW + 100)
        assert await work.agent_jobs.prune(NOW) == 0
        assert await work.agent_jobs.prune(NOW + 50) == 1
        assert await work.agent_jobs.prune(NOW + 101) == 1
        assert [each.job_id for each in await work.agent_jobs.listed("T1")] == [waiting.job_id]


async def test_a_job_is_kept_from_when_it_was_cancelled_on(database: Database) -> None:
    """However long ago it was asked for; of one that was at work then the end is still to come."""
    idle, working = await schedule(database, "s1", WEEKLY), await schedule(database, "s2", WEEKLY)
    async with database.begin() as work:
        await work.agent_jobs.begin("T1", working.job_id, "run-1", NOW)
        for job in (idle, working):
            await work.agent_jobs.drop("T1", job.job_id, NOW + 1_000)
        assert (await work.agent_jobs.get("T1", working.job_id)).at_work
        assert not (await work.agent_jobs.get("T1", idle.job_id)).at_work
        await work.agent_jobs.settle("T1", working.job_id, "run-1", NOW + 1_001)
        assert await work.agent_jobs.prune(NOW + 999) == 0
        assert await work.agent_jobs.prune(NOW + 1_002) == 2


async def test_a_run_that_was_counted_and_not_begun_counts_no_more(database: Database) -> None:
    once, cron = await schedule(database, "s1"), await schedule(database, "s2", WEEKLY)
    async with database.begin() as work:
        await work.agent_jobs.begin("T1", cron.job_id, "run-1", NOW)
        await work.agent_jobs.settle("T1", cron.job_id, "run-1", NOW + 1)
        for job in (once, cron):
            await work.agent_jobs.begin("T1", job.job_id, "run-2", NOW + 2)
            assert (await work.agent_jobs.unbegin("T1", job.job_id, "run-2", NOW + 4)).at_work, "nobody cancelled it"
            await work.agent_jobs.drop("T1", job.job_id, NOW + 3)
            await work.agent_jobs.unbegin("T1", job.job_id, "run-1", NOW + 4)
            assert (await work.agent_jobs.get("T1", job.job_id)).at_work, "another run"
            for _ in range(2):
                left = await work.agent_jobs.unbegin("T1", job.job_id, "run-2", NOW + 4)
            runs = 1 if job == cron else 0
            assert (left.status, left.runs, left.at_work) == (JobStatus.CANCELLED, runs, False)
            assert (left.started_at is None) == (runs == 0)


async def test_lists_read_by_an_index(database: Database) -> None:
    many = """
    INSERT INTO agent_jobs (team, job_type, arguments, run_at, cron, time_zone, status, rfp_id, channel, thread_ts,
                            asked_by, correlation_id, operation_key, created_at)
    SELECT 'T1', 'x', '{}', now(), '', 'UTC', CASE WHEN n % 1000 = 0 THEN 'running' ELSE 'done' END, 'rfp_' || n,
           'C1', '1', 'U1', 'c', 'k' || n, now()
    FROM generate_series(1, 20000) n
    """
    async with database.begin() as work:
        await work.connection.execute(text(many))
        await work.connection.execute(text("ANALYZE agent_jobs"))
    async with explained(database) as (work, asked):
        await work.agent_jobs.listed("T1", limit=10)
        await work.agent_jobs.listed("T1", status=JobStatus.RUNNING, limit=10)
        await work.agent_jobs.listed("T1", rfp_id="rfp_7", limit=10)
        await work.agent_jobs.get("T1", "JOB-7")
    assert len(asked.plans) == 4
    for plan in asked.plans:
        assert "Seq Scan" not in plan, plan
