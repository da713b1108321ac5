"""What the agents' process is made of, and what it must not have."""

import ctypes
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import aiohttp
import asyncpg
from claude_agent_sdk import SessionStore

from threadline.activities.turns import LiveAgentActivities
from threadline.agents.investigator.loki import Loki
from threadline.agents.investigator.ports import CaseRecords
from threadline.agents.investigator.runner import Investigator, InvestigatorConfig
from threadline.agents.investigator.workspace import Workspaces
from threadline.db.agent_pool import agent_pool
from threadline.db.agent_reader import AgentReader
from threadline.db.agent_sessions import PostgresSessionStore
from threadline.db.agent_turns import AgentTurns, Claim
from threadline.db.read_only_queries import ReadOnlyQueries
from threadline.domain.errors import Permanent
from threadline.settings import AgentSettings, RepositorySettings

_PR_SET_DUMPABLE = 4
_FORBIDDEN = ("SLACK_BOT_TOKEN", "SLACK_APP_TOKEN", "SLACK_SIGNING_SECRET", "GITHUB_TOKEN", "DATABASE_URL")
_SECRETS = ("ANTHROPIC_API_KEY", "THREADLINE_AGENT_DATABASE_URL", "THREADLINE_QUERY_DATABASES", "TEMPORAL_API_KEY")


class CaseAccess:
    """A case's records and transcript, through the restricted role."""

    def __init__(self, pool: asyncpg.Pool, url: str) -> None:
        self._pool = pool
        self._url = url

    def records(self, claim: Claim) -> CaseRecords:
        return AgentReader(self._url, claim)

    def sessions(self, claim: Claim) -> SessionStore:
        return PostgresSessionStore(self._pool, claim)


@asynccontextmanager
async def agent_activities(
    settings: AgentSettings, repository: RepositorySettings, *, alone: bool
) -> AsyncIterator[LiveAgentActivities]:
    """The agents' activities.

    Args:
        alone: this is the agents' own process, which must hold nothing that an agent could be talked into using.

    Raises:
        Permanent: such a thing is in the environment, or a login could do more than it may.
    """
    if alone:
        refuse_powers()
    url = settings.database_url.get_secret_value()
    async with AsyncExitStack() as opened:
        opened.callback(_own_temporary_folder(repository.workspace_root))
        pool = await opened.enter_async_context(agent_pool(url, size=settings.slots + 2))
        session = await opened.enter_async_context(aiohttp.ClientSession())
        queries = None
        if settings.query_databases:
            sources = {name: dsn.get_secret_value() for name, dsn in settings.query_databases.items()}
            queries = ReadOnlyQueries(sources, views=settings.query_views, own=[url])
            await queries.check()
        config = InvestigatorConfig(settings.model, settings.api_key.get_secret_value(), settings.base_url)
        if alone:
            _hide_secrets()
        yield LiveAgentActivities(
            AgentTurns(pool),
            CaseAccess(pool, url),
            Workspaces(repository.workspace_root, repository.repo),
            Investigator(config),
            queries,
            Loki(session, settings.loki_url) if settings.loki_url else None,
        )


def refuse_powers() -> None:
    """Raises `Permanent` when the environment holds what the agents' process must not have."""
    if found := [name for name in _FORBIDDEN if os.environ.get(name)]:
        raise Permanent(
            f"{', '.join(found)} must not be set for `worker --queue agents`: an agent that reads strangers' text runs "
            "there. Start it with an environment of its own."
        )


def _hide_secrets() -> None:
    """From now on neither this process's environment nor its memory shows them to another process of the same user."""
    for name in _SECRETS:
        os.environ.pop(name, None)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def _own_temporary_folder(root: Path) -> Callable[[], None]:
    """Have the agent's files made under the worker's own folder; those of a worker that was killed go at its start."""
    folder = root / "tmp"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    before, tempfile.tempdir = tempfile.tempdir, str(folder)

    def restore() -> None:
        tempfile.tempdir = before
        shutil.rmtree(folder, ignore_errors=True)

    return restore
