"""`threadline records`: manage projects, bookable resources, RFPs and team members."""

import asyncio
import tomllib
from datetime import date, time
from decimal import Decimal
from pathlib import Path
from typing import Annotated

import typer
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from threadline.appointments.model import WORKDAYS, Resource
from threadline.cli import output as telling
from threadline.cli import record_lines
from threadline.cli import records_delete as deleting
from threadline.cli.knowledge import Team
from threadline.cli.running_stack import adopt_running_stack
from threadline.errors import Permanent
from threadline.estimates.model import Role
from threadline.rfps.model import Facts, RfpStatus, status_of
from threadline.rfps.team_members import TeamMember

app = typer.Typer(help="Manage projects, bookable resources, RFPs and team members.", no_args_is_help=True)

_HINT = "`threadline records load --help` shows what it holds."
_HELP = """Load the records of a file, all or none. Records that exist get the file's rates, hours and people.

Existing work items, quotes, appointments and RFPs stay as they are. An RFP is matched by its id or, without one, by its
title and client. A team member is matched by the Slack id. An example of a file:

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

\b
[\\[rfp]]
id = "rfp_abc123"
title = "Website relaunch"
client = "Acme"
due_date = 2026-03-31
status = "in progress"
owner = "Ida"

\b
[\\[member]]
user_id = "U024BE7LH"
name = "Ida"
email = "ida@example.com"
role = "Bid writer"
biography = "Ten years of public tenders."
skills = ["tenders", "contract law"]
capacity = 16
"""

app.command("delete")(deleting.delete)
app.command("forget-person")(deleting.forget_person)


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _status(words: object) -> RfpStatus:
    try:
        return status_of(str(words))
    except Permanent as refused:
        raise ValueError(str(refused)) from None


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


class _Rfp(_Table):
    """Without an id it gets one."""

    id: str = ""
    title: str
    client: str = ""
    due_date: date | None = None
    status: Annotated[RfpStatus, BeforeValidator(_status)] = RfpStatus.NEW
    owner: str = ""

    @property
    def facts(self) -> Facts:
        return Facts(self.title, self.client, self.due_date, self.status, self.owner)


class _Member(_Table):
    """`capacity`: hours a week."""

    user_id: str
    name: str
    email: str = ""
    role: str = ""
    biography: str = ""
    skills: tuple[str, ...] = ()
    capacity: int = 0


class _File(_Table):
    project: tuple[_Project, ...] = ()
    resource: tuple[_Resource, ...] = ()
    rfp: tuple[_Rfp, ...] = ()
    member: tuple[_Member, ...] = ()


@app.callback()
def _group() -> None:
    adopt_running_stack()


@app.command(help=_HELP)
def load(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="TOML with [\\[project]], [\\[resource]], [\\[rfp]] and [\\[member]] tables."
        ),
    ],
    team: Team = "",
) -> None:
    wanted = _read(file)

    async def run() -> None:
        from threadline.wiring.records import NewProject, NewRecords, NewRequest, records_desk

        roles = [[Role(name, rate) for name, rate in each.roles.items()] for each in wanted.project]
        new = NewRecords(
            [NewProject(each.name, each.currency, of) for each, of in zip(wanted.project, roles, strict=True)],
            [_resource(each) for each in wanted.resource],
            [NewRequest(each.facts, each.id) for each in wanted.rfp],
            [TeamMember(**dict(each)) for each in wanted.member],
        )
        async with records_desk(team) as desk:
            made = await desk.open(new)
        sizes = (f"{len(new.projects)} projects", f"{len(new.resources)} resources", f"{len(new.members)} people")
        telling.progress(f"As {file} says: {', '.join(sizes)}.")
        if new.rfps:
            telling.progress(f"RFPs: {made} new, {len(new.rfps) - made} there before, which stay as they are.")

    asyncio.run(run())


@app.command("list")
def list_records(team: Team = "") -> None:
    """List projects (with locks), bookable resources, RFPs by due date, and team members."""

    async def run() -> None:
        from threadline.wiring.records import records_desk

        async with records_desk(team) as desk:
            lines = [
                *(
                    f"{each.project_id}: {each.name}, {each.currency}{', locked' * each.locked}"
                    for each in await desk.projects()
                ),
                *map(record_lines.resource, await desk.resources()),
                *map(record_lines.rfp, await desk.rfps()),
                *map(record_lines.member, await desk.members()),
            ]
        for line in lines or ["There is nothing yet: `threadline records load FILE` makes what a file lists."]:
            telling.line(line)

    asyncio.run(run())


@app.command()
def lock(project: Annotated[str, typer.Argument(help="Id or name of the project.")], team: Team = "") -> None:
    """Lock a project: it can be read and not changed."""
    asyncio.run(_lock(project, team, locked=True))


@app.command()
def unlock(project: Annotated[str, typer.Argument(help="Id or name of the project.")], team: Team = "") -> None:
    """Unlock a project: it can be changed again."""
    asyncio.run(_lock(project, team, locked=False))


async def _lock(project: str, team: str, *, locked: bool) -> None:
    from threadline.wiring.records import records_desk

    async with records_desk(team) as desk:
        found = await desk.lock(project, locked=locked)
    telling.line(f"{found.project_id} ({found.name}) {'is locked' if locked else 'can be changed'}.")


def _resource(given: _Resource) -> Resource:
    return Resource(given.name, given.time_zone, given.opens, given.closes, sorted(given.weekdays))


def _read(path: Path) -> _File:
    try:
        return _File.model_validate(tomllib.loads(path.read_text(encoding="utf-8-sig"), parse_float=Decimal))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise Permanent(f"{path} cannot be read as TOML: {error}. {_HINT}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise Permanent(f"{path}: {where}: {first['msg']}. {_HINT}") from error
