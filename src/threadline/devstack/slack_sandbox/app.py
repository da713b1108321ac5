"""The sandbox put together: the parts, their routes, and a server on 127.0.0.1."""

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence

import aiohttp
import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute

from threadline.devstack.slack_sandbox import seed
from threadline.devstack.slack_sandbox.control import Control
from threadline.devstack.slack_sandbox.delivery import ACK_TIMEOUT, RETRY_DELAYS, SUBSCRIPTIONS, Deliveries
from threadline.devstack.slack_sandbox.faults import Faults
from threadline.devstack.slack_sandbox.identity import SIGNING_SECRET
from threadline.devstack.slack_sandbox.interactions import Interactions
from threadline.devstack.slack_sandbox.methods_chat import ChatMethods
from threadline.devstack.slack_sandbox.methods_conversations import ConversationMethods
from threadline.devstack.slack_sandbox.methods_workspace import WorkspaceMethods
from threadline.devstack.slack_sandbox.page import Page
from threadline.devstack.slack_sandbox.refusal import Refused
from threadline.devstack.slack_sandbox.signed_http import SignedHttp
from threadline.devstack.slack_sandbox.socket_mode import Sockets
from threadline.devstack.slack_sandbox.web_api import WebApi
from threadline.devstack.slack_sandbox.workspace import Workspace

HOST = "127.0.0.1"


class SlackSandbox:
    """A Slack workspace that lives in this process.

    `url` is its page, `api_url` the base URL for a Slack client. People act through `workspace` and `click`,
    misbehaviour is ordered through `faults` and `sockets`, and `deliveries` tells what was sent.
    """

    def __init__(
        self,
        url: str,
        session: aiohttp.ClientSession,
        *,
        request_url: str = "",
        clock: Callable[[], float] = time.time,
        ack_timeout: float = ACK_TIMEOUT,
        retry_delays: Sequence[float] = RETRY_DELAYS,
        subscriptions: frozenset[str] = SUBSCRIPTIONS,
    ) -> None:
        self.url = url
        self.api_url = f"{url}/api/"
        self.workspace = Workspace(clock, url)
        seed.populate(self.workspace)
        self.faults = Faults()
        self.sockets = Sockets()
        self.deliveries = Deliveries(
            self.workspace,
            self.sockets,
            SignedHttp(session, SIGNING_SECRET),
            self.faults,
            request_url=request_url,
            ack_timeout=ack_timeout,
            retry_delays=retry_delays,
            subscriptions=subscriptions,
        )
        self._interactions = Interactions(self.workspace, clock)
        self._page = Page(self.workspace)
        self._files = WorkspaceMethods(self.workspace)
        self.app = self._routes()

    @classmethod
    @contextlib.asynccontextmanager
    async def running(
        cls,
        *,
        port: int = 0,
        request_url: str = "",
        clock: Callable[[], float] = time.time,
        ack_timeout: float = ACK_TIMEOUT,
        retry_delays: Sequence[float] = RETRY_DELAYS,
        subscriptions: frozenset[str] = SUBSCRIPTIONS,
    ) -> AsyncIterator["SlackSandbox"]:
        """A sandbox that listens, for as long as the block runs.

        Args:
            port: 0 for any free one.
            request_url: where events go as signed HTTP; empty for Socket Mode.
            clock: seconds since 1970, for timestamps.
            ack_timeout: seconds within which the app must acknowledge.
            retry_delays: seconds before each retry of an event that was not acknowledged.
            subscriptions: the types of events that the app gets.

        Raises:
            OSError: the port is taken.
        """
        with _listening(port) as listener:
            url = f"http://{HOST}:{listener.getsockname()[1]}"
            async with aiohttp.ClientSession() as session:
                sandbox = cls(
                    url,
                    session,
                    request_url=request_url,
                    clock=clock,
                    ack_timeout=ack_timeout,
                    retry_delays=retry_delays,
                    subscriptions=subscriptions,
                )
                async with _serving(sandbox.app, listener):
                    try:
                        yield sandbox
                    finally:
                        await sandbox.close()

    async def click(self, user: str, channel: str, ts: str, action_id: str) -> bool:
        """`user` presses a button of the bot's; whether the app acknowledged it in time."""
        return await self.deliveries.interact(self._interactions.click(user, channel, ts, action_id))

    async def close(self) -> None:
        """Stop deliveries, end the streams of open pages, cut the connections."""
        self._page.close()
        await self.deliveries.close()
        await self.sockets.cut()

    def _routes(self) -> Starlette:
        tables = (ChatMethods(self.workspace), ConversationMethods(self.workspace), self._files)
        methods = {name: method for table in tables for name, method in table.table().items()}
        web_api = WebApi(methods, self.faults, self.url)
        control = Control(self.workspace, self.deliveries, self.sockets, self.faults, self._interactions)
        return Starlette(
            routes=[
                Route("/api/{method}", web_api.endpoint, methods=["GET", "POST"]),
                WebSocketRoute("/link/", self.sockets.serve),
                Route("/upload/v1/{ticket}", self._receive_upload, methods=["POST", "PUT"]),
                Route("/actions/{team}/{ticket}", self._receive_response, methods=["POST"]),
                *control.routes(),
                *self._page.routes(),
            ],
            # A site on the web that lets its name point to this machine is not answered.
            middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=[HOST, "localhost"])],
        )

    async def _receive_upload(self, request: Request) -> Response:
        if "multipart" in request.headers.get("content-type", ""):
            async with request.form() as form:
                parts = [await part.read() for part in form.values() if not isinstance(part, str)]
            content = b"".join(parts)
        else:
            content = await request.body()
        try:
            size = self._files.receive(request.path_params["ticket"], content)
        except Refused as refused:
            return PlainTextResponse(refused.error, status_code=404)
        return PlainTextResponse(f"OK - {size}")

    async def _receive_response(self, request: Request) -> Response:
        try:
            self._interactions.respond(request.path_params["ticket"], await request.json())
        except Refused as refused:
            return PlainTextResponse(refused.error, status_code=404)
        return PlainTextResponse("ok")


class _Server(uvicorn.Server):
    """Says when it is up, and leaves the process's signals to whoever runs it."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextlib.contextmanager
def _listening(port: int) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, port))
        yield listener


@contextlib.asynccontextmanager
async def _serving(app: Starlette, listener: socket.socket) -> AsyncIterator[None]:
    config = uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off", timeout_graceful_shutdown=2)
    server = _Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    waiting = asyncio.create_task(server.ready.wait())
    try:
        await asyncio.wait({serving, waiting}, return_when=asyncio.FIRST_COMPLETED)
        yield
    finally:
        waiting.cancel()
        server.should_exit = True
        await serving
