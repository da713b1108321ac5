"""The arguments of a Web API call, however they were sent: query, form, multipart or JSON."""

import json
from typing import Any

from starlette.requests import Request

from threadline_devstack.slack.refusal import Refused

_FALSE = ("", "0", "false")


class Arguments:
    """Reads one call's arguments by the types that Slack's methods want; what is missing is empty."""

    def __init__(self, given: dict[str, Any], base_url: str, most: int | None = None) -> None:
        """`most`: what a page shows at most, whatever the call asks for."""
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
        """Raises `Refused("invalid_arguments")` for what is no whole number."""
        value = self._given.get(name)
        if value in (None, ""):
            return default
        try:
            return int(value)
        except (TypeError, ValueError):
            raise Refused("invalid_arguments") from None

    def structure(self, name: str, refusal: str) -> Any:
        """A list or an object, which a form carries as JSON; `Refused(refusal)` when it does not parse."""
        value = self._given.get(name)
        if not isinstance(value, str):
            return value
        if not value:
            return None
        try:
            return json.loads(value)
        except ValueError:
            raise Refused(refusal) from None

    def listed(self, name: str) -> list[str]:
        """Words that are separated by commas."""
        value = self._given.get(name) or ""
        words = value if isinstance(value, list) else str(value).split(",")
        return [str(word).strip() for word in words if str(word).strip()]


async def read(request: Request) -> dict[str, Any]:
    """All arguments of a request; the body wins over the query.

    Raises:
        Refused: `invalid_json`, or `json_not_object`.
    """
    given: dict[str, Any] = dict(request.query_params)
    kind = request.headers.get("content-type", "").partition(";")[0].strip()
    if kind == "application/json":
        try:
            body = json.loads(await request.body() or b"{}")
        except ValueError:
            raise Refused("invalid_json") from None
        if not isinstance(body, dict):
            raise Refused("json_not_object")
        return given | body
    async with request.form() as form:
        given |= {name: value for name, value in form.items() if isinstance(value, str)}
    return given
