"""`make docs`: writes docs/settings.md and .env.example from the settings groups, docs/cli.md from
typer.
"""

import ast
import inspect
import re
import shlex
import textwrap
from collections.abc import Iterator
from enum import Enum
from itertools import pairwise
from pathlib import Path
from typing import Any

import typer
from pydantic.fields import FieldInfo
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from threadline import settings
from threadline.cases.model import SlaTarget
from threadline.cli.main import app
from threadline_devstack import environment

ROOT = Path(__file__).parents[2]
NOTICE = "<!-- Generated from the code by `make docs`: do not edit. -->"
PROCESSES = {
    "the gateway": environment.GATEWAY,
    "the core worker": environment.CORE,
    "the agents' worker": environment.AGENTS,
    "the codec server": environment.CODEC,
}
SETTINGS = f"""{NOTICE}

# Settings

Every setting is an environment variable. Its name counts in capitals only. Write durations as `30s`, `15m`, `2h`, `5d`
or `1h30m`. A variable marked *required* must be set for the processes that read it. Commands read the variables of what
they use, such as `DATABASE_URL`. `threadline doctor` reports what is missing or wrong."""
TEMPORAL = """## Temporal

Read by the gateway, the core worker, the agents' worker and the commands, in the same way as by Temporal's own clients:
TLS files and profiles work too.
- `TEMPORAL_ADDRESS`: Address of the server. `threadline up` starts a dev server. Default: `localhost:7233`.
- `TEMPORAL_NAMESPACE`: Namespace. Default: `default`.
- `TEMPORAL_API_KEY`: API key."""
EXAMPLE = """# Generated from the code by `make docs`: do not edit. docs/settings.md explains every variable.
# Copy this file to .env and fill it in, for deploy/compose.yaml. For processes of your own, export the same names.
# A line that is commented out shows the default, or an example where there is none.

# deploy/compose.yaml makes the addresses of the databases from these passwords.
# Use letters and digits, such as `openssl rand -hex 24` prints.
POSTGRES_PASSWORD=
POSTGRES_OWNER_PASSWORD=
POSTGRES_AGENT_PASSWORD=

# Temporal
# TEMPORAL_ADDRESS=localhost:7233
# TEMPORAL_NAMESPACE=default
# TEMPORAL_API_KEY="""
CLI = f"""{NOTICE}

# Commands

A process logs one JSON object a line, with the event `gateway_ready` or `worker_ready` once it serves. SIGTERM lets it
finish running work. An error that is understood is one sentence on standard error and exit code 1.

`threadline --version` prints the version. `threadline --install-completion` installs completion for the shell in which
it runs (bash, zsh or fish), and `threadline --show-completion` prints its script; for another shell,
`_THREADLINE_COMPLETE=source_zsh threadline` prints it.

In a terminal, tables fit its width: long cells are wrapped, and very long ones end in an ellipsis. In a pipe or a file
each row is one whole line, unless the variable `COLUMNS` sets a width. With `--json` a command that reads prints one
JSON document and nothing else: field names stay the same, times are ISO 8601, and errors stay on standard error with
the same exit code. People appear with the name that Slack gave, if it is stored, and with their id.

`threadline COMMAND --help` prints the same help. The commands of `knowledge`, `records` and `decisions` also take
`--team ID`, the id of a workspace. Without it, `knowledge` and `records` use the bot token's workspace, and `decisions`
covers all workspaces."""


def pages() -> dict[Path, str]:
    """Return every generated file with its text."""
    return {
        ROOT / "docs" / "settings.md": "\n\n".join([SETTINGS, *map(_group, groups()), TEMPORAL])
        + "\n",
        ROOT / ".env.example": "\n\n".join([EXAMPLE, *map(_example_group, groups())]) + "\n",
        ROOT / "docs" / "cli.md": "\n\n".join(
            [CLI, *_commands("threadline", typer.main.get_command(app))]
        )
        + "\n",
    }


def groups() -> list[type[settings.SettingsGroup]]:
    """Return the groups with required variables first, then in the order of the code."""

    def needs_nothing(group: type[settings.SettingsGroup]) -> bool:
        return not any(field.is_required() for field in group.model_fields.values())

    return sorted(settings.SettingsGroup.__subclasses__(), key=needs_nothing)


def _group(group: type[settings.SettingsGroup]) -> str:
    title, _, text = " ".join(inspect.cleandoc(group.__doc__ or "").split()).partition(". ")
    readers = [name for name, given in PROCESSES.items() if set(group.variables()) & set(given)]
    read_by = " and ".join(filter(None, [", ".join(readers[:-1]), readers[-1]]))
    about = textwrap.fill(f"Read by {read_by}. {_linked(text)}", 120, break_long_words=False)
    meanings = described(group)
    found = [
        f"- `{name}`: {meanings.get(name, '')}{_default(field)}"
        for name, field in group.variables().items()
    ]
    return "\n".join([f"## {title.rstrip('.')}", "", about, *found])


def described(group: type[settings.SettingsGroup]) -> dict[str, str]:
    """Return the docstrings of a group's fields, by their variables."""
    (of_class,) = ast.parse(inspect.getsource(group)).body
    assert isinstance(of_class, ast.ClassDef)
    return {
        group.variable(field.target.id): " ".join(inspect.cleandoc(text.value.value).split())
        for field, text in pairwise(of_class.body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


def _linked(text: str) -> str:
    return re.sub(r"\b([a-z]+\.md)", r"[\1](\1)", text)


def _default(field: FieldInfo) -> str:
    value = _written(field)
    if field.is_required():
        return " *Required.*"
    return f" Default: `{value}`." if value else ""


def _written(field: FieldInfo) -> str:
    """Return the default as it would be written in the environment; empty without one."""
    value: Any = None if field.is_required() else field.get_default(call_default_factory=True)
    if any(getattr(each, "func", None) is settings.DURATION.func for each in field.metadata):
        return _duration(value)
    if isinstance(value, dict) and all(isinstance(each, SlaTarget) for each in value.values()):
        return ",".join(
            f"{key}={_duration(of.acknowledge)}/{_duration(of.resolve)}"
            for key, of in value.items()
        )
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, Enum):
        return str(value.value)
    return f"{value:g}" if isinstance(value, float) else str(value or "")


def _duration(seconds: float) -> str:
    """Return a duration in the largest unit that divides it; up to two days in hours."""
    units = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))
    size, unit = next(
        (size, unit)
        for unit, size in units
        if not seconds % size and (unit != "d" or seconds > 2 * size)
    )
    return f"{seconds / size:g}{unit}"


def _example_group(group: type[settings.SettingsGroup]) -> str:
    about = " ".join(inspect.cleandoc(group.__doc__ or "").split()).replace("`", "")
    lines = textwrap.wrap(about, 120, initial_indent="# ", subsequent_indent="# ")
    for name, field in group.variables().items():
        shown = str(field.examples[0]) if field.examples else _written(field)
        value = shlex.quote(shown) if shown else ""
        lines.append(f"# {name}={value}" if shown or not field.is_required() else f"{name}=")
    return "\n".join(lines)


def _commands(name: str, command: Any) -> Iterator[str]:
    if isinstance(command, TyperGroup):
        for part, each in command.commands.items():
            yield from _commands(f"{name} {part}", each)
        return
    arguments = [each for each in command.params if isinstance(each, TyperArgument)]
    usage = "".join(f" {_metavar(each)}" for each in arguments)
    options = [
        f"- {_option(each)}" for each in command.params if each.name not in ("help", "team")
    ]
    yield "\n".join([f"## `{name}{usage}`", "", _help(command), *options])


def _help(command: TyperCommand) -> str:
    """Return the help without typer's marks; an example of TOML becomes a block of code."""
    paragraphs = (command.help or "").split("\n\n")
    joined = "\n\n".join(each if "\b" in each else _filled(each) for each in paragraphs)
    text, toml, example = joined.replace("\b", "").replace("\\[", "[").partition("\n\n\n[[")
    body = re.sub(r"\n{2,}", "\n\n", example)
    return f"{text}\n\n```toml\n[[{body.strip()}\n```" if toml else text


def _filled(paragraph: str) -> str:
    return textwrap.fill(" ".join(paragraph.split()), 120, break_long_words=False)


def _option(each: Any) -> str:
    name = (
        _metavar(each)
        if isinstance(each, TyperArgument)
        else f"{each.opts[0]} {_metavar(each)}".strip()
    )
    default = f" Default: `{each.default}`." if each.default not in ("", None, False) else ""
    text = each.help.replace("\\[", "[")
    return f"`{name}`: {text}{default}"


def _metavar(each: Any) -> str:
    if isinstance(each, TyperOption) and each.is_flag:
        return ""
    name = each.metavar or each.name.upper()
    return name if each.required or isinstance(each, TyperOption) else f"[{name}…]"


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
