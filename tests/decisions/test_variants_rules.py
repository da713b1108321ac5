"""The variant of a thread: constant, distributed by shares, and stable when another variant is
added.
"""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadline.decisions.variants import Variant, variant_of

KEYS = [f"T1:C{number % 7}:{1_700_000_000 + number}.000100" for number in range(10_000)]
CALM = Variant("calm")
BOLD = Variant("bold")


def test_assignment_is_fixed_by_name_and_share() -> None:
    """The expected names are literal: another hash or formula would move running threads to
    another variant.
    """
    fixed = ["bold", "calm", "calm", "bold", "bold", "calm", "calm", "calm"]
    for bold in (BOLD, Variant("bold", prompt="Be bold.")):
        assert [variant_of((CALM, bold), key).name for key in KEYS[:8]] == fixed


@given(
    st.lists(
        st.tuples(st.text(), st.floats(0.01, 100)),
        min_size=1,
        max_size=5,
        unique_by=lambda each: each[0],
    )
)
def test_order_of_variants_does_not_matter(named: list[tuple[str, float]]) -> None:
    variants = [Variant(name, share) for name, share in named]
    for key in KEYS[:10]:
        assert variant_of(variants, key) == variant_of(variants[::-1], key)


@pytest.mark.parametrize("weights", [(9, 1), (0.5, 0.3, 0.2), (3,)])
def test_shares_hold_over_ten_thousand_threads(weights: tuple[float, ...]) -> None:
    variants = [Variant(f"v{number}", share) for number, share in enumerate(weights)]
    counted = Counter(variant_of(variants, key).name for key in KEYS)
    for each in variants:
        assert counted[each.name] / len(KEYS) == pytest.approx(each.share / sum(weights), abs=0.02)


def test_added_variant_moves_only_the_threads_it_takes() -> None:
    before = [Variant("calm", 2.0), BOLD]
    after = [*before, Variant("new", 0.1)]
    moved = {key for key in KEYS if variant_of(after, key) != variant_of(before, key)}
    assert moved == {key for key in KEYS if variant_of(after, key).name == "new"}
    assert moved


def test_larger_share_gains_threads_and_loses_none() -> None:
    before, after = (
        {key for key in KEYS if variant_of([CALM, Variant("bold", share)], key).name == "bold"}
        for share in (1, 2)
    )
    assert before < after
