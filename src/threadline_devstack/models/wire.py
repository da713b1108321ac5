"""The common part of the model APIs on the wire: answers in one piece or streamed, refusals, and
interruptions.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from threadline_devstack.models.request import ModelRequest
from threadline_devstack.models.script import (
    ScriptAnswer,
    ScriptFailure,
    ScriptInterruption,
    ScriptReply,
)

Json = dict[str, Any]

_BEGUN = ScriptReply("I am looking into this, and the first thing that I see is")
"""The text of a reply before it breaks off."""
_BEGUN_EVENTS = 3


@dataclass(frozen=True)
class Wire:
    """One model API.

    Args:
        key: returns the API key of a request.
        read: returns the parsed request of a body. Raises `RequestRefused` if it breaks a rule of
            the API, and `ValueError`, `KeyError`, `TypeError` or `AttributeError` if it is no such
            request at all.
        body: returns a whole reply, as JSON.
        error: returns the body of an HTTP error.
        events: returns the reply of `body` as server-sent events; None if this API does not
            stream.
    """

    key: Callable[[Request], str]
    read: Callable[[Json], ModelRequest]
    body: Callable[[ScriptReply, ModelRequest], Json]
    error: Callable[[ScriptFailure], Json]
    events: Callable[[Json], Iterator[str]] | None = None

    def answer(self, answer: ScriptAnswer, request: ModelRequest) -> Response:
        match answer:
            case ScriptFailure():
                return self.refuse(answer)
            case ScriptInterruption(event=True) if not request.stream:
                return self.refuse(ScriptFailure(500, "The stream broke."))
            case ScriptInterruption():
                return self._interrupted(answer, request)
        body = self.body(answer, request)
        return (
            _stream("".join(self.events(body)))
            if self.events and request.stream
            else JSONResponse(body)
        )

    def refuse(self, failure: ScriptFailure) -> Response:
        headers = (
            {} if failure.retry_after is None else {"retry-after": f"{failure.retry_after:g}"}
        )
        return JSONResponse(self.error(failure), failure.status, headers)

    def _interrupted(self, answer: ScriptInterruption, request: ModelRequest) -> Response:
        body = self.body(_BEGUN, request)
        if not (self.events and request.stream):
            text = json.dumps(body)
            return _BrokenOff(text[: len(text) // 2], media_type="application/json")
        begun = "".join(list(self.events(body))[:_BEGUN_EVENTS])
        if answer.event:
            return _stream(
                begun + event("error", self.error(ScriptFailure(500, "The stream broke.")))
            )
        return _BrokenOff(begun, media_type="text/event-stream")


class RequestRefused(Exception):
    """The request breaks a rule of the API; `code` and `param` are OpenAI's names for the rule."""

    def __init__(self, message: str, *, code: str = "", param: str = "") -> None:
        super().__init__(message)
        self.failure = ScriptFailure(400, message, code=code, param=param)


def event(name: str, data: Json) -> str:
    """Return a server-sent event."""
    return f"event: {name}\ndata: {json.dumps({'type': name, **data})}\n\n"


def _stream(text: str) -> Response:
    return Response(text, media_type="text/event-stream", headers={"cache-control": "no-cache"})


class _BrokenOff(Response):
    """A response that stops after its first bytes; the server then closes the connection."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = (b"content-type", str(self.media_type).encode())
        await send({"type": "http.response.start", "status": 200, "headers": [kind]})
        await send({"type": "http.response.body", "body": self.body, "more_body": True})
