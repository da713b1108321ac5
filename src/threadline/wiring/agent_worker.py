"""Builds the agents' process, and refuses secrets that it must not have."""

import ctypes
import os
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import fields, is_dataclass
from typing import Any, get_args, get_type_hints

import aiohttp
from pydantic import SecretStr

from threadline.db.agent_role import agent_database
from threadline.db.engine import Database
from threadline.errors import Permanent
from threadline.investigator.activities import LiveAgentActivities
from threadline.investigator.queries import Loki, ReadOnlyQueries
from threadline.investigator.runner import Investigator, InvestigatorConfig
from threadline.investigator.sandbox import own_temporary_folder
from threadline.investigator.store import AgentStore
from threadline.investigator.workspace import Workspaces, sweep_periodically
from threadline.settings import AgentSettings, PayloadSettings, RepositorySettings, SettingsGroup

SWEEP = 3600.0
"""Seconds between two sweeps of the workspaces of ended cases."""
_PR_SET_DUMPABLE = 4
_READ_HERE = (AgentSettings, RepositorySettings, PayloadSettings)
"""The settings groups of this process, which may have their secrets."""


def _holds_secret(kind: Any) -> bool:
    """Whether a setting of this type is a secret: a `SecretStr`, or a dataclass with one or with a
    field kept from its `repr`, alone or inside another type.
    """
    if isinstance(kind, type) and is_dataclass(kind):
        hidden = any(not field.repr for field in fields(kind))
        return hidden or any(map(_holds_secret, get_type_hints(kind).values()))
    return kind is SecretStr or any(map(_holds_secret, get_args(kind)))


def _secrets(groups: Iterable[type[SettingsGroup]]) -> frozenset[str]:
    return frozenset(
        variable
        for group in groups
        for variable, field in group.variables().items()
        if _holds_secret(field.annotation)
    )


_GROUPS = SettingsGroup.__subclasses__()
REFUSED_SECRETS = _secrets(_GROUPS) - _secrets(_READ_HERE)
"""Secrets of other processes. Derived from the settings, so that a new secret setting is refused
without a change here.
"""
_HIDDEN_SECRETS = _secrets(_GROUPS) | {
    "TEMPORAL_API_KEY",
    "TEMPORAL_TLS_CLIENT_KEY_DATA",
    "THREADLINE_REPO",
}
"""Includes THREADLINE_REPO, since its addresses contain logins."""


@asynccontextmanager
async def agent_activities(
    settings: AgentSettings, repository: RepositorySettings, *, alone: bool
) -> AsyncIterator[tuple[LiveAgentActivities, Database]]:
    """Open the agents' activities, and the database with the agents' login.

    Args:
        alone: whether this is the agents' own process, which hides its secrets after reading them.

    Raises:
        Permanent: a login has more rights than it may.
    """
    url = settings.agent_database_url.get_secret_value()
    async with AsyncExitStack() as opened:
        await opened.enter_async_context(own_temporary_folder(repository.workspace_root))
        database = await opened.enter_async_context(
            agent_database(url, pool_size=2 * settings.agent_slots + 2)
        )
        session = await opened.enter_async_context(aiohttp.ClientSession())
        queries = None
        if settings.query_databases:
            sources = {
                name: dsn.get_secret_value() for name, dsn in settings.query_databases.items()
            }
            queries = ReadOnlyQueries(sources, views=settings.query_views, own=[url])
            await queries.check()
        logs = (
            Loki(session, settings.loki_url, settings.loki_selector) if settings.loki_url else None
        )
        config = InvestigatorConfig(
            settings.investigator_model,
            settings.api_key.get_secret_value(),
            settings.base_url,
            prices=settings.investigator_prices,
        )
        if alone:
            hide_secrets()
        workspaces = Workspaces(repository.workspace_root, repository.repo)
        await opened.enter_async_context(
            sweep_periodically(workspaces, AgentStore(database).open_cases, SWEEP)
        )
        yield (
            LiveAgentActivities(database, workspaces, Investigator(config, queries, logs)),
            database,
        )


def refuse_secrets() -> None:
    """Refuse to start with a secret of another process.

    Raises:
        Permanent: the environment has one.
    """
    if found := sorted(
        name for name, value in os.environ.items() if value and name.upper() in REFUSED_SECRETS
    ):
        raise Permanent(
            f"{', '.join(found)} must not be set for `worker --queue agents`: an agent that "
            "reads strangers' text runs there. Start it with an environment of its own."
        )


def hide_secrets() -> None:
    """Remove the secrets from this process's environment, and block other processes of the same
    user from reading its memory.
    """
    for name in [name for name in os.environ if name.upper() in _HIDDEN_SECRETS]:
        del os.environ[name]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
