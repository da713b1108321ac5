"""The activities of jobs, and what each type of job does."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Protocol
from zoneinfo import ZoneInfo

import structlog
from temporalio import activity

from threadline.db.engine import Database, Transaction
from threadline.errors import Permanent, Transient
from threadline.jobs import blocks
from threadline.jobs.contract import (
    ATTEMPT_SECONDS,
    OVER,
    RUN_SECONDS,
    JobActivities,
    JobFailure,
    JobRef,
    NextRun,
)
from threadline.jobs.model import (
    DEADLINE_REMINDER,
    FOLLOW_UP,
    STATUS_DIGEST,
    AgentJob,
    ChannelAdmission,
    DeadlineReminder,
    FollowUp,
    JobRunner,
    JobStatus,
    StatusDigest,
    find_job_type,
    job_question_id,
    job_workflow_id,
    read_arguments,
)
from threadline.jobs.store import JobStore
from threadline.jobs.times import FARTHEST, format_time, morning, next_times
from threadline.rfps.model import OPEN, Rfp, RfpNotFound, find_rfp_ids, status_words
from threadline.rfps.store import RfpStore
from threadline.slack import formatting
from threadline.slack.formatting import Rendered
from threadline.slack.model import Thread, clean_text
from threadline.slack.store import UserStore
from threadline.threads.basis import Basis
from threadline.threads.model import IncomingMessage, MessageKind, SenderType
from threadline.threads.outbox import Outbox, Post
from threadline.tools.roles import RecordKind, RoleDirectory

CHECK_SECONDS = 6 * 3600.0
"""Seconds between two reads of the date that a reminder is about: it may have moved."""
MAX_LISTED = 50
"""RFPs in one digest, which mentions that there are more."""
# Key in the result of a failed run: whether the previous run failed for the same reason.
_REPEATED = "repeated"

_log = structlog.get_logger(__name__)


class ThreadAsker(Protocol):
    """Puts questions to the conversation of a thread, in a user's name."""

    async def may_ask(self, thread: Thread, user_id: str) -> None:
        """Check that the bot answers questions that are asked in the user's name.

        Raises:
            Permanent: the bot does not answer them in this thread.
            Transient: the check failed for now.
        """
        ...

    async def ask(self, thread: Thread, message: IncomingMessage) -> None:
        """Hand over a message. Idempotent by the message's id. Raises like `may_ask`."""
        ...


@dataclass(eq=False)
class LiveJobActivities(JobActivities):
    """The activities, as the core worker runs them.

    The key of each post consists of the job, the run and the kind of post, so that a repeated run
    posts nothing twice.

    Args:
        asker: takes the question of a follow-up.
        clock: returns seconds since 1970.
    """

    database: Database
    outbox: Outbox
    channels: ChannelAdmission
    asker: ThreadAsker
    runner: JobRunner
    roles: RoleDirectory
    clock: Callable[[], float] = time.time

    async def look_at_job(self, ref: JobRef) -> NextRun:
        async with self.database.begin() as tx:
            job = await JobStore(tx).find(ref.team, ref.job_id)
            if job and not job.is_finished:
                given = read_arguments(find_job_type(job.job_type), job.arguments)
                if isinstance(given, DeadlineReminder) and job.schedule.at is not None:
                    return await self._next_reminder(tx, ref, job, given)
                return NextRun(run_at=job.schedule.at.timestamp() if job.schedule.at else 0.0)
        own = job_workflow_id(ref.team, ref.job_id)
        if ref.run_key != own:  # a schedule started it, and has outlived its job
            await self.runner.end_schedule(own)
        return NextRun(over=True)

    async def _next_reminder(
        self, tx: Transaction, ref: JobRef, job: AgentJob, given: DeadlineReminder
    ) -> NextRun:
        """Return the morning some days before the RFP's current due date. For a deleted RFP,
        return a time that is due: the run reports the deletion.
        """
        try:
            due = (await RfpStore(tx).get(ref.team, given.rfp_id)).due_date
        except RfpNotFound:
            return NextRun(run_at=0.0)
        if due is None:
            expired = datetime.fromtimestamp(self.clock(), UTC) > job.created_at + FARTHEST
            return NextRun(run_at=0.0) if expired else NextRun(check_again_in=CHECK_SECONDS)
        moment = morning(due - timedelta(days=given.days_before), job.schedule.time_zone)
        await JobStore(tx).postpone(ref.team, ref.job_id, moment)
        return NextRun(run_at=moment.timestamp(), check_again_in=CHECK_SECONDS)

    async def run_job(self, ref: JobRef) -> str:
        async with self.database.begin() as tx:
            job = await JobStore(tx).begin(ref.team, ref.job_id, ref.run_key, self.clock())
        if job is None or job.run_key != ref.run_key:
            return OVER
        if not job.is_running:  # this run is already on record, but its answer was lost
            return str(job.result.get("said") or OVER) if isinstance(job.result, dict) else OVER
        correlation = job.author.correlation_id
        _log.info(
            "job_run_started",
            job=job.job_id,
            type=job.job_type,
            run=job.runs,
            correlation_id=correlation,
        )
        said = await self._do_in_time(job)
        async with self.database.begin() as tx:
            await JobStore(tx).finish(
                ref.team, ref.job_id, ref.run_key, self.clock(), result={"said": said}
            )
        _log.info("job_run_finished", job=job.job_id, type=job.job_type, run=job.runs)
        return said

    async def _do_in_time(self, job: AgentJob) -> str:
        """Do the job and return a sentence about the result.

        Each attempt does all of it: posts have keys, so a post whose result was lost is recognised
        as sent.

        Raises:
            Permanent: the job cannot be done, or a service that it needs was away for too long.
            Transient: another attempt may succeed.
        """
        late = time.time() - activity.info().scheduled_time.timestamp() > RUN_SECONDS
        given = read_arguments(find_job_type(job.job_type), job.arguments)
        try:
            async with asyncio.timeout(ATTEMPT_SECONDS):
                match given:
                    case StatusDigest():
                        return await self._digest(job, given)
                    case DeadlineReminder():
                        return await self._remind(job, given)
                    case FollowUp():
                        return await self._follow_up(job, given)
        except (Transient, TimeoutError) as fault:
            said = str(fault) or "There was no answer in time."
            if late:
                raise Permanent(said) from fault
            raise Transient(said, retry_after=getattr(fault, "retry_after", None)) from fault

    async def fail_job(self, failure: JobFailure) -> None:
        ref = failure.ref
        now = self.clock()
        error = blocks.error_text(failure.error)
        async with self.database.begin() as tx:
            store = JobStore(tx)
            job = await store.find(ref.team, ref.job_id, lock=True)
            if job is None or job.run_key != ref.run_key:
                return
            if job.is_running:
                repeated = {_REPEATED: job.error == error}
                job = await store.finish(
                    ref.team, ref.job_id, ref.run_key, now, result=repeated, error=error
                )
        _log.info(
            "job_run_finished",
            job=ref.job_id,
            type=ref.job_type,
            run=job.runs,
            error=failure.error,
        )
        if job.status is JobStatus.CANCELLED or (
            isinstance(job.result, dict) and job.result.get(_REPEATED)
        ):
            return
        times = (
            next_times(job.schedule, datetime.fromtimestamp(now, UTC), 1)
            if job.schedule.cron
            else []
        )
        following = f"{format_time(times[0])} ({job.schedule.time_zone})" if times else ""
        said = formatting.notice(
            blocks.failure_text(job, error, following), mentions=(job.author.user_id,)
        )
        try:
            await self._say(job, "trouble", said)
        except Permanent as refused:
            _log.warning("job_owner_not_notified", job=job.job_id, reason=str(refused))

    async def mark_cancelled(self, ref: JobRef) -> None:
        async with self.database.begin() as tx:
            job = await JobStore(tx).find(ref.team, ref.job_id)
            # a cancelled workflow of a cron is one run, not the job
            if job and not job.schedule.cron:
                await JobStore(tx).cancel(ref.team, ref.job_id, self.clock())

    async def _say(
        self, job: AgentJob, kind: str, rendered: tuple[Rendered, ...], channel: str = ""
    ) -> str:
        """Post in a channel, or else in the job's thread. Return the `ts`."""
        place, thread_ts = (channel, None) if channel else (job.channel, job.thread_ts)
        post = Post(f"job:{job.job_id}:run:{job.runs}:{kind}", place, thread_ts, rendered)
        return await self.outbox.publish(
            replace(post, basis=None if job.schedule.cron else _basis(job, kind))
        )

    async def _digest(self, job: AgentJob, given: StatusDigest) -> str:
        await self._check_rfps(job)
        channel = await self.channels.admit(given.channel or job.channel, job.author.user_id)
        async with self.database.begin() as tx:
            found = await RfpStore(tx).listed(job.team, open_only=True, limit=MAX_LISTED + 1)
            user = await UserStore(tx).get(job.team, job.author.user_id)
        lines = [_line(each, self._today(job)) for each in found[:MAX_LISTED]]
        name = user.display_name if user else ""
        text = blocks.digest(lines, job.job_id, name, more=len(found) > MAX_LISTED)
        await self._say(job, STATUS_DIGEST, formatting.notice(text, headline="Open RFPs"), channel)
        return f"Posted a digest of {len(lines)} open RFPs in {channel}."

    async def _check_rfps(self, job: AgentJob) -> None:
        """Check that the job's author may still see RFPs.

        Raises:
            Permanent: the author may not see them any longer.
            Transient: the check failed for now.
        """
        await self.roles.check_may_see((job.author.user_id,), job.channel, RecordKind.RFPS)

    async def _remind(self, job: AgentJob, given: DeadlineReminder) -> str:
        await self._check_rfps(job)
        try:
            async with self.database.begin() as tx:
                rfp = await RfpStore(tx).get(job.team, given.rfp_id)
        except RfpNotFound as gone:
            return f"Posted no reminder: {gone}."
        if rfp.status not in OPEN or rfp.due_date is None:
            why = f"is {status_words(rfp.status)}" if rfp.due_date else "has no due date"
            return f"Posted no reminder: {rfp.rfp_id} {why}."
        user = job.author.user_id
        channel = await self.channels.admit(given.channel, user) if given.channel else ""
        text = blocks.deadline(_line(rfp, self._today(job)), job.job_id)
        rendered = formatting.notice(text, mentions=(user,), headline="A deadline is near")
        await self._say(job, DEADLINE_REMINDER, rendered, channel)
        return f"Posted a reminder: {rfp.rfp_id} is due on {rfp.due_date.isoformat()}."

    async def _follow_up(self, job: AgentJob, given: FollowUp) -> str:
        """Post the question with its author's name, then ask it: the conversation places the
        question at that post.
        """
        user = job.author.user_id
        thread = Thread(job.team, job.channel, job.thread_ts)
        await self.channels.admit(job.channel, user)  # the author may have left since
        await self.asker.may_ask(thread, user)  # do not announce a question that is then refused
        text = blocks.follow_up(given.question, job.job_id)
        ts = await self._say(
            job, FOLLOW_UP, formatting.notice(text, mentions=(user,), headline="A follow-up")
        )
        identity = job_question_id(job.team, job.job_id, job.runs)
        words = given.question
        if given.rfp_id and not find_rfp_ids(words):
            words = f"{words} ({given.rfp_id})"
        sender = (MessageKind.MESSAGE, SenderType.UNKNOWN, user)
        message = IncomingMessage(
            identity, *sender, clean_text(words), job.channel, ts, addressed=True
        )
        await self.asker.ask(thread, message)
        return "Asked the operator in the thread."

    def _today(self, job: AgentJob) -> date:
        return datetime.fromtimestamp(self.clock(), ZoneInfo(job.schedule.time_zone)).date()


def _basis(job: AgentJob, kind: str) -> Basis:
    """Return the basis of a job that runs once: it posts each kind of notice once. The moment of
    its creation identifies the job.
    """
    created = (f"{job.created_at.timestamp():.6f}",)
    return Basis(f"job:{kind}", job.job_id, created, created)


def _line(rfp: Rfp, today: date) -> str:
    facts = [blocks.due_text(rfp.due_date, today), status_words(rfp.status)]
    if rfp.owner:
        facts.append(f"owner {blocks.escape_inline(rfp.owner)}")
    client = f" for {blocks.escape_inline(rfp.client)}" if rfp.client else ""
    return f"**{blocks.escape_inline(rfp.title)}**{client} (`{rfp.rfp_id}`): {', '.join(facts)}"
