"""What both ways in share: an event is routed and handed over, and the answer says whether Slack may forget it."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

import structlog
from slack_bolt.async_app import AsyncApp
from slack_bolt.authorization import AuthorizeResult
from slack_bolt.authorization.async_authorize import AsyncAuthorize
from slack_bolt.middleware.async_middleware import AsyncMiddleware
from slack_bolt.request.async_request import AsyncBoltRequest
from slack_bolt.response import BoltResponse
from slack_sdk.web.async_client import AsyncWebClient

from threadline.gateway import interactions as clicks
from threadline.gateway.catch_up import CatchUpRequests
from threadline.gateway.dispatcher import Dispatcher, NotAccepted, Outcome
from threadline.gateway.event_handling import Door
from threadline.gateway.routes import RoutingConfig

_log = structlog.stdlib.get_logger(__name__)


class Intake:
    """Takes events until it is drained, counts what becomes of them, and knows how many are on their way.

    `catch_up` is told whether they can be handed over.
    """

    def __init__(self, config: RoutingConfig, dispatcher: Dispatcher, catch_up: CatchUpRequests | None = None) -> None:
        self._catch_up = catch_up
        self._door = Door(config, dispatcher)
        self.in_flight = 0
        self._landed = asyncio.Event()
        self._landed.set()
        self.draining = False
        self.counts: Counter[str] = Counter()

    async def take(self, body: Mapping[str, Any]) -> HTTPStatus:
        """Hand an event or a click over; only `OK` is an acknowledgement.

        Anything else makes Slack deliver an event again, and show whoever clicked that it did not arrive.
        """
        if self.draining:
            return HTTPStatus.SERVICE_UNAVAILABLE
        try:
            outcome = await self._door.take(body)
        except NotAccepted as refused:
            self.counts["not_accepted"] += 1
            if self._catch_up:
                self._catch_up.not_accepted()
            _log.error("event_not_accepted", reason=str(refused), error=repr(refused.__cause__))
            return HTTPStatus.INTERNAL_SERVER_ERROR
        self.counts[outcome] += 1
        if self._catch_up and outcome in set(Outcome):  # what is ignored says nothing of Temporal
            self._catch_up.accepted()
        _log.debug("event_accepted", outcome=outcome)
        return HTTPStatus.OK

    def set_aside(self, body: Mapping[str, Any]) -> None:
        """Count what is acknowledged and not acted upon: a dialogue that was closed, or Slack's word that it sheds our
        events."""
        kind = str(body.get("type") or "unknown")[:40]
        self.counts[f"unhandled_{kind}"] += 1
        if kind == "app_rate_limited":
            _log.error("slack_events_rate_limited", limit_per_hour=30_000, next="The catch-up finds the missed events.")
        else:
            _log.info("interaction_ignored", kind=kind)

    @contextmanager
    def flight(self) -> Iterator[None]:
        """Covers an event from its arrival until its answer is sent."""
        self.in_flight += 1
        self._landed.clear()
        try:
            yield
        finally:
            self.in_flight -= 1
            if not self.in_flight:
                self._landed.set()

    async def drain(self, timeout: float) -> None:
        """Take nothing new, and wait at most `timeout` seconds for what is on its way; Slack keeps the rest."""
        self.draining = True
        try:
            async with asyncio.timeout(timeout):
                await self._landed.wait()
        except TimeoutError:
            _log.warning("drain_incomplete", in_flight=self.in_flight)


class _AlreadyAuthorized(AsyncAuthorize):
    """Bolt asks who the bot is at each event; the gateway knows since it started.

    Bolt's own check calls `auth.test` at the first event, and acknowledges that event when the call fails.
    """

    def __init__(self, identity: AuthorizeResult) -> None:
        self._identity = identity

    async def __call__(self, **_: Any) -> AuthorizeResult:
        return self._identity


class _Answer(AsyncMiddleware):
    """The last middleware: it answers everything, so no listener is needed.

    A plain function would have Bolt take the body apart for its arguments, which fails for bodies it does not expect.
    """

    def __init__(self, intake: Intake) -> None:
        self._intake = intake

    async def async_process(
        self,
        *,
        req: AsyncBoltRequest,
        resp: BoltResponse,
        next: Callable[[], Awaitable[BoltResponse]],  # noqa: A002
    ) -> BoltResponse:
        if req.body.get("type") in ("event_callback", clicks.CLICK):
            return BoltResponse(status=await self._intake.take(req.body), body="")
        self._intake.set_aside(req.body)
        return BoltResponse(status=HTTPStatus.OK, body="")


def bolt_app(intake: Intake, identity: AuthorizeResult, web: AsyncWebClient) -> AsyncApp:
    """A Bolt app that gives every event to the intake and answers only after it.

    Requests by HTTP are verified before they get here, and the bot's own posts are ignored by the routing table,
    where they are counted.
    """
    app = AsyncApp(
        name="threadline",
        # Without its token: Bolt would warn that it does not use it, and it has no call to make.
        client=AsyncWebClient(base_url=web.base_url),
        authorize=_AlreadyAuthorized(identity),
        # `_Answer` answers after the work anyway; so shall any listener that is ever added.
        process_before_response=True,
        request_verification_enabled=False,
        ignoring_self_events_enabled=False,
        ssl_check_enabled=False,
        attaching_function_token_enabled=False,
    )
    app.use(_Answer(intake))
    return app
