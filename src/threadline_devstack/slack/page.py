"""The browser's side: the chat page with its live stream, the JSON endpoints for people's actions,
and files.

`/control/state` returns the workspace, `/control/…` takes an action: `{"ok": true, …}`, or 400
with `{"ok": false, "error": …}` for an impossible one.
"""

import asyncio
import base64
import binascii
import inspect
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from importlib import resources
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from threadline_devstack.slack import events
from threadline_devstack.slack.faults import DOWNLOAD, SlackFaults
from threadline_devstack.slack.identity import BOT_TOKEN, BOT_USER
from threadline_devstack.slack.model import Json, SlackRefusal
from threadline_devstack.slack.web_api import bearer
from threadline_devstack.slack.workspace import SlackWorkspace

Click = Callable[[str, str, str, str], Awaitable[bool]]
"""Presses a button of a message for a person: user, channel, `ts`, action id. Returns whether the
app acknowledged it in time.
"""
Submit = Callable[[str, str, Mapping[str, str]], Awaitable[bool]]
"""Sends a modal for a person: user, view, words by field. Returns whether the app acknowledged it
in time.
"""

_KINDS = {
    "index.html": "text/html",
    "page.css": "text/css",
    "page.js": "text/javascript",
    "markup.js": "text/javascript",
}
_POLICY = (
    "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; "
    "form-action 'none'"
)
_LOGIN = (
    "<!DOCTYPE html><html><head><title>Sign in to Sandbox | Slack</title></head><body>Sign "
    "in</body></html>"
)
_BEAT = 15.0
"""Seconds between signs of life on a silent stream, by which the browser notices the end of the
sandbox.
"""


class Page:
    def __init__(
        self, workspace: SlackWorkspace, faults: SlackFaults, click: Click, submit: Submit
    ) -> None:
        self._workspace = workspace
        self._faults = faults
        self._click = click
        self._submit = submit
        self._streams: set[asyncio.Queue[Json | None]] = set()
        workspace.listeners.append(self._tell)

    def routes(self) -> list[Route]:
        actions: dict[str, Callable[..., Any]] = {
            "messages": self._post,
            "messages/edit": self._edit,
            "messages/delete": self._delete,
            "reactions": self._workspace.react,
            "reactions/remove": self._workspace.unreact,
            "files": self._upload,
            "clicks": self._press,
            "views/submit": self._send_view,
            "views/close": self._close_view,
            "channels/direct": self._open_direct,
        }
        return [
            *(
                Route(f"/control/{path}", _endpoint(action), methods=["POST"])
                for path, action in actions.items()
            ),
            Route("/control/state", self._state),
            Route("/", self.asset),
            Route("/pages/{name}", self.asset),
            Route("/stream", self.stream),
            Route("/files-pri/{key}/download/{name}", self.download),
            Route("/files-pri/{key}/{name}", self.download),
            Route("/pages/files/{file}", self.show_file),
        ]

    def close(self) -> None:
        """End every stream: a server that stops waits for them."""
        for queue in self._streams:
            queue.put_nowait(None)

    async def asset(self, request: Request) -> Response:
        name = request.path_params.get("name", "index.html")
        if name not in _KINDS:
            return Response(status_code=404)
        content = (resources.files("threadline_devstack.slack") / "pages" / name).read_bytes()
        headers = {"Content-Security-Policy": _POLICY, "Cache-Control": "no-cache"}
        return Response(content, media_type=_KINDS[name], headers=headers)

    async def stream(self, request: Request) -> Response:
        """Stream server-sent events: each event of the workspace, of every channel, as Slack's
        JSON.
        """
        headers = {"Cache-Control": "no-store"}
        return StreamingResponse(self._events(), media_type="text/event-stream", headers=headers)

    async def download(self, request: Request) -> Response:
        """Serve `url_private`: the bytes for the bot's token; for other callers a page that asks
        to sign in, with status 200.
        """
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
        if file is None or file.deleted:
            return Response(status_code=404)
        if file.is_canvas:
            return HTMLResponse(file.content)
        disposition = (
            {"Content-Disposition": "attachment"} if "/download/" in request.url.path else {}
        )
        return Response(file.content, media_type=file.mimetype, headers=disposition)

    async def show_file(self, request: Request) -> Response:
        """Serve a file for the page, which has no token. Scripts in the file do not run."""
        file = self._workspace.files.get(request.path_params["file"])
        if file is None or file.deleted:
            return Response(status_code=404)
        headers = {
            "Content-Security-Policy": "sandbox; default-src 'none'",
            "X-Content-Type-Options": "nosniff",
        }
        return Response(file.content, media_type=file.mimetype, headers=headers)

    async def _state(self, request: Request) -> Response:
        """Return users, channels with their messages and reactions, ephemeral messages, open
        modals, and the bot's statuses.
        """
        channels = [
            place.as_slack()
            | {"members": place.members}
            | {
                "messages": [
                    message.as_slack(include_metadata=True) for message in place.messages.values()
                ]
            }
            for place in self._workspace.channels.values()
        ]
        people = [user.as_slack() for user in self._workspace.users.values()]
        extra = {"ephemerals": self._workspace.ephemerals, "statuses": self._workspace.statuses()}
        extra["views"] = [
            view.as_slack() | {"user": view.user} for view in self._workspace.views.values()
        ]
        return JSONResponse({"bot_user": BOT_USER, "users": people, "channels": channels} | extra)

    def _post(
        self,
        channel: str,
        user: str,
        text: str = "",
        thread_ts: str = "",
        broadcast: bool = False,
        files: Sequence[str] = (),
    ) -> Json:
        """Post a message. `files`: their ids. Cells that were pasted from a spreadsheet become an
        attached table.
        """
        said, tables = events.pasted_tables(text)
        more: Json = {
            "thread_ts": thread_ts,
            "broadcast": broadcast,
            "files": files,
            "attachments": tables,
        }
        return {"ts": self._workspace.post(channel, user, said, **more).ts}

    def _edit(self, channel: str, ts: str, text: str, user: str) -> None:
        self._workspace.edit(channel, ts, text, by=user)

    def _delete(self, channel: str, ts: str, user: str) -> None:
        self._workspace.delete(channel, ts, by=user)

    def _upload(self, user: str, name: str, content_base64: str, mimetype: str = "") -> Json:
        """Add a file that a message may then show by its id."""
        try:
            content = base64.b64decode(content_base64, validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise SlackRefusal("invalid_content_base64") from None
        file = self._workspace.add_file(name, self._workspace.user(user).id, content, mimetype)
        return {"file": file.as_slack()}

    async def _press(self, user: str, channel: str, ts: str, action_id: str) -> Json:
        return {"acknowledged": await self._click(user, channel, ts, action_id)}

    async def _send_view(self, user: str, view: str, values: dict[str, str]) -> Json:
        return {"acknowledged": await self._submit(user, view, values)}

    def _close_view(self, user: str, view: str) -> None:
        self._workspace.close_view(view, user)

    def _open_direct(self, user: str) -> Json:
        return {"channel": self._workspace.open_im(user).as_slack()}

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


def _endpoint(action: Callable[..., Any]) -> Callable[[Request], Awaitable[Response]]:
    """Return an endpoint for an action, which takes the fields of the JSON by their names, and may
    return fields of the answer.
    """

    async def endpoint(request: Request) -> Response:
        try:
            given: Any = json.loads(await request.body() or b"{}")
            inspect.signature(action).bind(**given)
            done = action(**given)
            answer = await done if isinstance(done, Awaitable) else done
            return JSONResponse({"ok": True} | (answer if isinstance(answer, dict) else {}))
        except SlackRefusal as refused:
            return JSONResponse(
                {"ok": False, "error": refused.error} | refused.details, status_code=400
            )
        except (TypeError, ValueError) as wrong:
            return JSONResponse(
                {"ok": False, "error": f"unreadable arguments: {wrong}"}, status_code=400
            )

    return endpoint
