"""The costs of a turn are written in docs/performance.md, and change only together with that
page.
"""

from pathlib import Path

import pytest

from bench import cost
from bench.ground import ground
from bench.scale import TINY

GOALS = {
    "bug report to findings": {"activities": 8, "transactions": 20},
    "reply in a case": {"activities": 7, "transactions": 17},
    "conversation, no tool": {"activities": 7, "transactions": 10},
    "conversation with a decision and two tools": {"activities": 12, "transactions": 18},
    "operator: load, patch, journal, answer": {"activities": 14, "transactions": 22},
    "cases.search": {"own statements": 4},
    "estimates.createWbsItems": {"transactions": 1},
    "jira.create": {"transactions": 2},
}


def test_counts_of_the_page_meet_their_goals() -> None:
    counts = cost.counts_of(cost.PAGE)
    most = {(row, name): goal for row, goals in GOALS.items() for name, goal in goals.items()}
    assert {where: counts[where] for where, goal in most.items() if counts[where] > goal} == {}


async def test_costs_of_turns_match_the_page(tmp_path: Path) -> None:
    async with ground(TINY, tmp_path) as here:
        shown = cost.markdown(*await cost.count(here))
    assert not cost.differences(cost.PAGE, shown)


@pytest.mark.parametrize(
    ("transactions", "statements", "differences"), [(6, 46, 0), (7, 40, 1), (5, 40, 1), (6, 47, 1)]
)
def test_other_transactions_and_many_more_statements_are_differences(
    transactions: int, statements: int, differences: int, tmp_path: Path
) -> None:
    page = tmp_path / "page.md"
    table = "| turn | transactions | statements |\n|---|--:|--:|\n| reply | {} | {} |"
    page.write_text(f"{cost.BEGIN}\n{table.format(6, 40)}\n{cost.END}", encoding="utf-8")
    assert len(cost.differences(page, table.format(transactions, statements))) == differences
