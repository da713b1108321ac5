"""The model sandbox over OpenAI's two APIs, with the real SDK as client."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from openai import (
    APIConnectionError,
    APIStatusError,
    AsyncOpenAI,
    BadRequestError,
    InternalServerError,
    RateLimitError,
)

from tests.devstack.model_reset import reset
from tests.support.patience import patient
from threadline_devstack.models.sandbox import ModelSandbox
from threadline_devstack.models.script import ScriptTurn

LIST_ROLES = {
    "type": "function",
    "name": "estimates_listRoles",
    "description": "Roles and their day rates.",
}
JSON = {"Content-Type": "application/json"}
EMPTY = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served_model() -> AsyncIterator[ModelSandbox]:
    async with ModelSandbox.running() as running:
        yield running


@pytest.fixture
def sandbox(served_model: ModelSandbox) -> ModelSandbox:
    return reset(served_model)


@pytest_asyncio.fixture(loop_scope="module")
async def client(sandbox: ModelSandbox) -> AsyncIterator[Any]:
    """The SDK, untyped: the tests also send values that its types forbid."""
    async with AsyncOpenAI(api_key="any", base_url=f"{sandbox.url}/v1", max_retries=0) as made:
        yield made


def responses(client: Any, *items: Mapping[str, Any], **changes: Any) -> Any:
    tools = [LIST_ROLES | {"parameters": EMPTY, "strict": True}]
    given = {
        "model": "gpt-5.4-mini",
        "input": list(items),
        "tools": tools,
        "store": False,
    } | changes
    return client.responses.create(**given)


def chat(client: Any, *messages: Mapping[str, Any], **changes: Any) -> Any:
    function = {"name": "estimates_listRoles", "parameters": EMPTY, "strict": True}
    tools = [{"type": "function", "function": function}]
    return client.chat.completions.create(
        **{"model": "m", "messages": list(messages), "tools": tools} | changes
    )


DOTTED = {"name": "a.b", "arguments": "{}"}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def called(call_id: str) -> dict[str, Any]:
    return {
        "type": "function_call",
        "call_id": call_id,
        "name": "estimates_listRoles",
        "arguments": "{}",
    }


def output(call_id: str) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": "{}"}


async def test_a_script_plays_over_either_api(sandbox: ModelSandbox, client: Any) -> None:
    async def twice(turn: ScriptTurn) -> None:
        await turn.say("I look.")
        first = await turn.call("estimates_listRoles")
        await turn.text_only(f"{turn.prompt} {first.text} {turn.history.count('roles')}")

    sandbox.script(twice)
    asked = await responses(client, user("The roles?"))
    assert [item.type for item in asked.output] == ["reasoning", "message", "function_call"]
    assert asked.output[1].phase == "commentary"
    assert asked.output_text == "I look."
    ended = await responses(client, user("The roles?"), called("c"), output("c"))
    assert ended.output_text == "The roles? {} 1"
    completion = await chat(client, user("The roles?"))
    choice = completion.choices[0]
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", "I look.")
    assert choice.message.tool_calls[0].function.name == "estimates_listRoles"
    assert (
        completion.usage.total_tokens
        == completion.usage.prompt_tokens + completion.usage.completion_tokens
    )


async def lists_roles(turn: ScriptTurn) -> None:
    await turn.call("estimates_listRoles")
    await turn.text_only("These are the roles.")


async def test_streaming_is_refused_with_a_reason(client: Any) -> None:
    for ask in (responses, chat):
        with pytest.raises(BadRequestError, match="does not stream"):
            await ask(client, user("x"), stream=True)


@pytest.mark.parametrize(
    ("items", "changes", "words"),
    [
        ([user("x"), output("c")], {}, "No tool call found"),
        ([user("x"), called("c")], {}, "No tool output found"),
        ([user("x")], {"store": True}, "store=false"),
        ([user("x")], {"model": ""}, "model"),
        (
            [user("x")],
            {"model": "gpt-4.1", "include": ["reasoning.encrypted_content"]},
            "not supported",
        ),
        ([{"type": "mystery"}], {}, "mystery"),
        ([user("x")], {"tools": [LIST_ROLES | {"name": "a.b", "parameters": EMPTY}]}, "a.b"),
        (
            [user("x")],
            {"tools": [LIST_ROLES | {"parameters": {"type": "object"}, "strict": True}]},
            "strict",
        ),
        ([{"type": "reasoning", "id": "rs_1", "summary": []}, user("x")], {}, "rs_1"),
        ([user("x"), called("c") | {"name": "a.b"}, output("c")], {}, "a.b"),
    ],
)
async def test_responses_refuses_the_same_requests_as_openai(
    sandbox: ModelSandbox,
    client: Any,
    items: Sequence[Mapping[str, Any]],
    changes: Mapping[str, Any],
    words: str,
) -> None:
    with pytest.raises(BadRequestError, match=words):
        await responses(client, *items, **changes)
    assert (len(sandbox.refused), len(sandbox.log)) == (1, 0)


async def test_thoughts_return_to_their_model_and_before_their_output(
    sandbox: ModelSandbox, client: Any
) -> None:
    sandbox.script(lists_roles)
    answer = await responses(client, user("List the roles"))
    thought, call = (item.model_dump(exclude_none=True) for item in answer.output)
    result = output(call["call_id"])
    assert (await responses(client, user("List the roles"), thought, call, result)).output_text
    with pytest.raises(BadRequestError, match="verified") as raised:
        await responses(client, user("List the roles"), thought, call, result, model="gpt-6-sol")
    assert raised.value.code == "invalid_encrypted_content"
    with pytest.raises(BadRequestError, match="following item"):
        await responses(client, user("List the roles"), thought, user("Well?"))


@pytest.mark.parametrize(
    ("messages", "changes", "words"),
    [
        ([user("x"), {"role": "tool", "tool_call_id": "c", "content": ""}], {}, "must follow"),
        (
            [
                {
                    "role": "assistant",
                    "tool_calls": [{"id": "c", "type": "function", "function": {}}],
                },
                user("x"),
            ],
            {},
            "none: c",
        ),
        ([user("x")], {"tools": [], "tool_choice": "none"}, "tool_choice"),
        (
            [
                {
                    "role": "assistant",
                    "tool_calls": [{"id": "c", "type": "function", "function": DOTTED}],
                },
                {"role": "tool", "tool_call_id": "c", "content": ""},
            ],
            {},
            "a.b",
        ),
    ],
)
async def test_chat_refuses_the_same_requests_as_openai(
    client: Any, messages: Sequence[Mapping[str, Any]], changes: Mapping[str, Any], words: str
) -> None:
    with pytest.raises(BadRequestError, match=words):
        await chat(client, *messages, **changes)


async def test_a_body_that_is_no_request_is_refused_with_a_reason(sandbox: ModelSandbox) -> None:
    async with aiohttp.ClientSession() as session:
        for path in ("responses", "chat/completions"):
            for body in (
                b"",
                b"[]",
                b"{}",
                b'{"model": "m", "input": [1], "store": false}',
                b'{"messages": [{}]}',
            ):
                async with session.post(
                    f"{sandbox.url}/v1/{path}", data=body, headers=JSON
                ) as answer:
                    assert answer.status == 400
                    assert (await answer.json())["error"]["type"] == "invalid_request_error"


async def test_only_the_accepted_key_is_let_in() -> None:
    async with ModelSandbox.running(api_key="right") as sandbox:
        wrong: Any = AsyncOpenAI(api_key="wrong", base_url=f"{sandbox.url}/v1", max_retries=0)
        async with wrong:
            for ask in (responses, chat):
                with pytest.raises(APIStatusError) as raised:
                    await ask(wrong, user("x"))
                assert (raised.value.status_code, raised.value.code) == (401, "invalid_api_key")


async def test_faults_are_ordered_for_only_one_api(sandbox: ModelSandbox, client: Any) -> None:
    sandbox.fail_next(status=429, retry_after=3, api="responses")
    assert (await chat(client, user("x"))).choices
    with pytest.raises(RateLimitError) as limited:
        await responses(client, user("x"))
    assert (limited.value.code, limited.value.response.headers["retry-after"]) == (
        "rate_limit_exceeded",
        "3",
    )
    sandbox.fail_next(status=500, api="chat")
    with pytest.raises(InternalServerError):
        await chat(client, user("x"))
    sandbox.disconnect_next(api="chat")
    with pytest.raises(APIConnectionError):
        await chat(client, user("x"))
    sandbox.fail_next(status=400, code="context_length_exceeded")
    with pytest.raises(BadRequestError) as refused:
        await responses(client, user("x"))
    assert refused.value.code == "context_length_exceeded"


async def test_the_log_shows_continued_requests_and_equal_heads(
    sandbox: ModelSandbox, client: Any
) -> None:
    sandbox.script(lists_roles)
    await responses(client, user("List the roles"), instructions="You help.")
    await responses(
        client, user("List the roles"), called("c"), output("c"), instructions="You help."
    )
    await responses(client, user("List the roles"), instructions="You help much.")
    first, second, third = sandbox.requests()
    assert second.continues(first)
    assert not first.continues(second)
    assert not third.continues(first)
    assert first.head == second.head != third.head
    assert {each.api for each in (first, second, third)} == {"responses"}


async def test_replies_stop_at_a_hold_until_it_is_released(
    sandbox: ModelSandbox, client: Any
) -> None:
    sandbox.holds.arm("conversing")
    asking = asyncio.create_task(responses(client, user("x")))
    await asyncio.wait_for(sandbox.holds.reached("conversing"), patient(10))
    assert not asking.done()
    await sandbox.holds.release("conversing")
    assert (await asyncio.wait_for(asking, patient(10))).output_text
