"""One voice: each text about a handover or a failure says what happened and what happens next."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from threadline.cases import blocks as cases
from threadline.cases.model import DEFAULT_TARGETS, NoticeKind, SlaEventKind
from threadline.conversations import blocks as conversations
from threadline.conversations.help import CaseChannelIds, build_help
from threadline.conversations.model import answers
from threadline.conversations.model.conversation import NoticeReason
from threadline.decisions.model import EscalationReason
from threadline.handovers import blocks as handovers
from threadline.tools.model import ErrorCode, ToolError

TARGET = next(iter(DEFAULT_TARGETS.values()))
HELP_IN = CaseChannelIds("C0REPORTS", frozenset({"C0SUMMARIES"}))
HELP_PLACES = ("C0REPORTS", "C0SUMMARIES", "C1", "D1")
SOURCE = Path(__file__).resolve().parents[2] / "src" / "threadline"

TEXTS = {
    **{
        f"notice {kind}": cases.notice_text(kind, "BUG-1", "Slack has archived the channel.")
        for kind in NoticeKind
    },
    **{f"notice {kind} for the reporter": cases.notice_text(kind, "BUG-1") for kind in NoticeKind},
    **{f"end {reason}": cases.closing_text("BUG-1", reason) for reason in cases._ENDED},
    **{f"clock {kind}": cases.sla_text("BUG-1", kind) for kind in SlaEventKind},
    "escalation": cases.escalation_text("The import fails.", TARGET),
    "escalation for the reporter": cases.escalated_text("BUG-1", "", TARGET),
    "escalation in the agent's words": cases.escalated_text("BUG-1", "It is the import.", TARGET),
    "fix for the reporter": cases.fix_proposed_text("BUG-1"),
    "question to the reporter": cases.reporter_asked_text("BUG-1", "Which browser?"),
    **{f"handed over: {reason}": answers.escalation_text(reason) for reason in EscalationReason},
    "failure": answers.GENERIC_FAILURE,
    "nothing found": answers.NOTHING_TO_SAY,
    "stopped by the admin": answers.stopped_text([], by_admin=True),
    "no model": conversations.NO_MODEL,
    "too long": conversations.TOO_LONG,
    **{f"conversation {reason}": conversations.notice_text(reason) for reason in NoticeReason},
    "handover taken": f"Anna {handovers.TAKEN_BY}",
    "handover closed": f"Anna {handovers.CLOSED_BY}",
    "handover untaken": handovers.NOBODY_YET,
    "reply too late": handovers.ALREADY_CLOSED,
    "reply refused": handovers.NOT_POSTED,
    "change refused": handovers.NOT_CHANGED,
    "edit without the prefix": handovers.NOT_MARKED,
    "internal message": handovers.INTERNAL_HINT,
    "empty reply": handovers.EMPTY_REPLY,
    "undo too late": handovers.UNDO_TOO_LATE,
    **{f"help in {each}": build_help(each, ("cases",), HELP_IN).text for each in HELP_PLACES},
    "help without a model": build_help("C1", (), HELP_IN, has_model=False).text,
    **{f"tool {code}": ToolError(code).text for code in ErrorCode},
}
NEXT = re.compile(
    r"\b(?:please|write|press|ask|asks|try|answer|answers|tell|send|say|delete|check|wait|go "
    r"on|start|load|offer|call"
    r"|make|i (?:will|am|go on|continue|keep|remind|post|tell)|they|follows)\b",
    re.IGNORECASE,
)
"""A person does something, or is asked to."""
BANNED = re.compile(
    r"whoever runs|technical difficult|is now with people|administrator|team member will|person "
    r"is needed"
    r"|\boperators?\b",
    re.IGNORECASE,
)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_text_says_what_happened_and_what_is_next(text: str) -> None:
    assert len([each for each in re.split(r"(?<=[.!?])\s", text) if each.strip()]) >= 2, (
        "two sentences at least"
    )
    assert NEXT.search(text)
    assert not BANNED.search(text)


WORDS = re.compile(
    r"whoever runs (?:this|the) bot|technical difficult|is now with people|the administrator",
    re.IGNORECASE,
)


def _strings(path: Path) -> Iterator[str]:
    """The texts of a module, without its documentation."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documentation = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}
    for each in ast.walk(tree):
        if (
            isinstance(each, ast.Constant)
            and isinstance(each.value, str)
            and id(each) not in documentation
        ):
            yield each.value


def test_person_who_runs_threadline_is_called_the_admin_everywhere() -> None:
    found = [
        (path.relative_to(SOURCE).as_posix(), text)
        for path in sorted(SOURCE.rglob("*.py"))
        for text in _strings(path)
        if WORDS.search(text)
    ]
    assert found == []
