"""`threadline records`: the projects that are estimated, and what can be booked."""

import asyncio
import tomllib
from datetime import time
from decimal import Decimal
from pathlib import Path
from typing import Annotated

import typer
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from threadline.cli import telling
from threadline.cli.knowledge import Team
from threadline.cli.settings import adopt_running_stack
from threadline.domain.appointments import WORKDAYS, Resource
from threadline.domain.errors import Permanent
from threadline.domain.estimates import Role

app = typer.Typer(help="The projects that are estimated, and what can be booked.", no_args_is_help=True)

_HINT = "`threadline records load --help` shows what it holds."
_HELP = """Make what a file lists, all or nothing; what is there already gets the file's rates and hours.

Work items, quotes and appointments stay as they are. The file holds, for example:

\b
[\\[project]]
name = "Web shop"
currency = "EUR"
roles = {designer = 800, developer = 900.50}

\b
[\\[resource]]
name = "Meeting room"
time_zone = "Europe/Berlin"
opens = 09:00:00
closes = 17:00:00
weekdays = [1, 2, 3, 4, 5]
"""


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Project(_Table):
    name: str
    currency: str
    roles: dict[str, Decimal] = Field(default_factory=dict)


class _Resource(_Table):
    name: str = Field(min_length=1)
    time_zone: str
    opens: time
    closes: time
    weekdays: set[Annotated[int, Field(ge=1, le=7)]] = Field(default=set(WORKDAYS), min_length=1)


class _File(_Table):
    project: tuple[_Project, ...] = ()
    resource: tuple[_Resource, ...] = ()


@app.callback()
def _group() -> None:
    adopt_running_stack()


@app.command(help=_HELP)
def load(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="TOML with [\\[project]] and [\\[resource]] tables.")],
    team: Team = "",
) -> None:
    wanted = _read(file)
    resources = [
        Resource(each.name, each.time_zone, each.opens, each.closes, sorted(each.weekdays)) for each in wanted.resource
    ]

    async def run() -> None:
        from threadline.bootstrap import NewProject, records_desk

        projects = [
            NewProject(each.name, each.currency, [Role(name, rate) for name, rate in each.roles.items()])
            for each in wanted.project
        ]
        async with records_desk(team) as desk:
            await desk.open(projects, resources)
        telling.progress(f"{len(projects)} projects and {len(resources)} resources are as {file} says.")

    asyncio.run(run())


@app.command("list")
def list_records(team: Team = "") -> None:
    """The projects, with those that are locked, and what can be booked."""

    async def run() -> None:
        from threadline.bootstrap import records_desk

        async with records_desk(team) as desk:
            projects, resources = await desk.projects(), await desk.resources()
        for project in projects:
            telling.line(f"{project.project_id}: {project.name}, {project.currency}{', locked' * project.locked}")
        for resource in resources:
            hours = f"{resource.opens:%H:%M} to {resource.closes:%H:%M} {resource.time_zone}"
            days = ", ".join(_DAYS[day - 1] for day in resource.weekdays)
            telling.line(f"{resource.name}: {hours}, {days}")
        if not projects and not resources:
            telling.line("There is nothing yet: `threadline records load FILE` makes projects and resources.")

    asyncio.run(run())


@app.command()
def lock(project: Annotated[str, typer.Argument(help="Its id or its name.")], team: Team = "") -> None:
    """From now on a project can be read, and nothing in it be changed."""
    asyncio.run(_lock(project, team, locked=True))


@app.command()
def unlock(project: Annotated[str, typer.Argument(help="Its id or its name.")], team: Team = "") -> None:
    """A project can be changed again."""
    asyncio.run(_lock(project, team, locked=False))


async def _lock(project: str, team: str, *, locked: bool) -> None:
    from threadline.bootstrap import records_desk

    async with records_desk(team) as desk:
        found = await desk.lock(project, locked=locked)
    telling.line(f"{found.project_id} ({found.name}) {'is locked' if locked else 'can be changed'}.")


_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def _read(path: Path) -> _File:
    try:
        return _File.model_validate(tomllib.loads(path.read_text(encoding="utf-8-sig"), parse_float=Decimal))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise Permanent(f"{path} cannot be read as TOML: {error}. {_HINT}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise Permanent(f"{path}: {where}: {first['msg']}. {_HINT}") from error
