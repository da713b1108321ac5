"""Every row of the benchmarks can be measured on real parts, and yields numbers. These tests time
nothing.
"""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

from bench.cli import TOPICS, measured
from bench.figures import Figure, Goal, Row, percentile
from bench.machine import this_machine
from bench.report import BEGIN, END, replace_table, write
from bench.scale import TINY

SLOW = ("recovery",)
"""This topic waits for the configured times, which no smaller load shortens."""


@pytest.mark.timeout(300)
@pytest.mark.parametrize("topic", [topic for topic in TOPICS if topic not in SLOW])
async def test_each_row_yields_numbers_next_to_its_floor(topic: str, tmp_path: Path) -> None:
    rows = [row async for row in measured([topic], TINY, tmp_path)]
    assert rows
    for row in rows:
        assert row.topic == topic
        assert row.ours.runs
        assert all(math.isfinite(run) for run in row.ours.runs), row.what
        assert row.floor is None or (
            row.beside and all(math.isfinite(run) and run > 0 for run in row.floor.runs)
        )
        assert row.goal is None or row.met in (True, False)


def test_a_ratio_is_computed_per_round_and_not_from_the_medians() -> None:
    """In the second round the machine was slow, and slowed both."""
    row = Row(
        "t",
        "w",
        Figure((2.0, 20.0, 2.0), "ms"),
        Figure((1.0, 10.0, 1.0), "ms"),
        goal=Goal("ratio at most", 1.9),
    )
    assert row.ratio == 2.0
    assert row.met is False


def test_goals_are_judged_by_their_kind() -> None:
    figure = Figure((1.0, 2.0, 9.0), "s")
    floor = Figure((1.0, 1.0, 1.0), "s")
    assert Row("t", "w", figure, goal=Goal("median at most", 2)).met
    assert not Row("t", "w", figure, goal=Goal("largest at most", 8)).met
    assert Row("t", "w", figure, floor, goal=Goal("ratio at least", 2)).met
    assert not Row("t", "w", figure, floor, goal=Goal("ratio at least", 2.1)).met
    assert Row("t", "w", figure).met is None


def test_a_percentile_is_one_of_the_values() -> None:
    values = [float(number) for number in range(1, 101)]
    assert (percentile(values, 0.5), percentile(values, 0.99), percentile([7.0], 0.99)) == (
        50.0,
        99.0,
        7.0,
    )


def test_the_results_go_to_a_file_and_between_the_marks_of_a_page(tmp_path: Path) -> None:
    row = Row("start", "until it is ready", Figure((1.5,), "s"), Figure((0.5,), "s"), "an import")
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    write(tmp_path / "bench.json", [row], TINY, this_machine())
    replace_table(page, [row], TINY, this_machine())
    told = json.loads((tmp_path / "bench.json").read_text())
    assert told["rows"][0]["ratio"] == 3.0
    assert "old" not in page.read_text()
    assert "| until it is ready | 1.5 s | 0.5 s | 3.00× |" in page.read_text()
    assert page.read_text().startswith("before\n")
    assert page.read_text().endswith("after\n")


def test_an_unknown_row_is_refused_with_a_reason() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench", "--rows", "gatway"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "there is no row gatway" in done.stderr
