"""A file that somebody has uploaded becomes an RFP: it is found in the thread, and given to the tool that makes one."""

import re
from collections.abc import Mapping
from typing import Any

from threadline_devstack.models.copilot_arguments import parsed
from threadline_devstack.models.copilot_words import told
from threadline_devstack.models.script import Turn

LOOK, CREATE = "slack_get_thread", "rfp_create_from_slack_file"
NO_FILE = "I see no file in this thread. Attach it to a message here, and ask me again."
_ASKED = re.compile(
    r"(?i)\bupload\b.*\b(?:this|file|document|attachment|new)\b|\b(?:create|make|open)\b.*\b(?:from|of)\b.*\bfile\b"
)
_DATE = re.compile(r"\b\d{4}-\d\d-\d\d\b")


def is_asked_for(turn: Turn) -> bool:
    return {LOOK, CREATE} <= turn.tools.keys() and _ASKED.search(turn.prompt) is not None


async def upload(turn: Turn) -> str:
    """Two steps: the thread is read, and the newest file in it becomes an RFP. Returns what there is to say."""
    if turn.live and turn.tool_choice == "none":
        return "I have not looked for the file yet."
    thread = await turn.call(LOOK, **arguments(turn, LOOK))
    if thread.is_error:
        return f"I could not read this thread: {told(thread.text)}"
    found = _files(parsed(thread.text))
    if not found:
        return NO_FILE
    if turn.live and turn.tool_choice == "none":
        return "I have found the file, and have not made an RFP of it."
    due = _DATE.search(turn.prompt)
    given = {"file_id": found[-1], "due_date": due[0] if due else None}
    made = await turn.call(CREATE, **arguments(turn, CREATE, **given))
    return f"I could not make an RFP of it: {told(made.text)}" if made.is_error else told(made.text)


def arguments(turn: Turn, tool: str, /, **given: Any) -> dict[str, Any]:
    """What is given, and null for the rest: strict mode wants every parameter."""
    return {**dict.fromkeys(turn.tools[tool].get("properties", ())), **given}


def _files(value: Any) -> list[str]:
    """The ids of all files in a result, in its order."""
    if isinstance(value, Mapping):
        own = [str(value["file_id"])] if value.get("file_id") else []
        return own + [each for inner in value.values() for each in _files(inner)]
    return [each for inner in value for each in _files(inner)] if isinstance(value, list) else []
