"""What a seed means stays what it meant, and the seeds together cover everything."""

from pathlib import Path

from tests.chaos import results
from tests.chaos.plan import KINDS, REAL_ONLY, plan_of
from tests.chaos.results import Record

SEEDS = range(200)


def test_a_seed_means_the_same_again() -> None:
    assert plan_of(41) == plan_of(41)
    assert plan_of(41) != plan_of(43)


def test_two_hundred_seeds_have_each_kind_alone_and_together_and_the_real_agent_often_enough() -> None:
    plans = [plan_of(seed) for seed in SEEDS]
    alone = {plan.kinds[0] for plan in plans if len(plan.kinds) == 1}
    together = {kind for plan in plans if len(plan.kinds) > 1 for kind in plan.kinds}
    assert set(KINDS) <= alone
    assert set(KINDS) | set(REAL_ONLY) == together
    assert sum(plan.real for plan in plans) >= 20
    assert all(len(plan.stories) >= 20 for plan in plans)
    assert {plan.http for plan in plans} == {True, False}


def test_results_add_up_by_seed(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    bad = Record(3, "scripted", "socket", ("cancel",), 20, 100, 30, 2, 25.0, "abc", ("BUG-1: was lost",))
    mended = Record(3, "scripted", "socket", ("cancel",), 20, 101, 31, 2, 26.0, "def")
    for record in (bad, Record(1, "claude", "http", ("kill core",), 20, 60, 20, 1, 50.0, "abc"), mended):
        results.add(record, path)
    known = results.read(path)
    assert list(known) == [1, 3]
    assert known[3] == mended
    assert list(results.fresh_seeds(3, known)) == [0, 2, 4]
    assert "| of them clean | 2 |" in results.page(list(known.values()))
    assert "seed 3 (abc): BUG-1: was lost" in results.page([bad])
