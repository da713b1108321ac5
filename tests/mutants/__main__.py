"""`make mutants`: plants each fault, and runs the tests that must catch it.

`NAME=inbox` selects the mutants with this word in their names.
"""

import sys
from concurrent.futures import ThreadPoolExecutor

from tests.mutants import figures, messages, rules
from tests.mutants.mutant import Mutant, survivors

MUTANTS = [*messages.MUTANTS, *rules.MUTANTS, *figures.MUTANTS]


def main() -> int:
    wanted = [mutant for mutant in MUTANTS if all(word in mutant.name for word in sys.argv[1:])]
    with ThreadPoolExecutor(2) as workers:
        missed = sum(workers.map(_report, wanted))
    sys.stdout.write(f"{len(wanted) - missed} of {len(wanted)} planted faults were caught.\n")
    return 1 if missed or not wanted else 0


def _report(mutant: Mutant) -> bool:
    """Report the mutant, and return whether a test missed it."""
    left = survivors(mutant)
    sys.stdout.write(f"{'MISSED by ' + ', '.join(left) if left else 'caught'}: {mutant.name}\n")
    sys.stdout.flush()
    return bool(left)


if __name__ == "__main__":
    sys.exit(main())
