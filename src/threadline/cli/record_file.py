"""The TOML file of `threadline records load`: its format and its values."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, time
from decimal import Decimal
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from threadline.appointments.model import WORKDAYS, Resource
from threadline.errors import Permanent
from threadline.rfps.model import RfpFacts, RfpStatus, TeamMember, parse_status

_HINT = "`threadline records load --help` shows an example."


class ListedProject(BaseModel, extra="forbid"):
    """A project with its currency (ISO 4217) and the day rates of its roles."""

    name: str
    currency: str
    roles: dict[str, Decimal] = Field(default_factory=dict)


class _ListedResource(BaseModel, extra="forbid"):
    name: str = Field(min_length=1)
    time_zone: str
    opens: time
    closes: time
    weekdays: set[Annotated[int, Field(ge=1, le=7)]] = Field(default=set(WORKDAYS), min_length=1)

    def resource(self) -> Resource:
        return Resource(**dict(self) | {"weekdays": sorted(self.weekdays)})


def _read_status(words: object) -> RfpStatus:
    try:
        return parse_status(str(words))
    except Permanent as refused:
        raise ValueError(str(refused)) from None


class _ListedRfp(BaseModel, extra="forbid"):
    id: str = ""
    title: str
    client: str = ""
    due_date: date | None = None
    status: Annotated[RfpStatus, BeforeValidator(_read_status)] = RfpStatus.NEW
    owner: str = ""

    def facts(self) -> RfpFacts:
        return RfpFacts(self.title, self.client, self.due_date, self.status, self.owner)


class _File(BaseModel, extra="forbid"):
    project: tuple[ListedProject, ...] = ()
    resource: tuple[_ListedResource, ...] = ()
    rfp: tuple[_ListedRfp, ...] = ()
    member: tuple[TeamMember, ...] = ()


@dataclass(frozen=True)
class ListedRecords:
    """The records of a file, in its order.

    Attributes:
        rfps: each with its id, which is empty where the file gives none.
    """

    projects: Sequence[ListedProject]
    resources: Sequence[Resource]
    rfps: Sequence[tuple[str, RfpFacts]]
    members: Sequence[TeamMember]


def read_records(file: Path) -> ListedRecords:
    """Read a file of records.

    Raises:
        Permanent: the file is no TOML, or holds something else than such records.
    """
    try:
        text = file.read_text(encoding="utf-8-sig")
        given = _File.model_validate(tomllib.loads(text, parse_float=Decimal))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise Permanent(f"{file} cannot be read as TOML: {error}. {_HINT}") from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise Permanent(f"{file}: {place}: {first['msg']}. {_HINT}") from error
    return ListedRecords(
        given.project,
        [each.resource() for each in given.resource],
        [(each.id, each.facts()) for each in given.rfp],
        given.member,
    )
