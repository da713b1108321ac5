"""The whole sandbox: its parts and their routes, and the handle for tests and `threadline up`."""

import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self, TypedDict, Unpack

import aiohttp
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute

from threadline_devstack import server
from threadline_devstack.processes import HOST
from threadline_devstack.slack import identity
from threadline_devstack.slack.delivery import EventDeliveries, SignedHttp
from threadline_devstack.slack.faults import SlackFaults
from threadline_devstack.slack.interactions import Interactions
from threadline_devstack.slack.kept import KeptWorkspace
from threadline_devstack.slack.methods import METHODS
from threadline_devstack.slack.model import Json, SlackRefusal
from threadline_devstack.slack.page import Page
from threadline_devstack.slack.socket_mode import SocketConnections
from threadline_devstack.slack.web_api import WebApi
from threadline_devstack.slack.workspace import SlackWorkspace, populate


class SlackSandboxOptions(TypedDict, total=False):
    """Options of a sandbox."""

    request_url: str
    """The address for events as signed HTTP; empty, the default, for Socket Mode."""
    ack_timeout: float
    """Seconds within which the app must acknowledge; Slack's are 3."""
    retry_delays: Sequence[float]
    """Seconds before each retry of an event that was not acknowledged; Slack's are 0, 60 and
    300.
    """
    subscriptions: frozenset[str]
    """The types of events that the app gets."""


class SlackSandbox:
    """A Slack workspace, served by this process.

    `url` is its page, `api_url` the base URL for a Slack client. People act through `workspace`
    and `click`, and `deliveries` has the sent events. `clock` returns seconds since 1970, for
    timestamps.
    """

    faults_type = SlackFaults
    """Class of the object that decides which calls and deliveries fail."""

    def __init__(
        self,
        url: str,
        session: aiohttp.ClientSession,
        *,
        clock: Callable[[], float] = time.time,
        kept: KeptWorkspace | None = None,
        **options: Unpack[SlackSandboxOptions],
    ) -> None:
        self.url = url
        self.api_url = f"{url}/api/"
        self.workspace = SlackWorkspace(clock, url, kept)
        populate(self.workspace)
        self.faults = self.faults_type()
        self.sockets = SocketConnections()
        http = SignedHttp(session, identity.SIGNING_SECRET)
        self.deliveries = EventDeliveries(
            self.workspace, self.sockets, http, self.faults, **options
        )
        self._interactions = Interactions(self.workspace, clock)
        self._page = Page(self.workspace, self.faults, self.click, self.submit)
        self.app = self._routes()

    @classmethod
    @contextlib.asynccontextmanager
    async def running(
        cls,
        *,
        port: int = 0,
        clock: Callable[[], float] = time.time,
        file: Path | None = None,
        **options: Unpack[SlackSandboxOptions],
    ) -> AsyncIterator[Self]:
        """Run a sandbox on 127.0.0.1, at `port` or any free one, for as long as the block runs.

        Args:
            file: stores the workspace on disk; None keeps it only in this process.

        Raises:
            OSError: the port is taken.
            Permanent: the file cannot be read.
        """
        with server.bound(port) as listener, _kept(file) as kept:
            url = f"http://{HOST}:{listener.getsockname()[1]}"
            async with aiohttp.ClientSession() as session:
                sandbox = cls(url, session, clock=clock, kept=kept, **options)
                async with server.serving(sandbox.app, listener):
                    try:
                        yield sandbox
                    finally:
                        await sandbox.close()

    @property
    def settings(self) -> dict[str, str]:
        """Settings by which the product finds the sandbox; the page is at the origin of
        SLACK_API_URL.
        """
        return {
            "SLACK_API_URL": self.api_url,
            "SLACK_BOT_TOKEN": identity.BOT_TOKEN,
            "SLACK_APP_TOKEN": identity.APP_TOKEN,
            "SLACK_SIGNING_SECRET": identity.SIGNING_SECRET,
            "THREADLINE_REPORTS_CHANNEL": identity.REPORTS,
            "THREADLINE_SUMMARIES_CHANNEL": identity.SUMMARIES,
            "THREADLINE_ESCALATION_CHANNEL": identity.ESCALATIONS,
        }

    async def click(self, user: str, channel: str, ts: str, action_id: str) -> bool:
        """Press a button of the bot's as `user`. Return whether the app acknowledged it in
        time.
        """
        payload = self._interactions.click(user, channel, ts, action_id)
        return await self.deliveries.interact(payload)

    async def submit(self, user: str, view_id: str, values: Mapping[str, str]) -> bool:
        """Send a modal as `user`, with these words in its fields. Return whether the app
        acknowledged it in time. If not, it stays open, as in Slack.
        """
        payload = self._interactions.submit(user, view_id, values)
        acknowledged = await self.deliveries.interact(payload)
        if acknowledged:
            self.workspace.close_view(view_id, user)
        return acknowledged

    def say(self, user: str, channel: str, text: str, *, thread: str = "", **more: Any) -> str:
        """Post a message as `user`. Return its `ts`. `more`: as for `SlackWorkspace.post`."""
        return self.workspace.post(channel, user, text, thread_ts=thread, **more).ts

    def messages(self, channel: str) -> list[Json]:
        """Return all messages of a channel and its threads, as Slack's JSON with metadata, oldest
        first.
        """
        return [
            each.as_slack(include_metadata=True)
            for each in self.workspace.channel(channel).messages.values()
        ]

    def thread(self, channel: str, root: str) -> list[Json]:
        """Return the root and its replies, in order."""
        return [
            each for each in self.messages(channel) if root in (each["ts"], each.get("thread_ts"))
        ]

    async def close(self) -> None:
        """Stop deliveries, end the streams of open pages, cut the connections."""
        self._page.close()
        await self.deliveries.close()
        await self.sockets.cut()

    def _routes(self) -> Starlette:
        methods = {name: partial(method, self.workspace) for name, method in METHODS.items()}
        web_api = WebApi(methods, self.faults, self.url)
        return server.guarded(
            [
                Route("/api/{method}", web_api.endpoint, methods=["GET", "POST"]),
                WebSocketRoute("/link/", self.sockets.serve),
                Route("/upload/v1/{ticket}", self._receive_upload, methods=["POST", "PUT"]),
                Route("/actions/{team}/{ticket}", self._receive_response, methods=["POST"]),
                *self._page.routes(),
            ]
        )

    async def _receive_upload(self, request: Request) -> Response:
        if "multipart" in request.headers.get("content-type", ""):
            async with request.form() as form:
                parts = [await part.read() for part in form.values() if not isinstance(part, str)]
            content = b"".join(parts)
        else:
            content = await request.body()
        file = self.workspace.uploads.get(request.path_params["ticket"])
        if file is None:
            return PlainTextResponse("upload_not_found", status_code=404)
        file.content = content
        return PlainTextResponse(f"OK - {len(content)}")

    async def _receive_response(self, request: Request) -> Response:
        try:
            self._interactions.respond(request.path_params["ticket"], await request.json())
        except SlackRefusal as refused:
            return PlainTextResponse(refused.error, status_code=404)
        return PlainTextResponse("ok")


@contextlib.contextmanager
def _kept(file: Path | None) -> Iterator[KeptWorkspace | None]:
    if file is None:
        yield None
        return
    with contextlib.closing(KeptWorkspace(file)) as kept:
        yield kept
