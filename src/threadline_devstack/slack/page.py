"""What a browser sees: the chat page with its live stream, and the files of the workspace."""

import asyncio
import json
from collections.abc import AsyncIterator
from importlib import resources

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from threadline_devstack.slack.faults import DOWNLOAD, SlackFaults
from threadline_devstack.slack.identity import BOT_TOKEN
from threadline_devstack.slack.model import Json
from threadline_devstack.slack.web_api import bearer
from threadline_devstack.slack.workspace import SlackWorkspace

_KINDS = {
    "index.html": "text/html",
    "page.css": "text/css",
    "page.js": "text/javascript",
    "markup.js": "text/javascript",
}
_POLICY = "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
_LOGIN = "<!DOCTYPE html><html><head><title>Sign in to Sandbox | Slack</title></head><body>Sign in</body></html>"
_BEAT = 15.0
"""Seconds between signs of life on a silent stream: the browser finds out that the sandbox is gone."""


class Page:
    def __init__(self, workspace: SlackWorkspace, faults: SlackFaults) -> None:
        self._workspace = workspace
        self._faults = faults
        self._streams: set[asyncio.Queue[Json | None]] = set()
        workspace.listeners.append(self._tell)

    def routes(self) -> list[Route]:
        return [
            Route("/", self.asset),
            Route("/pages/{name}", self.asset),
            Route("/stream", self.stream),
            Route("/healthz", self.health),
            Route("/files-pri/{key}/download/{name}", self.download),
            Route("/files-pri/{key}/{name}", self.download),
            Route("/pages/files/{file}", self.show_file),
        ]

    def close(self) -> None:
        """End every stream: a server that stops waits for them."""
        for queue in self._streams:
            queue.put_nowait(None)

    async def health(self, request: Request) -> Response:
        return JSONResponse({"ok": True})

    async def asset(self, request: Request) -> Response:
        name = request.path_params.get("name", "index.html")
        if name not in _KINDS:
            return Response(status_code=404)
        content = (resources.files("threadline_devstack.slack") / "pages" / name).read_bytes()
        headers = {"Content-Security-Policy": _POLICY, "Cache-Control": "no-cache"}
        return Response(content, media_type=_KINDS[name], headers=headers)

    async def stream(self, request: Request) -> Response:
        """Server-sent events: each event of the workspace, of every channel, as Slack's JSON."""
        headers = {"Cache-Control": "no-store"}
        return StreamingResponse(self._events(), media_type="text/event-stream", headers=headers)

    async def download(self, request: Request) -> Response:
        """`url_private`: the bytes for the bot's token, and for anyone else a page that asks to sign in, with 200."""
        file = self._workspace.files.get(request.path_params["key"].partition("-")[2])
        fault = self._faults.next_call(DOWNLOAD)
        if fault and fault.kind == "rate_limited":
            return Response(status_code=429, headers={"Retry-After": f"{fault.seconds:g}"})
        if fault and fault.kind in ("error_before", "error_after"):
            return Response(status_code=500)
        if fault and fault.kind == "slow":
            await asyncio.sleep(fault.seconds)
        if bearer(request) != BOT_TOKEN or (fault and fault.kind == "login"):
            return HTMLResponse(_LOGIN)
        if file is None:
            return Response(status_code=404)
        return Response(file.content, media_type=file.mimetype)

    async def show_file(self, request: Request) -> Response:
        """A file for the page, which has no token; whatever it holds, no script of it runs."""
        file = self._workspace.files.get(request.path_params["file"])
        if file is None:
            return Response(status_code=404)
        headers = {"Content-Security-Policy": "sandbox; default-src 'none'", "X-Content-Type-Options": "nosniff"}
        return Response(file.content, media_type=file.mimetype, headers=headers)

    def _tell(self, event: Json) -> None:
        for queue in self._streams:
            queue.put_nowait(event)

    async def _events(self) -> AsyncIterator[str]:
        queue: asyncio.Queue[Json | None] = asyncio.Queue()
        self._streams.add(queue)
        try:
            yield ": hello\n\n"
            while True:
                try:
                    event = await asyncio.wait_for(queue.get(), _BEAT)
                except TimeoutError:
                    yield ": still here\n\n"
                    continue
                if event is None:
                    return
                yield f"data: {json.dumps(event)}\n\n"
        finally:
            self._streams.discard(queue)
