"""What the agent is told: the system prompt, and one user prompt for each turn."""

from collections.abc import Sequence
from importlib.resources import files
from string import Template

from threadline.cases.model import WorkflowState
from threadline.cases.records import Entry
from threadline.investigator.fences import fence, neutral
from threadline.investigator.ports import TurnBrief

LONGEST_BATCH = 60_000
"""Bytes of fenced messages in one prompt; of a longer batch the newest are shown, each cut, and the rest is told of."""
LONGEST_CUT = 4_000
"""Characters of one message that a shortened batch shows."""

NO_QUESTION = "You may not ask the reporter in this turn."
NO_ANSWER = "The reporter did not answer the last question in time."
MAY_EDIT = "You may edit files in this turn: a developer asked for work in this batch."
_NEW_SESSION = (
    "Your memory of the earlier turns of this case is gone. Before anything else read the whole conversation, every"
    ' page of it, with get_bug_conversations, and the record with get_bug("{bug_id}").'
)


def system() -> str:
    """The same for every case and turn; it travels as a process argument, so it stays far below 128 kB."""
    return _text("system")


def initial(brief: TurnBrief) -> str:
    """The prompt of a case's first turn."""
    return _compose(f"Case {brief.bug_id}, turn {brief.turn} (initial)", "initial", brief)


def continuation(brief: TurnBrief, *, forgotten: bool = False) -> str:
    """The prompt of a later turn.

    Args:
        brief: the turn; its `state` chooses the instructions.
        forgotten: the session of the earlier turns could not be found, and the agent starts without its memory.

    Raises:
        ValueError: when the state is none of `WorkflowState`.
    """
    state = WorkflowState(brief.state)
    head = f"Case {brief.bug_id}, turn {brief.turn} (continuation, state {state.value})"
    return _compose(head, state.value, brief, _NEW_SESSION.format(bug_id=brief.bug_id) if forgotten else "")


def mend(bug_id: str, problems: Sequence[str]) -> str:
    """The one further prompt after an answer that cannot be used."""
    return Template(_text("mend")).substitute(bug_id=bug_id, problems="\n".join(f"- {problem}" for problem in problems))


def _compose(head: str, instructions: str, brief: TurnBrief, note: str = "") -> str:
    sections = [
        head,
        Template(_text(instructions)).substitute(bug_id=brief.bug_id),
        note,
        "" if brief.may_ask else NO_QUESTION,
        NO_ANSWER if brief.unanswered else "",
        MAY_EDIT if brief.may_fix else "",
        _batch(brief.entries),
    ]
    return "\n\n".join(filter(None, sections))


def _batch(entries: Sequence[Entry]) -> str:
    if not entries:
        return "There are no new messages."
    fenced = [fence(entry) for entry in entries]
    if sum(_size(text) for text in fenced) <= LONGEST_BATCH:
        return "\n".join(["New messages:", *fenced])
    shown = _newest(list(map(_cut, entries)))
    left_out = len(entries) - len(shown)
    told = (
        f"New messages. They are too long for here: {left_out} earlier ones are left out, and those marked cut are"
        " incomplete. Read them in full with get_bug_conversations."
    )
    return "\n".join([told, *shown])


def _cut(entry: Entry) -> str:
    text = neutral(entry.text)
    return fence(entry) if len(text) <= LONGEST_CUT else fence(entry, text[:LONGEST_CUT], mark='cut="yes"')


def _newest(fenced: list[str]) -> list[str]:
    kept, room = len(fenced), LONGEST_BATCH
    while kept and (room := room - _size(fenced[kept - 1])) >= 0:
        kept -= 1
    return fenced[kept:]


def _size(text: str) -> int:
    return len(text.encode())


def _text(name: str) -> str:
    return (files("threadline.investigator") / "prompts" / f"{name}.md").read_text("utf-8").strip()
