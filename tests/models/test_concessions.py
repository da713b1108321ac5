"""An endpoint that refuses a part of a request gets it again without that part, and only once."""

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.models.asking import KEY, asked
from threadline.errors import Permanent
from threadline.models.client import LONGEST_ANSWER, SHORT_ANSWER, OpenAIConfig, OpenAIModel
from threadline.models.errors import ContextTooLong
from threadline.models.model import ResponseFormat

Refuse = Callable[[dict[str, Any]], str]
ANSWER = {
    "choices": [
        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hi."}}
    ]
}
FORM = ResponseFormat("decision", {"type": "object", "properties": {}})
COUNTED = (
    "This model's maximum context length is 4096 tokens. However, you requested {0} in the "
    "completion."
)


class Endpoint:
    """Refuses the bodies for which `refuse` returns an error text, and keeps all bodies."""

    def __init__(self) -> None:
        self.refuse: Refuse = lambda body: ""
        self.bodies: list[dict[str, Any]] = []

    async def answer(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.bodies.append(body)
        if words := self.refuse(body):
            return web.json_response({"error": {"message": words, "code": None}}, status=400)
        return web.Response(text=json.dumps(ANSWER), content_type="application/json")

    @property
    def lengths(self) -> list[int]:
        return [body["max_tokens"] for body in self.bodies]


@pytest.fixture
def endpoint() -> Endpoint:
    return Endpoint()


@pytest_asyncio.fixture
async def model(endpoint: Endpoint) -> AsyncIterator[OpenAIModel]:
    app = web.Application()
    app.router.add_post("/v1/chat/completions", endpoint.answer)
    async with TestServer(app) as server:
        made = OpenAIModel(
            OpenAIConfig("small", KEY, base_url=str(server.make_url("/v1")), api="chat")
        )
        yield made
        await made.close()


async def test_prompt_that_is_too_long_goes_back_at_once(
    model: OpenAIModel, endpoint: Endpoint
) -> None:
    endpoint.refuse = lambda body: "the request exceeds the available context size (2048 tokens)"
    with pytest.raises(ContextTooLong):
        await model.ask(asked())
    assert endpoint.lengths == [LONGEST_ANSWER]


async def test_answer_that_counts_into_the_window_is_shortened(
    model: OpenAIModel, endpoint: Endpoint
) -> None:
    endpoint.refuse = lambda body: (
        COUNTED.format(body["max_tokens"]) if body["max_tokens"] > 1_000 else ""
    )
    await model.ask(asked())
    assert endpoint.lengths == [LONGEST_ANSWER, SHORT_ANSWER]


async def test_window_too_small_for_the_short_answer_goes_back(
    model: OpenAIModel, endpoint: Endpoint
) -> None:
    endpoint.refuse = lambda body: COUNTED.format(body["max_tokens"])
    with pytest.raises(ContextTooLong):
        await model.ask(asked())
    assert endpoint.lengths == [LONGEST_ANSWER, SHORT_ANSWER]


async def test_limit_that_the_endpoint_names_is_kept(
    model: OpenAIModel, endpoint: Endpoint
) -> None:
    endpoint.refuse = lambda body: (
        "max_tokens must be at most 1024" if body["max_tokens"] > 1_024 else ""
    )
    await model.ask(asked())
    await model.ask(asked())
    await model.ask(asked(max_output_tokens=300))
    assert endpoint.lengths == [LONGEST_ANSWER, 1_024, 1_024, 300]


@pytest.mark.parametrize("field", ["response_format", "tool_choice", "max_tokens"])
async def test_refused_field_is_left_out_from_then_on(
    model: OpenAIModel, endpoint: Endpoint, field: str
) -> None:
    endpoint.refuse = lambda body: f"Unsupported parameter: '{field}'" if field in body else ""
    await model.ask(asked(form=FORM))
    await model.ask(asked(form=FORM))
    assert [field in body for body in endpoint.bodies] == [True, False, False]


async def test_endpoint_that_refuses_one_field_after_another_is_asked(
    model: OpenAIModel, endpoint: Endpoint
) -> None:
    fields = ("tool_choice", "response_format", "max_tokens", "max_completion_tokens")
    endpoint.refuse = lambda body: next(
        (f"unknown field '{each}'" for each in fields if each in body), ""
    )
    assert (await model.ask(asked(form=FORM))).reply.text == "Hi."
    assert len(endpoint.bodies) == len(fields) + 1


async def test_refusal_of_a_field_that_was_not_sent_ends(
    model: OpenAIModel, endpoint: Endpoint
) -> None:
    endpoint.refuse = lambda body: "Unsupported parameter: 'response_format', 'messages'"
    with pytest.raises(Permanent):
        await model.ask(asked())
    assert len(endpoint.bodies) == 1
