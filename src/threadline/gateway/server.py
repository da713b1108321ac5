"""GatewayServer: Slack's events by Socket Mode or by signed HTTP, each acknowledged after Temporal
has accepted it.
"""

import asyncio
import hashlib
import hmac
import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs

import structlog
from aiohttp import ClientError, WSMessage, web
from slack_sdk.errors import SlackApiError
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.socket_mode.async_client import AsyncBaseSocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.socket_mode.response import SocketModeResponse
from slack_sdk.web.async_client import AsyncWebClient

from threadline import http_server
from threadline.errors import Permanent
from threadline.gateway.catch_up import CatchUpRequester
from threadline.gateway.interactions import BLOCK_ACTIONS, VIEW_SUBMISSION
from threadline.gateway.mention_hints import MentionHints
from threadline.gateway.router import EventRouter, NotAccepted
from threadline.gateway.routes import IgnoreReason
from threadline.http_server import BrokenBody, Probe, RareLog
from threadline.slack.fields import string_field
from threadline.threads.activity import until_stopped

DRAIN_TIMEOUT = 5.0
"""Seconds for the events in flight when the gateway stops. Slack redelivers the unacknowledged
ones.
"""
HEARTBEAT = 10.0
"""Seconds between checks of the socket. A dead socket is noticed after at most four checks."""
MAX_BODY = 1024 * 1024
"""Maximum bytes of a request. A longer one is refused unread: Slack's own events are a few dozen
kB at most.
"""
SIGNATURE_WINDOW = 300
"""Seconds by which the time of a signed request may differ from ours."""
_FORM = "application/x-www-form-urlencoded"
_MAX_FIELDS = 100
"""Maximum fields of a form; Slack's slash commands have about fifteen."""
_PERSISTENT_REASONS = ("link_disabled", "too_many_websockets")
"""Reasons for a disconnect after which reconnecting does not help: Socket Mode was switched off,
or other gateways hold all connections.
"""
_SLACK_FAULTS = (None, "internal_error", "fatal_error", "service_unavailable", "request_timeout")
"""Errors of Slack itself; None is an answer that is no JSON."""

_UNSIGNED_HINT = (
    "wrong_secret: compare SLACK_SIGNING_SECRET with the app's. stale_timestamp: synchronise "
    "this machine's clock. not_signed: the request does not come from Slack."
)

_log = structlog.stdlib.get_logger(__name__)


@dataclass(frozen=True)
class GatewayConfig:
    """The gateway's connection to Slack: Socket Mode with an `app_token`, else HTTP, which needs
    the `signing_secret`. In both cases the probes are served at `host` and `port`. Port 0 takes
    any free port.
    """

    signing_secret: str = ""
    app_token: str = ""
    host: str = "127.0.0.1"
    port: int = 3000


class GatewayServer:
    """Receives Slack's events and passes them to the router.

    Args:
        slack: opens the socket.
        probes: checked by `/readyz`.
        catch_up: notified of each connection to Slack and of the events that Temporal accepts.
        mentions: notified of mentions.
    """

    def __init__(
        self,
        config: GatewayConfig,
        router: EventRouter,
        slack: AsyncWebClient,
        probes: Mapping[str, Probe],
        catch_up: CatchUpRequester,
        mentions: MentionHints | None = None,
    ) -> None:
        self._config = config
        self._slack = slack
        self._probes = probes
        self._catch_up = catch_up
        self._mentions = mentions
        self._events = InFlightEvents(router, catch_up, mentions)
        self._unsigned = RareLog("signatures_refused", _UNSIGNED_HINT)
        self._broken = RareLog(
            "requests_broken", "Nothing to do, unless Slack's own requests are among them."
        )
        self._socket: SocketModeConnection | None = None

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set, then refuse new events and finish those in flight within five
        seconds.

        Raises:
            Permanent: a token or secret is missing or refused, or the port is taken.
        """
        config = self._config
        socket_mode = bool(config.app_token.strip())
        if not (socket_mode or config.signing_secret.strip()):
            raise Permanent(
                "HTTP events need a signing secret: set SLACK_SIGNING_SECRET, or "
                "SLACK_APP_TOKEN instead"
            )
        async with AsyncExitStack() as opened:
            opened.push_async_callback(self._catch_up.close)
            if self._mentions:
                opened.push_async_callback(self._mentions.close)
            opened.callback(self._unsigned.close)
            app = web.Application(client_max_size=MAX_BODY)
            app.add_routes(
                [web.get("/healthz", http_server.healthz), web.get("/readyz", self._readyz)]
            )
            if socket_mode:
                self._socket = SocketModeConnection(
                    self._events, config.app_token, self._slack, self._catch_up
                )
                opened.push_async_callback(self._socket.close)
            else:
                app.add_routes(
                    [
                        web.post(path, self._answer)
                        for path in ("/slack/events", "/slack/interactions")
                    ]
                )
            listening = http_server.listening(
                app, config.host, config.port, self._broken, "--http"
            )
            port = await opened.enter_async_context(listening)
            if self._socket:
                await until_stopped(stop, self._socket.connect())
            else:
                self._catch_up.on_connected()
            if not stop.is_set():
                _log.info("gateway_ready", mode="socket" if socket_mode else "http", port=port)
            await stop.wait()
            await self._events.drain(DRAIN_TIMEOUT)
        _log.info("gateway_stopped", counts=dict(self._events.counts))

    async def _answer(self, request: web.Request) -> web.Response:
        """Answer Slack: 401 without a valid signature, 400 for a body that is no JSON object, else
        as `InFlightEvents.handle`. An unsigned request is not parsed, and only counted in the log:
        anybody can send it.
        """
        try:
            raw = await http_server.read_body(request)
        except BrokenBody as broken:
            self._events.counts["broken"] += 1
            self._broken.note(broken.reason, request.remote)
            return http_server.closing(broken.status)
        if fault := signature_fault(self._config.signing_secret, raw, request.headers):
            self._events.counts["unsigned"] += 1
            self._unsigned.note(fault, request.remote)
            return web.Response(status=HTTPStatus.UNAUTHORIZED)
        body = parse_body(raw, request.content_type)
        if body is None:
            self._events.counts["malformed"] += 1
            return web.Response(status=HTTPStatus.BAD_REQUEST)
        if body.get("type") == "url_verification":
            return web.json_response({"challenge": string_field(body, "challenge")})
        with self._events.track():
            return web.Response(status=await self._events.handle(body))

    async def _readyz(self, _: web.Request) -> web.Response:
        """Report for each of the gateway's dependencies whether it is available. A draining
        gateway is not ready.
        """
        events = self._events
        parts = await http_server.ask_probes(self._probes)
        if self._socket:
            parts["socket"] = await self._socket.is_connected()
        parts["taking_events"] = not events.draining
        return http_server.readiness(parts, in_flight=events.in_flight, counts=dict(events.counts))


class InFlightEvents:
    """Passes events to the router until it is drained, counts their outcomes, and tracks the
    number in flight. Notifies `catch_up` whether Temporal accepts them, and `mentions` of
    mentions.
    """

    def __init__(
        self, router: EventRouter, catch_up: CatchUpRequester, mentions: MentionHints | None = None
    ) -> None:
        self._router = router
        self._catch_up = catch_up
        self._mentions = mentions
        self._landed = asyncio.Event()
        self._landed.set()
        self.in_flight = 0
        self.draining = False
        self.counts: Counter[str] = Counter()

    async def handle(self, body: Mapping[str, Any]) -> HTTPStatus:
        """Handle a delivery from Slack, or any other JSON object. Only `OK` is an acknowledgement.
        Any other status makes Slack redeliver an event, and show an error to the person who
        pressed a button.
        """
        if body.get("type") not in ("event_callback", BLOCK_ACTIONS, VIEW_SUBMISSION):
            # A closed modal, a slash command, or Slack's rate limit for events.
            kind = string_field(body, "type")[:40] or (
                "slash_command" if "command" in body else "unknown"
            )
            self.counts[f"unhandled_{kind}"] += 1
            if kind == "app_rate_limited":
                hint = "The catch-up finds the missed events."
                _log.error("slack_rate_limited_events", limit_per_hour=30_000, next=hint)
            else:
                _log.info("unhandled_interaction", kind=kind)
            return HTTPStatus.OK
        if self.draining:
            return HTTPStatus.SERVICE_UNAVAILABLE
        try:
            handled = await self._router.handle(body)
        except NotAccepted as refused:
            self.counts["not_accepted"] += 1
            self._catch_up.on_rejected()
            _log.error("event_not_accepted", reason=str(refused), error=repr(refused.__cause__))
            return HTTPStatus.INTERNAL_SERVER_ERROR
        self.counts[handled.outcome] += 1
        if handled.outcome == IgnoreReason.MENTION and self._mentions:
            self._mentions.accept(body)
        if handled.signalled:  # an ignored event does not show whether Temporal answers
            self._catch_up.on_accepted()
        _log.debug("event_handled", outcome=handled.outcome)
        return HTTPStatus.OK

    @contextmanager
    def track(self) -> Iterator[None]:
        """Count an event as in flight from its arrival until its answer is sent."""
        self.in_flight += 1
        self._landed.clear()
        try:
            yield
        finally:
            self.in_flight -= 1
            if not self.in_flight:
                self._landed.set()

    async def drain(self, timeout: float) -> None:
        """Refuse new events, and wait at most `timeout` seconds for those in flight. Slack
        redelivers the rest.
        """
        self.draining = True
        try:
            async with asyncio.timeout(timeout):
                await self._landed.wait()
        except TimeoutError:
            _log.warning("drain_incomplete", in_flight=self.in_flight)


# ---- HTTP


def signature_fault(secret: str, body: bytes, headers: Mapping[str, str]) -> str:
    """Return the stable name of the reason why a request is not validly signed by Slack within the
    last five minutes; empty if it is. Rule:
    https://docs.slack.dev/authentication/verifying-requests-from-slack
    """
    timestamp = headers.get("X-Slack-Request-Timestamp", "")
    signature = headers.get("X-Slack-Signature", "").encode("utf-8", "surrogateescape")
    if not (timestamp and signature):
        return "not_signed"
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 15):
        return "unreadable_timestamp"
    if abs(time.time() - int(timestamp)) > SIGNATURE_WINDOW:
        return "stale_timestamp"
    digest = hmac.new(
        secret.encode(), b"v0:%s:%s" % (timestamp.encode(), body), hashlib.sha256
    ).hexdigest()
    if not hmac.compare_digest(f"v0={digest}".encode(), signature):
        return "wrong_secret"
    return ""


def parse_body(raw: bytes, content_type: str) -> Mapping[str, Any] | None:
    """Return the JSON object of a request; None if there is none. Events are JSON, interactions
    are JSON in the form field `payload`, and a slash command is a form.
    """
    try:
        text = raw.decode()
        if content_type == _FORM:
            form = parse_qs(text, keep_blank_values=True, max_num_fields=_MAX_FIELDS)
            if "payload" not in form:
                return (
                    {name: values[0] for name, values in form.items()}
                    if "command" in form
                    else None
                )
            text = form["payload"][0]
        body = json.loads(text)
    except (ValueError, RecursionError):  # also a number with more digits than Python reads
        return None
    return body if isinstance(body, dict) else None


# ---- Socket Mode


class SocketModeConnection:
    """One WebSocket to Slack that reconnects by itself:
    https://docs.slack.dev/apis/events-api/using-socket-mode. An event is acknowledged only when
    `InFlightEvents` answers `OK`, so Slack redelivers any other.
    """

    def __init__(
        self,
        events: InFlightEvents,
        app_token: str,
        slack: AsyncWebClient,
        catch_up: CatchUpRequester,
        heartbeat: float = HEARTBEAT,
    ) -> None:
        self._events = events
        self._catch_up = catch_up
        self._heartbeat = heartbeat
        self._renewal: asyncio.Task[None] | None = None
        self._client = SocketModeClient(app_token, web_client=slack, ping_interval=heartbeat)
        self._client.socket_mode_request_listeners.append(self._on_request)
        self._client.on_message_listeners.append(self._on_message)

    async def connect(self) -> None:
        """Connect. While Slack cannot be reached, the client keeps trying. Raises `Permanent` if
        Slack refuses the app-level token.
        """
        try:
            self._client.wss_uri = await self._client.issue_new_wss_url()
        except SlackApiError as exc:
            error = exc.response.get("error")
            if error not in _SLACK_FAULTS:
                raise Permanent(
                    f"Slack refuses to open a socket ({error}): set SLACK_APP_TOKEN to an "
                    "app-level token (xapp-…) with the scope connections:write, and switch "
                    "Socket Mode on in the app's settings"
                ) from exc
            _log.warning("socket_url_unavailable", error=error, next="The client retries.")
        except (ClientError, TimeoutError, OSError) as exc:
            _log.warning(
                "socket_url_unavailable", error=type(exc).__name__, next="The client retries."
            )
        self._renewal = asyncio.create_task(self._renew_stale_address())
        await self._client.connect()  # type: ignore[no-untyped-call]

    async def close(self) -> None:
        if self._renewal:
            self._renewal.cancel()
        await self._client.close()  # type: ignore[no-untyped-call]

    async def is_connected(self) -> bool:
        return await self._client.is_connected()

    async def _on_request(
        self, client: AsyncBaseSocketModeClient, request: SocketModeRequest
    ) -> None:
        with self._events.track():
            if await self._events.handle(request.payload) is HTTPStatus.OK:
                await client.send_socket_mode_response(SocketModeResponse(request.envelope_id))

    async def _on_message(self, message: WSMessage) -> None:
        """Request a catch-up at the hello of each new connection, since Slack has dropped events
        that it could not deliver before. Log each disconnect, as an error where reconnecting does
        not help.
        """
        text = message.data
        if not isinstance(text, str) or not ('"hello"' in text or '"disconnect"' in text):
            return
        envelope = json.loads(text)
        if envelope.get("type") == "hello":
            self._catch_up.on_connected()
        elif envelope.get("type") == "disconnect":
            reason = envelope.get("reason", "unknown")
            (_log.error if reason in _PERSISTENT_REASONS else _log.info)(
                "socket_disconnect", reason=reason
            )

    async def _renew_stale_address(self) -> None:
        """Discard the address of a failed connection: an address is good for one use, but the
        client would try the same one for ever.
        """
        while True:
            await asyncio.sleep(self._heartbeat)
            if await self._client.is_connected():
                self._catch_up.on_heartbeat()
            else:
                _log.error("socket_disconnected", next="The client requests a new URL from Slack.")
                self._client.wss_uri = None
