"""The Socket Mode side: one WebSocket to Slack that comes back by itself."""

import asyncio
import json

import structlog
from aiohttp import ClientError, WSMessage
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_sdk.errors import SlackApiError
from slack_sdk.socket_mode.async_client import AsyncBaseSocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.web.async_client import AsyncWebClient

from threadline.errors import Permanent
from threadline.gateway.catch_up import CatchUpRequests
from threadline.gateway.intake import Intake

_ALARMS = ("link_disabled", "too_many_websockets")
"""Reasons that a new connection does not cure: Socket Mode was switched off, or others hold all the places."""

_FAULTS = (None, "internal_error", "fatal_error", "service_unavailable", "request_timeout")
"""What Slack says when the fault is its own; None is an answer that is not even JSON."""

HEARTBEAT = 10.0
"""Seconds between looks at the connection; a dead one is noticed after at most four."""

_log = structlog.stdlib.get_logger(__name__)


class SocketModeLink(AsyncSocketModeHandler):
    """Bolt's handler, which also counts what is in flight, tells why Slack disconnects, and renews a dead address.

    An event is acknowledged on the socket only when Bolt answers 200, so what is refused is delivered again.
    """

    def __init__(
        self,
        bolt: AsyncApp,
        intake: Intake,
        app_token: str,
        web: AsyncWebClient,
        *,
        heartbeat: float = HEARTBEAT,
        catch_up: CatchUpRequests | None = None,
    ) -> None:
        super().__init__(bolt, app_token, web_client=web, ping_interval=heartbeat)
        self._intake = intake
        self._heartbeat = heartbeat
        self._renewal: asyncio.Task[None] | None = None
        self._catch_up = catch_up
        self.client.on_message_listeners += [_tell_why, self._greet]

    async def handle(self, client: AsyncBaseSocketModeClient, req: SocketModeRequest) -> None:
        with self._intake.flight():
            await super().handle(client, req)  # type: ignore[arg-type]

    async def connect_async(self) -> None:
        """Connect; while Slack cannot be reached this goes on trying.

        Raises:
            Permanent: Slack refuses the app-level token.
        """
        try:
            self.client.wss_uri = await self.client.issue_new_wss_url()
        except SlackApiError as exc:
            error = exc.response.get("error")
            if error not in _FAULTS:
                raise Permanent(
                    f"Slack refuses to open a socket ({error}): set SLACK_APP_TOKEN to an app-level token (xapp-…) "
                    "with the scope connections:write, and switch Socket Mode on in the app's settings"
                ) from exc
            _log.warning("socket_url_unavailable", error=error, next="The client retries.")
        except (ClientError, TimeoutError, OSError) as exc:
            _log.warning("socket_url_unavailable", error=type(exc).__name__, next="The client retries.")
        self._renewal = asyncio.create_task(self._renew_stale_address())
        await self.client.connect()  # type: ignore[no-untyped-call]

    async def close_async(self) -> None:
        if self._renewal:
            self._renewal.cancel()
        await super().close_async()  # type: ignore[no-untyped-call]

    async def is_connected(self) -> bool:
        return bool(await self.client.is_connected())

    async def _greet(self, message: WSMessage) -> None:
        """Slack says hello over each new connection; what it gave up on before nobody will deliver."""
        text = message.data
        if self._catch_up and isinstance(text, str) and '"hello"' in text and json.loads(text).get("type") == "hello":
            self._catch_up.connected()

    async def _renew_stale_address(self) -> None:
        """An address is good for one use, but after a failed connection the client would try the same one for ever."""
        while True:
            await asyncio.sleep(self._heartbeat)
            if await self.client.is_connected():
                if self._catch_up:
                    self._catch_up.in_touch()
            else:
                _log.error("socket_disconnected", next="The client requests a new URL from Slack.")
                self.client.wss_uri = None


async def _tell_why(message: WSMessage) -> None:
    text = message.data
    if '"disconnect"' not in text:
        return
    envelope = json.loads(text)
    if envelope.get("type") == "disconnect":
        reason = envelope.get("reason", "unknown")
        (_log.error if reason in _ALARMS else _log.info)("socket_disconnect", reason=reason)
