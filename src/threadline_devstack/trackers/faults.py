"""How the stand-ins misbehave when they are told to."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from threadline_devstack.server import until_left

Endpoint = Callable[[Request], Awaitable[Response]]
Service = Literal["jira", "github", "logs"]


class EndpointFaultKind(StrEnum):
    REFUSE = "refuse"
    """Nothing is done; the answer has the `status`."""
    LOSE = "lose"
    """It is done, and answered with the `status` all the same."""
    HANG = "hang"
    """It is done, and no answer comes until the stand-ins end or the caller hangs up."""
    PAGE = "page"
    """Nothing is done; a login page comes as a success."""
    GARBLE = "garble"
    """It is done, and the answer breaks off amid its JSON."""


@dataclass
class EndpointFault:
    """What happens to the next `count` requests to a service.

    `method` and `path`, the end of an address, narrow them. `retry_after` is a header.
    """

    service: Service
    kind: EndpointFaultKind = EndpointFaultKind.REFUSE
    status: int = 500
    retry_after: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    words: str = "Out of order."
    count: int = 1
    method: str = ""
    path: str = ""

    def meets(self, service: Service, request: Request) -> bool:
        wanted = self.service == service and self.method in ("", request.method)
        return wanted and self.count > 0 and request.url.path.endswith(self.path)


class EndpointFaults:
    def __init__(self) -> None:
        self.orders: list[EndpointFault] = []
        self.over = asyncio.Event()
        """Set when the stand-ins end, so that nobody keeps them waiting."""
        self.hanging = 0
        """Requests that are kept without an answer now."""

    def guarding(self, service: Service, endpoint: Endpoint) -> Endpoint:
        """The endpoint, with the next fault that was ordered for it."""

        async def guarded(request: Request) -> Response:
            order = next((each for each in self.orders if each.meets(service, request)), None)
            if order is None:
                return await endpoint(request)
            order.count -= 1
            return await self._misbehave(order, request, endpoint)

        return guarded

    async def _misbehave(self, order: EndpointFault, request: Request, endpoint: Endpoint) -> Response:
        if order.kind is EndpointFaultKind.PAGE:
            return HTMLResponse("<!doctype html><title>Log in</title><form method=post><input name=password></form>")
        if order.kind is not EndpointFaultKind.REFUSE:
            done = await endpoint(request)
            if order.kind is EndpointFaultKind.GARBLE:
                return Response(b'{"broken', media_type="application/json", status_code=done.status_code)
            if order.kind is EndpointFaultKind.HANG:
                await self._hang(request)
        headers = dict(order.headers)
        if order.retry_after is not None:
            headers["Retry-After"] = str(order.retry_after)
        body = {"errorMessages": [order.words], "errors": {}, "message": order.words}  # Jira's form and GitHub's
        return JSONResponse(body, order.status, headers)

    async def _hang(self, request: Request) -> None:
        ends = {asyncio.ensure_future(self.over.wait()), asyncio.ensure_future(until_left(request))}
        self.hanging += 1
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.hanging -= 1
            for each in ends:
                each.cancel()
