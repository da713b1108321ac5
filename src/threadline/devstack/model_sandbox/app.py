"""The model sandbox over HTTP: Anthropic's two calls, and a control API for tests and demos."""

import asyncio
import json

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from threadline.devstack.model_sandbox import wire
from threadline.devstack.model_sandbox.conversation import Conversation, read
from threadline.devstack.model_sandbox.director import Director
from threadline.devstack.model_sandbox.turn import Failure


def build(director: Director) -> Starlette:
    """The routes of one sandbox: a further model API is one more class like `_Messages`."""
    messages, control = _Messages(director), _Control(director)
    return Starlette(
        routes=[
            Route("/v1/messages", messages.create, methods=["POST"]),
            Route("/v1/messages/count_tokens", messages.count_tokens, methods=["POST"]),
            Route("/control/holds", control.holds),
            Route("/control/holds/{name}/arm", control.arm, methods=["POST"]),
            Route("/control/holds/{name}/release", control.release, methods=["POST"]),
            Route("/control/log", control.log),
            Route("/control/errors", control.errors, methods=["POST"]),
        ]
    )


class ErrorOrder(BaseModel):
    """What `Director.fail_next` takes, or with `broken_off` what `Director.break_next` does."""

    model_config = ConfigDict(extra="forbid")

    status: int = Field(default=529, ge=400, le=599)
    count: int = 1
    retry_after: float | None = None
    bug_id: str = ""
    broken_off: bool = False


class _Messages:
    def __init__(self, director: Director) -> None:
        self._director = director

    async def create(self, request: Request) -> Response:
        asked = await self._read(request)
        if isinstance(asked, Failure):
            return wire.error(asked)
        answering = asyncio.create_task(self._director.answer(asked))
        leaving = asyncio.create_task(_left(request))
        try:
            # A caller that was killed must not go on waiting at a hold: others look there to see who waits.
            await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                return Response(status_code=499)
            return wire.render(answering.result(), asked)
        finally:
            answering.cancel()
            leaving.cancel()

    async def count_tokens(self, request: Request) -> Response:
        asked = await self._read(request)
        if isinstance(asked, Failure):
            return wire.error(asked)
        return JSONResponse({"input_tokens": asked.tokens})

    async def _read(self, request: Request) -> Conversation | Failure:
        if self._director.api_key and request.headers.get("x-api-key") != self._director.api_key:
            return Failure(401, "invalid x-api-key")
        try:
            return read(json.loads(await request.body()))
        except (ValueError, KeyError, TypeError) as exc:
            return Failure(400, f"This is no request for messages: {exc!r}.")


class _Control:
    def __init__(self, director: Director) -> None:
        self._director = director

    async def holds(self, request: Request) -> Response:
        return JSONResponse(self._director.holds.overview())

    async def arm(self, request: Request) -> Response:
        self._director.holds.arm(request.path_params["name"])
        return JSONResponse(self._director.holds.overview())

    async def release(self, request: Request) -> Response:
        await self._director.release(request.path_params["name"])
        return JSONResponse(self._director.holds.overview())

    async def log(self, request: Request) -> Response:
        """`?bug_id=` narrows the list, `?messages=1` adds each request's system prompt and messages."""
        bug_id, messages = request.query_params.get("bug_id", ""), "messages" in request.query_params
        shown = [exchange for exchange in self._director.log if bug_id in {"", exchange.conversation.bug_id}]
        return JSONResponse({"requests": [exchange.as_json(messages=messages) for exchange in shown]})

    async def errors(self, request: Request) -> Response:
        """Body: `{"status": 529, "count": 1, "retry_after": null, "bug_id": "", "broken_off": false}`."""
        try:
            order = ErrorOrder.model_validate_json(await request.body() or b"{}")
        except ValidationError as exc:
            return JSONResponse(
                {"error": f"Send status, count, retry_after, bug_id, broken_off, or some of them: {exc}"}, 400
            )
        if order.broken_off:
            self._director.break_next(order.count, bug_id=order.bug_id)
        else:
            self._director.fail_next(**order.model_dump(exclude={"broken_off"}))
        return Response(status_code=204)


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
