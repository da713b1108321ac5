"""What the agents' process is made of, and what it must not have."""

import asyncio
import contextlib
import ctypes
import os
import shutil
import sys
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

import aiohttp
import asyncpg
import structlog
from claude_agent_sdk import SessionStore
from pydantic import SecretStr

from threadline import settings as settings_groups
from threadline.db.values import agent_pool
from threadline.errors import Permanent, Transient
from threadline.forge import locks
from threadline.investigator.activities import LiveAgentActivities
from threadline.investigator.case_reader import AgentReader
from threadline.investigator.logs import Loki
from threadline.investigator.ports import CaseRecords
from threadline.investigator.queries import ReadOnlyQueries
from threadline.investigator.runner import Investigator, InvestigatorConfig
from threadline.investigator.session_store import PostgresSessionStore
from threadline.investigator.store import AgentTurns, Claim
from threadline.investigator.workspace import Workspaces
from threadline.settings import AgentSettings, PayloadSettings, RepositorySettings, Section

SWEEP = 3600.0
"""Seconds between two looks for workspaces that nobody needs."""

_PR_SET_DUMPABLE = 4
_READ_HERE = (AgentSettings, RepositorySettings, PayloadSettings)
"""The groups that this process reads: their secrets are its own."""


def _holds_secret(kind: Any) -> bool:
    """Whether a setting of this type is a secret: a `SecretStr`, or a dataclass with one or with a field kept from its
    `repr`, alone or inside another type."""
    if isinstance(kind, type) and is_dataclass(kind):
        hidden = any(not field.repr for field in fields(kind))
        return hidden or any(map(_holds_secret, get_type_hints(kind).values()))
    return kind is SecretStr or any(map(_holds_secret, get_args(kind)))


def _secrets(groups: Iterable[type[Section]]) -> frozenset[str]:
    """The variables of the groups' secret settings."""
    return frozenset(
        str(field.validation_alias or f"{group.model_config.get('env_prefix', '')}{name}").upper()
        for group in groups
        for name, field in group.model_fields.items()
        if _holds_secret(field.annotation)
    )


_GROUPS: list[type[Section]] = [vars(settings_groups)[name] for name in settings_groups.__all__]
REFUSED_SECRETS = _secrets(_GROUPS) - _secrets(_READ_HERE)
"""Derived from the settings, so that a secret setting that is added is refused without a change here."""
_HIDDEN_SECRETS = (
    _secrets(_GROUPS) | {"TEMPORAL_API_KEY", "TEMPORAL_TLS_CLIENT_KEY_DATA"} | {"THREADLINE_REPO"}  # holds logins
)

_log = structlog.get_logger(__name__)


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
        alone: this is the agents' own process, whose secrets are hidden once they are read.

    Raises:
        Permanent: a login could do more than it may.
    """
    url = settings.database_url.get_secret_value()
    async with AsyncExitStack() as opened:
        await opened.enter_async_context(_own_temporary_folder(repository.workspace_root))
        pool = await opened.enter_async_context(agent_pool(url, size=settings.slots + 2))
        session = await opened.enter_async_context(aiohttp.ClientSession())
        queries = None
        if settings.query_databases:
            sources = {name: dsn.get_secret_value() for name, dsn in settings.query_databases.items()}
            queries = ReadOnlyQueries(sources, views=settings.query_views, own=[url])
            await queries.check()
        config = InvestigatorConfig(settings.model, settings.api_key.get_secret_value(), settings.base_url)
        if alone:
            hide_secrets()
        turns, workspaces = AgentTurns(pool), Workspaces(repository.workspace_root, repository.repo)
        await opened.enter_async_context(sweeping(workspaces, turns))
        yield LiveAgentActivities(
            turns,
            CaseAccess(pool, url),
            workspaces,
            Investigator(config),
            queries,
            Loki(session, settings.loki_url, settings.loki_selector) if settings.loki_url else None,
        )


def refuse_secrets() -> None:
    """Raises `Permanent` when the environment holds a secret that the agents' process must not have."""
    if found := sorted(name for name, value in os.environ.items() if value and name.upper() in REFUSED_SECRETS):
        raise Permanent(
            f"{', '.join(found)} must not be set for `worker --queue agents`: an agent that reads strangers' text runs "
            "there. Start it with an environment of its own."
        )


def hide_secrets() -> None:
    """From now on neither this process's environment nor its memory shows them to another process of the same user."""
    for name in [name for name in os.environ if name.upper() in _HIDDEN_SECRETS]:
        del os.environ[name]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


@asynccontextmanager
async def _own_temporary_folder(root: Path) -> AsyncIterator[None]:
    """Have the agent's files made under a folder of this worker; those of workers that were killed go at its start."""
    shelf = root / "tmp"
    shelf.mkdir(parents=True, exist_ok=True)
    for lock in shelf.glob("*.lock"):
        with contextlib.suppress(Transient):  # its worker lives
            async with locks.held(lock, wait=0, busy="in use"):
                shutil.rmtree(lock.with_suffix(""), ignore_errors=True)
                lock.unlink(missing_ok=True)
    folder = shelf / uuid.uuid4().hex
    before = tempfile.tempdir
    async with locks.held(folder.with_suffix(".lock"), wait=0, busy="in use"):
        folder.mkdir()
        tempfile.tempdir = str(folder)
        try:
            yield
        finally:
            tempfile.tempdir = before
            shutil.rmtree(folder, ignore_errors=True)
            folder.with_suffix(".lock").unlink(missing_ok=True)


@asynccontextmanager
async def sweeping(workspaces: Workspaces, turns: AgentTurns) -> AsyncIterator[None]:
    """Remove what ended cases left on this machine, at the start and every hour: their cleanup ran on another one."""

    async def sweep() -> None:
        while True:
            try:
                if swept := await workspaces.sweep(await turns.open_cases()):
                    _log.info("workspaces_swept", cases=swept)
            except (Permanent, Transient, OSError) as error:
                _log.warning("workspace_sweep_failed", reason=str(error))
            await asyncio.sleep(SWEEP)

    task = asyncio.create_task(sweep())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
