"""What the command line does to the knowledge base."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from threadline.bootstrap.gateway import slack_client
from threadline.db.engine import Database
from threadline.domain.records import Document
from threadline.settings import DatabaseSettings, SlackSettings
from threadline.slack.errors import calling


class KnowledgeDesk:
    """The documents of one team."""

    def __init__(self, database: Database, team: str) -> None:
        self._database = database
        self._team = team

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
async def knowledge_desk(team: str = "") -> AsyncIterator[KnowledgeDesk]:
    """Args: `team`, the workspace's id; empty to ask Slack whose the bot's token is."""
    url = DatabaseSettings.read().url.get_secret_value()
    if not team:
        async with slack_client(SlackSettings.read()) as web, calling("auth.test"):
            team = str((await web.auth_test())["team_id"])
    database = Database(url, pool_size=1, application="threadline-cli")
    try:
        yield KnowledgeDesk(database, team)
    finally:
        await database.dispose()
