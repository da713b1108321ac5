"""The model that converses: whole turns of the real SDK with the sandbox, over both of OpenAI's APIs."""

import asyncio
import json
from itertools import pairwise

import pytest
from structlog.testing import capture_logs

from tests.models.asking import BOTH, KEY, REQUEST, Make, asked, returned, said, user, whole_turn
from threadline.errors import Permanent
from threadline.models import client as live
from threadline.models.errors import ModelRefused
from threadline.models.model import Message, Role, ToolCall, ToolChoice, Usage
from threadline.models.prices import Price, PriceList, parse_prices
from threadline.settings import OpenAISettings
from threadline_devstack.models import ModelSandbox


@BOTH
async def test_a_turn_chains_tools_and_ends_with_a_sentence(make: Make, sandbox: ModelSandbox, api: str) -> None:
    answers = await whole_turn(make(api=api))
    names = [call.name for answer in answers for call in answer.reply.calls]
    assert names == ["estimates_createWbsItems", "estimates_updateQuoteTotals"]
    made = json.loads(answers[0].reply.calls[0].arguments)
    assert (made["project_id"], len(made["names"])) == ("P-12", 3)
    assert answers[-1].reply.text.startswith("Done: create wbs items, then update quote totals.")
    assert not sandbox.refused


@BOTH
async def test_each_call_of_a_turn_begins_byte_for_byte_like_the_one_before(
    make: Make, sandbox: ModelSandbox, api: str
) -> None:
    model = make(api=api)
    answers = await whole_turn(model)
    exchanges = [exchange.conversation for exchange in sandbox.log]
    assert len(exchanges) == 3
    assert all(later.continues(earlier) for earlier, later in pairwise(exchanges))
    assert [answer.usage.cached_tokens for answer in answers] == [0, exchanges[0].tokens, exchanges[1].tokens]
    await model.ask(asked(tool_choice=ToolChoice.NONE))
    assert sandbox.log[-1].conversation.continues(exchanges[0])


async def test_a_reasoning_model_gets_its_thoughts_back_where_they_were(make: Make, sandbox: ModelSandbox) -> None:
    await whole_turn(make())
    sent = [item.get("type", item.get("role")) for item in sandbox.log[-1].conversation.messages]
    step = ["reasoning", "function_call", "function_call_output"]
    assert sent == ["user", *step, *step]


async def test_nothing_is_kept_at_the_provider(make: Make, sandbox: ModelSandbox) -> None:
    """The sandbox refuses any request over Responses without `store=false`."""
    await make().ask(asked())
    assert (len(sandbox.log), list(sandbox.refused)) == (1, [])


async def test_thoughts_that_led_to_a_call_which_is_gone_are_left_out(make: Make, sandbox: ModelSandbox) -> None:
    model = make()
    first = (await model.ask(asked())).reply
    assert first.opaque
    await model.ask(asked(Message(Role.ASSISTANT, "I did nothing.", opaque=first.opaque), user(REQUEST)))
    assert [item.get("role") for item in sandbox.log[-1].conversation.messages] == ["user", "assistant", "user"]
    assert not sandbox.refused


async def test_thoughts_of_another_model_are_left_out(make: Make, sandbox: ModelSandbox) -> None:
    first = (await make().ask(asked())).reply
    await make(model="gpt-6-sol").ask(asked(said(first), returned(first.calls[0])))
    assert "reasoning" not in [item.get("type") for item in sandbox.log[-1].conversation.messages]
    assert not sandbox.refused


async def test_thoughts_that_nobody_can_decrypt_any_more_are_left_out(make: Make, sandbox: ModelSandbox) -> None:
    model = make()
    first = (await model.ask(asked())).reply
    kept = json.loads(first.opaque)
    kept["items"][0]["encrypted_content"] = "by another organisation"
    spoilt = Message(Role.ASSISTANT, calls=first.calls, opaque=json.dumps(kept))
    answer = await model.ask(asked(spoilt, returned(first.calls[0])))
    assert answer.reply.calls[0].name == "estimates_updateQuoteTotals"
    assert [refused.code for refused in sandbox.refused] == ["invalid_encrypted_content"]


@pytest.mark.parametrize("opaque", ["not json", "[]", '{"model": "gpt-5.4-mini"}', '"x"'])
async def test_an_opaque_part_of_another_kind_does_no_harm(make: Make, opaque: str) -> None:
    answer = await make().ask(asked(Message(Role.ASSISTANT, "Hello.", opaque=opaque), user(REQUEST)))
    assert answer.reply.calls


async def test_a_model_that_does_not_reason_is_asked_for_thoughts_once(make: Make, sandbox: ModelSandbox) -> None:
    model = make(model="gpt-4.1")
    for _ in range(2):
        assert (await model.ask(asked())).reply.calls
    assert [refused.param for refused in sandbox.refused] == ["include"]


async def test_two_calls_at_once_both_find_out_that_a_model_does_not_reason(make: Make, sandbox: ModelSandbox) -> None:
    model = make(model="gpt-4.1")
    answers = await asyncio.gather(model.ask(asked()), model.ask(asked()))
    assert all(each.reply.calls for each in answers)
    assert [refused.param for refused in sandbox.refused] == ["include", "include"]


@pytest.mark.parametrize("status", [404, 405])
async def test_an_endpoint_without_responses_is_asked_by_chat_from_then_on(
    make: Make, sandbox: ModelSandbox, status: int
) -> None:
    sandbox.fail_next(1, status=status, api="responses")
    model = make()
    answers = await whole_turn(model)
    assert answers[-1].reply.text
    assert [exchange.conversation.api for exchange in sandbox.log] == ["responses", "chat", "chat", "chat"]


async def test_an_endpoint_that_had_responses_is_not_asked_by_chat_later(make: Make, sandbox: ModelSandbox) -> None:
    model = make()
    await model.ask(asked())
    sandbox.fail_next(1, status=404)
    with pytest.raises(ModelRefused, match="OPENAI_BASE_URL"):
        await whole_turn(model)
    assert {exchange.conversation.api for exchange in sandbox.log} == {"responses"}


async def test_a_setting_decides_which_api_is_asked(make: Make, sandbox: ModelSandbox) -> None:
    sandbox.fail_next(1, status=404, api="responses")
    with pytest.raises(ModelRefused, match="THREADLINE_OPENAI_API"):
        await make(api="responses").ask(asked())
    await make(api="chat").ask(asked())
    assert [exchange.conversation.api for exchange in sandbox.log] == ["responses", "chat"]


async def test_usage_and_cost_are_told_and_logged_without_a_word_of_text(make: Make, sandbox: ModelSandbox) -> None:
    model = make(prices={"gpt-5.4-mini": Price(1_000_000, 500_000, 2_000_000)})
    with capture_logs() as logs:
        answers = await whole_turn(model)
    usage = answers[1].usage
    fresh = usage.input_tokens - usage.cached_tokens
    assert usage.cached_tokens > 0
    assert usage.cost_usd == pytest.approx(fresh + usage.cached_tokens / 2 + usage.output_tokens * 2)
    assert [entry["event"] for entry in logs] == ["model_replied"] * 3
    assert "WBS" not in str(logs)


async def test_a_model_without_a_price_costs_nothing_and_is_named_once(make: Make) -> None:
    model = make(model="gpt-7")
    with capture_logs() as logs:
        for _ in range(2):
            assert (await model.ask(asked())).usage.cost_usd == 0
    assert [entry["model"] for entry in logs if entry["event"] == "model_price_unknown"] == ["gpt-7"]


@BOTH
async def test_arguments_that_are_not_json_do_not_spoil_the_dialogue(
    make: Make, sandbox: ModelSandbox, api: str
) -> None:
    call = ToolCall("call_1", "estimates_updateQuoteTotals", "{project: 12")
    answer = await make(api=api).ask(asked(Message(Role.ASSISTANT, calls=(call,)), returned(call), user("And now?")))
    assert answer.reply.text
    assert not sandbox.refused


@BOTH
async def test_the_model_is_shown_who_wrote_and_what_was_noted(make: Make, sandbox: ModelSandbox, api: str) -> None:
    note = Message(Role.SYSTEM, "[Side Effect] The page was renewed.")
    await make(api=api).ask(asked(note, user("Hello", author="Ann"), tools=()))
    *_, shown_note, shown = sandbox.log[-1].conversation.messages
    assert shown == {"role": "user", "content": "Ann: Hello"}
    assert (shown_note["role"], shown_note["content"]) == ("system" if api == "chat" else "developer", note.content)


@pytest.mark.parametrize("text", ["gpt-x", "gpt-x=1/2", "gpt-x=1/2/3/4", "=1/2/3", "gpt-x=1/2/three", "gpt-x=1/-2/3"])
def test_prices_of_another_form_are_refused_with_the_form(text: str) -> None:
    with pytest.raises(ValueError, match="model=input/cached/output"):
        parse_prices(text)


def test_prices_are_read_and_a_snapshot_costs_what_its_model_does() -> None:
    prices = parse_prices("gpt-x=1/0.5/2, gpt-y=0/0/0")
    assert prices == {"gpt-x": Price(1, 0.5, 2), "gpt-y": Price(0, 0, 0)}
    usage = Usage("gpt-x-2026-03-17", input_tokens=1_000_000, cached_tokens=400_000, output_tokens=500_000)
    assert PriceList(prices).priced(usage).cost_usd == pytest.approx(0.6 + 0.2 + 1.0)


def test_the_settings_of_the_model_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "THREADLINE_OPENAI_API"):
        monkeypatch.delenv(name, raising=False)
    assert OpenAISettings.read().api_key is None
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("THREADLINE_OPENAI_PRICES", "gpt-x=1/0.5/2")
    monkeypatch.setenv("THREADLINE_OPENAI_TIMEOUT", "90s")
    read = OpenAISettings.read()
    assert (read.prices, read.timeout, read.base_url) == ({"gpt-x": Price(1, 0.5, 2)}, 90, live.OPENAI)
    assert KEY not in repr(read)
    for name, value in (
        ("OPENAI_BASE_URL", "api.openai.com"),
        ("THREADLINE_OPENAI_API", "telepathy"),
        ("THREADLINE_OPENAI_PRICES", "gpt-x=1"),
    ):
        with monkeypatch.context() as patched:
            patched.setenv(name, value)
            with pytest.raises(Permanent, match=name):
                OpenAISettings.read()
