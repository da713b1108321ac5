"""Which tests hold which promise, read from the source: nothing is imported, so it is fast and needs no server."""

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

_NEVER_RUN = ("skip", "xfail")
"""Marks of a test that proves nothing; `skipif` is another matter, since it runs somewhere."""


class Misplaced(Exception):
    """A marker that says nothing: on no test, without a name, or on a test that does not run."""


@dataclass(frozen=True, order=True)
class Holder:
    """A test, by its file as a path from the repository's root."""

    file: str
    test: str


def holders(tests: Path = ROOT / "tests") -> Mapping[str, tuple[Holder, ...]]:
    """The tests that carry each name, in the order of files and lines.

    Raises:
        Misplaced: a marker holds the product to nothing.
    """
    found: dict[str, list[Holder]] = defaultdict(list)
    for path in sorted(tests.rglob("*.py")):
        file = str(path.relative_to(tests.parent))
        for name, holder in _of_module(ast.parse(path.read_text("utf-8"), str(path)), file):
            if holder not in found[name]:
                found[name].append(holder)
    return {name: tuple(each) for name, each in found.items()}


def _of_module(module: ast.Module, file: str) -> Iterator[tuple[str, Holder]]:
    """Names with their tests: marks before a test, in the cases of a parametrized one, and of a whole file."""
    placed = list(_marks_of_the_file(module))
    tests = list(_tests(module, file))
    for test in tests:
        own = [call for decorator in test.decorator_list for call in _calls(decorator, "promise")]
        if (own or placed) and any(list(_marks(decorator, *_NEVER_RUN)) for decorator in test.decorator_list):
            raise Misplaced(f"{file}: {test.name} does not run, so it holds no promise")
        for call in (*own, *placed):
            for name in _names(call, file):
                yield name, Holder(file, test.name)
    known = {id(call) for test in tests for decorator in test.decorator_list for call in _calls(decorator, "promise")}
    known |= {id(call) for call in placed if tests}
    for call in _calls(module, "promise"):
        if id(call) not in known:
            raise Misplaced(f"{file}:{call.lineno}: this promise is on no test")


def _tests(module: ast.Module, file: str) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    if not Path(file).name.startswith("test_"):
        return
    for node in module.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node


def _marks_of_the_file(module: ast.Module) -> Iterator[ast.Call]:
    for node in module.body:
        if isinstance(node, ast.Assign) and any(_is_name(target, "pytestmark") for target in node.targets):
            yield from _calls(node.value, "promise")


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _marks(within: ast.AST, *marks: str) -> Iterator[ast.Attribute]:
    """`pytest.mark.…`, however pytest was imported."""
    for node in ast.walk(within):
        if isinstance(node, ast.Attribute) and node.attr in marks:
            before = node.value
            if _is_name(before, "mark") or (isinstance(before, ast.Attribute) and before.attr == "mark"):
                yield node


def _calls(within: ast.AST, mark: str) -> Iterator[ast.Call]:
    marks = {id(node) for node in _marks(within, mark)}
    for node in ast.walk(within):
        if isinstance(node, ast.Call) and id(node.func) in marks:
            yield node


def _names(call: ast.Call, file: str) -> Iterator[str]:
    if not call.args or call.keywords:
        raise Misplaced(f"{file}:{call.lineno}: a promise is named, as area:feature:variant")
    for argument in call.args:
        if not isinstance(argument, ast.Constant) or not isinstance(argument.value, str):
            raise Misplaced(f"{file}:{argument.lineno}: write the promise's name out, so that a search finds it")
        yield argument.value
