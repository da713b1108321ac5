"""Planted faults. Each one must make the tests that it names fail."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
TIMEOUT = 180.0
"""Seconds for the tests of one fault: a fault may make them hang, which counts as caught."""


@dataclass(frozen=True)
class Mutant:
    """A fault in the product, as a text replacement that matches once.

    Attributes:
        name: the area and the fault, such as `inbox: a repeated message is kept`.
        file: path below `src/`.
        tests: the ids of the tests that catch it; each of them must fail on its own.
    """

    name: str
    file: str
    before: str
    after: str
    tests: tuple[str, ...]


def survivors(mutant: Mutant) -> list[str]:
    """Return the tests that pass despite the fault; none if the mutant is caught.

    Raises:
        ValueError: the file does not hold the replaced code exactly once.
    """
    original = (ROOT / "src" / mutant.file).read_text(encoding="utf-8")
    if original.count(mutant.before) != 1:
        raise ValueError(
            f"{mutant.name}: {mutant.file} holds its text {original.count(mutant.before)} times, "
            "not once."
        )
    with tempfile.TemporaryDirectory(prefix="threadline-mutant-") as folder:
        shutil.copytree(
            ROOT / "src", Path(folder, "src"), ignore=shutil.ignore_patterns("__pycache__")
        )
        shutil.copytree(ROOT / "alembic", Path(folder, "alembic"))  # the migrations lie beside src
        Path(folder, "src", mutant.file).write_text(
            original.replace(mutant.before, mutant.after), encoding="utf-8"
        )
        return [test for test in mutant.tests if _passes(test, Path(folder, "src"))]


def _passes(test: str, source: Path) -> bool:
    given = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ} | {
        "PYTHONPATH": str(source)
    }
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", test]
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=given,
            capture_output=True,
            timeout=TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    printed = done.stdout.decode()
    # an error in a fixture does not count as a failure
    if done.returncode and not re.search(r"^\d+ failed", printed, re.MULTILINE):
        raise ValueError(f"{test} cannot be run: {printed[-500:]}")
    return done.returncode == 0
