"""The Web API's front: authentication, arguments, pages, Slack's answers, and configured
faults.
"""

import asyncio
import base64
import binascii
import json
from collections.abc import Callable, Mapping, Sequence
from hmac import compare_digest
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from threadline_devstack.slack.faults import SlackFaults
from threadline_devstack.slack.identity import APP_TOKEN, BOT_TOKEN
from threadline_devstack.slack.model import Json, SlackRefusal

_FALSE = ("", "0", "false")
_FOR_THE_APP = frozenset({"apps.connections.open"})
_CURSOR = "next:"
_MOST = 1000
"""Maximum of items on a page, for any `limit` of the call."""
Item = TypeVar("Item")


class CallArguments:
    """Reads one call's arguments in the types that Slack's methods expect; missing ones are
    empty.
    """

    def __init__(self, given: dict[str, Any], base_url: str, most: int | None = None) -> None:
        """Wrap a call's arguments. `most`: the maximum of items on a page, for any `limit` of the
        call.
        """
        self.most = most
        self._given = given
        self.base_url = base_url

    def __contains__(self, name: str) -> bool:
        return self._given.get(name) is not None

    def text(self, name: str) -> str:
        value = self._given.get(name)
        return "" if value is None else str(value)

    def flag(self, name: str) -> bool:
        return str(self._given.get(name, "")).lower() not in _FALSE

    def number(self, name: str, default: int) -> int:
        """Return a whole number. Raises `SlackRefusal("invalid_arguments")` for any other
        value.
        """
        value = self._given.get(name)
        if value in (None, ""):
            return default
        try:
            return int(value)
        except (TypeError, ValueError):
            raise SlackRefusal("invalid_arguments") from None

    def structure(self, name: str, refusal: str) -> Any:
        """Return a list or an object, which a form carries as JSON. Raises `SlackRefusal(refusal)`
        if it does not parse.
        """
        value = self._given.get(name)
        if not isinstance(value, str):
            return value
        if not value:
            return None
        try:
            return json.loads(value)
        except ValueError:
            raise SlackRefusal(refusal) from None

    def listed(self, name: str) -> list[str]:
        """Return words that are separated by commas."""
        value = self._given.get(name) or ""
        words = value if isinstance(value, list) else str(value).split(",")
        return [str(word).strip() for word in words if str(word).strip()]


class WebApi:
    """Answers `POST /api/{method}` as Slack does: status 200 with `ok: false` and a name for
    almost every error.
    """

    def __init__(
        self,
        methods: Mapping[str, Callable[[CallArguments], Json]],
        faults: SlackFaults,
        base_url: str,
    ) -> None:
        self._methods = dict(methods)
        self._faults = faults
        self._base_url = base_url

    async def endpoint(self, request: Request) -> Response:
        method = request.path_params["method"]
        fault = self._faults.next_call(method)
        if fault and fault.kind == "rate_limited":
            headers = {"Retry-After": f"{fault.seconds:g}"}
            return JSONResponse(
                {"ok": False, "error": "ratelimited"}, status_code=429, headers=headers
            )
        if fault and fault.kind == "error_before":
            await asyncio.sleep(fault.seconds)
            return _broken()
        if fault and fault.kind == "refused":
            needed = {"needed": fault.needed} if fault.needed else {}
            return JSONResponse({"ok": False, "error": fault.error} | needed)
        answer = await self._answer(
            method, request, fault.items if fault and fault.kind == "short" else None
        )
        if fault and fault.kind == "slow":
            await asyncio.sleep(fault.seconds)
        return _broken() if fault and fault.kind == "error_after" else JSONResponse(answer)

    async def _answer(self, method: str, request: Request, most: int | None = None) -> Json:
        try:
            given = await _read(request)
            call = self._methods.get(method)
            if call is None:
                return {"ok": False, "error": "unknown_method", "req_method": method}
            _authenticate(method, bearer(request) or str(given.get("token") or ""))
            return {"ok": True} | call(CallArguments(given, self._base_url, most))
        except SlackRefusal as refused:
            return {"ok": False, "error": refused.error} | refused.details


def bearer(request: Request) -> str:
    """Return the token of the Authorization header; empty if there is none."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _authenticate(method: str, token: str) -> None:
    if not token:
        raise SlackRefusal("not_authed")
    wanted, other = (APP_TOKEN, BOT_TOKEN) if method in _FOR_THE_APP else (BOT_TOKEN, APP_TOKEN)
    if compare_digest(token.encode(), other.encode()):
        raise SlackRefusal("not_allowed_token_type")
    if not compare_digest(token.encode(), wanted.encode()):
        raise SlackRefusal("invalid_auth")


def _broken() -> Response:
    return JSONResponse({"ok": False, "error": "internal_error"}, status_code=500)


def page(
    given: CallArguments, items: Sequence[Item], keys: Sequence[str], *, limit: int
) -> tuple[list[Item], str]:
    """Return the page that a call requests by `limit` and `cursor`, and the cursor of the next
    one; empty at the end.

    Args:
        items: all of them, in order.
        keys: a name of each item that stays the same while others come and go.
        limit: the default size of a page.

    Raises:
        SlackRefusal: `invalid_limit`, `invalid_cursor`.
    """
    size = given.number("limit", limit) or limit
    if size < 1:
        raise SlackRefusal("invalid_limit")
    start = _start(given.text("cursor"), keys)
    end = start + min(size, _MOST if given.most is None else given.most)
    following = (
        base64.b64encode(f"{_CURSOR}{keys[end]}".encode()).decode() if end < len(keys) else ""
    )
    return list(items[start:end]), following


def _start(cursor: str, keys: Sequence[str]) -> int:
    try:
        key = base64.b64decode(cursor, validate=True).decode().removeprefix(_CURSOR)
        return keys.index(key) if cursor else 0
    except (binascii.Error, UnicodeDecodeError, ValueError):
        raise SlackRefusal("invalid_cursor") from None


async def _read(request: Request) -> dict[str, Any]:
    """Return all arguments of a request; the body wins over the query.

    Raises:
        SlackRefusal: `invalid_json`, or `json_not_object`.
    """
    given: dict[str, Any] = dict(request.query_params)
    kind = request.headers.get("content-type", "").partition(";")[0].strip()
    if kind == "application/json":
        try:
            body = json.loads(await request.body() or b"{}")
        except ValueError:
            raise SlackRefusal("invalid_json") from None
        if not isinstance(body, dict):
            raise SlackRefusal("json_not_object")
        return given | body
    async with request.form() as form:
        given |= {name: value for name, value in form.items() if isinstance(value, str)}
    return given
