"""Tools for continuous integration: recent runs, failed jobs with their logs, and reruns."""

from dataclasses import asdict
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from threadline.errors import Permanent, before_a_change
from threadline.forge.actions import Actions, Build
from threadline.models.model import ToolKind
from threadline.tools.context import ToolContext
from threadline.tools.model import Risk, ToolResult, record_group
from threadline.tools.registry import tool
from threadline.tools.roles import RecordKind

MAX_RUNS = 30
_READING = 40.0
"""Seconds: a run, its jobs, and the logs of some of them."""
_SETTLES = 45.0
"""Seconds: longer than the client waits for an answer, plus half a minute for a slow host."""

RunId = Annotated[int, Field(ge=1, le=2**53, description="As ci.recentRuns tells it.")]
Outcome = Literal[
    "success", "failure", "cancelled", "timed_out", "in_progress", "queued", "completed"
]


class Rerun(BaseModel):
    run_id: RunId
    attempt: Annotated[
        int,
        Field(ge=1, le=10_000, description="The attempt that is to be repeated, as last seen."),
    ]
    failed_only: Annotated[
        bool, Field(description="Only the failed jobs and what depends on them.")
    ] = True


@tool(
    "ci.recentRuns",
    "The newest runs of the repository's workflows.",
    needs=(Actions,),
    remote=True,
    records=(RecordKind.BUILDS,),
)
async def recent_runs(
    context: ToolContext,
    *,
    branch: Annotated[str, Field(max_length=250)] = "",
    status: Annotated[
        Outcome | None, Field(description="Only those of this status or outcome.")
    ] = None,
    limit: Annotated[int, Field(ge=1, le=MAX_RUNS)] = 10,
) -> ToolResult:
    shown = [
        _record(each)
        for each in await context.services[Actions].recent(branch, status or "", limit)
    ]
    text = f"{len(shown)} runs, the newest first." if shown else "No run was found."
    return ToolResult(
        data={"runs": shown}, display_text=text, structured=record_group("builds", shown)
    )


@tool(
    "ci.failedJobs",
    (
        "The failed jobs of one run, with the end of each log. Without a run: of the newest that "
        "failed."
    ),
    needs=(Actions,),
    timeout=_READING,
    remote=True,
    records=(RecordKind.BUILDS,),
)
async def failed_jobs(context: ToolContext, *, run_id: RunId | None = None) -> ToolResult:
    builds = context.services[Actions]
    if run_id is None:
        newest = await builds.recent("", "failure", 1)
        if not newest:
            return ToolResult(data={"jobs": []}, display_text="No run has failed.")
        run_id = newest[0].id
    found = await builds.failed_jobs(run_id)
    record = _record(found.build)
    without = found.count - len(found.jobs)
    data: dict[str, Any] = {"run": record, "failed": found.count}
    if without:
        data["without_log"] = f"{without} more failed jobs are not shown"
    data["jobs"] = [asdict(each) for each in found.jobs]
    text = f"{found.count} of its jobs failed." if found.count else "None of its jobs failed."
    return ToolResult(data=data, display_text=text, structured=record_group("builds", [record]))


async def _find_rerun(context: ToolContext, given: Rerun) -> ToolResult | None:
    build = await context.services[Actions].build(given.run_id)
    return _started_before(build) if build.attempt > given.attempt else None


@tool(
    "ci.rerun",
    (
        "Start a run once more that has ended; say which attempt of it, so that it is repeated "
        "only once."
    ),
    kind=ToolKind.CHANGE,
    risk=Risk.MEDIUM,
    needs=(Actions,),
    rate_limit_key=lambda given: f"ci:{given.run_id}",
    look_up=_find_rerun,
    settle_seconds=_SETTLES,
    remote=True,
    records=(RecordKind.BUILDS,),
)
async def rerun(context: ToolContext, given: Rerun) -> ToolResult:
    builds = context.services[Actions]
    with before_a_change():
        build = await builds.build(given.run_id)
    if build.attempt > given.attempt:
        return _started_before(build)
    if build.attempt < given.attempt:
        raise Permanent(
            f"The last attempt of run {build.id} is {build.attempt}: name that attempt."
        )
    if not build.ended:
        raise Permanent(
            f"Attempt {build.attempt} of run {build.id} has not ended yet: wait for it."
        )
    await builds.rerun(given.run_id, failed_only=given.failed_only)
    record = _record(build) | {"attempt": build.attempt + 1, "status": "queued"}
    record.pop("conclusion", None)  # belongs to the attempt before
    text = f"Run {build.id} is started again, as attempt {build.attempt + 1}."
    return ToolResult(data=record, display_text=text, structured=record_group("builds", [record]))


TOOLS = [recent_runs, failed_jobs, rerun]


def _record(build: Build) -> dict[str, Any]:
    return {name: value for name, value in asdict(build).items() if value != ""}


def _started_before(build: Build) -> ToolResult:
    record = _record(build)
    text = f"Run {build.id} was already started again: attempt {build.attempt} is {build.status}."
    return ToolResult(data=record, display_text=text, structured=record_group("builds", [record]))
