"""The modules that the workflow sandbox passes through hold no randomness and no state that runs
would share.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import threadline
from threadline.threads.payload_converter import SHARED_MODULES
from threadline.wiring.temporal import WORKFLOWS

STANDARD = {
    *(
        "abc",
        "asyncio",
        "base64",
        "collections",
        "contextlib",
        "dataclasses",
        "datetime",
        "decimal",
        "email",
    ),
    *(
        "enum",
        "functools",
        "hashlib",
        "ipaddress",
        "itertools",
        "json",
        "math",
        "pathlib",
        "re",
        "typing",
    ),
    *("unicodedata", "urllib", "uuid", "zoneinfo"),
}
"""Modules of the standard library that a workflow's code may import."""
INSTALLED = {"cronsim", "detect_secrets", "pydantic", "temporalio", "threadline"}
BUILTINS = {"hash", "id", "input", "open"}
"""Functions of the standard library that return another value at each replay."""
UNSHARED = {"threadline.threads.workflow_client"}
"""Imports of contracts beside the shared modules: a protocol, and the value that starts a
workflow.
"""
ASYNCIO = {"CancelledError", "Task", "create_task", "current_task", "ensure_future", "shield"}
"""Functions of asyncio that Temporal's event loop replays the same way."""
MUTATING = {
    *(
        "add",
        "append",
        "clear",
        "discard",
        "extend",
        "insert",
        "pop",
        "popitem",
        "remove",
        "setdefault",
        "update",
    ),
}

modules = pytest.mark.parametrize("module", sorted(SHARED_MODULES))


def source(module: str) -> ast.Module:
    file = Path(threadline.__path__[0], *module.split(".")[1:]).with_suffix(".py")
    return ast.parse(file.read_text(encoding="utf-8"))


def imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield str(node.module)
            yield from (f"{node.module}.{each.name}" for each in node.names)


def is_module(name: str) -> bool:
    return Path(threadline.__path__[0], *name.split(".")[1:]).with_suffix(".py").exists()


def shared_state(tree: ast.Module) -> Iterator[str]:
    """Return the module state that functions change: names that they assign as `global`, and
    values of the module's own names.
    """
    own = {
        name.id
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        for name in ast.walk(target)
        if isinstance(name, ast.Name)
    }
    for function in (
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ):
        for node in ast.walk(function):
            if isinstance(node, ast.Global):
                yield from node.names
            elif isinstance(node, ast.Subscript | ast.Attribute) and not isinstance(
                node.ctx, ast.Load
            ):
                yield from ({node.value.id} & own if isinstance(node.value, ast.Name) else ())
            elif (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in MUTATING
            ):
                yield from (
                    {node.func.value.id} & own if isinstance(node.func.value, ast.Name) else ()
                )


def class_state(tree: ast.Module) -> Iterator[str]:
    """Return the classes whose body holds a value that their instances could change for each
    other.
    """
    for cls in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        values = (node.value for node in cls.body if isinstance(node, ast.Assign | ast.AnnAssign))
        made = ("list", "dict", "set", "deque", "defaultdict", "Counter")
        for value in values:
            called = (
                isinstance(value, ast.Call)
                and isinstance(value.func, ast.Name)
                and value.func.id in made
            )
            if called or isinstance(value, ast.List | ast.Dict | ast.Set):
                yield cls.name


@modules
def test_module_imports_nothing_that_replays_differently(module: str) -> None:
    named = set(imported(source(module)))
    roots = {each.partition(".")[0] for each in named}
    assert roots & sys.stdlib_module_names <= STANDARD
    assert roots - sys.stdlib_module_names <= INSTALLED
    ours = {each for each in named if each.startswith("threadline.") and is_module(each)}
    assert ours <= SHARED_MODULES | UNSHARED
    assert not {each for each in named if each.startswith("asyncio.") or each == "itertools.count"}


@modules
def test_module_uses_only_asyncio_that_replays_the_same(module: str) -> None:
    tree = source(module)
    used = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "asyncio"
    }
    assert used <= ASYNCIO
    called = {
        node.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert not called & BUILTINS


@modules
def test_runs_share_no_state_of_a_module(module: str) -> None:
    assert not set(shared_state(source(module)))
    assert not set(class_state(source(module)))


def test_every_workflow_is_passed_through() -> None:
    assert {kind.__module__ for kind in WORKFLOWS} <= SHARED_MODULES


def test_shared_state_is_seen() -> None:
    tree = ast.parse("""
SEEN = {}
COUNT = 0
def f(x):
    global COUNT
    SEEN[x] = 1
def g(x):
    SEEN.setdefault(x, 2)
    mine = {}
    mine[x] = SEEN[x]
""")
    assert sorted(shared_state(tree)) == ["COUNT", "SEEN", "SEEN"]
