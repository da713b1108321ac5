"""A class name exists once in `src`: a reader who looks for it finds one thing."""

import ast
from collections import defaultdict

from tests.docs.generate import ROOT


def test_class_name_exists_once() -> None:
    found = defaultdict(list)
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef):
                found[node.name].append(str(path.relative_to(ROOT)))
    assert {name: places for name, places in found.items() if len(places) > 1} == {}
