"""Past successful tool patterns, as a turn is told them."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from threadline.operator import prompt_fences as fences
from threadline.operator.model.memory import Memory

MOST = 5
ARROW = " → "
_LONGEST = 300


@dataclass(frozen=True)
class Pattern:
    """`kind` is the kind of request that `tools`, in their order, have served `times` times, the last time at `at`."""

    kind: str
    tools: tuple[str, ...]
    times: int
    at: datetime


def told(own: Sequence[Memory], others: Sequence[Memory], offered: Collection[str]) -> str:
    """The likest patterns, a line each, of whoever asks before those of the team; empty when there is none.

    Args:
        own, others: procedural memories, the likest first; one may be in both.
        offered: the tools' names, as the model sees them: what names another one is of no use any more.
    """
    lines = []
    for each in _together([*own, *others]):
        if set(each.tools) <= set(offered):
            often = "once" if each.times == 1 else f"{each.times} times"
            told = f"{each.kind}: {ARROW.join(each.tools)} ({often}, the last time on {each.at:%Y-%m-%d})"
            lines.append(f"- {fences.line(told, _LONGEST)}")
    return "\n".join(lines[:MOST])


def _together(memories: Sequence[Memory]) -> list[Pattern]:
    """Each pattern once, where it came first."""
    found: dict[str, list[Memory]] = {}
    seen = set[Memory]()
    for each in memories:
        if not each.error_class and each not in seen:
            seen.add(each)
            found.setdefault(each.text, []).append(each)
    return [
        Pattern(same[0].cue.split(" | ", 1)[0], tuple(text.split(ARROW)), len(same), max(each.at for each in same))
        for text, same in found.items()
    ]
