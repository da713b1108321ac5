"""The gateway's process: it learns who the bot is, opens Slack's way in, and drains when it is told to stop."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal

import structlog
from aiohttp import ClientError, web
from slack_bolt.authorization import AuthorizeResult
from slack_sdk.errors import SlackApiError
from slack_sdk.signature import SignatureVerifier
from slack_sdk.web.async_client import AsyncWebClient
from temporalio.client import Client
from temporalio.service import RPCError

from threadline.errors import Permanent, Transient
from threadline.gateway.catch_up import CatchUpRequests
from threadline.gateway.dispatcher import Dispatcher
from threadline.gateway.intake import Intake, bolt_app
from threadline.gateway.routes import RoutingConfig
from threadline.gateway.socket_mode import SocketModeLink
from threadline.gateway.thread_resolver import ThreadLookup
from threadline.gateway.web import Probe, SlackRequests, application
from threadline.slack.users import UserDirectory
from threadline.threads.authors import AuthorPolicy

DRAIN = 5.0
"""Seconds that events on their way are given when the gateway stops; what is not acknowledged then comes again."""

_LAST_WORDS = 1.0
"""Seconds for answers to leave once nothing is on its way any more."""

_PROBE = 1.0
"""Seconds in which Temporal has to say that it is well. The client's own timeout does not cover connecting."""

_REFUSALS = (
    "account_inactive",
    "invalid_auth",
    "not_allowed_token_type",
    "not_authed",
    "token_expired",
    "token_revoked",
)
"""What Slack says of a token that will not get better by itself: https://docs.slack.dev/reference/methods/auth.test"""

_log = structlog.stdlib.get_logger(__name__)


@dataclass(frozen=True)
class GatewayConfig:
    """How Slack reaches the gateway, and which channels count.

    `mode` is `socket` (needs `app_token`) or `http` (needs `signing_secret`); the probes are served in both. Port 0
    takes any that is free. `external_people` are the channels in which people of other companies and guests count.
    """

    mode: Literal["socket", "http"]
    reports_channel: str
    summaries_channel: str
    escalation_channel: str = ""
    signing_secret: str = ""
    app_token: str = ""
    host: str = "127.0.0.1"
    port: int = 3000
    external_people: tuple[str, ...] = ()


class Gateway:
    """Slack's events in, signals out.

    Args:
        config: the way in and the channels.
        slack: a client with the bot token, and the base URL where Slack is.
        temporal: see `Dispatcher`.
        threads: see `Dispatcher`.
        catch_up: told of each connection to Slack; None for a gateway that asks for no catch-up.
        users: says who somebody is; None for a gateway in whose channels everybody counts.
    """

    def __init__(
        self,
        config: GatewayConfig,
        slack: AsyncWebClient,
        temporal: Client,
        threads: ThreadLookup,
        catch_up: CatchUpRequests | None = None,
        *,
        users: UserDirectory | None = None,
    ) -> None:
        self._catch_up = catch_up
        self._users = users
        self._config = config
        self._slack = slack
        self._temporal = temporal
        self._threads = threads

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set, then take nothing new and finish what is on its way within five seconds.

        Raises:
            Permanent: a token or secret is missing or refused, or does not permit to ask who somebody is.
            Transient: Slack cannot be reached to ask who the bot is.
        """
        self._check()
        identity = await identify(self._slack)
        dispatcher = Dispatcher(self._temporal, self._threads, await self._author_policy(identity))
        intake = Intake(self._routing(identity), dispatcher, self._catch_up)
        bolt = bolt_app(intake, identity, self._slack)
        async with AsyncExitStack() as opened:
            if self._catch_up:
                opened.push_async_callback(self._catch_up.close)
            link, requests = None, None
            if self._config.mode == "socket":
                link = SocketModeLink(bolt, intake, self._config.app_token, self._slack, catch_up=self._catch_up)
                opened.push_async_callback(link.close_async)
            else:
                requests = SlackRequests(bolt, intake, SignatureVerifier(self._config.signing_secret))
            served = application(self._probe(link), intake, requests)
            port = await opened.enter_async_context(_listening(served, self._config.host, self._config.port))
            if link:
                await _unless(stop, link.connect_async())
            elif self._catch_up:
                self._catch_up.connected()
            if not stop.is_set():
                _log.info("gateway_ready", mode=self._config.mode, port=port)
            await stop.wait()
            await intake.drain(DRAIN)
        _log.info("gateway_stopped", counts=dict(intake.counts))

    def _check(self) -> None:
        if self._config.mode == "socket" and not self._config.app_token.strip():
            raise Permanent("Socket Mode needs an app-level token: set SLACK_APP_TOKEN, or receive events by HTTP")
        if self._config.mode == "http" and not self._config.signing_secret.strip():
            raise Permanent("HTTP events need a signing secret: set SLACK_SIGNING_SECRET, or use Socket Mode")

    async def _author_policy(self, identity: AuthorizeResult) -> AuthorPolicy | None:
        """Looks the bot up first: without the right to do so, every event would be refused, one by one."""
        if self._users is None:
            return None
        try:
            await self._users.get(identity.bot_user_id or "")
        except Transient as error:
            _log.warning("user_lookup_failed", reason=str(error), next="Each event repeats the lookup.")
        return AuthorPolicy(self._users, self._config.external_people)

    def _routing(self, identity: AuthorizeResult) -> RoutingConfig:
        return RoutingConfig(
            reports_channel=self._config.reports_channel,
            summaries_channel=self._config.summaries_channel,
            escalation_channel=self._config.escalation_channel,
            bot_user_id=identity.bot_user_id or "",
            bot_id=identity.bot_id or "",
            external_people=frozenset(self._config.external_people),
        )

    def _probe(self, link: SocketModeLink | None) -> Probe:
        async def probe() -> dict[str, bool]:
            parts = {"temporal": await self._reaches_temporal()}
            return {**parts, "socket": await link.is_connected()} if link else parts

        return probe

    async def _reaches_temporal(self) -> bool:
        try:
            async with asyncio.timeout(_PROBE):
                return await self._temporal.service_client.check_health()
        except (RPCError, RuntimeError, TimeoutError):
            return False


async def identify(slack: AsyncWebClient) -> AuthorizeResult:
    """Ask Slack who the bot is, so that its own posts can be told from people's."""
    try:
        told = await slack.auth_test()
    except SlackApiError as exc:
        error = exc.response.get("error")
        if error in _REFUSALS:
            raise Permanent(
                f"Slack refuses the bot token ({error}): set SLACK_BOT_TOKEN to the Bot User OAuth Token (xoxb-…) "
                "of the installed app"
            ) from exc
        raise Transient(f"Slack did not identify the bot ({error}); see https://slack-status.com") from exc
    except (ClientError, TimeoutError, OSError) as exc:
        raise Transient(f"Slack cannot be reached at {slack.base_url}: check this machine's network access") from exc
    if not told.get("bot_id"):
        raise Permanent(
            "SLACK_BOT_TOKEN is not a bot token: set the Bot User OAuth Token (xoxb-…) of the installed app"
        )
    return AuthorizeResult(
        enterprise_id=told.get("enterprise_id"),
        team_id=told.get("team_id"),
        bot_user_id=told.get("user_id"),
        bot_id=told.get("bot_id"),
    )


@asynccontextmanager
async def _listening(app: web.Application, host: str, port: int) -> AsyncIterator[int]:
    """Serve, and give the port that was taken."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=_LAST_WORDS)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        try:
            await site.start()
        except (OSError, OverflowError) as error:
            raise Permanent(f"The gateway cannot listen at {host}:{port}: {error}. Choose another --http.") from error
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


async def _unless(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> None:
    """Do the work, or leave it when the process is told to stop first."""
    task, stopped = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
    finally:
        task.cancel()
        stopped.cancel()
