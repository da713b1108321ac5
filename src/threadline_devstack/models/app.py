"""The model sandbox over HTTP: Anthropic's two calls, OpenAI's two APIs, and a control API for tests and demos."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from threadline_devstack.models import anthropic as wire
from threadline_devstack.models import openai_chat, openai_responses
from threadline_devstack.models import openai_common as openai_wire
from threadline_devstack.models.director import Director
from threadline_devstack.models.request import ModelRequest, read
from threadline_devstack.models.script import ScriptAnswer, ScriptFailure
from threadline_devstack.server import guarded


def build(director: Director) -> Starlette:
    """The routes of one sandbox: a further model API is one more `_Wire`."""
    messages, control = _Model(director, _ANTHROPIC), _Control(director)
    responses, chat = _Model(director, _RESPONSES), _Model(director, _CHAT)
    return guarded(
        [
            Route("/v1/messages", messages.create, methods=["POST"]),
            Route("/v1/messages/count_tokens", messages.count_tokens, methods=["POST"]),
            Route("/v1/responses", responses.create, methods=["POST"]),
            Route("/v1/chat/completions", chat.create, methods=["POST"]),
            Route("/control/holds", control.holds),
            Route("/control/holds/{name}/arm", control.arm, methods=["POST"]),
            Route("/control/holds/{name}/release", control.release, methods=["POST"]),
            Route("/control/log", control.log),
            Route("/control/errors", control.errors, methods=["POST"]),
        ]
    )


class FaultOrder(BaseModel):
    """What `Director.fail_next` takes; with `broken_off` it is for `break_next`, with `seconds` for `slow_next`."""

    model_config = ConfigDict(extra="forbid")

    status: int = Field(default=529, ge=400, le=599)
    count: int = Field(default=1, ge=1)
    retry_after: float | None = None
    bug_id: str = ""
    api: Literal["", "messages", "responses", "chat"] = ""
    code: str = ""
    form: str = ""
    broken_off: bool = False
    seconds: float = Field(default=0.0, ge=0)


@dataclass(frozen=True)
class _Wire:
    """One model API: how a request shows its key and is read, and how answers and errors look."""

    key: Callable[[Request], str]
    read: Callable[[Any], ModelRequest | ScriptFailure]
    render: Callable[[ScriptAnswer, ModelRequest], Response]
    error: Callable[[ScriptFailure], Response]


_ANTHROPIC = _Wire(lambda request: request.headers.get("x-api-key", ""), read, wire.render, wire.error)
_RESPONSES = _Wire(openai_wire.key, openai_responses.read, openai_responses.render, openai_wire.error)
_CHAT = _Wire(openai_wire.key, openai_chat.read, openai_chat.render, openai_wire.error)


class _Model:
    def __init__(self, director: Director, spoken: _Wire) -> None:
        self._director, self._wire = director, spoken

    async def create(self, request: Request) -> Response:
        asked = await self._read(request)
        if isinstance(asked, ScriptFailure):
            return self._wire.error(asked)
        answering = asyncio.create_task(self._director.answer(asked))
        leaving = asyncio.create_task(_left(request))
        try:
            # A caller that was killed must not go on waiting at a hold: others look there to see who waits.
            await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                return Response(status_code=499)
            return self._wire.render(answering.result(), asked)
        finally:
            answering.cancel()
            leaving.cancel()

    async def count_tokens(self, request: Request) -> Response:
        asked = await self._read(request)
        if isinstance(asked, ScriptFailure):
            return self._wire.error(asked)
        return JSONResponse({"input_tokens": asked.tokens})

    async def _read(self, request: Request) -> ModelRequest | ScriptFailure:
        if self._director.api_key and self._wire.key(request) != self._director.api_key:
            return ScriptFailure(401, "This is not the sandbox's API key.", code="invalid_api_key")
        try:
            asked = self._wire.read(json.loads(await request.body()))
        except (ValueError, KeyError, TypeError, AttributeError) as exc:
            return ScriptFailure(400, f"This is no request that the model's API knows: {exc!r}.")
        if isinstance(asked, ScriptFailure):
            self._director.refused.append(asked)
            return asked
        return replace(asked, cached=self._director.cached(asked))


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
        """`?bug_id=` narrows the list, `?messages=1` adds each request's system prompt and messages; `?forms=1` lists
        those instead that want an answer in a form."""
        bug_id, messages = request.query_params.get("bug_id", ""), "messages" in request.query_params
        log = self._director.forms if "forms" in request.query_params else self._director.log
        shown = [exchange for exchange in log if bug_id in {"", exchange.conversation.bug_id}]
        return JSONResponse({"requests": [exchange.as_json(messages=messages) for exchange in shown]})

    async def errors(self, request: Request) -> Response:
        """Body: some of the fields of `FaultOrder`, such as `{"status": 429, "count": 2, "api": "responses"}`."""
        try:
            order = FaultOrder.model_validate_json(await request.body() or b"{}")
        except ValidationError as exc:
            return JSONResponse({"error": f"Send {', '.join(FaultOrder.model_fields)}, or some of them: {exc}"}, 400)
        if order.broken_off:
            self._director.break_next(order.count, bug_id=order.bug_id, api=order.api)
        elif order.seconds:
            self._director.slow_next(order.count, seconds=order.seconds, bug_id=order.bug_id, api=order.api)
        else:
            self._director.fail_next(**order.model_dump(exclude={"broken_off", "seconds"}))
        return Response(status_code=204)


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
