"""Each of the sixteen correctness properties has its test here, with enough examples, and docs/designs.md names it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
DESIGNS = HERE.parents[1] / "docs" / "designs.md"
SIXTEEN = set(range(1, 17))
LEAST_EXAMPLES = 100


def properties() -> Iterator[tuple[int, str, int]]:
    """The number of a property, its test, and the examples that are drawn for it: 0 where none are."""
    for path in sorted(HERE.glob("test_*.py")):
        module = ast.parse(path.read_text("utf-8"), str(path))
        named = {
            target.id: node.value
            for node in module.body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in module.body:
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            if found := re.match(r"test_property_(\d+)_", node.name):
                yield int(found[1]), node.name, sum(examples(each, named) for each in node.decorator_list)


def examples(decorator: ast.expr, named: dict[str, ast.expr]) -> int:
    """What `settings(max_examples=…)` says, written out or under a name of the file."""
    settings = named.get(decorator.id, decorator) if isinstance(decorator, ast.Name) else decorator
    given = settings.keywords if isinstance(settings, ast.Call) else []
    values = [each.value for each in given if each.arg == "max_examples"]
    return sum(int(value.value) for value in values if isinstance(value, ast.Constant) and isinstance(value.value, int))


def test_each_of_the_sixteen_properties_is_tried_with_a_hundred_examples() -> None:
    tried = {number for number, _, drawn in properties() if drawn >= LEAST_EXAMPLES}
    assert tried == SIXTEEN


def test_the_page_of_the_designs_names_a_test_of_each() -> None:
    rows = re.findall(r"^\| (\d+)\. (.+)$", DESIGNS.read_text("utf-8"), re.MULTILINE)
    told = {int(number): row for number, row in rows}
    tests = [(number, name) for number, name, drawn in properties() if drawn >= LEAST_EXAMPLES]
    assert {number for number, name in tests if f"`{name}`" in told.get(number, "")} == SIXTEEN
