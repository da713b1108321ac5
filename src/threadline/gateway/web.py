"""The HTTP side: signed events and interactions from Slack, and the two probes of whoever runs the process."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus

from aiohttp import web
from slack_bolt.adapter.aiohttp import to_aiohttp_response, to_bolt_request
from slack_bolt.async_app import AsyncApp
from slack_sdk.signature import SignatureVerifier

from threadline.gateway.intake import Intake

MAX_BODY = 1024 * 1024
"""Bytes of a request; more is refused unread. Slack's own events are a few dozen kB at most."""

Probe = Callable[[], Awaitable[dict[str, bool]]]
"""Says of each thing that the gateway needs whether it is there."""


class SlackRequests:
    """Answers Slack's requests; what is not signed by Slack is neither parsed nor logged.

    Rule: https://docs.slack.dev/authentication/verifying-requests-from-slack
    """

    def __init__(self, bolt: AsyncApp, intake: Intake, verifier: SignatureVerifier) -> None:
        self._bolt = bolt
        self._intake = intake
        self._verifier = verifier

    async def answer(self, request: web.Request) -> web.Response:
        body = await request.read()
        if not self._is_signed(body, request):
            self._intake.counts["unsigned"] += 1
            return web.Response(status=HTTPStatus.UNAUTHORIZED)
        with self._intake.flight():
            answer = await self._bolt.async_dispatch(await to_bolt_request(request))
            return await to_aiohttp_response(answer)

    def _is_signed(self, body: bytes, request: web.Request) -> bool:
        try:
            return self._verifier.is_valid_request(body, dict(request.headers))
        except (ValueError, TypeError, OverflowError):
            # A timestamp that is no number or an absurd one, a body or a signature in no known encoding.
            return False


def application(probe: Probe, intake: Intake, requests: SlackRequests | None) -> web.Application:
    """The aiohttp application.

    Args:
        probe: what `/readyz` asks.
        intake: its counts are shown on `/readyz`, and while it drains the process is not ready.
        requests: None in Socket Mode, where Slack sends no requests.
    """

    async def alive(_: web.Request) -> web.Response:
        return web.json_response({"alive": True})

    async def ready(_: web.Request) -> web.Response:
        parts = {**await probe(), "taking_events": not intake.draining}
        status = HTTPStatus.OK if all(parts.values()) else HTTPStatus.SERVICE_UNAVAILABLE
        told = {**parts, "in_flight": intake.in_flight, "counts": dict(intake.counts)}
        return web.json_response(told, status=status)

    app = web.Application(client_max_size=MAX_BODY)
    app.add_routes([web.get("/healthz", alive), web.get("/readyz", ready)])
    if requests:
        app.add_routes([web.post(path, requests.answer) for path in ("/slack/events", "/slack/interactions")])
    return app
