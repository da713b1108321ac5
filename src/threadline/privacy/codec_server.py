"""The codec server: decrypts payloads for authorized readers of Temporal's UI and command
line. Protocol: https://docs.temporal.io/production-deployment/data-encryption
"""

import asyncio
import hashlib
import hmac
import ipaddress
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from http import HTTPStatus

import structlog
from aiohttp import web
from google.protobuf import json_format
from temporalio.api.common.v1 import Payload, Payloads

from threadline import http_server
from threadline.errors import Permanent
from threadline.http_server import BrokenBody, RareLog
from threadline.privacy.encryption import (
    DecryptionFailed,
    EncryptionCodec,
    is_encrypted,
    key_id_of,
)
from threadline.privacy.keys import KeyRing

MAX_BODY = 32 * 1024 * 1024
"""Bytes of a request: the UI sends a page of a history at once, whose payloads may have 2 MiB
each.
"""
BODY_TIMEOUT = 60.0
"""Seconds for such a request to arrive."""
SESSION = 12 * 3600
"""Seconds until a browser must show the token again."""
_COOKIE = "threadline_codec"
_PAGE = (
    '<!doctype html><html lang="en"><meta charset="utf-8">'
    "<title>Threadline's codec server</title>\n"
    '<body style="font:16px sans-serif;max-width:32em;margin:4em auto">'
    "<h1>Codec server</h1><p>%s</p>\n"
    '<form method="post" action="login">'
    '<label>Token <input name="token" type="password" autofocus></label>\n'
    "<button>Give this browser access</button></form></body></html>"
)
_FIRST = (
    "Enter the token (THREADLINE_CODEC_TOKEN), then reload Temporal's UI: it shows decrypted "
    "payloads for 12 hours."
)
_WRONG = "This is not the token. Please try again."
_DONE = "This browser now has access. Reload Temporal's UI."

_DENIED_HINT = (
    "Compare THREADLINE_CODEC_TOKEN and THREADLINE_CODEC_ORIGINS with what Temporal's UI uses."
)

_log = structlog.stdlib.get_logger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Convert = Callable[[Sequence[Payload]], Awaitable[list[Payload]]]


class CodecServer:
    """Encrypts and decrypts the payloads of authorized requests. It has no access to Temporal and
    stores nothing.

    Args:
        token: the secret that a request must show, as `Authorization: Bearer …` or by the login
            page's cookie; if empty, the server accepts every request.
        origins: the pages whose scripts may send requests, such as `http://localhost:8233`.
    """

    def __init__(self, codec: EncryptionCodec, token: str, origins: Collection[str]) -> None:
        self._codec = codec
        self._token = token.encode()
        self._origins = frozenset(origin.rstrip("/") for origin in origins)
        self.denied = RareLog("codec_requests_denied", _DENIED_HINT)
        self.broken = RareLog(
            "requests_broken", "Nothing to do, unless Temporal's UI shows no payloads."
        )

    def application(self) -> web.Application:
        app = web.Application(client_max_size=MAX_BODY, middlewares=[self._guarded])
        # Only the last part of the path counts: the UI and the command line may put the namespace
        # before it.
        for name, convert in (("decode", self._decrypted), ("encode", self._codec.encode)):
            app.add_routes(
                [web.post(rf"/{{path:(?:.*/)?}}{name}", partial(_converted, convert=convert))]
            )
        app.add_routes([web.get("/login", self._login), web.post("/login", self._login)])
        app.add_routes([web.get("/healthz", http_server.healthz)])
        app.add_routes([web.options(r"/{path:.*}", http_server.healthz)])
        return app

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        own = request.path == "/login"
        origin = request.headers.get("Origin")
        # Clients other than browsers send no origin; the token alone authorizes them.
        if not own and origin is not None and origin not in self._origins:
            self.denied.note("wrong_origin", request.remote)
            return _error(
                HTTPStatus.FORBIDDEN, "The origin of this page is not in THREADLINE_CODEC_ORIGINS."
            )
        if request.method == "POST" and not own and not self._is_authorized(request):
            self.denied.note("wrong_token", request.remote)
            answer: web.StreamResponse = _error(
                HTTPStatus.UNAUTHORIZED,
                "Send the token as `Authorization: Bearer …`, or open /login in this browser.",
            )
        else:
            try:
                answer = await handler(request)
            except BrokenBody as broken:
                self.broken.note(broken.reason, request.remote)
                return http_server.closing(broken.status)
        if not own and origin:
            answer.headers.update(
                {
                    "Access-Control-Allow-Origin": origin,
                    "Access-Control-Allow-Credentials": "true",
                    "Access-Control-Allow-Headers": request.headers.get(
                        "Access-Control-Request-Headers", "*"
                    ),
                    "Access-Control-Allow-Methods": "POST",
                    "Vary": "Origin",
                }
            )
        return answer

    async def _decrypted(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Decrypt each payload; one that fails stays encrypted and does not hide the others."""
        shown = list(payloads)
        for place, payload in enumerate(payloads):
            try:
                shown[place] = self._codec.decrypt(payload) if is_encrypted(payload) else payload
            except DecryptionFailed as error:
                _log.warning("payload_not_decrypted", key=key_id_of(payload), reason=str(error))
        return shown

    async def _login(self, request: web.Request) -> web.Response:
        if request.method != "POST":
            return _page(_FIRST)
        await http_server.read_body(request, BODY_TIMEOUT)
        if not self._is_token(str((await request.post()).get("token", ""))):
            self.denied.note("wrong_login", request.remote)
            return _page(_WRONG, HTTPStatus.UNAUTHORIZED)
        answer = _page(_DONE)
        https = request.headers.get("X-Forwarded-Proto", request.scheme) == "https"
        answer.set_cookie(
            _COOKIE,
            self.session(),
            max_age=SESSION,
            httponly=True,
            samesite="Strict",
            secure=https,
        )
        return answer

    def _is_authorized(self, request: web.Request) -> bool:
        if not self._token:
            return True
        scheme, _, shown = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._is_token(shown.strip()):
            return True
        until, _, signature = request.cookies.get(_COOKIE, "").partition(".")
        return (
            hmac.compare_digest(_bytes(signature), self._signature(until).encode())
            and int(until) > time.time()
        )

    def _is_token(self, shown: str) -> bool:
        return bool(self._token) and hmac.compare_digest(_bytes(shown), self._token)

    def session(self) -> str:
        """Return a cookie's value: its expiry, signed with the token, so that a new token ends
        every session.
        """
        until = str(int(time.time()) + SESSION)
        return f"{until}.{self._signature(until)}"

    def _signature(self, until: str) -> str:
        return hmac.new(self._token, _bytes(f"codec session {until}"), hashlib.sha256).hexdigest()


def _bytes(shown: str) -> bytes:
    """A header may hold any bytes, and so decode to surrogates."""
    return shown.encode(errors="replace")


async def _converted(request: web.Request, convert: Convert) -> web.Response:
    await http_server.read_body(request, BODY_TIMEOUT)
    try:
        asked = json_format.Parse(await request.text(), Payloads(), ignore_unknown_fields=True)
    except (json_format.ParseError, UnicodeDecodeError):
        return _error(
            HTTPStatus.BAD_REQUEST,
            'The body is not {"payloads": […]} in the JSON form of protobuf.',
        )
    answer = Payloads(payloads=await convert(asked.payloads))
    return web.json_response(text=json_format.MessageToJson(answer, indent=None))


def _error(status: HTTPStatus, sentence: str) -> web.Response:
    return web.json_response({"message": sentence}, status=status)


def _page(sentence: str, status: HTTPStatus = HTTPStatus.OK) -> web.Response:
    # No frame and no cache, because the page takes a secret.
    headers = {"Content-Security-Policy": "frame-ancestors 'none'", "Cache-Control": "no-store"}
    return web.Response(
        text=_PAGE % sentence, content_type="text/html", status=status, headers=headers
    )


async def serve(
    host: str,
    port: int,
    keys: KeyRing | None,
    token: str,
    origins: Collection[str],
    stop: asyncio.Event,
) -> None:
    """Serve until `stop` is set.

    Args:
        token: see `CodecServer`.
        origins: see `CodecServer`.

    Raises:
        Permanent: there is no key, the address cannot be taken, or other machines can reach a
            server without a token.
    """
    if keys is None:
        raise Permanent(
            "THREADLINE_PAYLOAD_KEYS is not set: without a key there is nothing to decrypt"
        )
    if not token and not _is_loopback(host):
        raise Permanent(
            f"THREADLINE_CODEC_TOKEN is not set, and {host} can be reached from other machines: "
            "set it (`openssl rand -hex 24` makes one), or listen at 127.0.0.1"
        )
    server = CodecServer(EncryptionCodec(keys), token, origins)
    async with http_server.listening(
        server.application(), host, port, server.broken, "--http"
    ) as port:
        _log.info("codec_ready", port=port, token_required=bool(token))
        await stop.wait()
        server.denied.close()


def _is_loopback(host: str) -> bool:
    """Whether the host is certainly local: a name other than `localhost` may resolve to any
    address.
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
