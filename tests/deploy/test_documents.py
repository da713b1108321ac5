"""What the documents name exists: files, tests, links, and settings with the defaults that the code has."""

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from threadline import settings
from threadline.cases.sla import parse_duration, parse_targets

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
_PLACES = ("", "src/threadline/", "src/")
"""What a path in a document may be relative to: the repository, or the package."""

of_each_document = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))


@cache
def known_tests() -> dict[str, set[str]]:
    """The names of tests by file, as paths from the repository's root."""
    return {
        str(path.relative_to(ROOT)): set(
            re.findall(r"^(?:async )?def (test_\w+)", path.read_text("utf-8"), re.MULTILINE)
        )
        for path in (ROOT / "tests").rglob("test_*.py")
    }


def prose(document: Path) -> str:
    """The text without its blocks of code, which show commands and their output."""
    return re.sub(r"^```.*?^```", "", document.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


@pytest.mark.promise("operation:documents:true")
@of_each_document
def test_every_path_exists(document: Path) -> None:
    named = set(re.findall(r"`((?:[\w.-]+/)+[\w.-]*|[\w-]+\.(?:py|md|sql|yaml|toml|lock))`", prose(document)))
    for path in sorted(named):
        assert any((ROOT / place / path).exists() for place in _PLACES), f"{document.name} names {path}"


@pytest.mark.promise("operation:documents:true")
@of_each_document
def test_every_test_exists(document: Path) -> None:
    known = set().union(*known_tests().values())
    for name in sorted(set(re.findall(r"`(test_\w+)`", prose(document)))):
        assert name in known, f"{document.name} names {name}"


@pytest.mark.promise("operation:documents:true")
@of_each_document
def test_a_test_that_is_named_with_its_file_is_in_it(document: Path) -> None:
    for file, names in re.findall(r"`(tests/[\w/]+\.py)`: ((?:`test_\w+`(?:, | and )?)+)", prose(document)):
        for name in re.findall(r"test_\w+", names):
            assert name in known_tests()[file], f"{document.name} says that {name} is in {file}"


@pytest.mark.promise("operation:documents:true")
@of_each_document
def test_every_link_leads_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(document)):
        if not target.startswith(("http://", "https://")):
            path, _, heading = target.partition("#")
            found = (document.parent / path) if path else document
            assert found.exists(), f"{document.name} links to {target}"
            assert not heading or heading in anchors(found), f"{document.name} links to {target}"


def anchors(document: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", prose(document), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def fields_by_variable() -> dict[str, FieldInfo]:
    found: dict[str, FieldInfo] = {}
    for section in settings.Section.__subclasses__():
        prefix = section.model_config.get("env_prefix", "")
        for name, field in section.model_fields.items():
            found[str(field.validation_alias or f"{prefix}{name}".upper())] = field
    return found


def rows_of_the_settings() -> dict[str, str]:
    """The last column of the README's table, by variable."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[A-Z][^|]+) \|[^|]+\| ([^|]+) \|$", text, re.MULTILINE)
    return {name: default.strip() for names, default in rows for name in re.findall(r"`([A-Z_]+)`", names)}


@pytest.mark.promise("operation:settings:documented")
def test_the_table_of_settings_is_whole() -> None:
    assert {name for name in rows_of_the_settings() if not name.startswith("TEMPORAL_")} == set(fields_by_variable())


@pytest.mark.promise("operation:settings:documented")
def test_the_table_of_settings_has_the_defaults_of_the_code() -> None:
    rows = rows_of_the_settings()
    for name, field in fields_by_variable().items():
        told = re.match(r"`([^`]+)`", rows[name])
        default = None if field.default is PydanticUndefined else field.default
        if told:
            assert read_as(default, told.group(1)) == default, name
        else:
            assert not default, f"{name} has a default that the table does not tell"


def read_as(default: Any, told: str) -> Any:
    """What is told, in the form of the default."""
    if isinstance(default, dict):
        return parse_targets(told)
    if isinstance(default, Path):
        return Path(told)
    if isinstance(default, tuple):
        return tuple(told.split(","))
    if isinstance(default, int | float):
        return float(told) if re.fullmatch(r"[\d.]+", told) else parse_duration(told)
    return told
