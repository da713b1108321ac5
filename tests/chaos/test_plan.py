"""What a seed means stays what it meant, and the seeds together cover everything."""

from pathlib import Path

from tests.chaos import results
from tests.chaos.plan import EITHER, KINDS, REAL_ONLY, TALK_ENDS, plan_of
from tests.chaos.results import Record

SEEDS = range(200)


def test_a_seed_means_the_same_again() -> None:
    assert plan_of(41) == plan_of(41)
    assert plan_of(41) != plan_of(43)


def test_any_seventy_seeds_in_a_row_have_each_kind_alone_and_any_ten_the_real_agent() -> None:
    plans = [plan_of(seed) for seed in range(270)]
    for first in range(200):
        alone = {plan.kinds[0] for plan in plans[first : first + 70] if len(plan.kinds) == 1}
        assert alone == {*KINDS, *REAL_ONLY}
        assert any(plan.real for plan in plans[first : first + 10])


def test_what_hits_the_real_agent_in_another_way_hits_both_alone() -> None:
    ways = {(plan.kinds[0], plan.real) for plan in map(plan_of, range(140)) if len(plan.kinds) == 1}
    assert {(kind, real) for kind in EITHER for real in (True, False)} <= ways


def test_a_digest_of_the_code_changes_with_the_code_alone(tmp_path: Path) -> None:
    code, kept = tmp_path / "run.py", tmp_path / "results.jsonl"
    code.write_text("one")
    kept.write_text("{}")
    first = results.code_digest(tmp_path)
    kept.write_text("{}{}")
    assert results.code_digest(tmp_path) == first
    code.write_text("two")
    assert results.code_digest(tmp_path) != first


def test_two_hundred_seeds_have_each_kind_alone_and_together_and_the_real_agent_often_enough() -> None:
    plans = [plan_of(seed) for seed in SEEDS]
    alone = {plan.kinds[0] for plan in plans if len(plan.kinds) == 1}
    together = {kind for plan in plans if len(plan.kinds) > 1 for kind in plan.kinds}
    assert set(KINDS) <= alone
    assert set(KINDS) | set(REAL_ONLY) == together
    assert sum(plan.real for plan in plans) >= 20
    assert all(len(plan.stories) >= 20 for plan in plans)
    assert {plan.http for plan in plans} == {True, False}


def test_operators_end_conversations_in_some_seeds_beside_what_these_are_known_for() -> None:
    plans = [plan_of(seed) for seed in range(20)]
    ways = {frozenset(blow.kind for blow in plan.talk_blows) for plan in plans}
    assert ways == {frozenset(), *(frozenset({kind}) for kind in TALK_ENDS), frozenset(TALK_ENDS)}
    assert not any({*plan.kinds} & {*TALK_ENDS} for plan in plans)
    assert not plan_of(0, kinds=("kill core",)).talk_blows
    assert {blow.kind for blow in plan_of(0, kinds=TALK_ENDS).blows} == {*TALK_ENDS}


def test_results_add_up_by_seed(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    bad = Record(3, "scripted", "socket", ("cancel",), 20, 100, 30, 2, 25.0, "abc", faults=("BUG-1: was lost",))
    mended = Record(3, "scripted", "socket", ("cancel",), 20, 101, 31, 2, 26.0, "def")
    for record in (bad, Record(1, "claude", "http", ("kill core",), 20, 60, 20, 1, 50.0, "abc"), mended):
        results.add(record, path)
    known = results.read(path)
    assert list(known) == [1, 3]
    assert known[3] == mended
    assert list(results.fresh_seeds(3, known)) == [0, 2, 4]
    assert "| of them clean | 2 |" in results.section(known)
    assert "seed 3 (abc): BUG-1: was lost" in results.section({3: bad})


def test_some_conversations_are_about_an_rfp_and_what_the_others_mean_is_as_it_was() -> None:
    talks = [talk for seed in range(20) for talk in plan_of(seed).talks]
    assert {talk.operated for talk in talks} == {True, False}
