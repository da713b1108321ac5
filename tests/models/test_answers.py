"""Answers that the sandbox never gives: of other providers, of other shapes, cut off, or no answers at all."""

import contextlib
from collections.abc import Sequence
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.models.asking import (
    BOTH,
    KEY,
    TOOLS,
    Answering,
    Make,
    asked,
    returned,
    said,
)
from threadline.models import client as live
from threadline.models.errors import ContextTooLong, ModelRefused, ModelUnavailable, RateLimited
from threadline.models.model import ModelReply, ToolChoice

ODD: Sequence[Any] = ("", "null", "[]", "{}", "{", '"words"', {"output": None}, {"choices": []}, {"choices": [{}]})


@BOTH
@pytest.mark.parametrize("body", ODD, ids=str)
async def test_an_answer_of_another_shape_is_said_to_be_unreadable(
    make: Make, answering: Answering, api: str, body: Any
) -> None:
    model = make(base_url=await answering(body), api=api)
    with pytest.raises(ModelUnavailable):
        await model.ask(asked())


async def test_a_page_instead_of_an_api_says_which_setting_is_wrong(make: Make, answering: Answering) -> None:
    with pytest.raises((ModelUnavailable, ModelRefused), match="OPENAI_BASE_URL"):
        await make(base_url=await answering("<html>Welcome</html>", "text/html")).ask(asked())
    with pytest.raises(ModelRefused, match="OPENAI_BASE_URL"):
        await make(base_url=await answering("<html>No such page</html>", "text/html", 404)).ask(asked())


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("This model's maximum context length is 8192 tokens", ContextTooLong),
        ("The model `x` does not exist", ModelRefused),
        (f"Incorrect API key provided: {KEY}, at https://inner.example/v1", ModelRefused),
    ],
)
async def test_other_providers_words_are_understood_and_not_repeated(
    make: Make, answering: Answering, message: str, kind: type[Exception]
) -> None:
    address = await answering({"error": {"message": message, "type": "BadRequest", "code": 400}}, status=400)
    with pytest.raises(kind) as raised:
        await make(base_url=address, api="chat").ask(asked())
    assert not {KEY, "inner.example", "8192", "`x`"} & set(str(raised.value).split())
    assert KEY not in str(raised.value)


async def test_an_answer_that_never_ends_is_given_up(make: Make) -> None:
    async def alive(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"content-type": "application/json"})
        await answer.prepare(request)
        with contextlib.suppress(ConnectionError):
            while True:
                await answer.write(b" " * 1_000)  # a single one would fill the buffers for seconds
        return answer

    app = web.Application()
    app.router.add_post("/v1/responses", alive)
    async with TestServer(app) as server:
        with pytest.raises(ModelUnavailable, match="in time"):
            await make(base_url=str(server.make_url("/v1")), timeout=0.5).ask(asked())


def response(**changes: Any) -> dict[str, Any]:
    call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "t", "status": "completed"}
    whole: dict[str, Any] = {
        "id": "resp_1",
        "object": "response",
        "status": "completed",
        "output": [
            call | {"arguments": "{}"},
            call | {"call_id": "call_2", "arguments": '{"a"', "status": "incomplete"},
        ],
    }
    return whole | changes


async def test_a_reply_that_was_cut_keeps_what_is_whole(make: Make, answering: Answering) -> None:
    address = await answering(response(status="incomplete"))
    answer = await make(base_url=address).ask(asked())
    assert answer.cut
    assert [call.id for call in answer.reply.calls] == ["call_1"]
    calls = [
        {"id": f"c{number}", "type": "function", "function": {"name": "t", "arguments": arguments}}
        for number, arguments in enumerate(["{}", '{"a"'])
    ]
    choice = {"index": 0, "finish_reason": "length", "message": {"role": "assistant", "tool_calls": calls}}
    answer = await make(base_url=await answering({"choices": [choice]}), api="chat").ask(asked())
    assert answer.cut
    assert [call.id for call in answer.reply.calls] == ["c0"]


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("rate_limit_exceeded", RateLimited),
        ("server_error", ModelUnavailable),
        ("invalid_prompt", ModelRefused),
        ("bio_policy", ModelRefused),
        ("context_length_exceeded", ContextTooLong),
    ],
)
async def test_a_response_that_failed_is_an_error_of_its_kind(
    make: Make, answering: Answering, code: str, kind: type[Exception]
) -> None:
    failed = response(status="failed", output=[], error={"code": code, "message": "Sorry."})
    with pytest.raises(kind):
        await make(base_url=await answering(failed)).ask(asked())


async def test_a_refusal_in_words_is_the_text(make: Make, answering: Answering) -> None:
    part = {"type": "refusal", "refusal": "I will not."}
    message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}
    answer = await make(base_url=await answering(response(output=[message]))).ask(asked())
    assert answer.reply == ModelReply("I will not.")


async def test_calls_of_an_endpoint_that_numbers_them_anew_are_told_apart(make: Make, answering: Answering) -> None:
    call = {"id": "call_0", "type": "function", "function": {"name": "t", "arguments": "{}"}}
    choice = {"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant", "tool_calls": [call, call]}}
    model = make(base_url=await answering({"choices": [choice]}), api="chat")
    first = (await model.ask(asked())).reply
    second = (await model.ask(asked(said(first), *map(returned, first.calls)))).reply
    ids = [call.id for reply in (first, second) for call in reply.calls]
    assert len(set(ids)) == len(ids) == 4


async def test_chat_is_told_to_keep_nothing_where_that_is_understood(
    make: Make, answering: Answering, bodies: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    address = await answering({"choices": [{"index": 0, "finish_reason": "stop", "message": {"content": "Yes."}}]})
    model = make(base_url=address, api="chat")
    await model.ask(asked())
    monkeypatch.setattr(live, "OPENAI", address)
    await model.ask(asked())
    assert [body.get("store") for body in bodies] == [None, False]


async def test_responses_asks_for_what_the_dialogue_needs(make: Make, answering: Answering, bodies: list[Any]) -> None:
    await make(base_url=await answering(response())).ask(asked(cache_key="T1:C1:1.2", tool_choice=ToolChoice.NONE))
    told = bodies[0]
    assert (told["store"], told["include"]) == (False, ["reasoning.encrypted_content"])
    assert (told["tool_choice"], told["tools"], told["prompt_cache_key"]) == ("none", list(TOOLS), "T1:C1:1.2")
    assert "max_output_tokens" not in told


async def test_an_answer_may_be_bounded(make: Make, answering: Answering, bodies: list[Any]) -> None:
    await make(base_url=await answering(response())).ask(asked(longest=300))
    assert bodies[0]["max_output_tokens"] == 300
