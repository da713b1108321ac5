"""The faults of `make mutants` can be planted: a rename must not leave one that no run notices until it fails."""

import re
from pathlib import Path

import pytest

from tests.mutants import messages, rules
from tests.mutants.mutant import Mutant

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("mutant", [*messages.MUTANTS, *rules.MUTANTS], ids=lambda mutant: str(mutant.name))
def test_fault_has_its_place_and_its_tests(mutant: Mutant) -> None:
    assert (ROOT / "src" / mutant.file).read_text().count(mutant.before) == 1
    for test in mutant.tests:
        file, _, name = test.partition("::")
        assert re.search(rf"def {name.partition('[')[0]}\b", (ROOT / file).read_text()), test
