"""Slack texts of jobs: short Markdown, one function for each occasion. Pure."""

import re
from collections.abc import Sequence
from datetime import date

from threadline.jobs.model import AgentJob
from threadline.rfps.model import status_words
from threadline.tools.public_text import public_sentence

_INTERNAL = "An internal error occurred; the worker's log has the details."

_MARKUP = re.compile(r"[*_`~\[\]\\|]")


def digest(lines: Sequence[str], job_id: str, name: str, *, more: bool) -> str:
    """Return the open RFPs, one a line, and below them the user who asked for the digest. Without
    a `name` no user is named.
    """
    listed = "\n".join(f"- {each}" for each in lines) or "No RFP is open."
    rest = "\n\nThere are more: ask me for the list." if more else ""
    by = f", requested by {escape_inline(name)}" if escape_inline(name) else ""
    return f"{listed}{rest}\n\n_{job_id}{by}. To end it, ask me to cancel {job_id}._"


def deadline(line: str, job_id: str) -> str:
    return f"{line}\n\n_A reminder that you asked for ({job_id})._"


def follow_up(question: str, job_id: str) -> str:
    quoted = "\n".join(f"> {each}" for each in question.strip().splitlines())
    return f"You asked me to look into this now ({job_id}):\n\n{quoted}"


def error_text(error: str) -> str:
    """Return the reason of a failed run for people: without paths and words from a program."""
    return public_sentence(error, _INTERNAL)


def failure_text(job: AgentJob, error: str, following: str) -> str:
    """Return the notice of a failed run.

    Args:
        error: from `error_text`.
        following: the time of the next attempt; empty for none.
    """
    then = (
        f"The next run is on {following}."
        if following
        else "It will not run again unless you ask me to."
    )
    return f"**{job.job_id}** ({status_words(job.job_type)}) failed: {error.rstrip('.')}. {then}"


def cancelled_by(job: AgentJob, name: str) -> str:
    """Return the notice to a job's author that somebody else cancelled the job in another
    place.
    """
    at_work = " The current run will still finish." if job.is_running else ""
    who = escape_inline(name) or "Somebody"
    named = f"**{job.job_id}** ({status_words(job.job_type)})"
    said = f"{who} has cancelled {named}, which you asked for. It will not run again.{at_work}"
    return f"{said} Ask me to schedule it again if you still need it."


def due_text(day: date | None, today: date) -> str:
    """Return when something is due, relative to today."""
    if day is None:
        return "no due date"
    left = (day - today).days
    if left < 0:
        return f"**was due on {day.isoformat()}, {_days(-left)} ago**"
    distance = {0: "today", 1: "tomorrow"}.get(left, f"in {_days(left)}")
    return f"due on {day.isoformat()}, {distance}"


def escape_inline(text: str) -> str:
    """Return a person's words for use within a line of Markdown, without characters that are
    markup.
    """
    return " ".join(_MARKUP.sub(" ", text).split())


def _days(count: int) -> str:
    return "1 day" if count == 1 else f"{count} days"
