"""The commands of the workflows and their order, read from the source: `python -m
tests.replay.fingerprints`.

Replay judges the recorded paths; this sees a change on any other. Run as a program, it announces a
change: it rewrites `fingerprints.json`, to be committed with the change and the gate
(`workflow.patched`) that keeps threads in flight on the old order.
"""

import ast
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import threadline
from threadline.wiring.temporal import WORKFLOWS

COMMITTED = Path(__file__).with_name("fingerprints.json")

_COMMANDS = {
    *("call", "attempt", "aside", "start_activity_method", "execute_activity_method"),
    *("start_child_workflow", "execute_child_workflow", "signal", "get_external_workflow_handle"),
    *(
        "sleep",
        "cancel",
        "continue_as_new",
        "upsert_memo",
        "upsert_search_attributes",
        "patched",
        "deprecate_patch",
    ),
}
_ALIASES = {"_entered": "_enter", "_interrupt": "interrupt_turn", "think": "_think", "act": "_act"}
"""Functions that are passed on under another name."""

Function = ast.FunctionDef | ast.AsyncFunctionDef
Fingerprints = dict[str, list[str]]


def sources() -> dict[str, str]:
    """Return the source of each module with commands of a workflow, by its name below
    `threadline`.
    """
    found: dict[str, str] = {}
    waiting = [kind.__module__ for kind in WORKFLOWS]
    while waiting:
        name = waiting.pop()
        short = name.removeprefix("threadline.")
        file = Path(threadline.__path__[0], *name.split(".")[1:]).with_suffix(".py")
        if short in found or not file.exists():  # a package, or a name inside of a module
            continue
        text = file.read_text(encoding="utf-8")
        if "workflow" not in text.partition("from threadline")[0]:  # it gives no commands
            continue
        found[short] = text
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("threadline."):
                waiting += [
                    str(node.module),
                    *(f"{node.module}.{each.name}" for each in node.names),
                ]
    return dict(sorted(found.items()))


def fingerprints(modules: Mapping[str, str]) -> Fingerprints:
    """Return the commands of each function that gives any, itself or through another, in the order
    of the source.
    """
    functions = {
        name: node
        for module, text in modules.items()
        for name, node in _functions(ast.parse(text), module)
    }
    giving: set[str] = set()
    while (
        grown := {
            name.rpartition(".")[2]
            for name, node in functions.items()
            if any(_given(node, giving))
        }
        - giving
    ):
        giving |= grown
    found = {name: list(_given(node, giving)) for name, node in functions.items()}
    return {name: given for name, given in found.items() if given}


def _functions(node: ast.AST, where: str) -> Iterator[tuple[str, Function]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{where}.{child.name}")
        elif isinstance(child, Function):
            yield f"{where}.{child.name}", child


def _given(function: Function, giving: set[str]) -> Iterator[str]:
    calls = [
        node for line in function.body for node in ast.walk(line) if isinstance(node, ast.Call)
    ]
    for call in sorted(calls, key=lambda node: (node.lineno, node.col_offset)):
        name = _name(call.func)
        if name in _COMMANDS:
            of = call.args[0] if call.args else None
            yield (
                f"{name} {ast.unparse(of)}"
                if isinstance(of, ast.Attribute | ast.Name | ast.Constant)
                else name
            )
        elif name == "wait_condition" and any(
            keyword.arg == "timeout" for keyword in call.keywords
        ):
            yield "wait_condition with a timer"
        elif name in giving:
            yield f"through {name}"


def _name(called: ast.expr) -> str:
    name = ""
    if isinstance(called, ast.Attribute):
        name = called.attr
    elif isinstance(called, ast.Name):
        name = called.id
    return _ALIASES.get(name, name)


def committed() -> Fingerprints:
    read: Fingerprints = json.loads(COMMITTED.read_text(encoding="utf-8"))
    return read


if __name__ == "__main__":
    COMMITTED.write_text(json.dumps(fingerprints(sources()), indent=1) + "\n", encoding="utf-8")
