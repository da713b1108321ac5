"""Answers that the sandbox never gives: of other providers, cut off, of other shapes, or no answers at all."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.models.asking import BOTH, TOOLS, Answering, Make, asked, returned, said
from threadline.errors import Permanent, Transient
from threadline.models import client as live
from threadline.models.model import ModelReply, ToolChoice

ODD: Sequence[Any] = ("", "null", "[]", "{}", {"output": None}, {"choices": []}, {"choices": [{}]})


@BOTH
@pytest.mark.parametrize("body", ODD, ids=str)
async def test_answer_of_another_shape_is_unreadable(make: Make, answering: Answering, api: str, body: Any) -> None:
    model = make(base_url=await answering(body), api=api)
    with pytest.raises(Transient):
        await model.ask(asked())


async def test_web_page_in_place_of_an_api_names_the_setting(make: Make, answering: Answering) -> None:
    with pytest.raises(Transient, match="OPENAI_BASE_URL"):
        await make(base_url=await answering("<html>Welcome</html>", "text/html")).ask(asked())
    with pytest.raises(Permanent, match="OPENAI_BASE_URL"):
        await make(base_url=await answering("<html>No such page</html>", "text/html", 404)).ask(asked())


def response(**changes: Any) -> dict[str, Any]:
    """An answer of Responses with one whole call and one cut off."""
    call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "t", "status": "completed"}
    cut = {"call_id": "call_2", "arguments": '{"a"', "status": "incomplete"}
    output = [call | {"arguments": "{}"}, call | cut]
    return {"id": "resp_1", "object": "response", "status": "completed", "output": output} | changes


def completion(finish: str, **message: Any) -> dict[str, Any]:
    """An answer of Chat Completions."""
    return {"choices": [{"index": 0, "finish_reason": finish, "message": {"role": "assistant", **message}}]}


def function_call(call_id: str, arguments: str = "{}") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "t", "arguments": arguments}}


@pytest.mark.parametrize(
    ("api", "body"),
    [
        ("responses", response(status="incomplete")),
        ("chat", completion("length", tool_calls=[function_call("call_1"), function_call("call_2", '{"a"')])),
    ],
    ids=["responses", "chat"],
)
async def test_cut_reply_keeps_its_whole_calls(make: Make, answering: Answering, api: str, body: Any) -> None:
    answer = await make(base_url=await answering(body), api=api).ask(asked())
    assert answer.cut
    assert [call.id for call in answer.reply.calls] == ["call_1"]


async def test_failed_response_is_an_error_of_its_code(make: Make, answering: Answering) -> None:
    failed = response(status="failed", output=[], error={"code": "rate_limit_exceeded", "message": "Sorry."})
    with pytest.raises(Transient):
        await make(base_url=await answering(failed)).ask(asked())


async def test_refusal_in_words_is_the_text(make: Make, answering: Answering) -> None:
    part = {"type": "refusal", "refusal": "I will not."}
    message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}
    answer = await make(base_url=await answering(response(output=[message]))).ask(asked())
    assert answer.reply == ModelReply("I will not.")


async def test_repeated_call_ids_are_made_unique(make: Make, answering: Answering) -> None:
    body = completion("tool_calls", tool_calls=[function_call("call_0"), function_call("call_0")])
    model = make(base_url=await answering(body), api="chat")
    first = (await model.ask(asked())).reply
    second = (await model.ask(asked(said(first), *map(returned, first.calls)))).reply
    ids = [call.id for reply in (first, second) for call in reply.calls]
    assert len(set(ids)) == len(ids) == 4


async def test_chat_forbids_storing_only_at_openai(
    make: Make, answering: Answering, bodies: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    address = await answering(completion("stop", content="Yes."))
    model = make(base_url=address, api="chat")
    await model.ask(asked())
    monkeypatch.setattr(live, "OPENAI", address)
    await model.ask(asked())
    assert [body.get("store") for body in bodies] == [None, False]


async def test_responses_request_has_what_the_dialogue_needs(
    make: Make, answering: Answering, bodies: list[Any]
) -> None:
    model = make(base_url=await answering(response()))
    await model.ask(asked(cache_key="T1:C1:1.2", tool_choice=ToolChoice.NONE))
    await model.ask(asked(max_output_tokens=300))
    whole, bounded = bodies
    assert (whole["store"], whole["include"]) == (False, ["reasoning.encrypted_content"])
    assert (whole["tool_choice"], whole["tools"], whole["prompt_cache_key"]) == ("none", list(TOOLS), "T1:C1:1.2")
    assert "max_output_tokens" not in whole
    assert bounded["max_output_tokens"] == 300
