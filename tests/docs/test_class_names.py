"""A class name exists once in the product: a reader who looks for it finds one thing."""

import ast
from collections import defaultdict

from tests.docs.generate import ROOT

REMAINING = frozenset[str]()
"""Names that still stand for several things. Take a name out when its classes have been renamed; add none."""


def test_class_name_exists_once() -> None:
    found = defaultdict(list)
    for path in sorted((ROOT / "src" / "threadline").rglob("*.py")):
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(str(path.relative_to(ROOT)))
    several = {name: places for name, places in found.items() if len(places) > 1}
    assert {name: places for name, places in several.items() if name not in REMAINING} == {}
    assert several.keys() >= REMAINING, "take these out"
