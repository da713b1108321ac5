"""The gateway's process: receives Slack's events, and signals workflows. It also notifies the
admin when there is no core worker.
"""

import asyncio
from functools import partial

import structlog

from threadline import telemetry
from threadline.conversations.model.listening import Listening
from threadline.db.engine import Database
from threadline.errors import Permanent, Transient
from threadline.gateway.catch_up import CatchUpRequester
from threadline.gateway.mention_hints import MentionHints
from threadline.gateway.router import TEMPORAL_RETRIES, EventRouter, ThreadLookup
from threadline.gateway.routes import RoutingConfig
from threadline.gateway.server import GatewayConfig, GatewayServer
from threadline.settings import (
    ChannelSettings,
    DatabaseSettings,
    LogSettings,
    QueueSettings,
    SlackSettings,
)
from threadline.slack.client import BotIdentity, SlackClient, identify, open_web_client
from threadline.slack.history import History
from threadline.slack.model import BOT_NAME
from threadline.slack.users import UserDirectory
from threadline.threads.activity import repeating
from threadline.threads.authors import AuthorPolicy
from threadline.threads.faults import InstallationFaults
from threadline.threads.model import CORE_QUEUE
from threadline.threads.outbox import Outbox
from threadline.threads.queues import LOOK_EVERY, QueueWatch, is_served
from threadline.wiring.probes import database_answers, temporal_answers
from threadline.wiring.temporal import temporal_client

_START_CORE = (
    "No worker serves the core queue, so messages are kept and not answered: start "
    "`threadline worker --queue core`. It then answers all of them."
)
_log = structlog.stdlib.get_logger(__name__)


def routing_config(channels: ChannelSettings, identity: BotIdentity) -> RoutingConfig:
    """Return the router's configuration, for the gateway and the catch-up alike."""
    return RoutingConfig(
        reports_channel=channels.reports_channel,
        summaries_channel=channels.summaries_channel,
        escalation_channel=channels.escalation_channel,
        bot_user_id=identity.user_id,
        bot_name=identity.name or BOT_NAME,
        bot_id=identity.bot_id,
        team=identity.team_id,
        enterprise=identity.enterprise_id,
        external_people=frozenset(channels.external_people),
        allowed_apps=frozenset(channels.allowed_apps),
        listening=Listening(channels.listen, channels.listen_channels),
    )


async def check_user_lookup(users: UserDirectory, bot_user_id: str) -> None:
    """Look a user up at the start: without the scope for it, every single event would be refused.

    Raises:
        Permanent: the bot token lacks the scope.
    """
    try:
        await users.get(bot_user_id)
    except Transient as error:
        _log.warning(
            "user_lookup_failed", reason=str(error), next="Each event repeats the lookup."
        )


async def run_gateway(address: tuple[str, int] | None, stop: asyncio.Event) -> None:
    """Serve until `stop`: by Socket Mode when there is an app token, else by HTTP. Both serve the
    probes.

    Args:
        address: host and port to listen at; None for any port of this machine.

    Raises:
        Permanent: a setting is missing or wrong.
        Transient: Slack cannot be reached to identify the bot.
    """
    level = LogSettings.load().log_level
    telemetry.configure_logging(level)
    slack = SlackSettings.load()
    channels = ChannelSettings.load()
    stored = DatabaseSettings.load()
    config = _config(address, slack)
    queues = QueueSettings.load()
    database = Database(
        stored.url.get_secret_value(), pool_size=4, application="threadline-gateway"
    )
    runtime = telemetry.temporal_runtime(level)
    temporal = await temporal_client(retry_config=TEMPORAL_RETRIES, stop=stop, runtime=runtime)
    try:
        async with (
            database,
            open_web_client(slack.bot_token.get_secret_value(), slack.api_url) as client,
        ):
            identity = await identify(client)
            calls = SlackClient(client)
            users = UserDirectory(calls.user)
            await check_user_lookup(users, identity.user_id)
            authors = AuthorPolicy(
                users, channels.external_people, channels.allowed_apps, identity.enterprise_id
            )
            requester = CatchUpRequester(temporal, channels.watched)
            routing = routing_config(channels, identity)
            threads = ThreadLookup(database)
            router = EventRouter(routing, temporal, threads, authors, calls.open_view)
            probes = {
                "temporal": temporal_answers(temporal),
                "database": database_answers(database),
            }
            faults = InstallationFaults(database, Outbox(calls, database), channels.admin)
            has_worker = partial(is_served, temporal)
            watch = QueueWatch(CORE_QUEUE, has_worker, faults, queues.worker_patience, _START_CORE)
            mentions = MentionHints(identity.team_id, History(calls), threads, router.handle)
            async with repeating(watch.look, LOOK_EVERY):
                await GatewayServer(config, router, client, probes, requester, mentions).run(stop)
    finally:
        await telemetry.flush_callbacks()


def _config(address: tuple[str, int] | None, slack: SlackSettings) -> GatewayConfig:
    signing_secret = slack.signing_secret.get_secret_value() if slack.signing_secret else ""
    app_token = slack.app_token.get_secret_value() if slack.app_token else ""
    if not (address or app_token.strip()):
        raise Permanent(
            "SLACK_APP_TOKEN is not set: set it for Socket Mode, or serve events with --http "
            "HOST:PORT"
        )
    host, port = address or ("127.0.0.1", 0)
    return GatewayConfig(signing_secret, app_token, host, port)
