"""The kinds of jobs that there are: each by its name, with a small model of what it has to be told."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from threadline.jobs.model import JobRefused

STATUS_DIGEST, DEADLINE_REMINDER, FOLLOW_UP = "status_digest", "deadline_reminder", "follow_up"
MOST_DAYS_BEFORE = 180


class _Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class StatusDigest(_Arguments):
    """Of a status_digest."""

    channel: Annotated[
        str | None,
        Field(max_length=40, description="Slack id of the channel to post in. Null: the channel of this thread."),
    ] = None


class DeadlineReminder(_Arguments):
    """Of a deadline_reminder."""

    rfp_id: Annotated[str, Field(min_length=1, max_length=60, description="The RFP whose due date it is about.")]
    days_before: Annotated[
        int, Field(ge=0, le=MOST_DAYS_BEFORE, description="How many days before the due date; at 9:00 of that day.")
    ] = 3
    channel: Annotated[
        str | None, Field(max_length=40, description="Slack id of a channel to remind in. Null: in this thread.")
    ] = None


class FollowUp(_Arguments):
    """Of a follow_up."""

    question: Annotated[
        str, Field(min_length=1, max_length=3_000, description="What you are to be asked then, in full.")
    ]
    rfp_id: Annotated[str | None, Field(max_length=60, description="The RFP that it is about, if about one.")] = None


Arguments = StatusDigest | DeadlineReminder | FollowUp


@dataclass(frozen=True)
class JobType:
    """`says` completes "a … job …"; `own_time`: it knows by itself when it is to run."""

    name: str
    says: str
    arguments: type[Arguments]
    own_time: bool = False


TYPES: Mapping[str, JobType] = {
    each.name: each
    for each in (
        JobType(STATUS_DIGEST, "posts a digest of the open RFPs with their due dates to a channel", StatusDigest),
        JobType(
            DEADLINE_REMINDER,
            "reminds some days before an RFP is due, also when its due date moves, unless it is closed by then",
            DeadlineReminder,
            own_time=True,
        ),
        JobType(FOLLOW_UP, "asks the operator a question in this thread, for whoever asks for it now", FollowUp),
    )
}
KNOWN = "; ".join(f"{each.name} {each.says}" for each in TYPES.values())
"""All of them, in words."""


def type_of(name: str) -> JobType:
    """Raises `JobRefused`, which lists them all."""
    known = TYPES.get("_".join(name.strip().lower().replace("-", "_").split()))
    if known is None:
        raise JobRefused(f"there is no job type {name[:60]!r}; there are {', '.join(TYPES)}: {KNOWN}")
    return known


def read(job_type: JobType, arguments: Mapping[str, Any]) -> Arguments:
    """The arguments of a type, from JSON.

    Raises:
        JobRefused: something is missing, unknown to the type, or does not have the form that it needs.
    """
    try:
        return job_type.arguments.model_validate(arguments)
    except ValidationError as invalid:
        fault = invalid.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(str(step) for step in fault["loc"])[:60] or "what was given"
    taken = ", ".join(job_type.arguments.model_fields)
    raise JobRefused(f"{place} is not valid for a {job_type.name} ({fault['msg'].lower()}); it takes {taken}")
