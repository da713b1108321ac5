"""Connections of commands: to the systems that the environment names, or else to the stack of
`threadline up`.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer

from threadline.errors import Permanent, Transient
from threadline_devstack.state_folder import StateFolder

if TYPE_CHECKING:
    from threadline.db.engine import Database, Transaction
    from threadline.slack.client import BotIdentity

Team = Annotated[str, typer.Option(help="Id of the workspace. Without it, the bot token's.")]

_PLACES = frozenset(
    {
        *("DATABASE_URL", "THREADLINE_AGENT_DATABASE_URL", "THREADLINE_PAYLOAD_KEYS"),
        *("SLACK_BOT_TOKEN", "SLACK_APP_TOKEN", "SLACK_SIGNING_SECRET", "SLACK_API_URL"),
        *("TEMPORAL_ADDRESS", "TEMPORAL_NAMESPACE", "TEMPORAL_API_KEY", "TEMPORAL_TLS"),
    }
)
"""Variables that name a system's address, or log in there."""
_SLACK_PATIENCE = 3.0
"""Seconds in which Slack must name the workspace's address, or a command goes on without it."""


def stack_home() -> StateFolder:
    return StateFolder(Path(os.environ.get("THREADLINE_HOME") or ".threadline"))


def use_running_stack() -> None:
    """Set the environment to the stack that runs in THREADLINE_HOME, unless it names another
    system. All settings or none: a mix would read people from one Slack and write them into the
    database of another.
    """
    home = stack_home()
    published = home.read_settings()
    given = {name: value for name, value in os.environ.items() if value and name in _PLACES}
    other = [name for name, value in given.items() if value != published.get(name)]
    if published and other:
        typer.echo(
            f"The stack in {home.root} is not used, since {', '.join(sorted(other))} is set here.",
            err=True,
        )
        return
    for name, value in published.items():
        if not os.environ.get(name):
            os.environ[name] = value


@asynccontextmanager
async def open_database() -> "AsyncIterator[Database]":
    """Open the database for one command, with a single connection. It connects before the command
    does anything else.

    Raises:
        Permanent: the database is not configured correctly; the message has the remedy.
        Transient: the database does not answer; the message has the remedy.
    """
    from threadline.db.engine import Database

    url = os.environ.get("DATABASE_URL", "")
    if not url.startswith(("postgresql://", "postgres://")):
        # The settings raise the error. Loading all groups of settings takes a tenth of the time of
        # a command that only reads.
        from threadline.settings import DatabaseSettings

        url = DatabaseSettings.load().url.get_secret_value()
    async with Database(url, pool_size=1, application="threadline-cli") as database:
        try:
            async with database.connect():
                pass
        except Transient as away:
            # other causes are Postgres's own, with the reason in their text
            if not isinstance(away.__cause__, OSError):
                raise
            raise Transient(f"{away}. Start Postgres, or correct DATABASE_URL.") from away
        yield database


@asynccontextmanager
async def transaction() -> "AsyncIterator[Transaction]":
    async with open_database() as database, database.begin() as tx:
        yield tx


@asynccontextmanager
async def team_transaction(team: str) -> "AsyncIterator[tuple[Transaction, str]]":
    """Open a transaction, and return the workspace's id with it; see `find_team`."""
    async with open_database() as database:
        team = await find_team(team)
        async with database.begin() as tx:
            yield tx, team


def temporal_namespace() -> str:
    """Return the namespace from Temporal's environment configuration. Temporal's library is
    imported only if there is a file to read.
    """
    if name := os.environ.get("TEMPORAL_NAMESPACE"):
        return name
    folders = (os.environ.get("XDG_CONFIG_HOME") or "~/.config", "~/Library/Application Support")
    usual = [Path(each, "temporalio/temporal.toml").expanduser() for each in folders]
    if not os.environ.get("TEMPORAL_CONFIG_FILE") and not any(each.exists() for each in usual):
        return "default"
    from temporalio.envconfig import ClientConfig

    return ClientConfig.load_client_connect_config().get("namespace") or "default"


def workflow_url(workflow_id: str) -> str:
    """Return the address of a workflow in Temporal's UI; empty while the UI's own is not set.

    The variable is read here: loading all groups of settings takes a tenth of the time of a
    command that only reads.
    """
    ui = os.environ.get("THREADLINE_TEMPORAL_UI", "").rstrip("/")
    if not ui:
        return ""
    namespace = quote(temporal_namespace())
    return f"{ui}/namespaces/{namespace}/workflows/{quote(workflow_id, safe=':')}"


async def find_team(team: str) -> str:
    """Return `team`, or, if that is empty, the workspace's id of the bot token in Slack."""
    return team or (await _identify()).team_id


@dataclass(frozen=True)
class Workspace:
    """A workspace's address for permalinks, such as `https://example.slack.com/`; where it is
    empty, `unknown` is the reason.
    """

    address: str = ""
    unknown: str = ""


async def find_workspace(team: str) -> Workspace:
    """Ask Slack for the address of a workspace. A command shows its result without an answer,
    too: it is given up soon, and never fails.
    """
    if not os.environ.get("SLACK_BOT_TOKEN"):
        return Workspace(unknown="SLACK_BOT_TOKEN is not set")
    try:
        async with asyncio.timeout(_SLACK_PATIENCE):
            identity = await _identify()
    except TimeoutError:
        return Workspace(unknown=f"Slack did not answer within {_SLACK_PATIENCE:g} s")
    except (Permanent, Transient) as error:
        return Workspace(unknown=str(error))
    if identity.team_id != team:
        return Workspace(unknown=f"the bot token belongs to another workspace than {team}")
    return Workspace(identity.url, "" if identity.url else "Slack did not name it")


async def _identify() -> "BotIdentity":
    from threadline.settings import SlackSettings
    from threadline.slack.client import identify, open_web_client

    settings = SlackSettings.load()
    async with open_web_client(settings.bot_token.get_secret_value(), settings.api_url) as web:
        return await identify(web)
