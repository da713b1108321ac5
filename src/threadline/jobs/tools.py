"""Work for later: scheduled, shown beforehand, listed, looked up and cancelled."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from pydantic import BaseModel, Field

from threadline.jobs import job_types
from threadline.jobs import times as job_times
from threadline.jobs.job_port import JobDesk
from threadline.jobs.job_types import DeadlineReminder, FollowUp, StatusDigest
from threadline.jobs.model import AgentJob, JobQuery, JobStanding, JobStatus, NewJob, WantedJob, When
from threadline.models.model import ToolKind
from threadline.tools.context import ToolContext
from threadline.tools.effects import by_effect
from threadline.tools.model import Author, ErrorCode, RecordGroup, Risk, ToolResult, error_result
from threadline.tools.registry import tool

MOST = 20
"""Jobs of one answer; others are found by what they are."""
_MOST_MINUTES = job_times.FARTHEST.days * 24 * 60
_DELAY = "For one run: in how many minutes; 0 is now."
_AT = "For one run: the moment in ISO 8601, by the clocks of time_zone, or with an offset."
_CRON = "For many runs: minute, hour, day of the month, month, day of the week; at most once in 15 minutes."
_ZONE = (
    "By whose clocks, such as Europe/Berlin: needed with a cron, a deadline_reminder, and an `at` without an offset."
)

_ELSEWHERE = "not shown here: it was asked for in another channel"

JobId = Annotated[str, Field(min_length=1, max_length=40, description="Such as JOB-7.")]


class Plan(BaseModel):
    job_type: Annotated[str, Field(max_length=100, description=f"{job_types.KNOWN}.")]
    arguments: Annotated[
        StatusDigest | DeadlineReminder | FollowUp, Field(description="What a job of this type takes.")
    ]
    after_minutes: Annotated[int | None, Field(ge=0, le=_MOST_MINUTES, description=_DELAY)] = None
    at: Annotated[str | None, Field(max_length=60, description=_AT)] = None
    cron: Annotated[str | None, Field(max_length=200, description=_CRON)] = None
    time_zone: Annotated[str | None, Field(max_length=60, description=_ZONE)] = None

    @property
    def wanted(self) -> WantedJob:
        when = When(self.after_minutes, self.at or "", self.cron or "", self.time_zone or "")
        return WantedJob(self.job_type, self.arguments.model_dump(exclude_unset=True), when)


class Schedule(Plan):
    correlation_id: str = ""


class Cancel(BaseModel):
    job_id: JobId


class Query(BaseModel):
    job_type: Annotated[str | None, Field(max_length=100, description="Only of this type.")] = None
    status: Annotated[JobStatus | None, Field(description="Only of this status.")] = None
    rfp_id: Annotated[str | None, Field(max_length=60, description="Only about this RFP.")] = None
    since: Annotated[
        str | None,
        Field(max_length=60, description="Only those that last ran, or are to run once, then or later; ISO 8601."),
    ] = None
    until: Annotated[str | None, Field(max_length=60, description="The same: only those before it.")] = None


@tool(
    "job.plan",
    "Show what a job would do and when, the next five times, without scheduling it.",
    needs=(JobDesk,),
    remote=True,
)
async def plan(context: ToolContext, given: Plan) -> ToolResult:
    now = context.clock()
    new = await context.services[JobDesk].plan(context.thread, context.user_id, given.wanted, now)
    data = _planned(new, now)
    return ToolResult(data=data, display_text=f"Nothing is scheduled yet: {new.job_type} would run {data['when']}.")


async def _schedule(context: ToolContext, given: Schedule) -> ToolResult:
    author = Author(context.user_id, given.correlation_id or context.correlation_id)
    job = await context.services[JobDesk].schedule(context.change, author, given.wanted)
    if job.status is JobStatus.CANCELLED:  # since an earlier try of this call
        return error_result(ErrorCode.REFUSED, f"{job.job_id} is cancelled by now, and does not run.")
    now = context.clock()
    data = _told(context, job, None, now)
    what = f"{job.job_id} is scheduled: {job.job_type} runs {data['when']}."
    return ToolResult(data=data, display_text=what, structured=_shown([data]))


@tool(
    "schedule.job",
    "Schedule a job: once now, after a delay or at a moment, or on a cron. Say when in one way; a deadline_reminder "
    "takes none, since it knows its time by the RFP. Tell the person the next runs.",
    kind=ToolKind.CHANGE,
    risk=Risk.MEDIUM,
    needs=(JobDesk,),
    look_up=by_effect(JobDesk, _schedule),
    remote=True,
)
async def schedule(context: ToolContext, given: Schedule) -> ToolResult:
    return await _schedule(context, given)


@tool("agent.job.list", "The jobs that are scheduled or at work, with their next runs.", needs=(JobDesk,), remote=True)
async def list_jobs(context: ToolContext) -> ToolResult:
    return await _found(context, JobQuery(open_only=True), "No job is scheduled.")


@tool(
    "agent.job.query",
    "Jobs of all times, also those that are over: by type, status, RFP and time.",
    needs=(JobDesk,),
    remote=True,
)
async def query(context: ToolContext, given: Query) -> ToolResult:
    job_type = job_types.type_of(given.job_type).name if given.job_type else ""
    since, until = (job_times.moment_of(each) if each else None for each in (given.since, given.until))
    asked = JobQuery(given.status, False, job_type, (given.rfp_id or "").strip().lower(), since, until)
    return await _found(context, asked, "There is no such job.")


@tool("agent.job.status", "How it stands with a job, and what came of its last run.", needs=(JobDesk,), remote=True)
async def status(context: ToolContext, *, job_id: JobId) -> ToolResult:
    job, standing = await context.services[JobDesk].status(context.team, job_id)
    data = _told(context, job, standing, context.clock())
    return ToolResult(data=data | {"temporal": _standing(job, standing)}, structured=_shown([data]))


def _job_of(given: Cancel) -> str:
    return f"job:{given.job_id.strip().upper()}"


async def _cancel(context: ToolContext, given: Cancel) -> ToolResult:
    job = await context.services[JobDesk].cancel(context.change, given.job_id, context.user_id)
    data = _told(context, job, None, context.clock())
    said = f"{job.job_id} is cancelled."
    if job.at_work:
        said += " It was at work at that moment: what it has posted stays, and what it has begun is finished."
    return ToolResult(data=data | {"was_at_work": job.at_work}, display_text=said, structured=_shown([data]))


@tool(
    "agent.job.cancel",
    "Cancel a job: it does not run any more. What it has posted stays. It is for who asked for the job, for approvers, "
    "and in a channel where it was asked for or posts.",
    kind=ToolKind.CHANGE,
    risk=Risk.MEDIUM,
    needs=(JobDesk,),
    rate_limit_key=_job_of,
    look_up=by_effect(JobDesk, _cancel),
    remote=True,
)
async def cancel(context: ToolContext, given: Cancel) -> ToolResult:
    return await _cancel(context, given)


TOOLS = [plan, schedule, list_jobs, query, status, cancel]


async def _found(context: ToolContext, asked: JobQuery, none: str) -> ToolResult:
    found = await context.services[JobDesk].found(context.team, asked, MOST + 1)
    now = context.clock()
    told = [_told(context, job, standing, now) for job, standing in found[:MOST]]
    return ToolResult(
        data={"jobs": told, "more": len(found) > MOST}, display_text="" if told else none, structured=_shown(told)
    )


def _planned(new: NewJob, now: datetime) -> dict[str, Any]:
    times = job_times.next_times(new.schedule, now)
    return {
        "job_type": new.job_type,
        "arguments": new.arguments,
        "rfp_id": new.rfp_id,
        "when": job_times.in_words(new.schedule, now),
        "time_zone": new.schedule.time_zone,
        "next_runs": _iso(times),
    }


def _told(context: ToolContext, job: AgentJob, standing: JobStanding | None, now: datetime) -> dict[str, Any]:
    """A job for the model. What it was told, and what came of it, is shown in the channel where it was asked for alone:
    it may have been in private, and what is told in a thread is there for all its readers."""
    told: dict[str, Any] = {
        "job_id": job.job_id,
        "status": job.status.value,
        **_planned(NewJob(job.job_type, job.arguments, job.schedule, job.rfp_id), now),
        "asked_by": job.author.user_id,
        "asked_at": job.created_at.isoformat(timespec="minutes"),
        "runs": job.runs,
        "last_result": job.result["said"] if isinstance(job.result, dict) and "said" in job.result else "",
        "last_error": job.error,
    }
    if context.channel != job.channel:
        told |= {name: _ELSEWHERE for name in ("arguments", "last_result", "last_error") if told[name]}
    if job.is_over:
        told["next_runs"] = []
    elif standing and standing.next_times:
        zone = ZoneInfo(job.schedule.time_zone)
        told["next_runs"] = _iso([each.astimezone(zone) for each in standing.next_times[: job_times.SHOWN]])
    return told


def _standing(job: AgentJob, standing: JobStanding | None) -> str:
    if job.is_over:
        return "It is over: it does not run any more."
    if standing is None:
        return "Temporal does not say how it is now: try again in a while."
    if not standing.there:
        return "Temporal does not have it yet: it is started within some minutes."
    at_work = f", {len(standing.running)} at work" if job.schedule.cron and standing.running else ""
    return f"{standing.state} as {job.workflow_id}{at_work}"


def _iso(times: Sequence[datetime]) -> list[str]:
    return [each.isoformat(timespec="minutes") for each in times]


def _shown(told: Sequence[dict[str, Any]]) -> tuple[RecordGroup, ...]:
    """In the thread: short, and without what a job was told."""
    names = ("job_id", "job_type", "status", "rfp_id", "asked_by", "runs", "last_error")
    rows = [
        {name: each[name] for name in names} | {"when": each["when"], "next": next(iter(each["next_runs"]), "")}
        for each in told
    ]
    return (RecordGroup("jobs", tuple(rows)),) if rows else ()
