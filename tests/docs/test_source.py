"""What `src` is held to, so that a reader finds a thing at first guess: one class of a name, and no more than this."""

import ast
from collections import defaultdict

import pytest

from tests.docs.generate import ROOT

MAX_FILES, MAX_LINES = (
    {"threadline": 260, "threadline_devstack": 45},
    {"threadline": 42_000, "threadline_devstack": 6_500},
)


def test_class_name_exists_once() -> None:
    found = defaultdict(list)
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef):
                found[node.name].append(str(path.relative_to(ROOT)))
    assert {name: places for name, places in found.items() if len(places) > 1} == {}


@pytest.mark.parametrize("package", sorted(MAX_LINES))
def test_source_stays_small(package: str) -> None:
    """Something new takes the place of something that is there; whoever raises a limit says why."""
    files = [path.read_text("utf-8") for path in (ROOT / "src" / package).rglob("*.py")]
    assert len(files) <= MAX_FILES[package]
    assert sum(len(each.splitlines()) for each in files) <= MAX_LINES[package]
