"""The faults of `make mutants` can be planted, so a rename breaks this test and not only the next
run.
"""

import re
from pathlib import Path

import pytest

from tests.mutants.__main__ import MUTANTS
from tests.mutants.mutant import Mutant

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: str(mutant.name))
def test_fault_has_its_place_and_its_tests(mutant: Mutant) -> None:
    assert (ROOT / "src" / mutant.file).read_text().count(mutant.before) == 1
    for test in mutant.tests:
        file, _, name = test.partition("::")
        assert re.search(rf"def {name.partition('[')[0]}\b", (ROOT / file).read_text()), test


def test_names_are_unique() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


@pytest.mark.parametrize("page", ["Makefile", "CONTRIBUTING.md"])
def test_page_says_how_many_faults_there_are(page: str) -> None:
    assert re.findall(r"plants? (\d+) faults", (ROOT / page).read_text(encoding="utf-8")) == [
        str(len(MUTANTS))
    ]
