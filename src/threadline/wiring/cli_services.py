"""What commands are given: the database that the environment names, and the workspace that they are about."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from threadline.db.engine import Database
from threadline.settings import DatabaseSettings, SlackSettings


@asynccontextmanager
async def open_database() -> AsyncIterator[Database]:
    """The database for one command, which asks one thing at a time."""
    database = Database(DatabaseSettings.load().url.get_secret_value(), pool_size=1, application="threadline-cli")
    try:
        yield database
    finally:
        await database.dispose()


@asynccontextmanager
async def cli_database(team: str) -> AsyncIterator[tuple[Database, str]]:
    """The database, and the workspace's id: `team`, or, where that is empty, that of the bot's token in Slack."""
    from threadline.slack.client import identify
    from threadline.wiring.gateway import slack_client

    async with open_database() as database:
        if not team:
            async with slack_client(SlackSettings.load()) as web:
                team = (await identify(web)).team_id
        yield database, team
