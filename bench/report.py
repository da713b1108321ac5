"""Three forms of the same results: a table on the terminal, a file of figures, and a table in a
page.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table

from bench.figures import Figure, Row
from bench.machine import Machine
from bench.scale import Scale

BEGIN = "<!-- measured -->"
END = "<!-- /measured -->"
_COLUMNS = ("what", "ours", "floor", "ratio", "goal", "")


def table(rows: Sequence[Row], scale: Scale, machine: Machine) -> Table:
    shown = Table(title=_caption(scale, machine), title_justify="left")
    for column in _COLUMNS:
        shown.add_column(column, justify="left" if column == "what" else "right")
    before = ""
    for row in rows:
        if row.topic != before:
            shown.add_section()
        before = row.topic
        colour = {True: "green", False: "red", None: ""}[row.met]
        shown.add_row(*_cells(row), style=colour)
    return shown


def write(path: Path, rows: Sequence[Row], scale: Scale, machine: Machine) -> None:
    told = {
        "machine": asdict(machine),
        "scale": asdict(scale),
        "rows": [_told(row) for row in rows],
    }
    path.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def replace_table(page: Path, rows: Sequence[Row], scale: Scale, machine: Machine) -> None:
    """Put the table between the page's two marks; see `replace_block`."""
    replace_block(page, BEGIN, END, markdown(rows, scale, machine))


def replace_block(page: Path, begin: str, end: str, block: str) -> None:
    """Put `block` between two marks of a page, in place of the present text.

    Raises:
        ValueError: the page has no such marks.
    """
    text = page.read_text(encoding="utf-8")
    whole = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    if not whole.search(text):
        raise ValueError(
            f"{page} has no place for a table: write {begin} and {end} where it shall be"
        )
    page.write_text(whole.sub(lambda _: f"{begin}\n{block}\n{end}", text), encoding="utf-8")


def markdown(rows: Sequence[Row], scale: Scale, machine: Machine) -> str:
    lines = [
        _caption(scale, machine),
        "",
        "| " + " | ".join((*_COLUMNS[:-1], "met")) + " |",
        "|---|---|---|---|---|---|",
    ]
    lines += ["| " + " | ".join(_cells(row)) + " |" for row in rows]
    floors = {row.topic: dict[str, None]() for row in rows}
    for row in rows:
        for words in (row.beside, row.note):
            if words:
                floors[row.topic][words] = None
    beside = [f"- *{topic}*: {'; '.join(told)}." for topic, told in floors.items() if told]
    return "\n".join([*lines, "", "Beside what, and what to know:", "", *beside])


def _cells(row: Row) -> tuple[str, ...]:
    ratio = row.ratio
    return (
        row.what,
        _shown(row.ours),
        _shown(row.floor) if row.floor else "–",
        f"{ratio:.2f}×" if ratio is not None else "–",
        row.goal.words if row.goal else "–",
        {True: "met", False: "missed", None: ""}[row.met],
    )


def _shown(figure: Figure) -> str:
    spread = f" ({_number(figure.low)}–{_number(figure.high)})" if len(figure.runs) > 1 else ""
    return f"{_number(figure.median)}{spread} {figure.unit}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _caption(scale: Scale, machine: Machine) -> str:
    quick = "" if scale.name == "full" else f"**{scale.name} figures, for development only.** "
    packages = ", ".join(f"{name} {number}" for name, number in machine.packages.items())
    return (
        f"{quick}Measured {machine.measured} on {machine.cores} cores ({machine.processor}), "
        f"{machine.memory_gib} GiB, {machine.system}, Python {machine.python}; load when it "
        f"began: {machine.load}. {packages}. Medians of up to {scale.rounds} runs, with the "
        "lowest and the highest."
    )


def _told(row: Row) -> dict[str, Any]:
    return {
        **asdict(row),
        "ours": _figure(row.ours),
        "floor": _figure(row.floor) if row.floor else None,
        "goal": row.goal.words if row.goal else None,
        "ratio": row.ratio,
        "met": row.met,
    }


def _figure(figure: Figure) -> dict[str, Any]:
    return {"median": figure.median, "low": figure.low, "high": figure.high, **asdict(figure)}
