"""How risky a proposed call is: one table, by what the call changes. Pure."""

import json
from collections.abc import Mapping
from typing import Any

from threadline.approvals.model import Risk
from threadline.rfps.model import RfpStatus

BY_TOOL: Mapping[str, Risk] = {
    "journal_append": Risk.LOW,
    "event_append": Risk.LOW,
    "rfp_create_from_slack_file": Risk.MEDIUM,
    "schedule_job": Risk.MEDIUM,
    "job_plan": Risk.LOW,
    "agent_job_cancel": Risk.MEDIUM,
    "ci_rerun": Risk.MEDIUM,
    "crm_log": Risk.LOW,
    "email_draft": Risk.LOW,
    "email_send": Risk.MEDIUM,
}
"""By a tool's name with its parts joined by underscores; goes before its toolset's. A mail's own address says more:
see `sales/email_model.py`."""
BY_TOOLSET: Mapping[str, Risk] = {
    "appointments": Risk.MEDIUM,
    "calendar": Risk.MEDIUM,
    "crm": Risk.MEDIUM,
    "estimates": Risk.MEDIUM,
    "jira": Risk.MEDIUM,
}
"""Tickets, bookings, customers, quotes. What is in neither table is of high risk."""
PATCH = "opportunity_patch"
NOTES = frozenset(
    {
        *("notes", "note", "summary", "next_steps", "next_step", "tasks", "open_questions", "questions", "risks"),
        *("tags", "links", "contacts", "highlights", "history", "comments"),
    }
)
"""Fields of a state in which people keep what they know: writing there binds nobody. To empty one is of medium risk."""
OUTCOMES = frozenset({RfpStatus.WON, RfpStatus.LOST, RfpStatus.NO_BID, RfpStatus.CANCELLED})
"""An opportunity that has one of these is over."""
_OUTCOME_FIELDS = frozenset({"status", "stage", "state", "outcome", "decision", "result"})

_ORDER = (Risk.LOW, Risk.MEDIUM, Risk.HIGH)


def assessed(tool: str, arguments: Mapping[str, Any]) -> Risk:
    """The risk of a call.

    Args:
        tool: its own name, or the provider's.
        arguments: as JSON; a patch stands there as an object, or as its text.
    """
    name = tool.replace(".", "_")
    if name == PATCH:
        return _of_patch(arguments.get("patch"))
    return BY_TOOL.get(name) or BY_TOOLSET.get(name.partition("_")[0], Risk.HIGH)


def raised(risk: Risk, wanted: Risk | None) -> Risk:
    """The higher of both: whoever proposes may find an action riskier than the table, and never safer."""
    return max(risk, wanted or risk, key=_ORDER.index)


def _of_patch(patch: object) -> Risk:
    document = _read(patch)
    if not isinstance(document, dict) or not document:
        return Risk.HIGH
    if _ends_it(document):
        return Risk.HIGH
    harmless = all(name in NOTES and value is not None for name, value in document.items())
    return Risk.LOW if harmless else Risk.MEDIUM


def _read(patch: object) -> object:
    if not isinstance(patch, str):
        return patch
    try:
        return json.loads(patch)
    except (ValueError, RecursionError):
        return None


def _ends_it(value: object) -> bool:
    """Whether an outcome stands in it at any depth, under whatever of the usual names."""
    if isinstance(value, list):
        return any(map(_ends_it, value))
    if not isinstance(value, Mapping):
        return False
    return any(
        _ends_it(each) or (str(name).casefold() in _OUTCOME_FIELDS and _is_outcome(each))
        for name, each in value.items()
    )


def _is_outcome(value: object) -> bool:
    plain = "_".join(value.casefold().replace("-", " ").replace("_", " ").split()) if isinstance(value, str) else ""
    return plain in OUTCOMES or plain in ("canceled", "nobid")
