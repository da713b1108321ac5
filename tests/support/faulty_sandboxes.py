"""The sandboxes of Slack and of the trackers, with faults that are ordered in advance or left to
chance.
"""

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, Protocol, Self

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from tests.support.patience import patient
from threadline_devstack.server import Endpoint, until_left
from threadline_devstack.slack.app import SlackSandbox
from threadline_devstack.slack.faults import DOWNLOAD, CallFault, DeliveryPlan, SlackFaults
from threadline_devstack.trackers.app import TrackerSandbox

Service = Literal["jira", "github", "logs"]


class Chance(Protocol):
    """Decides the fate of deliveries and calls without an order."""

    def call(self, method: str) -> CallFault | None: ...

    def delivery(self) -> DeliveryPlan: ...


class OrderedSlackFaults(SlackFaults):
    """Uses orders up one by one; without an order `chance` decides, if there is any.

    Deliveries are those of people's actions: the bot's own posts do not count.
    """

    def __init__(self) -> None:
        self.chance: Chance | None = None
        self.denied = ""
        """Slack's name of the error with which it refuses every call; empty for none."""
        self._duplicates: deque[int] = deque()
        self._drops = 0
        self._holds = 0
        self._delays: deque[float] = deque()
        self._calls: defaultdict[str, deque[CallFault]] = defaultdict(deque)

    def duplicate(self, count: int = 1, copies: int = 2) -> None:
        """Deliver the next `count` events `copies` times, with the same event id."""
        self._duplicates.extend([copies] * count)

    def drop(self, count: int = 1) -> None:
        """Never deliver the next `count` events, as when Slack has given up."""
        self._drops += count

    def delay(self, seconds: float, count: int = 1) -> None:
        self._delays.extend([seconds] * count)

    def reorder(self, count: int = 1) -> None:
        """Deliver each of the next `count` events after the event that follows them."""
        self._holds += count

    def rate_limit(self, method: str, count: int = 1, retry_after: float = 1.0) -> None:
        """Answer the next `count` calls of `method` with 429 and `Retry-After`."""
        self._order(method, CallFault("rate_limited", retry_after), count)

    def fail_before(self, method: str, count: int = 1, *, seconds: float = 0.0) -> None:
        """Answer the next `count` calls of `method` with 500 after `seconds`, and store
        nothing.
        """
        self._order(method, CallFault("error_before", seconds), count)

    def fail_after(self, method: str, count: int = 1) -> None:
        """Carry out the next `count` calls of `method`, and answer 500."""
        self._order(method, CallFault("error_after"), count)

    def refuse(self, method: str, error: str, count: int = 1) -> None:
        """Refuse the next `count` calls of `method` with Slack's name of an error, such as
        `missing_scope`.
        """
        self._order(method, CallFault("refused", error=error), count)

    def slow(self, method: str, seconds: float, count: int = 1) -> None:
        """Carry out the next `count` calls of `method` at once, and answer after `seconds`."""
        self._order(method, CallFault("slow", seconds), count)

    def short(self, method: str, items: int, count: int = 1) -> None:
        """Show at most `items`, or none, on the next `count` pages of `method`, although there are
        more.
        """
        self._order(method, CallFault("short", items=items), count)

    def login_page(self, count: int = 1) -> None:
        """Answer the next `count` downloads with 200 and a login page."""
        self._order(DOWNLOAD, CallFault("login"), count)

    def ordered(self, method: str) -> int:
        """Return the number of unused orders for calls of `method`."""
        return len(self._calls.get(method, ()))

    def clear(self) -> None:
        self._duplicates.clear()
        self._drops = self._holds = 0
        self._delays.clear()
        self._calls.clear()
        self.chance = None

    def next_call(self, method: str) -> CallFault | None:
        if self.denied:
            return CallFault("refused", error=self.denied)
        if waiting := self._calls.get(method):
            return waiting.popleft()
        return self.chance.call(method) if self.chance else None

    def next_delivery(self) -> DeliveryPlan:
        if self._drops:
            self._drops -= 1
            return DeliveryPlan(copies=0)
        if self.chance and not (self._duplicates or self._holds or self._delays):
            return self.chance.delivery()
        copies = 1
        hold = False
        if self._duplicates:
            copies = self._duplicates.popleft()
        if self._holds:
            self._holds -= 1
            hold = True
        return DeliveryPlan(copies, self._delays.popleft() if self._delays else 0.0, hold)

    def _order(self, method: str, fault: CallFault, count: int) -> None:
        self._calls[method].extend([fault] * count)


class FaultySlack(SlackSandbox):
    """Takes orders for misbehaviour through `faults`."""

    faults: OrderedSlackFaults
    faults_type = OrderedSlackFaults

    async def settled(self) -> None:
        """Wait until no event is on its way, as `EventDeliveries.settled` on a busy machine."""
        await self.deliveries.settled(patient(10))


class EndpointFaultKind(StrEnum):
    REFUSE = "refuse"
    """Does nothing, and answers with the `status`."""
    LOSE = "lose"
    """Carries out the request, and answers with the `status` all the same."""
    HANG = "hang"
    """Carries out the request, and sends no answer until the sandboxes end or the caller hangs up.
    """
    PAGE = "page"
    """Does nothing, and answers with a login page as a success."""
    GARBLE = "garble"
    """Carries out the request, and breaks the answer off amid its JSON."""


@dataclass
class EndpointFault:
    """A fault of the next `count` requests to a service.

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

    def meets(self, service: str, request: Request) -> bool:
        wanted = self.service == service and self.method in ("", request.method)
        return wanted and self.count > 0 and request.url.path.endswith(self.path)


class EndpointFaults:
    def __init__(self) -> None:
        self.orders: list[EndpointFault] = []
        self.over = asyncio.Event()
        """Set when the sandboxes end, so that no open request keeps them waiting."""
        self.hanging = 0
        """Requests that wait without an answer now."""

    def guarding(self, service: str, endpoint: Endpoint) -> Endpoint:
        """Return the endpoint, with the next fault that was ordered for it."""

        async def guarded(request: Request) -> Response:
            order = next((each for each in self.orders if each.meets(service, request)), None)
            if order is None:
                return await endpoint(request)
            order.count -= 1
            return await self._misbehave(order, request, endpoint)

        return guarded

    async def _misbehave(
        self, order: EndpointFault, request: Request, endpoint: Endpoint
    ) -> Response:
        if order.kind is EndpointFaultKind.PAGE:
            return HTMLResponse(
                "<!doctype html><title>Log in</title><form method=post><input "
                "name=password></form>"
            )
        if order.kind is not EndpointFaultKind.REFUSE:
            done = await endpoint(request)
            if order.kind is EndpointFaultKind.GARBLE:
                return Response(
                    b'{"broken', media_type="application/json", status_code=done.status_code
                )
            if order.kind is EndpointFaultKind.HANG:
                await self._hang(request)
        headers = dict(order.headers)
        if order.retry_after is not None:
            headers["Retry-After"] = str(order.retry_after)
        body = {
            "errorMessages": [order.words],
            "errors": {},
            "message": order.words,
        }  # Jira's form and GitHub's
        return JSONResponse(body, order.status, headers)

    async def _hang(self, request: Request) -> None:
        ends = {
            asyncio.ensure_future(self.over.wait()),
            asyncio.ensure_future(until_left(request)),
        }
        self.hanging += 1
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.hanging -= 1
            for each in ends:
                each.cancel()


class FaultyTrackers(TrackerSandbox):
    def __init__(self, url: str) -> None:
        self._faults = EndpointFaults()
        super().__init__(url)

    @classmethod
    @asynccontextmanager
    async def running(cls, port: int = 0) -> AsyncIterator[Self]:
        async with super().running(port) as sandbox:
            try:
                yield sandbox
            finally:
                sandbox._faults.over.set()

    @property
    def hanging(self) -> int:
        """Requests that wait without an answer now, and whose callers still wait."""
        return self._faults.hanging

    def order(
        self, service: Service, kind: EndpointFaultKind = EndpointFaultKind.REFUSE, **more: Any
    ) -> EndpointFault:
        """Order faults for the next requests to a service; `more` are the other fields of
        `EndpointFault`.
        """
        fault = EndpointFault(service, kind, **more)
        self._faults.orders.append(fault)
        return fault

    def clear_faults(self) -> None:
        """Forget the faults that were ordered and not used."""
        self._faults.orders.clear()

    def guard(self, service: str, endpoint: Endpoint) -> Endpoint:
        return self._faults.guarding(service, endpoint)
