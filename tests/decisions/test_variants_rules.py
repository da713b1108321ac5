"""Which variant a thread has: always the same one, by shares, and no other one when a variant is added."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadline.decisions.variants import Variant, assigned

KEYS = [f"T1:C{number % 7}:{1_700_000_000 + number}.000100" for number in range(10_000)]
names = st.lists(st.text("abcdefgh", min_size=1, max_size=5), min_size=1, max_size=5, unique=True)
shares = st.floats(0.01, 100)


def test_a_thread_keeps_its_variant_on_every_machine() -> None:
    """Spelled out, so that another hash or formula is noticed: it would move threads that are under way."""
    both = (Variant("calm"), Variant("bold"))
    assert [assigned(both, key).name for key in KEYS[:8]] == SPELLED_OUT


SPELLED_OUT = ["bold", "calm", "calm", "bold", "bold", "calm", "calm", "calm"]


@given(names, st.data(), st.text())
def test_the_order_in_which_variants_are_named_does_not_matter(
    called: list[str], data: st.DataObject, thread: str
) -> None:
    variants = [Variant(name, data.draw(shares)) for name in called]
    assert assigned(variants, thread) == assigned(variants[::-1], thread) == assigned(variants, thread)


@pytest.mark.parametrize("weights", [(1, 1), (9, 1), (0.5, 0.3, 0.2), (3,)])
def test_shares_hold_over_ten_thousand_threads(weights: tuple[float, ...]) -> None:
    variants = [Variant(f"v{number}", share) for number, share in enumerate(weights)]
    counted = Counter(assigned(variants, key).name for key in KEYS)
    for each in variants:
        assert counted[each.name] / len(KEYS) == pytest.approx(each.share / sum(weights), abs=0.02)


def test_one_variant_has_every_thread() -> None:
    assert {assigned([Variant()], key) for key in KEYS[:100]} == {Variant()}


@pytest.mark.parametrize("share", [0.1, 1.0, 5.0])
def test_a_variant_that_is_added_moves_only_the_threads_that_it_takes(share: float) -> None:
    before = [Variant("calm", 2.0), Variant("bold", 1.0)]
    after = [*before, Variant("new", share)]
    moved = {key for key in KEYS if assigned(after, key) != assigned(before, key)}
    assert moved == {key for key in KEYS if assigned(after, key).name == "new"}
    assert moved


def test_a_larger_share_takes_threads_and_gives_none_away() -> None:
    before, after = [Variant("calm"), Variant("bold")], [Variant("calm"), Variant("bold", 2.0)]
    bold = {key for key in KEYS if assigned(before, key).name == "bold"}
    assert bold < {key for key in KEYS if assigned(after, key).name == "bold"}


def test_a_variant_is_known_by_its_name_alone() -> None:
    """Other thresholds for the same name: the threads stay where they were."""
    plain, prompted = [Variant("calm"), Variant("bold")], [Variant("calm"), Variant("bold", prompt="Be bold.")]
    assert [assigned(plain, key).name for key in KEYS] == [assigned(prompted, key).name for key in KEYS]
