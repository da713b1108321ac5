"""Every property runs as many examples as the design requires, and one setting raises all of
them.
"""

import re
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support.examples import examples

HERE = Path(__file__)
TESTS = HERE.parents[1]
PINNED = "max_" + "examples"
GIVEN = re.compile(r"(?:^@.*\n)+(?=(?:async )?def test_)", re.MULTILINE)


def test_profile_of_each_run_has_the_hundred_examples_of_the_design() -> None:
    assert settings.get_profile("same").max_examples >= 100


def test_fuzz_tries_ten_times_as_many() -> None:
    assert settings.get_profile("explore").max_examples >= 1_000


@pytest.mark.parametrize(
    "path", sorted(HERE.parent.glob("test_*.py")), ids=lambda path: str(path.name)
)
def test_no_property_runs_fewer_examples_than_the_profile(path: Path) -> None:
    decorated = [
        each for each in GIVEN.findall(path.read_text(encoding="utf-8")) if "@given" in each
    ]
    own = [
        each
        for each in decorated
        if "@settings" in each or "@examples(" in each.replace("@examples()", "")
    ]
    assert own == []


def test_no_test_pins_its_number_of_examples() -> None:
    """Other numbers are derived from the profile by a factor."""
    allowed = {TESTS / "conftest.py", TESTS / "support" / "examples.py", HERE}
    pinned = [path for path in TESTS.rglob("*.py") if PINNED in path.read_text(encoding="utf-8")]
    assert set(pinned) <= allowed


def test_factor_multiplies_the_number_of_the_profile() -> None:
    now = settings().max_examples
    assert [examples(factor).max_examples for factor in (0.5, 1, 4)] == [now // 2, now, 4 * now]
