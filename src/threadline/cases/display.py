"""A case as Temporal's UI and its search show it, from the marks alone."""

from datetime import UTC, datetime
from typing import Any

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from threadline.cases.model import STATE_OF, CaseStatus, Marks


def state(status: CaseStatus) -> str:
    """The state that people see: the workflow's, and `resolved` when there is nothing to do."""
    return status.value if status is CaseStatus.RESOLVED else STATE_OF[status].value


def memo(marks: Marks) -> dict[str, Any]:
    return {"case": marks.bug_id, "title": marks.title}


def details(marks: Marks, trouble: str) -> str:
    """What is going on, in a heading and a sentence; `trouble`: why the agent does not get on."""
    until = f", until {clock(marks.wait_until)}" if marks.wait_until else ""
    what = {
        CaseStatus.NEW: "Waiting for the investigation to start.",
        CaseStatus.INVESTIGATING: f"The agent is investigating (turn {marks.turn + 1}). {trouble}".rstrip(),
        CaseStatus.AWAITING_REPORTER: f"Waiting for the reporter ({marks.reporter_id}){until}: {marks.question}",
        CaseStatus.PENDING_VERIFICATION: f"Findings are posted; waiting for developers{until}.",
        CaseStatus.ESCALATED: "Escalated to people; it stays open until somebody resolves it.",
        CaseStatus.RESOLVED: "Resolved; a message reopens it.",
    }[marks.status]
    return f"**{marks.bug_id}** ({marks.severity}) {marks.title}\n\n{what}"


def clock(at: float) -> str:
    """Seconds since 1970 as people read them."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")
