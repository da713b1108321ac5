"""Answers that the sandbox never gives: of other providers, cut off, in other forms, or no answers
at all.
"""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from tests.models.asking import BOTH, TOOLS, Answering, Make, asked, returned, said
from threadline.errors import Permanent, Transient
from threadline.models import client as live
from threadline.models.errors import ContextTooLong
from threadline.models.model import Ended, ModelReply, ToolChoice

ODD: Sequence[Any] = ("", "null", "[]", "{}", {"output": None}, {"choices": []}, {"choices": [{}]})


@BOTH
@pytest.mark.parametrize("body", ODD, ids=str)
async def test_answer_of_another_shape_is_unreadable(
    make: Make, answering: Answering, api: str, body: Any
) -> None:
    model = make(base_url=await answering(body), api=api)
    with pytest.raises(Transient):
        await model.ask(asked())


async def test_web_page_in_place_of_an_api_names_the_setting(
    make: Make, answering: Answering
) -> None:
    with pytest.raises(Transient, match="OPENAI_BASE_URL"):
        await make(base_url=await answering("<html>Welcome</html>", "text/html")).ask(asked())
    with pytest.raises(Permanent, match="OPENAI_BASE_URL"):
        await make(base_url=await answering("<html>No such page</html>", "text/html", 404)).ask(
            asked()
        )


def response(**changes: Any) -> dict[str, Any]:
    """An answer of Responses with one whole call and one cut off."""
    call = {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "call_1",
        "name": "t",
        "status": "completed",
    }
    cut = {"call_id": "call_2", "arguments": '{"a"', "status": "incomplete"}
    output = [call | {"arguments": "{}"}, call | cut]
    return {
        "id": "resp_1",
        "object": "response",
        "status": "completed",
        "output": output,
    } | changes


def completion(finish: str, **message: Any) -> dict[str, Any]:
    """An answer of Chat Completions."""
    return {
        "choices": [
            {"index": 0, "finish_reason": finish, "message": {"role": "assistant", **message}}
        ]
    }


def function_call(call_id: str, arguments: str = "{}") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "t", "arguments": arguments}}


@pytest.mark.parametrize(
    ("api", "body"),
    [
        ("responses", response(status="incomplete")),
        (
            "chat",
            completion(
                "length", tool_calls=[function_call("call_1"), function_call("call_2", '{"a"')]
            ),
        ),
    ],
    ids=["responses", "chat"],
)
async def test_cut_reply_keeps_its_whole_calls(
    make: Make, answering: Answering, api: str, body: Any
) -> None:
    answer = await make(base_url=await answering(body), api=api).ask(asked())
    assert answer.ended is Ended.LENGTH
    assert [call.id for call in answer.reply.calls] == ["call_1"]


async def test_failed_response_is_an_error_of_its_code(make: Make, answering: Answering) -> None:
    failed = response(
        status="failed", output=[], error={"code": "rate_limit_exceeded", "message": "Sorry."}
    )
    with pytest.raises(Transient):
        await make(base_url=await answering(failed)).ask(asked())


async def test_refusal_in_words_is_the_text(make: Make, answering: Answering) -> None:
    part = {"type": "refusal", "refusal": "I will not."}
    message = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }
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
    await make(base_url=address, api="chat").ask(asked())
    monkeypatch.setattr(live, "OPENAI", address)
    await make(base_url=address, api="chat").ask(asked())
    assert [body.get("store") for body in bodies] == [None, False]


async def test_responses_request_has_what_the_dialogue_needs(
    make: Make, answering: Answering, bodies: list[Any]
) -> None:
    model = make(base_url=await answering(response()))
    await model.ask(asked(cache_key="T1:C1:1.2", tool_choice=ToolChoice.NONE))
    await model.ask(asked(max_output_tokens=300))
    whole, bounded = bodies
    assert (whole["store"], whole["include"]) == (False, ["reasoning.encrypted_content"])
    assert (whole["tool_choice"], whole["tools"], whole["prompt_cache_key"]) == (
        "none",
        list(TOOLS),
        "T1:C1:1.2",
    )
    assert whole["max_output_tokens"] == live.LONGEST_REASONED_ANSWER
    assert bounded["max_output_tokens"] == 300


async def test_chat_request_forbids_tools_where_the_prompt_does(
    make: Make, answering: Answering, bodies: list[Any]
) -> None:
    model = make(base_url=await answering(written("Done.")), api="chat")
    await model.ask(asked(tool_choice=ToolChoice.NONE))
    assert bodies[0]["tool_choice"] == "none"
    assert len(bodies[0]["tools"]) == len(TOOLS)


def written(text: Any, finish: str = "stop", **message: Any) -> dict[str, Any]:
    return completion(finish, content=text, **message)


CHATS: Sequence[tuple[str, dict[str, Any], str, Ended]] = [
    ("a string", written("Hi."), "Hi.", Ended.WHOLE),
    (
        "parts",
        written([{"type": "text", "text": "H"}, {"type": "text", "text": "i."}]),
        "Hi.",
        Ended.WHOLE,
    ),
    (
        "thoughts as a part",
        written([{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "Hi."}]),
        "Hi.",
        Ended.WHOLE,
    ),
    ("thoughts in the text", written("<think>Hm.</think>Hi."), "Hi.", Ended.WHOLE),
    ("cut", written("Hi", "length"), "Hi", Ended.LENGTH),
    ("filtered", written("Hi", "content_filter"), "Hi", Ended.FILTER),
    ("refused", written(None, refusal="I will not."), "I will not.", Ended.REFUSED),
    ("no text", written(None), "", Ended.WHOLE),
]


@pytest.mark.parametrize(
    ("body", "text", "ended"), [row[1:] for row in CHATS], ids=[row[0] for row in CHATS]
)
async def test_chat_answer_of_any_vendor_is_read(
    make: Make, answering: Answering, body: Any, text: str, ended: Ended
) -> None:
    answer = await make(base_url=await answering(body), api="chat").ask(asked())
    assert (answer.reply.text, answer.ended) == (text, ended)


@pytest.mark.parametrize(
    ("arguments", "read"),
    [(None, {}), ("", {}), ({"words": "cart"}, {"words": "cart"}), ('{"a": 1}', {"a": 1})],
)
async def test_arguments_of_any_type_are_read(
    make: Make, answering: Answering, arguments: Any, read: Any
) -> None:
    call = function_call("call_1") | {"function": {"name": "t", "arguments": arguments}}
    answer = await make(
        base_url=await answering(completion("tool_calls", tool_calls=[call])), api="chat"
    ).ask(asked())
    assert [json.loads(each.arguments) for each in answer.reply.calls] == [read]


async def test_call_in_the_text_is_made(make: Make, answering: Answering) -> None:
    name = str(TOOLS[1]["name"])
    body = written(
        f'<tool_call>{{"name": "{name}", "arguments": {{"project_id": "P-12"}}}}</tool_call>'
    )
    answer = await make(base_url=await answering(body), api="chat").ask(asked())
    assert answer.reply.text == ""
    assert [(each.name, json.loads(each.arguments)) for each in answer.reply.calls] == [
        (name, {"project_id": "P-12"})
    ]
    assert all(each.id for each in answer.reply.calls)


FAILED: Sequence[tuple[str, dict[str, Any], type[Exception], str]] = [
    ("an error", {"error": {"message": "Overloaded", "code": 502}}, Transient, "broke off"),
    ("a rate limit", {"error": {"message": "Slow down", "code": 429}}, Transient, "rate limit"),
    (
        "too long",
        {"error": {"message": "maximum context length is 10 tokens"}},
        ContextTooLong,
        "longer",
    ),
    ("an error as a string", {"error": "boom"}, Transient, "broke off"),
    (
        "a choice with an error",
        {
            "choices": [
                {
                    "index": 0,
                    "finish_reason": "error",
                    "error": {"message": "Provider returned error", "code": 502},
                    "message": {"role": "assistant", "content": ""},
                }
            ]
        },
        Transient,
        "broke off",
    ),
    (
        "a message and a code",
        {"code": "InvalidParameter", "message": "Bad", "request_id": "1"},
        Permanent,
        "invalid",
    ),
    (
        "vLLM's object",
        {"object": "error", "message": "maximum context length is 10", "code": 400},
        ContextTooLong,
        "longer",
    ),
    (
        "a status in a code",
        {"error": {"message": "User not found.", "code": 401}},
        Permanent,
        "OPENAI_API_KEY",
    ),
    ("a key", {"error": {"message": "x", "code": "invalid_api_key"}}, Permanent, "OPENAI_API_KEY"),
    ("no credit", {"error": {"message": "Pay", "code": 402}}, Permanent, "billing"),
    (
        "no model",
        {"error": {"message": "model 'x' not found", "code": 404}},
        Permanent,
        "THREADLINE_OPENAI_MODEL",
    ),
    (
        "a refusal",
        {"error": {"message": "Provider returned error", "code": 400}},
        Permanent,
        "invalid",
    ),
    ("words alone", {"detail": "Service unavailable"}, Transient, "broke off"),
    ("a short message", {"success": False, "code": 500, "msg": "busy"}, Transient, "broke off"),
    (
        "a list of errors",
        {"errors": [{"message": "Slow down", "code": 429}]},
        Transient,
        "rate limit",
    ),
    (
        "MiniMax",
        {
            "choices": None,
            "base_resp": {"status_code": 1008, "status_msg": "insufficient balance"},
        },
        Permanent,
        "billing",
    ),
    (
        "an error of a message",
        {
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": None, "error": {"code": 502}},
                }
            ]
        },
        Transient,
        "broke off",
    ),
    (
        "an error beside words",
        written("Hi") | {"error": {"message": "Overloaded", "code": 502}},
        Transient,
        "broke off",
    ),
    ("a broken end", written("Hi", "error"), Transient, "broke off"),
    ("a malformed call", written(None, "MALFORMED_FUNCTION_CALL"), Transient, "unusable"),
]


@pytest.mark.parametrize(
    ("body", "kind", "says"), [row[1:] for row in FAILED], ids=[row[0] for row in FAILED]
)
async def test_error_in_an_answer_with_status_200_is_an_error(
    make: Make, answering: Answering, body: Any, kind: type[Exception], says: str
) -> None:
    with pytest.raises(kind, match=says):
        await make(base_url=await answering(body), api="chat").ask(asked())


@pytest.mark.parametrize(
    ("error", "kind", "says"),
    [
        ({"message": "Slow down", "code": 429}, Transient, "rate limit"),
        ("boom", Transient, "broke off"),
        ({"message": "maximum context length is 10"}, ContextTooLong, "longer"),
        ({"code": 401}, Permanent, "OPENAI_API_KEY"),
    ],
)
async def test_error_in_an_answer_of_responses_is_an_error(
    make: Make, answering: Answering, error: Any, kind: type[Exception], says: str
) -> None:
    with pytest.raises(kind, match=says):
        await make(base_url=await answering({"error": error}), api="responses").ask(asked())


@pytest.mark.parametrize(
    "beside",
    [
        {"error": None, "errors": [], "message": "", "code": 200},
        {"base_resp": {"status_code": 0, "status_msg": ""}},
        {"message": "ok", "code": 0, "status": "success"},
        {"detail": "cached"},
    ],
    ids=str,
)
async def test_words_beside_an_answer_are_no_error(
    make: Make, answering: Answering, beside: dict[str, Any]
) -> None:
    answer = await make(base_url=await answering(written("Hi.") | beside), api="chat").ask(asked())
    assert answer.reply.text == "Hi."


async def test_answer_is_bounded_and_own_words_are_messages(
    make: Make, answering: Answering, bodies: list[Any]
) -> None:
    await make(base_url=await answering(written("Hi.")), api="chat").ask(asked())
    await make(base_url=await answering(response(output=[]))).ask(
        asked(said(ModelReply("Hello.")))
    )
    chat, responses = bodies
    assert chat["max_tokens"] == live.LONGEST_ANSWER
    assert {"type": "message", "role": "assistant", "content": "Hello."} in responses["input"]
