"""What the command line does to a team's own records: projects, what can be booked, and documents."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from threadline.bootstrap.gateway import slack_client
from threadline.db.engine import Database
from threadline.db.work import Work
from threadline.domain.appointments import Resource
from threadline.domain.estimates import Project, Role
from threadline.domain.records import Document
from threadline.settings import DatabaseSettings, SlackSettings
from threadline.slack.errors import calling


@dataclass(frozen=True)
class NewProject:
    """`currency`: three capital letters, as `EUR`."""

    name: str
    currency: str
    roles: Sequence[Role] = ()


class RecordsDesk:
    """The records of one team."""

    def __init__(self, database: Database, team: str) -> None:
        self._database = database
        self._team = team

    async def open(self, projects: Sequence[NewProject], resources: Sequence[Resource]) -> None:
        """All of them or, when one is refused, none. What is known by its name gets the new rates and hours.

        Raises:
            EstimateRefused, ProjectLocked, NotBookable: one of them cannot be kept; the message says why.
        """
        async with self._database.begin() as work:
            for project in projects:
                await self._open(work, project)
            for resource in resources:
                await work.appointments.save_resource(self._team, resource)

    async def _open(self, work: Work, new: NewProject) -> None:
        project = await work.estimates.open_project(self._team, new.name, new.currency)
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
            return await work.appointments.resources(self._team)

    async def save(self, document: Document) -> None:
        """Raises `Permanent` when it is no document, or too long."""
        async with self._database.begin() as work:
            await work.knowledge.save(self._team, document)

    async def forget(self, source: str) -> bool:
        async with self._database.begin() as work:
            return await work.knowledge.forget(self._team, source)

    async def documents(self) -> list[Document]:
        async with self._database.begin() as work:
            return await work.knowledge.documents(self._team)


@asynccontextmanager
async def records_desk(team: str = "") -> AsyncIterator[RecordsDesk]:
    """Args: `team`, the workspace's id; empty to ask Slack whose the bot's token is."""
    url = DatabaseSettings.read().url.get_secret_value()
    if not team:
        async with slack_client(SlackSettings.read()) as web, calling("auth.test"):
            team = str((await web.auth_test())["team_id"])
    database = Database(url, pool_size=1, application="threadline-cli")
    try:
        yield RecordsDesk(database, team)
    finally:
        await database.dispose()
