"""Whether passages contradict each other: asked of the model, only about pairs that a cheap check finds suspicious."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from threadline.decisions.engine import Known, prompt
from threadline.models.chat_model import Ask

NAME = "comparison"
FORM: Mapping[str, Any] = {
    "type": "object",
    "properties": {"contradiction": {"type": "boolean"}, "reasoning": {"type": "string"}},
    "required": ["contradiction", "reasoning"],
    "additionalProperties": False,
}
_LONGEST = 2_000
MOST = 4
"""Pairs that are asked about: they come with the best passages first, and each is a call of the model."""


async def conflicting(pairs: Sequence[tuple[Known, Known]], ask: Ask) -> bool:
    """Whether one of the pairs holds a contradiction.

    An answer that cannot be read counts as one: the pair is suspicious, and a person is better asked once too often.

    Raises:
        Permanent | Transient: the model cannot be asked.
    """
    for pair in pairs[:MOST]:
        shown = [{"document": each.title, "section": each.section, "text": each.text[:_LONGEST]} for each in pair]
        if _says_so(await ask(prompt("compare"), [json.dumps(shown, ensure_ascii=False, indent=1)], NAME, FORM)):
            return True
    return False


def _says_so(text: str) -> bool:
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        return True
    return not (isinstance(answer, dict) and answer.get("contradiction") is False)
