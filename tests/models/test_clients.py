"""Whole turns of the real SDK with the model sandbox, over both of OpenAI's APIs."""

import asyncio
import json
from itertools import pairwise

import pytest
from structlog.testing import capture_logs

from tests.models.asking import BOTH, REQUEST, Make, asked, returned, said, user, whole_turn
from threadline.errors import Permanent
from threadline.models.model import Message, Role, ToolCall, ToolChoice
from threadline.models.prices import Price
from threadline_devstack.models.sandbox import ModelSandbox


@BOTH
async def test_turn_chains_tools_and_extends_the_cached_prompt(
    make: Make, sandbox: ModelSandbox, api: str
) -> None:
    model = make(api=api)
    answers = await whole_turn(model)
    calls = [call for answer in answers for call in answer.reply.calls]
    assert [call.name for call in calls] == [
        "estimates_createWbsItems",
        "estimates_updateQuoteTotals",
    ]
    assert json.loads(calls[0].arguments)["project_id"] == "P-12"
    assert answers[-1].reply.text
    exchanges = [exchange.conversation for exchange in sandbox.log]
    assert len(exchanges) == 3
    assert all(later.continues(earlier) for earlier, later in pairwise(exchanges))
    assert [answer.usage.cached_tokens for answer in answers] == [
        0,
        exchanges[0].tokens,
        exchanges[1].tokens,
    ]
    await model.ask(asked(tool_choice=ToolChoice.NONE))
    assert sandbox.log[-1].conversation.continues(exchanges[0])
    assert not sandbox.refused


async def test_reasoning_is_sent_back_in_its_place(make: Make, sandbox: ModelSandbox) -> None:
    await whole_turn(make())
    sent = [item.get("type", item.get("role")) for item in sandbox.log[-1].conversation.messages]
    step = ["reasoning", "function_call", "function_call_output"]
    assert sent == ["user", *step, *step]


async def test_reasoning_without_its_call_is_left_out(make: Make, sandbox: ModelSandbox) -> None:
    model = make()
    first = (await model.ask(asked())).reply
    assert first.provider_data
    await model.ask(
        asked(
            Message(Role.ASSISTANT, "I did nothing.", provider_data=first.provider_data),
            user(REQUEST),
        )
    )
    assert [item.get("role") for item in sandbox.log[-1].conversation.messages] == [
        "user",
        "assistant",
        "user",
    ]
    assert not sandbox.refused


async def test_reasoning_of_another_model_is_left_out(make: Make, sandbox: ModelSandbox) -> None:
    first = (await make().ask(asked())).reply
    await make(model="gpt-6-sol").ask(asked(said(first), returned(first.calls[0])))
    assert "reasoning" not in [item.get("type") for item in sandbox.log[-1].conversation.messages]
    assert not sandbox.refused


async def test_undecryptable_reasoning_is_left_out(make: Make, sandbox: ModelSandbox) -> None:
    model = make()
    first = (await model.ask(asked())).reply
    kept = json.loads(first.provider_data)
    kept["items"][0]["encrypted_content"] = "by another organisation"
    spoilt = Message(Role.ASSISTANT, calls=first.calls, provider_data=json.dumps(kept))
    answer = await model.ask(asked(spoilt, returned(first.calls[0])))
    assert answer.reply.calls[0].name == "estimates_updateQuoteTotals"
    assert [refused.code for refused in sandbox.refused] == ["invalid_encrypted_content"]


@pytest.mark.parametrize("provider_data", ["not json", "[]", '{"model": "gpt-5.4-mini"}', '"x"'])
async def test_opaque_part_of_another_kind_is_ignored(make: Make, provider_data: str) -> None:
    answer = await make().ask(
        asked(Message(Role.ASSISTANT, "Hello.", provider_data=provider_data), user(REQUEST))
    )
    assert answer.reply.calls


async def test_model_without_reasoning_is_asked_for_it_once(
    make: Make, sandbox: ModelSandbox
) -> None:
    model = make(model="gpt-4.1")
    answers = [
        *await asyncio.gather(model.ask(asked()), model.ask(asked())),
        await model.ask(asked()),
    ]
    assert all(each.reply.calls for each in answers)
    assert [refused.param for refused in sandbox.refused] == ["include", "include"]


@pytest.mark.parametrize("status", [404, 405])
async def test_endpoint_without_responses_is_asked_by_chat(
    make: Make, sandbox: ModelSandbox, status: int
) -> None:
    sandbox.fail_next(1, status=status, api="responses")
    assert (await whole_turn(make()))[-1].reply.text
    assert [exchange.conversation.api for exchange in sandbox.log] == [
        "responses",
        "chat",
        "chat",
        "chat",
    ]


async def test_endpoint_that_had_responses_is_not_asked_by_chat(
    make: Make, sandbox: ModelSandbox
) -> None:
    model = make()
    await model.ask(asked())
    sandbox.fail_next(1, status=404)
    with pytest.raises(Permanent, match="OPENAI_BASE_URL"):
        await whole_turn(model)
    assert {exchange.conversation.api for exchange in sandbox.log} == {"responses"}


async def test_setting_decides_which_api_is_asked(make: Make, sandbox: ModelSandbox) -> None:
    sandbox.fail_next(1, status=404, api="responses")
    with pytest.raises(Permanent, match="THREADLINE_OPENAI_API"):
        await make(api="responses").ask(asked())
    await make(api="chat").ask(asked())
    assert [exchange.conversation.api for exchange in sandbox.log] == ["responses", "chat"]


async def test_usage_and_cost_are_logged_without_text(make: Make, sandbox: ModelSandbox) -> None:
    model = make(prices={"gpt-5.4-mini": Price(1_000_000, 500_000, 2_000_000)})
    with capture_logs() as logs:
        answers = await whole_turn(model)
    usage = answers[1].usage
    fresh = usage.input_tokens - usage.cached_tokens
    assert usage.cached_tokens > 0
    assert usage.cost_usd == pytest.approx(
        fresh + usage.cached_tokens / 2 + usage.output_tokens * 2
    )
    assert [entry["event"] for entry in logs] == ["model_replied"] * 3
    assert "WBS" not in str(logs)


async def test_model_without_a_price_is_logged_once(make: Make) -> None:
    model = make(model="gpt-7")
    with capture_logs() as logs:
        for _ in range(2):
            assert (await model.ask(asked())).usage.cost_usd is None
    assert [entry["model"] for entry in logs if entry["event"] == "model_price_unknown"] == [
        "gpt-7"
    ]


@BOTH
async def test_invalid_arguments_do_not_break_the_dialogue(
    make: Make, sandbox: ModelSandbox, api: str
) -> None:
    call = ToolCall("call_1", "estimates_updateQuoteTotals", "{project: 12")
    answer = await make(api=api).ask(
        asked(Message(Role.ASSISTANT, calls=(call,)), returned(call), user("And now?"))
    )
    assert answer.reply.text
    assert not sandbox.refused


@BOTH
async def test_model_is_shown_authors_and_notes(
    make: Make, sandbox: ModelSandbox, api: str
) -> None:
    note = Message(Role.SYSTEM, "[Side Effect] The page was renewed.")
    await make(api=api).ask(asked(note, user("Hello", author="Ann"), tools=()))
    *_, shown_note, shown = sandbox.log[-1].conversation.messages
    if api == "chat":  # strict templates take one system message and turns
        assert shown == {"role": "user", "content": f"{REQUEST}\n\n{note.content}\n\nAnn: Hello"}
        return
    assert shown == {"role": "user", "content": "Ann: Hello"}
    assert (shown_note["role"], shown_note["content"]) == ("developer", note.content)
