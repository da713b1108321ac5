"""The findings of a case: the changes that a turn makes in them, and its note about the changes.

Findings are posted once. A later turn replaces them in place, and a short note names the changes.
"""

from collections.abc import Callable, Sequence
from typing import Any

from threadline.cases.outcome import StoredOutcome, TurnPost

_PARTS: Sequence[tuple[str, Callable[[StoredOutcome], Any]]] = (
    ("the title", lambda findings: _plain(findings.title)),
    ("the summary", lambda findings: _plain(findings.summary)),
    ("the root cause", lambda findings: _plain(findings.root_cause)),
    ("the evidence", lambda findings: [(each.file, each.line) for each in findings.evidence]),
    (
        "the recommended actions",
        lambda findings: [_plain(each) for each in findings.recommended_actions],
    ),
    ("the components", lambda findings: sorted(findings.affected_components)),
)
"""The parts of findings by the names that people know, and the content that is compared."""
_UNCHANGED = "I have looked again, and my findings are the same."


def changed_parts(before: StoredOutcome, after: StoredOutcome) -> list[str]:
    """Return the parts of the findings that differ, by their names."""
    changed = [name for name, content in _PARTS if content(before) != content(after)]
    if before.severity and after.severity and before.severity is not after.severity:
        changed.insert(0, f"the severity ({before.severity}, now {after.severity})")
    return changed


def change_note(told: TurnPost) -> str:
    """Return a sentence that names the changes of a turn; empty if it changed nothing, or nothing
    was shown before.
    """
    earlier = told.earlier
    findings = told.findings
    if earlier is None or findings is None or not told.shown_in_turn:
        return ""
    changed = changed_parts(earlier, findings)
    if not changed:
        return ""
    return f"I have updated the findings: {_listed(changed)}."


def shows_findings(told: TurnPost) -> bool:
    """Return whether a turn's findings have to be posted, or replaced in their place: it gives
    new ones, earlier ones were never posted, or the severity has changed.
    """
    findings = told.findings
    earlier = told.earlier
    if findings is None:
        return False
    if told.has_findings or not told.shown_in_turn or earlier is None:
        return True
    return bool(changed_parts(earlier, findings))


def own_reply(told: TurnPost) -> str:
    """Return the agent's answer to the developers, or the reason of a failed turn; may be
    empty.
    """
    return told.failure or told.outcome.reply.strip()


def developer_reply(told: TurnPost) -> str:
    """Return the turn's words for developers besides its findings; empty if it has none: its
    answer to their messages, and the changes in the findings.
    """
    reply = own_reply(told)
    note = change_note(told)
    if told.has_findings and told.shown_in_turn and not (reply or note):
        return _UNCHANGED
    return "\n\n".join(filter(None, (reply, note)))


def _plain(text: str) -> str:
    return " ".join(text.split())


def _listed(names: Sequence[str]) -> str:
    if len(names) == 1:
        return names[0]
    return f"{', '.join(names[:-1])} and {names[-1]}"
