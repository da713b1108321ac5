"""The documents are current: generated pages, links, and every setting, command, target, file and
tool in them.
"""

import re
import runpy
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.core import TyperGroup

from tests.docs import generate
from tests.docs.generate import ROOT
from threadline.cli.main import app
from threadline.operator.model.routing import PHRASES, QUERIES, ScopeRule
from threadline.tools.registry import ToolRegistry
from threadline.wiring.toolsets import TOOLS
from threadline_devstack import environment

DOCS = sorted((ROOT / "docs").rglob("*.md"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS]
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
of_each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def prose(page: Path) -> str:
    return _FENCE.sub("", page.read_text("utf-8"))


def code(page: Path) -> list[str]:
    """Return the text between backticks in each line, and each line of the blocks of code."""
    blocks = "\n".join(_FENCE.findall(page.read_text("utf-8")))
    return re.findall(r"`([^`\n]+)`", prose(page)) + blocks.splitlines()


def test_generated_pages_are_current() -> None:
    old = [
        str(path.relative_to(ROOT))
        for path, text in generate.pages().items()
        if path.read_text("utf-8") != text
    ]
    assert old == [], "run: make docs"


def test_every_setting_has_a_description() -> None:
    missing = [
        name
        for group in generate.groups()
        for name in group.variables()
        if name not in generate.described(group)
    ]
    assert missing == []


@pytest.mark.parametrize(
    "page", [*PAGES, ROOT / "CHANGELOG.md"], ids=lambda page: str(page.relative_to(ROOT))
)
def test_links_lead_somewhere(page: Path) -> None:
    dead = []
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        path, _, heading = target.partition("#")
        found = page.parent / path if path else page
        if re.match(r"[a-z]+:", target):
            continue
        if not found.exists() or (heading and heading not in anchors(found)):
            dead.append(target)
    assert dead == []


def anchors(page: Path) -> list[str]:
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return [
        re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings
    ]


@of_each_page
def test_named_settings_exist(page: Path) -> None:
    named = (
        r"\b(?:(?:THREADLINE|SLACK|GITHUB|ANTHROPIC|OPENAI|TEMPORAL|POSTGRES)_[A-Z0-9_]+"
        r"|DATABASE_URL)\b"
    )
    known = {name for group in generate.groups() for name in group.variables()} | set(
        environment.TEMPORAL
    )
    known |= set(
        re.findall(named, MAKEFILE + (ROOT / "deploy" / "compose.yaml").read_text("utf-8"))
    )
    found = set(re.findall(named, page.read_text("utf-8")))
    assert sorted(name for name in found - known if not name.endswith("_")) == []


@of_each_page
def test_named_commands_exist(page: Path) -> None:
    unknown = []
    for words in re.findall(r"(?<![@=\w-])threadline ([a-z][^#\n]*)", "\n".join(code(page))):
        command: Any = typer.main.get_command(app)
        options = re.findall(r"(?<= )--[a-z-]+", words)
        for word in words.split():
            if isinstance(command, TyperGroup) and re.fullmatch(r"[a-z-]+", word):
                command = command.commands.get(word)
        known = {opt for each in getattr(command, "params", ()) for opt in each.opts} | {"--help"}
        if command is None or not known >= set(options):
            unknown.append(words)
    assert unknown == []


@of_each_page
def test_named_make_targets_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))
    named = {
        target
        for text in code(page)
        for target in re.findall(r"(?:^|[ $])make ([a-z][a-z-]*)", text)
    }
    assert sorted(named - targets) == []


@of_each_page
def test_named_files_exist(page: Path) -> None:
    """A path is relative to the root, the page or the product's folder; a name alone, such as
    `model.py`, is that of any file.
    """
    named = {text for text in code(page) if re.fullmatch(r"(?:[\w.-]+/)+[\w.-]*", text)}
    roots = (ROOT, page.parent, ROOT / "src" / "threadline")
    missing = [text for text in named if not any((root / text).exists() for root in roots)]
    # In the table of the designs: from the product's folder, and without code marks.
    below = set(re.findall(r"(?<![\w/.`-])(?:[a-z_]+/)+[a-z_]+\.py\b", prose(page)))
    missing += [
        text
        for text in below
        if not any((ROOT / each / text).exists() for each in ("", "src/threadline"))
    ]
    alone = {
        text
        for text in code(page)
        if re.fullmatch(r"[\w-]+\.(?:py|md|sql|ya?ml|toml|lock|ini)", text)
    }
    assert sorted([*missing, *(alone - file_names())]) == []


@cache
def file_names() -> set[str]:
    folders = ("src", "tests", "bench", "deploy", "docs", "alembic")
    below = {path.name for name in folders for path in (ROOT / name).rglob("*")}
    return below | {path.name for path in ROOT.iterdir()}


def test_the_list_of_tools_is_the_registrys() -> None:
    rows = re.findall(
        r"^\| `([\w.]+)` \| (reads|changes) \|", prose(ROOT / "docs" / "tools.md"), re.MULTILINE
    )
    assert sorted(rows) == sorted(
        (each.name, "changes" if each.mutating else "reads") for each in TOOLS
    )


def test_the_phrases_of_the_operator_are_those_of_the_code() -> None:
    text = prose(ROOT / "docs" / "operator.md")
    rows = re.findall(r"^\| ([1-4]) \| (`.+`) \| (.+) \|$", text, re.MULTILINE)
    told = {ScopeRule(int(step)): re.findall(r"`([^`]+)`", phrases) for step, phrases, _ in rows}
    assert told == {
        step: list(phrases_of(step)) for step in ScopeRule if step is not ScopeRule.DEFAULT
    }
    assert re.findall(r"`([^`]+)`", rows[-1][2]) == [each.text for each in QUERIES]


def phrases_of(step: ScopeRule) -> Iterator[str]:
    for each in PHRASES:
        if each.step is step:
            yield from (each.text, *each.forms)


def test_the_example_of_a_tool_can_be_registered(tmp_path: Path) -> None:
    """The one in docs/tools.md is run by tests/tools/test_local_tools.py."""
    page = ROOT / "README.md"
    for block in re.findall(
        r"^```python\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL
    ):
        if "TOOLS = [" in block:
            (tmp_path / "example.py").write_text(block, "utf-8")
            tools: list[Any] = runpy.run_path(str(tmp_path / "example.py"))["TOOLS"]
            assert ToolRegistry(tools)
            assert all(each.definition for each in tools)
