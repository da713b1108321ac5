"""The core worker's settings and connections, shared by the builders of its features."""

import asyncio
import time
import tomllib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import structlog
from temporalio.client import Client

from threadline.cases.model import CaseReaders, Service
from threadline.cases.posts import CaseChannels
from threadline.cases.store.case import CaseStore
from threadline.conversations.model.listening import DEFAULT_LISTENING, Listening
from threadline.db import migrate
from threadline.db.engine import Database
from threadline.errors import Permanent
from threadline.gateway.router import EventRouter, ThreadLookup
from threadline.slack.client import BotIdentity, SlackClient, identify, open_web_client
from threadline.slack.history import History
from threadline.slack.users import UserDirectory
from threadline.threads.alerts import FailureAlerts
from threadline.threads.authors import AuthorPolicy
from threadline.threads.faults import InstallationFaults
from threadline.threads.installation_store import InstallationStore, RestoreWindow
from threadline.threads.lost_posts import LostPosts
from threadline.threads.model import format_utc
from threadline.threads.outbox import Outbox
from threadline.threads.workflow_client import WorkflowClient
from threadline.wiring.core_settings import CoreSettings
from threadline.wiring.gateway import routing_config
from threadline.wiring.temporal import (
    namespace_id,
)

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class CoreDeps:
    """Connections and shared objects for the builders below."""

    database: Database
    temporal: Client
    slack: SlackClient
    history: History
    users: UserDirectory
    authors: AuthorPolicy
    outbox: Outbox
    router: EventRouter
    case_channels: CaseChannels
    identity: BotIdentity
    admin_channel: str
    reports_channel: str
    listening: Listening = DEFAULT_LISTENING

    @cached_property
    def workflows(self) -> WorkflowClient:
        return WorkflowClient(self.temporal)

    @property
    def readers(self) -> CaseReaders:
        """Rules on who may see which part of a case."""
        return CaseReaders(
            {self.case_channels.summaries, self.case_channels.escalations}, self.identity.url
        )

    @cached_property
    def alerts(self) -> FailureAlerts:
        """Reports activities that keep failing to the admin."""
        return FailureAlerts(self.outbox, self.admin_channel)

    @cached_property
    def faults(self) -> InstallationFaults:
        """Reports faults of the installation to the admin."""
        return InstallationFaults(self.database, self.outbox, self.admin_channel)


@asynccontextmanager
async def connect_core(settings: CoreSettings, client: Client) -> AsyncIterator[CoreDeps]:
    """Open the core worker's connections.

    Raises:
        Permanent: the database has another schema, or Slack does not accept the bot.
    """
    stored = settings.stored.url.get_secret_value()
    if not await asyncio.to_thread(migrate.is_current, stored):
        raise Permanent(
            "The database schema does not match this code: run `threadline db upgrade`."
        )
    async with Database(stored, pool_size=20, application="threadline-core") as database:
        await _store_services(database, settings.case.services)
        window = await _restore_window(database, await namespace_id(client))
        async with open_web_client(
            settings.slack.bot_token.get_secret_value(), settings.slack.api_url
        ) as web:
            slack = SlackClient(web)
            identity = await identify(web)
            users = UserDirectory(slack.user)
            channels = settings.channels
            authors = AuthorPolicy(
                users, channels.external_people, channels.allowed_apps, identity.enterprise_id
            )
            yield CoreDeps(
                database,
                client,
                slack,
                History(slack),
                users,
                authors,
                Outbox(slack, database, lost=LostPosts(slack, window)),
                EventRouter(
                    routing_config(settings.channels, identity),
                    client,
                    ThreadLookup(database),
                    authors,
                ),
                CaseChannels(
                    team=identity.team_id,
                    bot_user=identity.user_id,
                    summaries=settings.channels.summaries_channel,
                    escalations=settings.channels.escalation,
                    tiers=settings.case.oncall,
                    targets=settings.case.sla,
                    workspace=identity.url,
                ),
                identity,
                settings.channels.admin,
                settings.channels.reports_channel,
                Listening(
                    channels.listen,
                    channels.listen_channels,
                    settings.conversations.conversation.quiet_for,
                ),
            )


async def _restore_window(database: Database, temporal_id: str) -> RestoreWindow | None:
    """Detect a restore from a backup, and return the time that it lost; None without one."""
    now = time.time()
    async with database.begin() as tx:
        store = InstallationStore(tx)
        if await store.notice(temporal_id, now):
            await CaseStore(tx).skip_numbers()
        window = await store.restore_window(now)
    if window:
        _log.warning(
            "restore_noticed",
            lost_since=format_utc(window.lost_since),
            at=format_utc(window.noticed_at),
        )
    return window


async def _store_services(database: Database, directory: Path | None) -> None:
    """Replace the directory of services with the file's content; without a file it stays
    unchanged.
    """
    if directory is None:
        return
    try:
        listed = tomllib.loads(directory.read_text(encoding="utf-8"))["service"]
        services = [
            Service(**{"description": "", "channel": "", "repository": "", **each})
            for each in listed
        ]
    except (OSError, tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        raise Permanent(
            f"THREADLINE_SERVICES is {str(directory)!r}, which cannot be read: {error}. "
            "It must contain [[service]] tables with name, owner, and optionally description, "
            "channel and repository."
        ) from error
    async with database.begin() as tx:
        await CaseStore(tx).replace_services(services)
