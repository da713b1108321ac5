"""The tools for jobs: plan, schedule, list, query, status and cancel."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import structlog
from pydantic import BaseModel, Field

from threadline.approvals.model import ApprovalRules
from threadline.db.engine import Database
from threadline.errors import Permanent, Transient
from threadline.jobs import times as job_times
from threadline.jobs.model import (
    DESCRIBED_TYPES,
    STATUS_DIGEST,
    AgentJob,
    ChannelAdmission,
    DeadlineReminder,
    JobArguments,
    JobFilter,
    JobRefused,
    JobRunner,
    JobSchedule,
    JobStatus,
    NewJob,
    TemporalJobStatus,
    find_job_type,
    read_arguments,
)
from threadline.jobs.store import JobStore
from threadline.models.model import ToolKind
from threadline.privacy.redaction import redact_value
from threadline.rfps.model import OPEN, Rfp, find_rfp_ids
from threadline.rfps.store import RfpStore
from threadline.tools.context import ToolContext
from threadline.tools.model import (
    ErrorCode,
    RecordGroup,
    Risk,
    ToolResult,
    error_result,
    record_group,
)
from threadline.tools.output import counted
from threadline.tools.policy import Assessment
from threadline.tools.registry import tool
from threadline.tools.roles import RecordKind

MAX_LISTED = 20
"""Jobs in one answer; a search finds the others."""
_MAX_MINUTES = job_times.FARTHEST.days * 24 * 60
_DELAY = "For one run: in how many minutes; 0 is now."
_AT = "For one run: the moment in ISO 8601, by the clocks of time_zone, or with an offset."
_CRON = (
    "For many runs: minute, hour, day of the month, month, day of the week; at most once in 15 "
    "minutes."
)
_ZONE = (
    "By whose clocks, such as Europe/Berlin: needed with a cron, a deadline_reminder, and an "
    "`at` without an offset."
)

_ELSEWHERE = "not shown here: the job was requested in another channel"
_HIDDEN = "hidden"
_TELLS_OF_RFP = ("rfp_id", "arguments", "when", "last_result", "last_error")
"""The fields of a job that reveal its RFP; `next_runs` do as well."""
_ONE_ASKER = (
    "A job runs in one person's name: the person who wants it must ask for it in a message of "
    "their own."
)

_log = structlog.get_logger(__name__)

JobId = Annotated[str, Field(min_length=1, max_length=40, description="Such as JOB-7.")]


class PlanJob(BaseModel):
    job_type: Annotated[str, Field(max_length=100, description=f"{DESCRIBED_TYPES}.")]
    arguments: Annotated[JobArguments, Field(description="What a job of this type takes.")]
    after_minutes: Annotated[int | None, Field(ge=0, le=_MAX_MINUTES, description=_DELAY)] = None
    at: Annotated[str | None, Field(max_length=60, description=_AT)] = None
    cron: Annotated[str | None, Field(max_length=200, description=_CRON)] = None
    time_zone: Annotated[str | None, Field(max_length=60, description=_ZONE)] = None


@tool(
    "job.plan",
    "Show what a job would do and when, the next five times, without scheduling it.",
    needs=(ChannelAdmission,),
    remote=True,
    records=(RecordKind.JOBS,),
    partial_records=(RecordKind.RFPS,),
)
async def plan(context: ToolContext, given: PlanJob) -> ToolResult:
    now = context.clock()
    data = _planned(await _checked(context, given), now)
    return ToolResult(
        data=data,
        display_text=f"Nothing is scheduled yet: {data['job_type']} would run {data['when']}.",
    )


async def _assess_schedule(context: ToolContext, given: PlanJob) -> Assessment:
    type_ = find_job_type(given.job_type)
    _check_rfps(
        context,
        type_.name,
        read_arguments(type_, given.arguments.model_dump(exclude_unset=True)).model_dump(),
    )
    return Assessment(Risk.MEDIUM)


async def _find_scheduled(context: ToolContext, _: PlanJob) -> ToolResult | None:
    """Return the job that this call has scheduled. Its time may be past by now and is not checked
    again.
    """
    async with context.services[Database].begin() as tx:
        job = await JobStore(tx).find_by_operation(context.change)
    try:
        return await _started(context, job) if job else None
    except JobRefused as refused:
        return error_result(ErrorCode.REFUSED, str(refused))


@tool(
    "schedule.job",
    "Schedule a job: once now, after a delay or at a moment, or on a cron. Say when in one way; "
    "a deadline_reminder takes none, since it knows its time by the RFP. Tell the person the "
    "next runs.",
    kind=ToolKind.CHANGE,
    assess=_assess_schedule,
    needs=(ChannelAdmission, JobRunner),
    look_up=_find_scheduled,
    remote=True,
    records=(RecordKind.JOBS,),
    partial_records=(RecordKind.RFPS,),
)
async def schedule(context: ToolContext, given: PlanJob) -> ToolResult:
    # A job runs with the roles of one person, also when several asked for it.
    if refused := context.unclear_requester(_ONE_ASKER):
        return refused
    new = await _checked(context, given)
    async with context.services[Database].begin() as tx:
        job = await JobStore(tx).schedule(context.change, new)
    return await _started(context, job)


@tool(
    "agent.job.list",
    "The jobs that are scheduled or at work, with their next runs.",
    records=(RecordKind.JOBS,),
    partial_records=(RecordKind.RFPS,),
)
async def list_jobs(context: ToolContext) -> ToolResult:
    return await _found(context, JobFilter(open_only=True), "No job is scheduled.")


@tool(
    "agent.job.query",
    "Jobs of all times, also those that are over: by type, status, RFP and time.",
    records=(RecordKind.JOBS,),
    partial_records=(RecordKind.RFPS,),
)
async def query(
    context: ToolContext,
    *,
    job_type: Annotated[
        str | None, Field(max_length=100, description="Only of this type.")
    ] = None,
    status: Annotated[JobStatus | None, Field(description="Only of this status.")] = None,
    rfp_id: Annotated[str | None, Field(max_length=60, description="Only about this RFP.")] = None,
    since: Annotated[
        str | None,
        Field(
            max_length=60,
            description="Only those that last ran, or are to run once, then or later; ISO 8601.",
        ),
    ] = None,
    until: Annotated[
        str | None, Field(max_length=60, description="The same: only those before it.")
    ] = None,
) -> ToolResult:
    wanted = JobFilter(
        status=status,
        job_type=find_job_type(job_type).name if job_type else "",
        rfp_id=(rfp_id or "").strip().lower(),
        since=job_times.parse_time(since) if since else None,
        until=job_times.parse_time(until) if until else None,
    )
    if wanted.rfp_id:
        context.access.check(RecordKind.RFPS)
    return await _found(context, wanted, "There is no such job.")


@tool(
    "agent.job.status",
    "How it stands with a job, and what came of its last run.",
    needs=(JobRunner,),
    remote=True,
    records=(RecordKind.JOBS,),
    partial_records=(RecordKind.RFPS,),
)
async def status(context: ToolContext, *, job_id: JobId) -> ToolResult:
    async with context.services[Database].begin() as tx:
        job = await JobStore(tx).get(context.team, job_id)
    in_temporal = None
    if not job.is_finished:
        try:
            in_temporal = await context.services[JobRunner].describe(job)
        except (Permanent, Transient) as error:
            _log.warning("job_describe_failed", job=job.job_id, reason=str(error))
    data = _data(context, job, in_temporal)
    return ToolResult(
        data=data | {"temporal": _in_words(job, in_temporal)}, structured=_records([data])
    )


async def _stop(context: ToolContext, _given: Any, result: ToolResult) -> None:
    """End the wait in Temporal, and notify the job's author, unless the author cancels it or reads
    this thread. Without this, the job finds at its time that it was cancelled.
    """
    data = result.data
    async with context.services[Database].begin() as tx:
        job = await JobStore(tx).find(context.team, data["job_id"])
    if job is None:
        return
    runner = context.services[JobRunner]
    try:
        await runner.stop(job)
    finally:
        in_its_thread = (context.channel, context.thread_ts) == (job.channel, job.thread_ts)
        if not (data["was_cancelled"] or in_its_thread or context.user_id == job.author.user_id):
            await runner.tell_owner(job, context.user_id)


@tool(
    "agent.job.cancel",
    "Cancel a job: it does not run any more. What it has posted stays. It is for who asked for "
    "the job, for approvers, and in a channel where it was asked for or posts.",
    kind=ToolKind.CHANGE,
    risk=Risk.MEDIUM,
    needs=(JobRunner,),
    side_effects=(_stop,),
    records=(RecordKind.JOBS,),
    partial_records=(RecordKind.RFPS,),
)
async def cancel(context: ToolContext, *, job_id: JobId) -> ToolResult:
    store = JobStore(context.tx)
    before = await store.get(context.team, job_id)
    await context.count_change(f"job:{before.job_id}")
    settings = context.services.get(ApprovalRules)
    may = {before.author.user_id, *(settings.approvers if settings else ())}
    # Readers of the channel that a job posts in may end it there.
    if context.user_id not in may and context.channel not in (
        before.channel,
        before.arguments.get("channel"),
    ):
        raise JobRefused(
            f"{before.job_id} was requested by {before.author.user_id} in another channel: that "
            "user, an approver, or somebody in that channel can cancel it"
        )
    job = await store.cancel(context.team, before.job_id, context.clock().timestamp())
    if job.status is not JobStatus.CANCELLED:
        raise JobRefused(f"{job.job_id} has ended ({job.status}), so it cannot be cancelled")
    data = _data(context, job)
    said = f"{job.job_id} is cancelled."
    if job.is_running:
        said += " It was running at that moment: its posts stay, and the current run will finish."
    more = {"was_at_work": job.is_running, "was_cancelled": before.status is JobStatus.CANCELLED}
    return ToolResult(data=data | more, display_text=said, structured=_records([data]))


TOOLS = [plan, schedule, list_jobs, query, status, cancel]


async def _checked(context: ToolContext, given: PlanJob) -> NewJob:
    """Return the job that a call asks for, validated. Raises `JobRefused`, `RecordRefused`,
    `RfpNotFound`, `Permanent`, `Transient`.
    """
    type_ = find_job_type(given.job_type)
    wanted = read_arguments(type_, given.arguments.model_dump(exclude_unset=True))
    # Stored arguments are shown again, and posted. Validated twice, since the mark of a redacted
    # secret may be longer than the secret.
    arguments = read_arguments(type_, redact_value(wanted.model_dump())).model_dump()
    about = _check_rfps(context, type_.name, arguments)
    rfp: Rfp | None = None
    if rfp_id := arguments.get("rfp_id"):
        async with context.services[Database].begin() as tx:
            rfp = await RfpStore(tx).get(context.team, rfp_id)
        about = arguments["rfp_id"] = rfp.rfp_id
    if rfp and isinstance(wanted, DeadlineReminder):
        when = _before_due_date(rfp, wanted.days_before, given, context.clock())
    else:
        when = job_times.schedule_of(
            context.clock(), given.after_minutes, given.at, given.cron, given.time_zone
        )
    if channel := arguments.get("channel") or (type_.name == STATUS_DIGEST and context.channel):
        arguments["channel"] = await context.services[ChannelAdmission].admit(
            channel, context.user_id
        )
    return NewJob(job_type=type_.name, arguments=arguments, schedule=when, rfp_id=about)


def _check_rfps(context: ToolContext, job_type: str, arguments: Mapping[str, Any]) -> str:
    """Return the id of the RFP that a job is about; empty for none. Raises `RecordRefused`: the
    job is about RFPs, which one of the askers may not see.
    """
    in_question = find_rfp_ids(str(arguments.get("question") or ""))
    about = str(arguments.get("rfp_id") or next(iter(in_question), ""))
    if about or job_type == STATUS_DIGEST:
        context.access.check(RecordKind.RFPS)
    return about


def _before_due_date(rfp: Rfp, days: int, given: PlanJob, now: datetime) -> JobSchedule:
    if job_times.ways_given(given.after_minutes, given.at, given.cron):
        wanted = "give days_before and time_zone, but no time"
        raise JobRefused(f"a deadline_reminder runs before the RFP's due date: {wanted}")
    zone = job_times.parse_time_zone(given.time_zone or "")
    if rfp.status not in OPEN:
        raise JobRefused(f"{rfp.rfp_id} is {rfp.status}, so it needs no reminder")
    if rfp.due_date is None:
        raise JobRefused(f"{rfp.rfp_id} has no due date: set it first")
    moment = job_times.morning(rfp.due_date - timedelta(days=days), zone)
    if moment <= now:
        raise JobRefused(
            f"{rfp.rfp_id} is due on {rfp.due_date.isoformat()}, and "
            f"{job_times.format_time(moment)} ({zone}) is in "
            "the past: give fewer days_before"
        )
    return JobSchedule(at=moment, time_zone=zone)


async def _started(context: ToolContext, job: AgentJob) -> ToolResult:
    """Start the workflow or schedule of a recorded job. After a crash before that, a repeated call
    or the sweep starts it.
    """
    try:
        job = await context.services[JobRunner].start(job)
    except Permanent as refused:
        async with context.services[Database].begin() as tx:
            await JobStore(tx).cancel(job.team, job.job_id, context.clock().timestamp())
        raise JobRefused(
            f"{job.job_id} could not be started, and is cancelled: {refused}"
        ) from refused
    _log.info(
        "job_scheduled",
        job=job.job_id,
        type=job.job_type,
        correlation_id=job.author.correlation_id,
    )
    if job.status is JobStatus.CANCELLED:  # cancelled since an earlier attempt of this call
        return error_result(
            ErrorCode.REFUSED, f"{job.job_id} was cancelled in the meantime, and will not run."
        )
    data = _data(context, job)
    said = f"{job.job_id} is scheduled: {job.job_type} runs {data['when']}."
    return ToolResult(data=data, display_text=said, structured=_records([data]))


async def _found(context: ToolContext, wanted: JobFilter, none: str) -> ToolResult:
    """Return the jobs of a search. Where one of the askers may not see RFPs, jobs about RFPs are
    left out and counted.
    """
    store = JobStore(context.tx)
    refusal = context.access.refusal(RecordKind.RFPS)
    # The count ignores the other conditions: a count for each search would reveal the hidden
    # times.
    about_rfps = JobFilter(open_only=wanted.open_only, about_rfps=True)
    hidden = await store.count(context.team, about_rfps) if refusal else 0
    seen = replace(wanted, about_rfps=False) if refusal else wanted
    found = await store.search(context.team, seen, limit=MAX_LISTED + 1)
    shown = [_data(context, job) for job in found[:MAX_LISTED]]
    data: dict[str, Any] = {"jobs": shown, "more": len(found) > MAX_LISTED}
    said = "" if shown or hidden else none
    if hidden:
        said = data["hidden"] = _hidden_text(hidden, refusal)
    return ToolResult(data=data, display_text=said, structured=_records(shown))


def _hidden_text(count: int, refusal: str) -> str:
    are = "is" if count == 1 else "are"
    return f"{counted(count, 'job')} about RFPs {are} not shown. {refusal}"


def _planned(new: NewJob, now: datetime) -> dict[str, Any]:
    return {
        "job_type": new.job_type,
        "arguments": new.arguments,
        "rfp_id": new.rfp_id,
        "when": job_times.in_words(new.schedule, now),
        "time_zone": new.schedule.time_zone,
        "next_runs": _iso(job_times.next_times(new.schedule, now)),
    }


def _data(
    context: ToolContext, job: AgentJob, in_temporal: TemporalJobStatus | None = None
) -> dict[str, Any]:
    """Return a job for the model.

    Its arguments and results are shown only in the channel where it was asked for: that may have
    been a private one, and all readers of a thread see an answer. Where one of the askers may not
    see RFPs, a job about RFPs shows only that it is one.
    """
    data: dict[str, Any] = {
        "job_id": job.job_id,
        "status": job.status.value,
        **_planned(job, context.clock()),
        "asked_by": job.author.user_id,
        "asked_at": job.created_at.astimezone(UTC).isoformat(timespec="minutes"),
        "runs": job.runs,
        "last_result": job.result["said"]
        if isinstance(job.result, dict) and "said" in job.result
        else "",
        "last_error": job.error,
    }
    if context.channel != job.channel:
        data |= {
            name: _ELSEWHERE for name in ("arguments", "last_result", "last_error") if data[name]
        }
    refusal = context.access.refusal(RecordKind.RFPS) if job.is_about_rfps else ""
    if refusal:
        data |= {name: _HIDDEN for name in _TELLS_OF_RFP if data[name]}
        return data | {"next_runs": [], "hidden": refusal}
    if job.is_finished:
        data["next_runs"] = []
    elif in_temporal and in_temporal.next_times:
        zone = ZoneInfo(job.schedule.time_zone)
        data["next_runs"] = _iso(
            [each.astimezone(zone) for each in in_temporal.next_times[: job_times.SHOWN]]
        )
    return data


def _in_words(job: AgentJob, in_temporal: TemporalJobStatus | None) -> str:
    if job.is_finished:
        return "It has ended and will not run again."
    if in_temporal is None:
        return "Temporal did not report its state: try again in a few minutes."
    if not in_temporal.exists:
        return "Temporal does not have it yet: it will start within a few minutes."
    running = (
        f", {len(in_temporal.running)} running"
        if job.schedule.cron and in_temporal.running
        else ""
    )
    return f"{in_temporal.state} as {job.workflow_id}{running}"


def _iso(times: Sequence[datetime]) -> list[str]:
    return [each.isoformat(timespec="minutes") for each in times]


def _records(shown: Sequence[dict[str, Any]]) -> tuple[RecordGroup, ...]:
    """Return jobs for the thread's record: short, and without their arguments."""
    names = ("job_id", "job_type", "status", "rfp_id", "asked_by", "runs", "last_error", "when")
    rows = (
        {name: each[name] for name in names} | {"next": next(iter(each["next_runs"]), "")}
        for each in shown
    )
    return record_group("jobs", rows)
