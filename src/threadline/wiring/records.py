"""What the command line does to a team's own records: projects, what can be booked, requests, people."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from uuid import uuid4

from threadline.appointments.model import Resource
from threadline.appointments.store import AppointmentStore
from threadline.db.engine import Database
from threadline.db.unit_of_work import Work
from threadline.errors import Permanent
from threadline.estimates.model import Project, Role
from threadline.rfps.model import Facts, NewRfp, Rfp, RfpNotFound, Traces
from threadline.rfps.team_members import MemberNotFound, TeamMember
from threadline.settings import DatabaseSettings, SlackSettings
from threadline.slack.errors import calling
from threadline.slack.model import Thread
from threadline.tools.model import Author, Change, Operation
from threadline.wiring.gateway import slack_client

_MOST = 1_000
"""RFPs, and people, that a list shows."""


@dataclass(frozen=True)
class NewProject:
    """`currency`: three capital letters, as `EUR`."""

    name: str
    currency: str
    roles: Sequence[Role] = ()


@dataclass(frozen=True)
class NewRequest:
    """`rfp_id`: the id that it is to have; empty for any."""

    facts: Facts
    rfp_id: str = ""


@dataclass(frozen=True)
class NewRecords:
    projects: Sequence[NewProject] = ()
    resources: Sequence[Resource] = ()
    rfps: Sequence[NewRequest] = ()
    members: Sequence[TeamMember] = ()


class RecordsDesk:
    """The records of one team."""

    def __init__(self, database: Database, team: str) -> None:
        self._database = database
        self._team = team

    async def open(self, new: NewRecords) -> int:
        """All of them or, when one is refused, none; returns how many of the requests there were not before.

        What is known by its name gets the new rates and hours, and a person what is said of them. A request that is
        there stays as it is: its state is changed in a thread, where its journal says why.

        Raises:
            EstimateRefused, ProjectLocked, BookingRefused, RfpRefused, RfpNotFound, MemberRefused: one of them cannot
                be kept, or was deleted; the message says why.
        """
        async with self._database.begin() as work:
            for project in new.projects:
                await self._open(work, project)
            for resource in new.resources:
                await AppointmentStore(work.tx).save_resource(self._team, resource)
            for member in new.members:
                await work.team.save(self._team, member)
            return sum([await _made_unless_there(work, self._team, request) for request in new.rfps])

    async def _open(self, work: Work, new: NewProject) -> None:
        project = await work.estimates.get_or_create_project(self._team, new.name, new.currency)
        known = set(await work.estimates.roles(self._team, project.project_id))
        for role in new.roles:
            if role not in known:
                await work.estimates.save_role(self._team, project.project_id, role)

    async def lock(self, words: str, *, locked: bool) -> Project:
        """The project of this id or name. Raises `ProjectNotFound`."""
        async with self._database.begin() as work:
            project = await work.estimates.project(self._team, words)
            await work.estimates.set_locked(self._team, project.project_id, locked=locked)
            return await work.estimates.project(self._team, project.project_id)

    async def projects(self) -> list[Project]:
        async with self._database.begin() as work:
            return await work.estimates.projects(self._team)

    async def resources(self) -> list[Resource]:
        async with self._database.begin() as work:
            return await AppointmentStore(work.tx).resources(self._team)

    async def rfps(self) -> list[Rfp]:
        """By when they are due, closed ones among them."""
        async with self._database.begin() as work:
            return await work.rfps.listed(self._team, limit=_MOST)

    async def members(self) -> list[TeamMember]:
        async with self._database.begin() as work:
            return await work.team.listed(self._team, limit=_MOST)

    async def traces(self, rfp_id: str) -> Traces:
        """What is kept of an RFP. Raises `RfpNotFound`."""
        async with self._database.begin() as work:
            return await work.rfps.traces(self._team, rfp_id)

    async def delete(self, rfp_id: str) -> bool:
        """Whether there was such an RFP; it is not there any more, and its journal and events stay."""
        async with self._database.begin() as work:
            return await work.rfps.delete(self._team, rfp_id)

    async def person(self, words: str) -> TeamMember:
        """Who is called so, or has this Slack id.

        Raises:
            MemberNotFound: nobody has it; the message tells who is called nearly so.
            Permanent: several are called so.
        """
        async with self._database.begin() as work:
            try:
                found = await work.team.named(self._team, words)
            except MemberNotFound as missing:
                near = _nearest(words, await work.team.listed(self._team, limit=_MOST))
                hint = f"did you mean {' or '.join(near)}?" if near else "`threadline records list` lists them"
                raise MemberNotFound(f"no team member is called {words[:60]!r}; {hint}") from missing
        if len(found) > 1:
            raise Permanent(
                f"{found[0].name} is the name of several people: give {' or '.join(each.user_id for each in found)}."
            )
        return found[0]

    async def forget_person(self, user_id: str) -> bool:
        """Whether somebody of the team has this Slack id; nobody has any more."""
        async with self._database.begin() as work:
            return await work.team.forget(self._team, user_id)


def _nearest(words: str, members: Sequence[TeamMember]) -> list[str]:
    """The names and ids that look most like these words, each with the id."""
    called = {each.name.lower(): f"{each.name} ({each.user_id})" for each in members}
    called |= {each.user_id.lower(): f"{each.name} ({each.user_id})" for each in members}
    return list(dict.fromkeys(called[near] for near in get_close_matches(words.lower(), called)))


async def _made_unless_there(work: Work, team: str, new: NewRequest) -> bool:
    """Whether a request was made; the team has none of its id or, without one, of its title and client.

    Raises:
        RfpRefused: it cannot be kept.
        RfpNotFound: the one of this id was deleted.
    """
    if new.rfp_id:
        try:
            await work.rfps.get(team, new.rfp_id)
        except RfpNotFound as missing:
            if missing.deleted:
                raise
        else:
            return False
    elif await work.rfps.called(team, new.facts.title, new.facts.client):
        return False
    # No conversation is so called, so that the operation is this one's alone.
    change = Change(Operation(Thread(team, "records", "load"), 0, 0, uuid4().hex), datetime.now(UTC).timestamp())
    await work.rfps.create(change, NewRfp(new.facts), Author("", "records load"), new.rfp_id)
    return True


@asynccontextmanager
async def records_desk(team: str = "") -> AsyncIterator[RecordsDesk]:
    """Args: `team`, the workspace's id; empty to ask Slack whose the bot's token is."""
    async with records_of(team) as (database, named):
        yield RecordsDesk(database, named)


@asynccontextmanager
async def records_of(team: str) -> AsyncIterator[tuple[Database, str]]:
    """The database, and the team's id; see `records_desk`."""
    url = DatabaseSettings.read().url.get_secret_value()
    if not team:
        async with slack_client(SlackSettings.read()) as web, calling("auth.test"):
            team = str((await web.auth_test())["team_id"])
    database = Database(url, pool_size=1, application="threadline-cli")
    try:
        yield database, team
    finally:
        await database.dispose()
