"""The code's style: the length of functions, the nesting of expressions, assignments, and the
first words of docstrings and comments.
"""

import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from tests.docs.generate import ROOT

FOLDERS = ("src", "bench", "tests", "deploy", "alembic")
FILES = sorted(file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py"))
MAX_FUNCTION_LINES = 60
MAX_COMPREHENSIONS = 2
"""A comprehension may hold one other."""

HEADLESS = {
    "what",
    "whatever",
    "who",
    "whoever",
    "whose",
    "whom",
    "where",
    "wherever",
    "of",
    "nobody",
    "nothing",
}
"""First words of clauses that name no actor and no value."""

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_FIRST_WORD = re.compile(r"\W*(\w+)")


@cache
def text_of(file: Path) -> str:
    return file.read_text("utf-8")


@cache
def tree_of(text: str) -> ast.Module:
    return ast.parse(text)


def docstrings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield each docstring, those of attributes too, with its line."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        for statement in body:
            value = getattr(statement, "value", None)
            if not isinstance(statement, ast.Expr) or not isinstance(value, ast.Constant):
                continue
            if isinstance(value.value, str):
                yield statement.lineno, value.value


def comments(text: str) -> Iterator[tuple[int, str]]:
    """Yield each comment with its first line; lines of comment below one another are one."""
    last = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT:
            continue
        line = token.start[0]
        is_alone = token.line.lstrip().startswith("#")
        if not (is_alone and last == line - 1):
            yield line, token.string.lstrip("#- ")
        last = line if is_alone else 0


def headless(texts: Iterator[tuple[int, str]]) -> list[str]:
    found = []
    for line, text in texts:
        first = _FIRST_WORD.match(text)
        if first and first[1].lower() in HEADLESS:
            found.append(f"{line}: {text[:60]}")
    return found


def long_functions(tree: ast.AST) -> list[str]:
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, functions) or node.end_lineno is None:
            continue
        lines = node.end_lineno - node.lineno + 1
        if lines > MAX_FUNCTION_LINES:
            found.append(f"{node.lineno}: {node.name} has {lines} lines")
    return found


def tuple_assignments(tree: ast.AST) -> list[str]:
    return [
        f"{node.lineno}: {ast.unparse(node)[:60]}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Tuple)
        and isinstance(node.targets[0], ast.Tuple)
    ]


def depth(node: ast.AST, kinds: tuple[type[ast.AST], ...]) -> int:
    """Count how many nodes of these kinds lie in one another, at most, from this one down."""
    inside = max((depth(child, kinds) for child in ast.iter_child_nodes(node)), default=0)
    return inside + isinstance(node, kinds)


def nested(tree: ast.AST) -> list[str]:
    found = []
    for node in ast.walk(tree):
        if isinstance(node, _COMPREHENSIONS):
            if depth(node, _COMPREHENSIONS) > MAX_COMPREHENSIONS:
                found.append(f"{node.lineno}: comprehensions")
        elif isinstance(node, ast.IfExp) and depth(node, (ast.IfExp,)) > 1:
            found.append(f"{node.lineno}: conditional expressions")
    return found


def faults(check: Callable[[str], list[str]]) -> list[str]:
    return [f"{file.relative_to(ROOT)}:{each}" for file in FILES for each in check(text_of(file))]


def test_docstrings_open_with_an_actor_a_value_or_a_verb() -> None:
    assert faults(lambda text: headless(docstrings(tree_of(text)))) == []


def test_comments_open_with_an_actor_a_value_or_a_verb() -> None:
    assert faults(lambda text: headless(comments(text))) == []


def test_functions_have_at_most_60_lines() -> None:
    assert faults(lambda text: long_functions(tree_of(text))) == []


def test_each_value_has_an_assignment_of_its_own() -> None:
    assert faults(lambda text: tuple_assignments(tree_of(text))) == []


def test_expressions_are_not_nested_deeply() -> None:
    assert faults(lambda text: nested(tree_of(text))) == []


def test_the_checks_find_the_faults_that_they_are_for() -> None:
    text = '"""What is kept."""\nx, y = 1, 2  # of no use\nz = 1 if x else 2 if y else 3\n'
    tree = ast.parse(text)
    assert headless(docstrings(tree)) == ["1: What is kept."]
    assert headless(comments(text)) == ["2: of no use"]
    assert tuple_assignments(tree) == ["2: x, y = (1, 2)"]
    assert nested(tree) == ["3: conditional expressions"]
    body = "\n".join("    x = 1" for _ in range(MAX_FUNCTION_LINES))
    assert long_functions(ast.parse(f"def f():\n{body}\n")) == ["1: f has 61 lines"]
