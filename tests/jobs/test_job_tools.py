"""The tools for jobs, through the whole pipeline on Postgres; Temporal and Slack are fakes."""

from datetime import UTC, date, datetime
from typing import Any

import pytest

from tests.support.recording import create
from tests.support.tool_scene import ToolScene
from threadline.approvals.model import ApprovalRules
from threadline.db.engine import Database
from threadline.errors import Permanent, Transient
from threadline.jobs import tools as jobs
from threadline.jobs.model import AgentJob, ChannelAdmission, JobRunner, TemporalJobStatus
from threadline.jobs.store import JobStore
from threadline.privacy.redaction import redact
from threadline.tools.context import Services

BERLIN = "Europe/Berlin"
WEEKLY: dict[str, Any] = {
    "job_type": "status_digest",
    "arguments": {},
    "cron": "0 9 * * 1",
    "time_zone": BERLIN,
}


class Runner(JobRunner):
    """Counts the started workflows, by job; the next call raises `fault`."""

    def __init__(self) -> None:
        self.running: dict[str, int] = {}
        self.stopped: list[str] = []
        self.told: list[str] = []
        self.fault: Exception | None = None

    async def start(self, job: AgentJob) -> AgentJob:
        self._raise()
        if not job.is_finished:
            self.running[job.job_id] = self.running.get(job.job_id, 0) + 1
        return job

    async def stop(self, job: AgentJob) -> None:
        self._raise()
        self.stopped.append(job.job_id)

    async def end_schedule(self, schedule_id: str) -> None:
        raise AssertionError("no tool ends what has no job")

    async def tell_owner(self, job: AgentJob, cancelled_by: str) -> None:
        self.told.append(f"{job.job_id}: {cancelled_by}")

    async def describe(self, job: AgentJob) -> TemporalJobStatus:
        self._raise()
        times = (datetime(2026, 3, 2, 8, tzinfo=UTC),) if job.schedule.cron else ()
        return TemporalJobStatus(job.job_id in self.running, "scheduled", times)

    def _raise(self) -> None:
        if self.fault:
            fault = self.fault
            self.fault = None
            raise fault


class OneChannel(ChannelAdmission):
    """Admits everybody to C1, and to no other channel."""

    async def admit(self, channel: str, user_id: str) -> str:
        if channel != "C1":
            raise Permanent(f"The bot is not in the channel {channel}.")
        return channel


@pytest.fixture
def runner() -> Runner:
    return Runner()


@pytest.fixture
def desk(database: Database, runner: Runner) -> ToolScene:
    return ToolScene(database, jobs.TOOLS, services=services(runner))


def services(runner: Runner, *approvers: str) -> Services:
    made = Services().with_service(JobRunner, runner).with_service(ChannelAdmission, OneChannel())
    return made.with_service(ApprovalRules, ApprovalRules(approvers))


async def refusal(desk: ToolScene, tool: str, **given: Any) -> str:
    result = await desk.refused(tool, **given)
    assert result.error
    return result.error.message


async def count(database: Database) -> int:
    async with database.begin() as tx:
        return len(await JobStore(tx).search("T1"))


async def test_schedule_returns_the_next_runs(
    desk: ToolScene, runner: Runner, database: Database
) -> None:
    result = await desk.ask("schedule.job", **WEEKLY)
    assert result.success
    assert "JOB-1" in result.display_text
    assert "`0 9 * * 1` (Europe/Berlin), next on Mon 2026-03-02 09:00" in result.display_text
    assert result.data["next_runs"][:2] == ["2026-03-02T09:00+01:00", "2026-03-09T09:00+01:00"]
    assert (len(result.data["next_runs"]), result.data["arguments"]) == (5, {"channel": "C1"})
    assert [each.kind for each in result.structured] == ["jobs"]
    assert runner.running == {"JOB-1": 1}
    async with database.begin() as tx:
        job = await JobStore(tx).get("T1", "JOB-1")
    assert (job.author.user_id, job.author.correlation_id) == ("U1", "turn-1"), (
        "the turn's, and not the model's"
    )


async def test_job_that_several_people_ask_for_is_refused(
    desk: ToolScene, runner: Runner, database: Database
) -> None:
    """It would run with the roles of the newest of them alone."""
    said = await refusal(desk, "schedule.job", co_requesters={"U2": "Ben (U2)"}, **WEEKLY)
    assert "Ben (U2)" in said
    assert "one person's name" in said
    assert (runner.running, await count(database)) == ({}, 0)


async def test_plan_shows_the_next_runs_and_writes_nothing(
    desk: ToolScene, runner: Runner, database: Database
) -> None:
    data = await desk.done("job.plan", **WEEKLY)
    assert data["next_runs"][4] == "2026-03-30T09:00+02:00", "the clocks go forward before that"
    assert data["when"].startswith("on the cron")
    assert (runner.running, await count(database)) == ({}, 0)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"job_type": "backup"}, "there are status_digest, deadline_reminder, follow_up"),
        ({"cron": "* * * * *"}, "too often"),
        ({"cron": None, "at": "2026-02-28T09:00"}, "is in the past"),
        ({"cron": None, "after_minutes": 10_000_000}, "after_minutes"),
        ({"at": "2026-04-01T09:00"}, "exactly one of"),
        (
            {"arguments": {"question": "How far is it?"}},
            "question is not valid for a status_digest",
        ),
        ({"arguments": {"channel": "C9"}}, "not in the channel C9"),
        ({"arguments": {"nonsense": 1}}, "arguments"),
        (
            {"job_type": "follow_up", "arguments": {"question": "Why?", "rfp_id": "rfp_none"}},
            "there is no RFP",
        ),
        (
            {"job_type": "deadline_reminder", "arguments": {"rfp_id": "rfp_abc123"}},
            "runs before the RFP's due date",
        ),
    ],
)
async def test_impossible_job_is_refused_and_not_stored(
    desk: ToolScene, runner: Runner, database: Database, given: dict[str, Any], reason: str
) -> None:
    await create(database, rfp_id="rfp_abc123", due_date=date(2026, 4, 1))
    for tool in ("schedule.job", "job.plan"):
        assert reason in await refusal(desk, tool, **(WEEKLY | given))
    assert (runner.running, await count(database)) == ({}, 0)


@pytest.mark.parametrize(
    ("facts", "days", "reason"),
    [
        ({"due_date": date(2026, 3, 3)}, 7, "fewer days_before"),
        ({}, 3, "has no due date"),
        ({"due_date": date(2026, 4, 1), "status": "won"}, 3, "needs no reminder"),
    ],
)
async def test_reminder_needs_a_due_date_ahead(
    desk: ToolScene, database: Database, facts: dict[str, Any], days: int, reason: str
) -> None:
    await create(database, rfp_id="rfp_abc123", **facts)
    given = {"rfp_id": "rfp_abc123", "days_before": days}
    reminder = {"job_type": "deadline_reminder", "arguments": given, "time_zone": BERLIN}
    assert reason in await refusal(desk, "schedule.job", **reminder)


async def test_reminder_runs_some_days_before_the_due_date(
    desk: ToolScene, database: Database
) -> None:
    await create(database, rfp_id="rfp_abc123", due_date=date(2026, 4, 1))
    given = {"rfp_id": "RFP_abc123"}
    data = await desk.done(
        "schedule.job", job_type="deadline_reminder", arguments=given, time_zone=BERLIN
    )
    assert (data["next_runs"], data["rfp_id"]) == (["2026-03-29T09:00+02:00"], "rfp_abc123")
    asked = await desk.done("agent.job.query", rfp_id="rfp_abc123")
    assert [each["job_id"] for each in asked["jobs"]] == ["JOB-1"]


async def test_retried_call_schedules_once(
    desk: ToolScene, runner: Runner, database: Database
) -> None:
    runner.fault = Transient("Temporal is away.")
    soon = WEEKLY | {"cron": None, "at": "2026-03-01T10:30"}
    with pytest.raises(Transient):
        await desk.ask("schedule.job", "s1", retries_left=2, **soon)
    desk.clock.advance(7200)
    again = await desk.ask("schedule.job", "s1", retries_left=1, **soon)
    assert again.success, "the moment is past by now, but was not when it was asked for"
    assert (again.data["job_id"], runner.running, await count(database)) == (
        "JOB-1",
        {"JOB-1": 1},
        1,
    )


@pytest.mark.parametrize("cancelled", [False, True])
async def test_lost_result_is_found_again(
    desk: ToolScene, database: Database, cancelled: bool
) -> None:
    desk.ledger.lost = RuntimeError("the worker is gone")
    with pytest.raises(RuntimeError):
        await desk.ask("schedule.job", "s1", retries_left=2, **WEEKLY)
    if cancelled:
        await desk.done("agent.job.cancel", job_id="JOB-1")
        assert "JOB-1 was cancelled in the meantime" in await refusal(
            desk, "schedule.job", call_id="s1", **WEEKLY
        )
    else:
        assert (await desk.done("schedule.job", call_id="s1", **WEEKLY))["job_id"] == "JOB-1"
    assert await count(database) == 1


async def test_job_that_temporal_refuses_is_cancelled(desk: ToolScene, runner: Runner) -> None:
    runner.fault = Permanent("Temporal refuses to start JOB-1: no such zone")
    assert "is cancelled: Temporal refuses" in await refusal(desk, "schedule.job", **WEEKLY)
    assert (await desk.done("agent.job.list"))["jobs"] == []


async def test_running_job_is_cancelled_once(
    desk: ToolScene, runner: Runner, database: Database
) -> None:
    await desk.done("schedule.job", **WEEKLY)
    async with database.begin() as tx:
        await JobStore(tx).begin("T1", "JOB-1", "run-1", desk.clock().timestamp())
    result = await desk.ask("agent.job.cancel", job_id=" job-1 ")
    assert result.display_text.startswith("JOB-1 is cancelled. It was running")
    again = await desk.ask("agent.job.cancel", job_id="JOB-1")
    assert (again.success, again.data["status"]) == (True, "cancelled")
    assert runner.stopped == ["JOB-1", "JOB-1"]
    assert "there is no job JOB-1" in await refusal(
        desk, "agent.job.cancel", job_id="JOB-1", team="T2"
    )


@pytest.mark.parametrize(
    ("channel", "user", "may"),
    [("C1", "U2", True), ("C2", "U1", True), ("C2", "U9", True), ("C2", "U2", False)],
)
async def test_job_is_cancelled_only_by_its_own_people(
    database: Database, channel: str, user: str, may: bool
) -> None:
    """U1 asked for it in C1; U9 is an approver."""
    desk = ToolScene(database, jobs.TOOLS, services=services(Runner(), "U9"))
    await desk.done("schedule.job", **WEEKLY)
    result = await desk.ask("agent.job.cancel", channel=channel, user_id=user, job_id="JOB-1")
    assert result.success is may
    assert may or (result.error and "U1" in result.error.message)
    async with database.begin() as tx:
        assert ((await JobStore(tx).get("T1", "JOB-1")).status == "cancelled") is may


async def test_owner_gets_notice_of_the_cancellation_though_temporal_is_away(
    database: Database,
) -> None:
    runner = Runner()
    desk = ToolScene(database, jobs.TOOLS, services=services(runner, "U9"))
    await desk.done("schedule.job", **WEEKLY)
    runner.fault = Transient("Temporal is away.")
    assert await desk.done("agent.job.cancel", channel="C2", user_id="U9", job_id="JOB-1")
    assert runner.told == ["JOB-1: U9"]


async def test_secret_in_a_question_is_not_stored(desk: ToolScene, database: Database) -> None:
    given = {"question": "Does ghp_9kQ2mZ7rT4vX1bN6wL8pD3sF5hJ0cY2aG7eR still work?"}
    data = await desk.done("schedule.job", job_type="follow_up", arguments=given, after_minutes=30)
    assert "9kQ2mZ7rT4vX" not in str(data)
    assert "still work?" in data["arguments"]["question"]
    grown = "Is password=hunter2! still right? ".ljust(2_995, "x")
    assert len(redact(grown)) > 3_000
    too_long = {"job_type": "follow_up", "arguments": {"question": grown}, "after_minutes": 30}
    assert "question" in await refusal(desk, "schedule.job", **too_long)
    assert await count(database) == 1


async def test_list_shows_open_jobs_and_query_all(desk: ToolScene) -> None:
    await desk.done("schedule.job", **WEEKLY)
    await desk.done(
        "schedule.job",
        job_type="follow_up",
        arguments={"question": "How far is it?"},
        after_minutes=30,
    )
    await desk.done("agent.job.cancel", job_id="JOB-2")
    (listed,) = (await desk.done("agent.job.list"))["jobs"]
    assert (listed["job_id"], listed["next_runs"][0]) == ("JOB-1", "2026-03-02T09:00+01:00")

    async def found(**asked: Any) -> list[str]:
        return [each["job_id"] for each in (await desk.done("agent.job.query", **asked))["jobs"]]

    assert await found() == ["JOB-2", "JOB-1"]
    assert await found(job_type="follow up") == ["JOB-2"]
    assert await found(status="cancelled") == ["JOB-2"]
    assert await found(since="2026-03-01T09:10") == ["JOB-2"]
    assert await found(until="2026-03-01T09:10Z") == ["JOB-1"]
    assert "not a date" in await refusal(desk, "agent.job.query", since="yesterday")
    assert "there are status_digest" in await refusal(desk, "agent.job.query", job_type="x")


async def test_status_shows_the_state_in_temporal(desk: ToolScene, runner: Runner) -> None:
    await desk.done("schedule.job", **WEEKLY)
    assert (await desk.done("agent.job.status", job_id="job-1"))[
        "temporal"
    ] == "scheduled as job:T1:1"
    runner.fault = Transient("away")
    away = await desk.done("agent.job.status", job_id="JOB-1")
    assert "did not report its state" in away["temporal"]
    assert away["next_runs"][0] == "2026-03-02T09:00+01:00", "then as the cron says"
    runner.running.clear()
    assert (
        "does not have it yet" in (await desk.done("agent.job.status", job_id="JOB-1"))["temporal"]
    )


async def test_question_and_result_are_shown_only_in_the_jobs_channel(
    desk: ToolScene, database: Database
) -> None:
    """This includes the person who asked for the job: others read the answer in the other
    channel.
    """
    given = {"question": "Is Anna leaving?"}
    await desk.done("schedule.job", job_type="follow_up", arguments=given, after_minutes=30)
    async with database.begin() as tx:
        await JobStore(tx).begin("T1", "JOB-1", "run-1", 0.0)
        await JobStore(tx).finish(
            "T1", "JOB-1", "run-1", 0.0, result={"said": "Anna stays."}, error="Anna hid."
        )
    for user in ("U1", "U2"):
        here = await desk.ask("agent.job.status", channel="C1", user_id=user, job_id="JOB-1")
        there = await desk.ask("agent.job.status", channel="C2", user_id=user, job_id="JOB-1")
        assert [here.data["arguments"]["question"], here.data["last_result"]] == [
            given["question"],
            "Anna stays.",
        ]
        assert "Anna" not in str(there), user


async def test_open_jobs_of_a_team_are_limited(
    desk: ToolScene, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("threadline.jobs.store.MAX_OPEN_JOBS", 1)
    await desk.done("schedule.job", **WEEKLY)
    assert "cancel some" in await refusal(desk, "schedule.job", **WEEKLY)
    assert await count(database) == 1
