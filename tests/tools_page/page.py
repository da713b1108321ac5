"""The parts of docs/tools.md that follow from code, between marks; what stands around them is written by hand."""

import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path

from threadline.tools.registry import CORRELATION_ID, Tool
from threadline.wiring.toolset_list import TOOLS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tools.md"
EXAMPLE = Path(__file__).with_name("desks.py")

_COLUMNS = ("tool", "what for", "parameters", "kind")


class NoMarks(ValueError):
    """The page has lost the marks between which a part is written."""


def renewed(text: str) -> str:
    """The page with its parts as the code has them now.

    Raises:
        NoMarks: see there.
    """
    code = EXAMPLE.read_text("utf-8")
    return filled(filled(text, "tools", listed(TOOLS)), "example", f"```python\n{code}```")


def filled(text: str, part: str, content: str) -> str:
    """A page with one part of it written anew.

    Raises:
        NoMarks: the part is not there, or more than once.
    """
    marks = rf"(<!-- {part}: [^>]*-->\n)(?:.*?\n)?(<!-- end of {part} -->)"
    written, count = re.subn(marks, lambda found: f"{found[1]}\n{content}\n\n{found[2]}", text, flags=re.DOTALL)
    if count != 1:
        raise NoMarks(f"the page has to have one part between <!-- {part}: … --> and <!-- end of {part} -->")
    return written


def listed(tools: Iterable[Tool]) -> str:
    """A heading, what it needs and a table for each toolset, by name; never empty."""
    by_name = sorted(tools, key=lambda each: each.name)
    sets = groupby(by_name, key=lambda each: each.toolset)
    return "\n\n".join("\n".join(_toolset(name, list(group))) for name, group in sets) or "There is no tool yet."


def _toolset(name: str, tools: list[Tool]) -> Iterator[str]:
    yield from (f"### {name}", "")
    for needed in dict.fromkeys(port for each in tools for port in each.needs):
        yield from (f"Needs: {_line(needed.name)}. {_line(needed.help)}", "")
    yield row(_COLUMNS)
    yield row("---" for _ in _COLUMNS)
    for each in tools:
        yield row((f"`{each.name}`", _line(each.description), _parameters(each), _kind(each)))


def row(cells: Iterable[str]) -> str:
    """One row of a table."""
    return f"| {' | '.join(cells)} |"


def _line(text: str) -> str:
    return " ".join(text.split()).replace("\\", "\\\\").replace("|", "\\|").replace("`", "\\`").replace("<", "&lt;")


def _parameters(tool: Tool) -> str:
    """Those that may be left out in brackets; the one that nobody sets is not told."""
    required = tool.schema.get("required", ())
    names = [name for name in tool.schema.get("properties", {}) if name != CORRELATION_ID]
    return ", ".join(f"`{name}`" if name in required else f"[`{name}`]" for name in names) or "none"


def _kind(tool: Tool) -> str:
    if tool.mutating:
        return "changes; found again after a crash" if tool.look_up else "changes"
    if tool.cache is None:
        return "reads"
    whose = "the team" if tool.cache.shared else "the same person in the thread"
    return f"reads; an answer holds for {tool.cache.seconds:g} s, for {whose}"
