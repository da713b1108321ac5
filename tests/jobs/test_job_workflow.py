"""A job's life: it waits for its time, runs once, and what came of it is on record; the clock skips what it waits."""

import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, cast

import aiohttp
import pytest
from temporalio.client import WorkflowExecutionDescription, WorkflowFailureError
from temporalio.exceptions import CancelledError

from tests.jobs.job_scene import AUTHOR, DIGEST, Jobbing, at, jobbing, patch, wanted
from threadline.db.engine import Database
from threadline.db.unit_of_work import Work
from threadline.errors import Transient
from threadline.gateway.author_policy import Doorkeeper
from threadline.gateway.dispatcher import Dispatcher
from threadline.jobs.model import JobRefused, JobStanding, JobStatus
from threadline.rfps.model import RfpStatus
from threadline.slack.actor_model import Actor
from threadline.slack.client import Slack, make_client
from threadline.threads.addressing import Thread
from threadline.tools.operations import Change, Operation
from threadline.wiring.gateway import CaseThreads
from threadline_devstack.slack.identity import BOT_TOKEN, BOT_USER, DEVELOPER, GENERAL, REPORTER, SUMMARIES, TEAM


@pytest.fixture
async def talk(database: Database) -> AsyncIterator[Jobbing]:
    async with jobbing(database) as made, made.working():
        yield made


def days_from_now(count: int) -> date:
    return (datetime.now(UTC) + timedelta(days=count)).date()


async def described(talk: Jobbing, workflow_id: str) -> WorkflowExecutionDescription:
    return await talk.environment.client.get_workflow_handle(workflow_id).describe()


@pytest.mark.records("job_digest")
async def test_a_digest_is_posted_once_when_its_time_has_come(talk: Jobbing) -> None:
    due, late = days_from_now(9), days_from_now(-2)
    await talk.rfp(due, title="A *crane*")
    overdue = await talk.rfp(late, RfpStatus.IN_PROGRESS, title="<!channel> bridge")
    await talk.rfp(due, RfpStatus.WON, title="Done")
    async with talk.database.begin() as work:
        await work.actors.save(TEAM, Actor(DEVELOPER, "", "Dora *Dee*", "", 0.0))
    job = await talk.schedule(after_minutes=90)
    assert (job.status, talk.said()) == (JobStatus.SCHEDULED, [])
    assert await talk.result(job) == f"Posted a digest of 2 open RFPs in {GENERAL}."
    (said,) = talk.said()
    assert ("asked for by Dora Dee" in said, DEVELOPER in said) == (True, False)
    assert f"was due on {late.isoformat()}, " in said
    assert said.index(overdue) < said.index(f"due on {due.isoformat()}, in "), "the most urgent one first"
    assert "<!channel>" not in said
    assert "Done" not in said
    done = await talk.job()
    assert (done.status, done.runs, done.error) == (JobStatus.DONE, 1, "")
    assert done.result == {"said": f"Posted a digest of 2 open RFPs in {GENERAL}."}


async def test_what_runs_is_shown_in_temporal_with_the_turns_correlation(talk: Jobbing) -> None:
    job = await talk.schedule(after_minutes=90)
    shown = await described(talk, job.workflow_id)
    assert await shown.memo() == {"job": "JOB-1", "type": DIGEST, "correlation_id": "corr-1", "rfp": ""}
    assert shown.workflow_type == "AgentJobWorkflow"


async def test_a_reminder_comes_some_days_before_the_due_date_in_the_thread(talk: Jobbing) -> None:
    due = days_from_now(30)
    rfp_id = await talk.rfp(due)
    job = await talk.schedule("deadline_reminder", rfp_id=rfp_id, days_before=3, time_zone="Europe/Berlin")
    assert job.schedule.at
    assert job.schedule.at.date() == due - timedelta(days=3)
    assert await talk.result(job) == f"Posted a reminder: {rfp_id} is due on {due.isoformat()}."
    (said,) = talk.said()
    assert (rfp_id in said, f"<@{DEVELOPER}>" in said) == (True, True)
    assert [each.root.ts for each in talk.slack.workspace.channel(GENERAL).messages.values() if each.root] == [
        talk.thread.ts
    ]


async def test_a_reminder_follows_a_due_date_that_moves(talk: Jobbing) -> None:
    rfp_id = await talk.rfp(days_from_now(60))
    job = await talk.schedule("deadline_reminder", rfp_id=rfp_id, days_before=3, time_zone="UTC")
    for moved in (days_from_now(200), days_from_now(20)):
        await patch(talk, rfp_id, due_date=moved.isoformat())
        await talk.environment.sleep(timedelta(hours=7))
        now = (await talk.job()).schedule.at
        assert now
        assert now.date() == moved - timedelta(days=3)
    assert talk.said() == []
    assert await talk.result(job) == f"Posted a reminder: {rfp_id} is due on {moved.isoformat()}."
    assert len(talk.said()) == 1


@pytest.mark.records("job_reminder")
async def test_a_reminder_waits_while_there_is_no_due_date(talk: Jobbing) -> None:
    rfp_id = await talk.rfp(days_from_now(5))
    job = await talk.schedule("deadline_reminder", rfp_id=rfp_id, time_zone="UTC")
    await patch(talk, rfp_id, due_date=None)
    await talk.environment.sleep(timedelta(days=6))
    assert talk.said() == []
    await patch(talk, rfp_id, due_date=days_from_now(10).isoformat())
    assert "Posted a reminder" in await talk.result(job)


@pytest.mark.parametrize("status", ["won", "cancelled"])
async def test_of_a_closed_rfp_nobody_is_reminded(talk: Jobbing, status: str) -> None:
    rfp_id = await talk.rfp(days_from_now(30))
    job = await talk.schedule("deadline_reminder", rfp_id=rfp_id, time_zone="UTC")
    await patch(talk, rfp_id, status=status)
    assert await talk.result(job) == f"Posted no reminder: {rfp_id} is {status}."
    assert (talk.said(), (await talk.job()).status) == ([], JobStatus.DONE)


async def test_of_a_deleted_rfp_nobody_is_reminded(talk: Jobbing) -> None:
    rfp_id = await talk.rfp(days_from_now(30))
    job = await talk.schedule("deadline_reminder", rfp_id=rfp_id, time_zone="UTC")
    async with talk.database.begin() as work:
        await work.rfps.delete(TEAM, rfp_id)
    assert "was deleted" in await talk.result(job)
    assert talk.said() == []


@pytest.mark.records("job_follow_up")
async def test_a_follow_up_is_asked_in_the_thread_and_answered_as_if_the_person_had(talk: Jobbing) -> None:
    rfp_id = await talk.rfp()
    job = await talk.schedule("follow_up", question="Is the *crane* on its way?", rfp_id=rfp_id, after_minutes=600)
    assert await talk.result(job) == "Asked the operator in the thread."
    (said,) = talk.said()
    assert f"<@{DEVELOPER}>" in said
    assert "JOB-1" in said
    await talk.until_answered()
    (asked,) = await talk.asked()
    assert (asked.sender_id, asked.message_text, asked.addressed) == (
        DEVELOPER,
        f"Is the *crane* on its way? ({rfp_id})",
        True,
    )
    posted = [each for each in talk.slack.workspace.channel(GENERAL).messages.values() if each.user == BOT_USER]
    assert posted[0].ts == asked.slack_ts, "reactions and order are those of the post"


async def test_a_run_that_is_repeated_says_and_asks_nothing_twice(talk: Jobbing) -> None:
    """Temporal has lost the workflow after its run, and it is started anew."""
    job = await talk.schedule("follow_up", question="How far is it?", after_minutes=0)
    await talk.result(job)
    async with talk.database.begin() as work:
        await work.connection.exec_driver_sql("UPDATE agent_jobs SET status = 'running', finished_at = NULL")
    assert await talk.jobs.desk.mend() == 0
    done = await talk.until_status(JobStatus.DONE)
    assert (done.runs, len(talk.said()), len(await talk.asked())) == (1, 1, 1)


async def test_nothing_is_asked_for_somebody_who_has_left(talk: Jobbing) -> None:
    job = await talk.schedule("follow_up", question="How far is it?", after_minutes=600)
    users = talk.slack.workspace.users
    users[DEVELOPER] = replace(users[DEVELOPER], deleted=True)
    assert "is not in the channel" in await talk.result(job)
    assert (len(talk.said()), "failed: " in talk.said()[0]) == (1, True)
    assert not await talk.asked()
    assert (await talk.job()).status is JobStatus.FAILED


async def test_of_somebody_who_has_become_a_guest_nothing_is_announced(talk: Jobbing) -> None:
    job = await talk.schedule("follow_up", question="How far is it?", after_minutes=600)
    users = talk.slack.workspace.users
    users[DEVELOPER] = replace(users[DEVELOPER], is_restricted=True)
    async with aiohttp.ClientSession() as session:
        door = Doorkeeper(Slack(make_client(BOT_TOKEN, talk.slack.api_url, session)))
        dispatcher = Dispatcher(talk.environment.client, CaseThreads(talk.database), door)
        talk.jobs.activities._work._asking = dispatcher
        assert "guest" in await talk.result(job)
    (said,) = talk.said()
    assert "failed: " in said
    assert not await talk.asked()


async def test_a_run_that_is_cancelled_between_two_tries_finishes_what_it_has_begun(talk: Jobbing) -> None:
    """It has posted that it asks; so it does ask."""
    work = talk.jobs.activities._work
    asking = work._asking

    class CancelledFirst:
        may_ask = asking.may_ask

        async def ask(self, *given: Any) -> None:
            work._asking = asking
            await talk.jobs.desk.cancel(talk.change("x"), "JOB-1", DEVELOPER)
            raise Transient("Temporal is away.")

    work._asking = CancelledFirst()
    job = await talk.schedule("follow_up", question="How far is it?", after_minutes=0)
    with contextlib.suppress(WorkflowFailureError):
        await talk.result(job)
    await talk.until_answered()
    assert (len(talk.said()), len(await talk.asked())) == (1, 1)
    ended = await talk.job()
    assert (ended.status, ended.result) == (JobStatus.CANCELLED, {"said": "Asked the operator in the thread."})


async def test_a_run_that_is_cancelled_when_it_was_counted_and_nothing_else_does_not_run(talk: Jobbing) -> None:
    """The worker is lost between the two, and with it that it was counted."""
    activities = talk.jobs.activities
    database = activities._database

    class Lossy:
        @contextlib.asynccontextmanager
        async def begin(self) -> AsyncIterator[Work]:
            async with database.begin() as work:
                yield work
            if (await talk.job()).status is JobStatus.RUNNING:
                activities._database = database
                await talk.jobs.desk.cancel(talk.change("x"), "JOB-1", DEVELOPER)
                raise Transient("The worker is lost.")

    activities._database = cast(Database, Lossy())
    job = await talk.schedule(after_minutes=60)
    with contextlib.suppress(WorkflowFailureError):
        assert "cancelled" in await talk.result(job)
    ended = await talk.job()
    assert (ended.status, ended.runs, ended.at_work) == (JobStatus.CANCELLED, 0, False)
    assert talk.said() == []


@pytest.mark.records("job_cancelled")
async def test_a_cancelled_job_does_not_run(talk: Jobbing) -> None:
    job = await talk.schedule(after_minutes=60)
    await talk.until_waiting(job)
    gone = await talk.jobs.desk.cancel(talk.change("x"), job.job_id, DEVELOPER)
    assert (gone.status, gone.at_work) == (JobStatus.CANCELLED, False)
    with pytest.raises(WorkflowFailureError) as ended:
        await talk.result(job)
    assert isinstance(ended.value.cause, CancelledError)
    assert await talk.jobs.desk.cancel(talk.change("x"), job.job_id, DEVELOPER) == gone
    assert await talk.jobs.desk.cancel(talk.change("y"), job.job_id, DEVELOPER) == gone
    assert await talk.jobs.desk.mend() == 0
    await talk.environment.sleep(timedelta(hours=2))
    assert talk.said() == []


async def test_who_has_asked_for_a_job_is_told_once_who_else_has_cancelled_it(talk: Jobbing) -> None:
    async with talk.database.begin() as work:
        await work.actors.save(TEAM, Actor(REPORTER, "", "Rita *R*", "", 0.0))
    job = await talk.schedule(after_minutes=60)
    elsewhere = Change(Operation(Thread(TEAM, GENERAL, "1700000000.000100"), 1, 1, "x"), time.time())
    for _ in range(2):  # the answer was lost
        await talk.jobs.desk.cancel(elsewhere, job.job_id, REPORTER)
    await talk.jobs.desk.cancel(replace(elsewhere, operation=replace(elsewhere.operation, turn=2)), "JOB-1", BOT_USER)
    (told,) = talk.said()
    assert f"<@{DEVELOPER}>" in told
    assert "Rita R has cancelled" in told
    assert "JOB-1" in told
    (post,) = [each for each in talk.slack.workspace.channel(GENERAL).messages.values() if each.bot_id]
    assert post.thread_ts == talk.thread.ts


@pytest.mark.parametrize("who", [DEVELOPER, REPORTER])
async def test_nobody_is_told_who_has_cancelled_it_themselves_or_reads_it_in_the_thread(
    talk: Jobbing, who: str
) -> None:
    job = await talk.schedule(after_minutes=60)
    thread = talk.thread if who == REPORTER else Thread(TEAM, GENERAL, "1700000000.000100")
    await talk.jobs.desk.cancel(Change(Operation(thread, 1, 1, "x"), time.time()), job.job_id, who)
    assert (await talk.job()).status is JobStatus.CANCELLED
    assert talk.said() == []


@pytest.mark.records("job_cancelled_in_temporal")
async def test_what_is_cancelled_in_temporal_is_cancelled_on_record(talk: Jobbing) -> None:
    job = await talk.schedule(after_minutes=60)
    await talk.until_waiting(job)
    await talk.environment.client.get_workflow_handle(job.workflow_id).cancel()
    assert (await talk.until_status(JobStatus.CANCELLED)).runs == 0


@pytest.mark.records("job_fails")
async def test_a_job_that_cannot_be_done_says_so_in_its_thread(talk: Jobbing) -> None:
    job = await talk.schedule(channel=SUMMARIES, after_minutes=60)
    talk.slack.workspace.leave(SUMMARIES, BOT_USER)
    assert "The bot is not in the channel" in await talk.result(job)
    failed = await talk.job()
    assert (failed.status, "/invite" in failed.error) == (JobStatus.FAILED, True)
    (said,) = talk.said()
    assert "JOB-1" in said
    assert "will not run again" in said


async def test_a_crash_between_the_row_and_its_start_is_mended(database: Database) -> None:
    async with jobbing(database) as talk:
        runner, talk.jobs.desk._runner = talk.jobs.desk._runner, _Away()
        with pytest.raises(Transient):
            await talk.schedule(call_id="s1", **at(datetime.now(UTC) + timedelta(seconds=1)))
        talk.jobs.desk._runner = runner
        async with talk.working():
            assert await talk.jobs.desk.mend() == 0
            again = await talk.schedule(call_id="s1", at="2001-01-01T00:00Z")
            assert again.job_id == "JOB-1", "what was asked for is past by now, and is not judged again"
            await talk.until_status(JobStatus.DONE)
            assert len(talk.said()) == 1


class _Away:
    """Temporal is away."""

    async def start(self, team: str, job: object) -> None:
        raise Transient("away")

    async def stop(self, job: object) -> None:
        raise Transient("away")

    async def end_schedule(self, schedule_id: str) -> None:
        raise Transient("away")

    async def standing(self, job: object) -> JobStanding:
        raise Transient("away")


async def test_nothing_is_written_of_what_is_refused(talk: Jobbing) -> None:
    for asked in (
        wanted("backup", after_minutes=0),
        wanted(at="2001-01-01T00:00Z"),
        wanted(cron="0 0 30 2 *", time_zone="UTC"),
        wanted(question="x", after_minutes=0),
    ):
        with pytest.raises(JobRefused):
            await talk.jobs.desk.schedule(talk.change(), AUTHOR, asked)
    async with talk.database.begin() as work:
        assert await work.agent_jobs.listed(TEAM) == []
