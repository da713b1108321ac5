"""What a turn costs is written in docs/performance.md, and changes with that page alone."""

from pathlib import Path

from bench import cost
from bench.ground import ground
from bench.scale import TINY

GOALS = {
    "bug report to findings": {"activities": 4, "transactions": 15},
    "reply in a case": {"activities": 3, "transactions": 11},
    "conversation, no tool": {"activities": 3, "transactions": 7},
    "conversation with a decision and two tools": {"activities": 5, "transactions": 13},
    "operator: load, patch, journal, answer": {"activities": 6, "transactions": 18},
    "cases.search": {"own statements": 4},
    "estimates.createWbsItems": {"transactions": 1},
    "jira.create": {"transactions": 2},
}


def test_counts_of_the_page_meet_their_goals() -> None:
    counts = cost.counts_of(cost.PAGE)
    most = {(row, name): goal for row, goals in GOALS.items() for name, goal in goals.items()}
    assert {where: counts[where] for where, goal in most.items() if counts[where] > goal} == {}


async def test_costs_of_turns_are_those_of_the_page(tmp_path: Path) -> None:
    async with ground(TINY, tmp_path) as here:
        shown = cost.markdown(*await cost.count(here))
    assert not cost.differences(cost.PAGE, shown)


def test_a_count_that_grew_is_a_difference(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    table = "| turn | statements | history bytes |\n|---|--:|--:|\n| reply | {} | {} |"
    page.write_text(f"{cost.BEGIN}\n{table.format(41, 6000)}\n{cost.END}", encoding="utf-8")
    assert not cost.differences(page, table.format(41, 6050))
    assert len(cost.differences(page, table.format(42, 6100))) == 2
