"""The model sandbox: answers Anthropic's and OpenAI's APIs from scripts, at its own port in this
process.
"""

import asyncio
import contextlib
import json
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from typing import Self

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from threadline_devstack.models import anthropic, openai_chat, openai_responses
from threadline_devstack.models.exchanges import script_for
from threadline_devstack.models.request import ModelRequest
from threadline_devstack.models.script import (
    Holds,
    Script,
    ScriptAnswer,
    ScriptFailure,
    ScriptInterruption,
    ScriptReply,
    ScriptTurn,
    play,
)
from threadline_devstack.models.wire import RequestRefused, Wire
from threadline_devstack.processes import HOST
from threadline_devstack.server import Endpoint, bound, guarded, serving, until_left

logger = logging.getLogger(__name__)

LOG_SIZE = 500
"""Requests in the log; older ones are dropped, since each holds a whole conversation."""
LISTED = ("model-sandbox", "gpt-5.4-mini")
"""Models in the lists, among them the product's default; the sandbox answers for any name."""
COUNTED_STEPS = 10_000
"""Steps whose requests are counted. The least recently requested one is dropped, and counted from
1 again.
"""
SHUTDOWN_SECONDS = 1
"""Seconds by which a held reply may delay the shutdown."""

Predicate = Callable[[ModelRequest], bool]

_WRONG_KEY = ScriptFailure(401, "This is not the sandbox's API key.", code="invalid_api_key")


@dataclass
class LoggedRequest:
    """One request for a step and its answer, which is None while it is held or being written."""

    conversation: ModelRequest
    asked: int
    answer: ScriptAnswer | None = None


@dataclass
class FaultOrder:
    """A fixed answer to the next `left` requests that fit, in place of their script's."""

    answer: ScriptFailure | ScriptInterruption
    left: int
    bug_id: str
    api: str
    schema_name: str = ""

    def meets(self, request: ModelRequest) -> bool:
        of_case = self.bug_id in {"", request.bug_id} and self.api in {"", request.api}
        return of_case and self.schema_name == request.schema_name


@dataclass(repr=False)
class ModelSandbox:
    """Answers requests at `url`, the value for ANTHROPIC_BASE_URL; OPENAI_BASE_URL ends in `/v1`.

    Without a registered script that fits, the exchanges of scripts/*.yaml play. `pace` is a pause
    in seconds before every reply, so that people can watch; `api_key`, when given, is the only
    valid one. Every reply to a case stops at the hold `investigating:<bug id>` while that is
    armed, and every reply over OpenAI's APIs at `conversing`, so that a demo can write during a
    turn reliably. `refused` are the answers to requests that broke a rule of OpenAI's APIs; they
    are not in the log. Requests for an answer in a form have a separate log, and scripts and
    faults that name the form.
    """

    pace: float = 0.0
    api_key: str = ""
    url: str = ""
    log: deque[LoggedRequest] = field(default_factory=lambda: deque(maxlen=LOG_SIZE), init=False)
    structured_requests: deque[LoggedRequest] = field(
        default_factory=lambda: deque(maxlen=LOG_SIZE), init=False
    )
    refused: deque[ScriptFailure] = field(
        default_factory=lambda: deque(maxlen=LOG_SIZE), init=False
    )
    holds: Holds = field(default_factory=Holds, init=False)
    _scripts: list[tuple[Predicate, Script]] = field(default_factory=list, init=False)
    _asked: dict[str, int] = field(default_factory=dict, init=False)
    _faults: list[FaultOrder] = field(default_factory=list, init=False)

    @classmethod
    @contextlib.asynccontextmanager
    async def running(
        cls, *, port: int = 0, pace: float = 0.0, api_key: str = ""
    ) -> AsyncIterator[Self]:
        """Serve on 127.0.0.1 until the block ends.

        Args:
            port: 0 takes a free one.
            pace: seconds of pause before every reply.
            api_key: the only valid key; any is when empty.

        Raises:
            OSError: the port is taken.
        """
        with bound(port) as listener:
            sandbox = cls(pace, api_key, f"http://{HOST}:{listener.getsockname()[1]}")
            app = guarded(
                [
                    Route("/v1/messages", sandbox._create(anthropic.WIRE), methods=["POST"]),
                    Route("/v1/models", sandbox._list_models, methods=["GET"]),
                    Route("/v1/messages/count_tokens", sandbox._count_tokens, methods=["POST"]),
                    Route(
                        "/v1/responses", sandbox._create(openai_responses.WIRE), methods=["POST"]
                    ),
                    Route(
                        "/v1/chat/completions", sandbox._create(openai_chat.WIRE), methods=["POST"]
                    ),
                ]
            )
            # uvicorn logs replies that break off on purpose as errors.
            async with serving(app, listener, grace=SHUTDOWN_SECONDS, log_level="critical"):
                yield sandbox

    @property
    def settings(self) -> dict[str, str]:
        """The settings by which the product finds both models, Anthropic's and OpenAI's."""
        key = self.api_key or "model-sandbox"
        anthropic = {"ANTHROPIC_BASE_URL": self.url, "ANTHROPIC_API_KEY": key}
        return anthropic | {"OPENAI_BASE_URL": f"{self.url}/v1", "OPENAI_API_KEY": key}

    # For tests and stories

    def script(
        self,
        script: Script,
        *,
        bug_id: str = "",
        report: str = "",
        schema_name: str = "",
        when: Predicate = lambda request: True,
    ) -> None:
        """Play `script` for requests that meet all given conditions; the last registered script
        wins.

        Args:
            bug_id: the case, such as `BUG-12`.
            report: text that is in one of the conversation's prompts.
            schema_name: the form of the requested answer.
            when: any other condition on the request.
        """

        def wanted(request: ModelRequest) -> bool:
            return (
                bug_id in {"", request.bug_id}
                and schema_name == request.schema_name
                and any(report in prompt for prompt in request.prompts)
                and when(request)
            )

        self._scripts.append((wanted, script))

    def fail_next(
        self,
        count: int = 1,
        *,
        status: int = 529,
        retry_after: float | None = None,
        bug_id: str = "",
        api: str = "",
        code: str = "",
        schema_name: str = "",
    ) -> None:
        """Answer the next `count` requests with an HTTP error, in place of their script.

        Args:
            count: the number of answers.
            status: of the answers.
            retry_after: seconds, for the header.
            bug_id: only requests of this case.
            api: only requests over this wire: `messages`, `responses` or `chat`.
            code: OpenAI's name for the error, such as `context_length_exceeded`.
            schema_name: only requests for an answer in the form of this name; empty for the other
                requests.
        """
        failure = ScriptFailure(status, retry_after=retry_after, code=code)
        self._faults.append(FaultOrder(failure, count, bug_id, api, schema_name))

    def disconnect_next(self, count: int = 1, *, bug_id: str = "", api: str = "") -> None:
        """Begin the next `count` replies, and close their connections in the middle."""
        self._faults.append(FaultOrder(ScriptInterruption(), count, bug_id, api))

    def requests(self, bug_id: str = "") -> list[ModelRequest]:
        """Return the requests of a case, or all of them; without requests for an answer in a
        form.
        """
        return [each.conversation for each in self.log if bug_id in {"", each.conversation.bug_id}]

    # Requests

    def _create(self, wire: Wire) -> Endpoint:
        async def create(request: Request) -> Response:
            asked = await self._read(wire, request)
            if isinstance(asked, ScriptFailure):
                return wire.refuse(asked)
            answering = asyncio.create_task(self.answer(asked))
            leaving = asyncio.create_task(until_left(request))
            try:
                # A killed caller must not keep waiting at a hold: tests read there who waits.
                await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
                if not answering.done():
                    return Response(status_code=499)
                return wire.answer(answering.result(), asked)
            finally:
                answering.cancel()
                leaving.cancel()

        return create

    async def _list_models(self, request: Request) -> Response:
        """List the models. Both APIs have their list at this path; Anthropic's requests name a
        version.
        """
        is_anthropic = "anthropic-version" in request.headers
        wire = anthropic.WIRE if is_anthropic else openai_chat.WIRE
        if self.api_key and wire.key(request) != self.api_key:
            return wire.refuse(_WRONG_KEY)
        kind = "type" if is_anthropic else "object"
        models = [{"id": name, kind: "model"} for name in LISTED]
        return JSONResponse(
            {"data": models} | ({"has_more": False} if is_anthropic else {"object": "list"})
        )

    async def _count_tokens(self, request: Request) -> Response:
        asked = await self._read(anthropic.WIRE, request)
        if isinstance(asked, ScriptFailure):
            return anthropic.WIRE.refuse(asked)
        return JSONResponse({"input_tokens": asked.tokens})

    async def _read(self, wire: Wire, request: Request) -> ModelRequest | ScriptFailure:
        if self.api_key and wire.key(request) != self.api_key:
            return _WRONG_KEY
        try:
            asked = wire.read(json.loads(await request.body()))
        except RequestRefused as refused:
            self.refused.append(refused.failure)
            return refused.failure
        except (ValueError, KeyError, TypeError, AttributeError) as exc:
            return ScriptFailure(400, f"This is no request that the model's API knows: {exc!r}.")
        return replace(asked, cached=self.cached(asked))

    def cached(self, asked: ModelRequest) -> int:
        """Return the number of tokens at the beginning of this request that an earlier one had, as
        a provider's cache would count.
        """
        earlier = (
            each.conversation.tokens for each in self.log if asked.continues(each.conversation)
        )
        return max(earlier, default=0)

    async def answer(self, asked: ModelRequest) -> ScriptAnswer:
        """Return the next step of this conversation."""
        if asked.api == "messages" and not asked.tools:
            # The CLI's own small requests (a title, a topic) have no tools and belong to no
            # script.
            return ScriptReply("Bug investigation")
        logged = LoggedRequest(asked, self._count(asked.fingerprint))
        (self.structured_requests if asked.schema_name else self.log).append(logged)
        fault = next((each for each in self._faults if each.meets(asked)), None)
        if fault:
            fault.left -= 1
            if not fault.left:
                self._faults.remove(fault)
        logged.answer = fault.answer if fault else await self._play(asked, logged.asked)
        return logged.answer

    def _count(self, fingerprint: str) -> int:
        """Count a request for this step. Return how many there were, this one included."""
        times = self._asked.pop(fingerprint, 0) + 1
        self._asked[fingerprint] = times
        if len(self._asked) > COUNTED_STEPS:
            del self._asked[next(iter(self._asked))]
        return times

    async def _play(self, asked: ModelRequest, times: int) -> ScriptAnswer:
        """Return the script's answer; a script's failure becomes a 400 with its message."""
        hold = f"investigating:{asked.bug_id}" if asked.api == "messages" else "conversing"
        if asked.schema_name:
            hold = f"filling-in:{asked.schema_name}"
        try:
            await asyncio.sleep(self.pace)
            await self.holds.wait_if_armed(hold)
            registered = (script for wanted, script in reversed(self._scripts) if wanted(asked))
            script = next(registered, None) or script_for(asked)
            return await play(script, ScriptTurn(asked, self.holds, times))
        except Exception as exc:
            logger.exception("model_script_failed")
            return ScriptFailure(400, f"The model's script failed: {exc}")
