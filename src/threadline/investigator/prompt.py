"""The agent's prompts: the system prompt, and one user prompt for each turn."""

from collections.abc import Sequence
from importlib.resources import files
from string import Template

from threadline.cases.model import Entry
from threadline.investigator.fences import fence, neutralise
from threadline.investigator.store import TurnClaim

LONGEST_BATCH = 60_000
"""Bytes of fenced messages in one prompt.

A longer batch shows the newest ones, each shortened, and counts the others.
"""
LONGEST_CUT = 4_000
"""Characters of one message in a shortened batch."""

NO_QUESTION = "You may not ask the reporter in this turn."
NO_ANSWER = "The reporter did not answer the last question in time."
MAY_EDIT = "You may edit files in this turn: a developer asked for work in this batch."
FINDINGS_KNOWN = (
    "Developers have your findings. Answer what they wrote in `reply`, and give the findings "
    "again only if something in them has changed."
)
_NEW_SESSION = (
    "Your memory of the earlier turns of this case is gone. Before anything else read the whole "
    "conversation, every"
    ' page of it, with get_bug_conversations, and the record with get_bug("{bug_id}").'
)


def system() -> str:
    """Return the system prompt, the same for every case and turn.

    It is a process argument, and must stay far below 128 kB.
    """
    return _text("system")


def turn_prompt(
    claim: TurnClaim, *, may_ask: bool, unanswered: bool = False, forgotten: bool = False
) -> str:
    """Return the prompt of one turn; its instructions depend on the state in which its messages
    came.

    Args:
        claim: The turn.
        may_ask: Whether the agent may ask the reporter.
        unanswered: The reporter did not answer the last question in time.
        forgotten: The agent starts without the session of the earlier turns.
    """
    bug_id = claim.bug_id
    state = claim.state.value
    kind, instructions = (
        ("initial", "initial") if claim.turn == 1 else (f"continuation, state {state}", state)
    )
    sections = [
        f"Case {bug_id}, turn {claim.turn} ({kind})",
        Template(_text(instructions)).substitute(bug_id=bug_id),
        _NEW_SESSION.format(bug_id=bug_id) if forgotten else "",
        "" if may_ask else NO_QUESTION,
        NO_ANSWER if unanswered else "",
        MAY_EDIT if claim.may_fix else "",
        FINDINGS_KNOWN if claim.has_findings else "",
        _batch(claim.entries),
    ]
    return "\n\n".join(filter(None, sections))


def repair(bug_id: str, problems: Sequence[str]) -> str:
    """Return the only further prompt, after an answer that cannot be used."""
    listed = "\n".join(f"- {problem}" for problem in problems)
    return Template(_text("repair")).substitute(bug_id=bug_id, problems=listed)


def _batch(entries: Sequence[Entry]) -> str:
    if not entries:
        return "There are no new messages."
    fenced = [fence(entry) for entry in entries]
    if sum(_size(text) for text in fenced) <= LONGEST_BATCH:
        return "\n".join(["New messages:", *fenced])
    shown = _newest(list(map(_cut, entries)))
    left_out = len(entries) - len(shown)
    told = (
        f"New messages. They are too long for here: {left_out} earlier ones are left out, and "
        "those marked cut are"
        " incomplete. Read them in full with get_bug_conversations."
    )
    return "\n".join([told, *shown])


def _cut(entry: Entry) -> str:
    text = neutralise(entry.text)
    return (
        fence(entry)
        if len(text) <= LONGEST_CUT
        else fence(entry, text[:LONGEST_CUT], mark='cut="yes"')
    )


def _newest(fenced: list[str]) -> list[str]:
    kept = len(fenced)
    room = LONGEST_BATCH
    while kept and (room := room - _size(fenced[kept - 1])) >= 0:
        kept -= 1
    return fenced[kept:]


def _size(text: str) -> int:
    return len(text.encode())


def _text(name: str) -> str:
    return (files("threadline.investigator") / "prompts" / f"{name}.md").read_text("utf-8").strip()
