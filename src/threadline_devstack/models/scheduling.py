"""Work for later, by words: which kind of job, with what, and when. What the words leave out, the tool asks for."""

import re
from typing import Any

from threadline_devstack.models.copilot_words import told
from threadline_devstack.models.script import Turn
from threadline_devstack.models.uploading import arguments

SCHEDULE, PLAN = "schedule_job", "job_plan"
_ASKED = re.compile(
    r"(?i)\b(?:schedule|plan|preview)\b.*\b(?:jobs?|digest|reminder|follow[- ]?up)\b"
    r"|\bremind (?:me|us)\b|\bwhat would run\b"
)
_PLANS = re.compile(r"(?i)\b(?:plan|preview|what would run)\b")
_KINDS = (("follow_up", r"follow[-_ ]?up"), ("deadline_reminder", r"remind|deadline"), ("status_digest", r"digest"))
_KIND = re.compile(r"(?i)\b([a-z]\w*) job\b")
_DELAY = re.compile(r"(?i)\bin (an?|\d{1,4}) (minute|hour|day|week)s?\b")
_MINUTES = {"minute": 1, "hour": 60, "day": 24 * 60, "week": 7 * 24 * 60}
_AT = re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:Z|[+-]\d\d:\d\d)?")
_CRON = re.compile(r"(?i)\bcron:?\s*[`\"“]?((?:[\d*/,A-Za-z-]+ ){4}[\d*/,A-Za-z-]+)")
_EVERY = re.compile(
    r"(?i)\bevery (day|workday|weekday|morning|monday|tuesday|wednesday|thursday|friday|saturday|sunday)"
    r"(?: at (\d\d?)(?::(\d\d))?)?"
)
_DAYS = {"day": "*", "morning": "*", "workday": "1-5", "weekday": "1-5"}
_ZONE = re.compile(r"\b(?:[A-Z][a-z]+/[A-Z]\w+|UTC)\b")
_CHANNEL = re.compile(r"<#(C\w+)|\b(C0\w+)\b")
_BEFORE = re.compile(r"(?i)\b(\d{1,3}) days? before\b")
_QUESTION = re.compile(r"(?is)(?::|\bask(?: (?:me|us|you))?)\s*(\S.*)")


def is_asked_for(turn: Turn) -> bool:
    return SCHEDULE in turn.tools and _ASKED.search(turn.prompt) is not None


async def schedule(turn: Turn, words: str, rfp_id: str = "") -> str:
    """One call, of the tool that schedules or of the one that only shows; what it says is told."""
    if turn.live and turn.tool_choice == "none":
        return "I have scheduled nothing: I had no more calls for it."
    tool = PLAN if PLAN in turn.tools and _PLANS.search(words) else SCHEDULE
    result = await turn.call(tool, **arguments(turn, tool, **job(words, rfp_id)))
    return f"I could not schedule it: {told(result.text)}" if result.is_error else told(result.text)


def job(words: str, rfp_id: str = "") -> dict[str, Any]:
    """The arguments that the words name; a kind that is unknown is given as it was said."""
    known = next((name for name, pattern in _KINDS if re.search(rf"(?i){pattern}", words)), "")
    said = _KIND.search(words)
    kind = known or (said[1] if said else "job")
    channel = next(filter(None, (each for found in _CHANNEL.findall(words) for each in found)), None)
    return {"job_type": kind, "arguments": _details(kind, words, rfp_id, channel), **_when(kind, words)}


def _details(kind: str, words: str, rfp_id: str, channel: str | None) -> dict[str, Any]:
    if kind == "follow_up":
        asked = _QUESTION.search(words)
        return {"question": asked[1] if asked else words, "rfp_id": rfp_id or None}
    if kind == "deadline_reminder":
        before = _BEFORE.search(words)
        return {"rfp_id": rfp_id, "days_before": int(before[1]) if before else None, "channel": channel}
    return {"channel": channel}


def _when(kind: str, words: str) -> dict[str, Any]:
    zone = _ZONE.search(words)
    named = zone[0] if zone else "UTC"
    if kind == "deadline_reminder":
        return {"time_zone": named}
    if found := _CRON.search(words):
        return {"cron": found[1].rstrip(","), "time_zone": named}
    if found := _EVERY.search(words):
        day = found[1].lower()
        return {"cron": f"{int(found[3] or 0)} {int(found[2] or 9)} * * {_DAYS.get(day, day[:3])}", "time_zone": named}
    if found := _AT.search(words):
        return {"at": found[0], "time_zone": named}
    if found := _DELAY.search(words):
        count = int(found[1]) if found[1].isdigit() else 1
        return {"after_minutes": count * _MINUTES[found[2].lower()]}
    return {"after_minutes": 24 * 60 if "tomorrow" in words.lower() else 0}
