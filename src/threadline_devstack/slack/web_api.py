"""The Web API's door: authentication, the table of methods, Slack's answers, and ordered faults."""

import asyncio
from collections.abc import Callable, Mapping
from hmac import compare_digest

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from threadline_devstack.slack import arguments
from threadline_devstack.slack.arguments import Arguments
from threadline_devstack.slack.faults import Faults
from threadline_devstack.slack.identity import APP_TOKEN, BOT_TOKEN
from threadline_devstack.slack.model import Json
from threadline_devstack.slack.refusal import Refused

Method = Callable[[Arguments], Json]
"""A method of the Web API: the fields of its answer beside `ok`, or `Refused`."""

_FOR_THE_APP = frozenset({"apps.connections.open"})


class WebApi:
    """Answers `POST /api/{method}` as Slack does: status 200 with `ok: false` and a name for almost every error."""

    def __init__(self, methods: Mapping[str, Method], faults: Faults, base_url: str) -> None:
        self._methods = dict(methods)
        self._faults = faults
        self._base_url = base_url

    async def endpoint(self, request: Request) -> Response:
        method = request.path_params["method"]
        fault = self._faults.next_call(method)
        if fault and fault.kind == "rate_limited":
            headers = {"Retry-After": f"{fault.seconds:g}"}
            return JSONResponse({"ok": False, "error": "ratelimited"}, status_code=429, headers=headers)
        if fault and fault.kind == "error_before":
            return _broken()
        if fault and fault.kind == "refused":
            return JSONResponse({"ok": False, "error": fault.error})
        answer = await self._answer(method, request, fault.items if fault and fault.kind == "short" else None)
        if fault and fault.kind == "slow":
            await asyncio.sleep(fault.seconds)
        return _broken() if fault and fault.kind == "error_after" else JSONResponse(answer)

    async def _answer(self, method: str, request: Request, most: int | None = None) -> Json:
        try:
            given = await arguments.read(request)
            call = self._methods.get(method)
            if call is None:
                return {"ok": False, "error": "unknown_method", "req_method": method}
            _authenticate(method, bearer(request) or str(given.get("token") or ""))
            return {"ok": True} | call(Arguments(given, self._base_url, most))
        except Refused as refused:
            return {"ok": False, "error": refused.error} | refused.details


def bearer(request: Request) -> str:
    """The token of the Authorization header, or nothing."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _authenticate(method: str, token: str) -> None:
    if not token:
        raise Refused("not_authed")
    wanted, other = (APP_TOKEN, BOT_TOKEN) if method in _FOR_THE_APP else (BOT_TOKEN, APP_TOKEN)
    if compare_digest(token.encode(), other.encode()):
        raise Refused("not_allowed_token_type")
    if not compare_digest(token.encode(), wanted.encode()):
        raise Refused("invalid_auth")


def _broken() -> Response:
    return JSONResponse({"ok": False, "error": "internal_error"}, status_code=500)
