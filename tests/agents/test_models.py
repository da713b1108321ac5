"""The model that converses: the real SDK against the sandbox, and against endpoints that answer oddly."""

import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import httpx2
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from hypothesis import given
from hypothesis import strategies as st
from openai import APIConnectionError, APIStatusError
from structlog.testing import capture_logs

from threadline.agents.models import live
from threadline.agents.models.failures import (
    AnswerBroken,
    ContextTooLong,
    ModelRefused,
    ModelUnavailable,
    RateLimited,
    translate,
)
from threadline.agents.models.live import OpenAIConfig, OpenAIModel
from threadline.agents.models.port import Answer, OnText, Prompt, Usage
from threadline.agents.models.prices import Price, PriceList, parse_prices
from threadline.devstack.model_sandbox import ModelSandbox, Turn
from threadline.domain.dialogue import Message, ModelReply, Role, ToolCall, ToolChoice
from threadline.domain.errors import Permanent, Transient
from threadline.settings import OpenAISettings

KEY = "sk-proj-never-to-be-told-0123456789"
REQUEST = "Create three WBS items for P-12 and then update the quote totals."


def function(name: str, about: str, **properties: Any) -> Mapping[str, Any]:
    """A tool as the registry offers it."""
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return {"type": "function", "name": name, "description": about, "parameters": parameters, "strict": True}


TOOLS = (
    function("estimates_createWbsItems", "Add items.", project_id={"type": "string"}, names={"type": "array"}),
    function("estimates_updateQuoteTotals", "Add up a quote.", project_id={"type": "string"}),
)


def asked(*more: Message, **changes: Any) -> Prompt:
    given: dict[str, Any] = {"instructions": "You help.", "tools": TOOLS, "messages": (user(REQUEST), *more)} | changes
    return Prompt(**given)


def user(text: str, author: str = "") -> Message:
    return Message(Role.USER, text, author=author)


def said(reply: ModelReply) -> Message:
    return Message(Role.ASSISTANT, reply.text, reply.calls, opaque=reply.opaque)


def returned(call: ToolCall, output: str = '{"project_id": "P-12"}') -> Message:
    return Message(Role.TOOL, output, call_id=call.id)


@pytest.fixture
async def sandbox() -> AsyncIterator[ModelSandbox]:
    async with ModelSandbox.running(api_key=KEY) as running:
        yield running


Make = Callable[..., OpenAIModel]


@pytest.fixture
async def make(sandbox: ModelSandbox) -> AsyncIterator[Make]:
    """Makes models that are closed at the end; without changes one for the sandbox."""
    made: list[OpenAIModel] = []

    def make(**changes: Any) -> OpenAIModel:
        config: dict[str, Any] = {"model": "gpt-5.4-mini", "api_key": KEY, "base_url": f"{sandbox.url}/v1"} | changes
        made.append(OpenAIModel(OpenAIConfig(**config)))
        return made[-1]

    yield make
    for model in made:
        await model.close()


async def whole_turn(model: OpenAIModel, on_text: OnText | None = None) -> list[Answer]:
    """Ask and return results until the model ends with a sentence."""
    messages: list[Message] = []
    answers = []
    for _ in range(6):
        answers.append(await model.ask(asked(*messages), on_text=on_text))
        messages += [said(answers[-1].reply), *map(returned, answers[-1].reply.calls)]
        if not answers[-1].reply.calls:
            return answers
    raise AssertionError("the model never ended")


BOTH = pytest.mark.parametrize("api", ["responses", "chat"])
STREAMED = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


@BOTH
@STREAMED
async def test_a_turn_chains_tools_and_ends_with_a_sentence(
    make: Make, sandbox: ModelSandbox, api: str, streamed: bool
) -> None:
    heard: list[str] = []
    answers = await whole_turn(make(api=api), heard.append if streamed else None)
    names = [call.name for answer in answers for call in answer.reply.calls]
    assert names == ["estimates_createWbsItems", "estimates_updateQuoteTotals"]
    made = json.loads(answers[0].reply.calls[0].arguments)
    assert (made["project_id"], len(made["names"])) == ("P-12", 3)
    assert answers[-1].reply.text.startswith("Done: create wbs items, then update quote totals.")
    assert "".join(heard) == (answers[-1].reply.text if streamed else "")
    assert {exchange.conversation.stream for exchange in sandbox.log} == {streamed}
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


FAULTS: Sequence[tuple[int, str, type[Exception], str]] = (
    (401, "", ModelRefused, "OPENAI_API_KEY"),
    (403, "", ModelRefused, "OPENAI_API_KEY"),
    (404, "model_not_found", ModelRefused, "THREADLINE_OPENAI_MODEL"),
    (400, "model_not_found", ModelRefused, "THREADLINE_OPENAI_MODEL"),
    (400, "", ModelRefused, "THREADLINE_OPENAI_API"),
    (422, "", ModelRefused, "THREADLINE_OPENAI_API"),
    (400, "context_length_exceeded", ContextTooLong, "THREADLINE_OPENAI_MODEL"),
    (413, "", ContextTooLong, "THREADLINE_OPENAI_MODEL"),
    (429, "insufficient_quota", ModelRefused, "billing"),
    (402, "", ModelRefused, "billing"),
    (429, "", RateLimited, "limits"),
    (408, "", ModelUnavailable, "408"),
    (409, "", ModelUnavailable, "409"),
    (500, "", ModelUnavailable, "500"),
    (503, "", ModelUnavailable, "503"),
    (529, "", ModelUnavailable, "529"),
)


@BOTH
@pytest.mark.parametrize(("status", "code", "kind", "words"), FAULTS)
async def test_a_refusal_is_on_one_side_and_names_what_to_mend(
    make: Make, sandbox: ModelSandbox, api: str, status: int, code: str, kind: type[Exception], words: str
) -> None:
    sandbox.fail_next(1, status=status, code=code, api=api)
    with pytest.raises(kind, match=words) as raised:
        await make(api=api).ask(asked())
    assert len(sandbox.log) == 1, "the SDK tried again by itself"
    assert KEY not in str(raised.value)
    assert "127.0.0.1" not in str(raised.value)


async def test_a_key_that_is_wrong_is_said_without_the_key(make: Make) -> None:
    with pytest.raises(ModelRefused, match="check OPENAI_API_KEY") as raised:
        await make(api_key="sk-wrong-0123456789").ask(asked())
    assert "sk-wrong" not in str(raised.value)


@pytest.mark.parametrize(("named", "attempt", "wait"), [(None, 1, 2), (1, 1, 2), (60, 1, 60), (5, 3, 8), (0, 2, 4)])
async def test_a_rate_limit_is_waited_for_as_long_as_the_longer_of_both_says(
    make: Make, sandbox: ModelSandbox, named: float | None, attempt: int, wait: float
) -> None:
    sandbox.fail_next(1, status=429, retry_after=named)
    with pytest.raises(RateLimited) as raised:
        await make().ask(asked(), attempt=attempt)
    assert raised.value.retry_after == wait


async def test_an_overloaded_api_says_itself_how_long_to_wait(make: Make, sandbox: ModelSandbox) -> None:
    sandbox.fail_next(1, status=503, retry_after=7)
    with pytest.raises(ModelUnavailable) as raised:
        await make().ask(asked())
    assert raised.value.retry_after == 7


@BOTH
@STREAMED
async def test_a_reply_that_breaks_off_may_be_asked_for_again(
    make: Make, sandbox: ModelSandbox, api: str, streamed: bool
) -> None:
    sandbox.break_next(1)
    model, heard = make(api=api), list[str]()
    on_text = heard.append if streamed else None
    with pytest.raises(ModelUnavailable):
        await model.ask(asked(), on_text=on_text)
    assert (await model.ask(asked(), on_text=on_text)).reply.calls


@BOTH
async def test_an_error_amid_a_stream_may_be_asked_for_again(make: Make, sandbox: ModelSandbox, api: str) -> None:
    async def fails_once(turn: Turn) -> None:
        if turn.asked == 1:
            await turn.sse_error()
        await turn.text_only("At last.")

    sandbox.script(fails_once)
    model, heard = make(api=api), list[str]()
    with pytest.raises(ModelUnavailable, match="broke off"):
        await model.ask(asked(), on_text=heard.append)
    assert heard
    assert (await model.ask(asked(), on_text=heard.append)).reply.text == "At last."


async def test_a_model_that_never_answers_is_given_up(make: Make, sandbox: ModelSandbox) -> None:
    sandbox.holds.arm("conversing")
    with pytest.raises(ModelUnavailable, match="in time"):
        await make(timeout=0.2).ask(asked())


async def test_an_endpoint_out_of_reach_is_no_reason_to_give_up(make: Make) -> None:
    with pytest.raises(ModelUnavailable, match="OPENAI_BASE_URL") as raised:
        await make(base_url="http://127.0.0.1:9/v1").ask(asked())
    assert "127.0.0.1" not in str(raised.value)


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
    assert [entry["model"] for entry in logs if entry["event"] == "model_without_price"] == ["gpt-7"]


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


Answering = Callable[..., Awaitable[str]]


@pytest.fixture
def bodies() -> list[Any]:
    return []


@pytest.fixture
async def answering(bodies: list[Any]) -> AsyncIterator[Answering]:
    """Starts an endpoint that answers every request alike, and keeps them in `bodies`; gives its address."""
    servers: list[TestServer] = []

    async def start(body: Any, kind: str = "application/json", status: int = 200) -> str:
        async def answer(request: web.Request) -> web.Response:
            bodies.append(await request.json())
            text = body if isinstance(body, str) else json.dumps(body)
            return web.Response(text=text, status=status, content_type=kind)

        app = web.Application()
        app.router.add_route("*", "/{rest:.*}", answer)
        servers.append(TestServer(app))
        await servers[-1].start_server()
        return str(servers[-1].make_url("/v1"))

    yield start
    for server in servers:
        await server.close()


ODD: Sequence[Any] = ("", "null", "[]", "{}", "{", '"words"', {"output": None}, {"choices": []}, {"choices": [{}]})


@BOTH
@STREAMED
@pytest.mark.parametrize("body", ODD, ids=str)
async def test_an_answer_of_another_shape_is_said_to_be_unreadable(
    make: Make, answering: Answering, api: str, streamed: bool, body: Any
) -> None:
    model = make(base_url=await answering(body), api=api)
    with pytest.raises(ModelUnavailable):
        await model.ask(asked(), on_text=(lambda text: None) if streamed else None)


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


async def test_a_stream_that_ends_in_the_middle_is_no_answer(make: Make, answering: Answering) -> None:
    delta = {"index": 0, "delta": {"role": "assistant", "content": "I am loo"}, "finish_reason": None}
    for api, begun in (("chat", {"choices": [delta]}), ("responses", {"type": "response.in_progress"})):
        address = await answering(f"data: {json.dumps(begun)}\n\n", "text/event-stream")
        with pytest.raises(ModelUnavailable, match="broke off"):
            await make(base_url=address, api=api).ask(asked(), on_text=lambda text: None)


async def test_a_stream_that_only_keeps_alive_is_given_up(make: Make) -> None:
    async def alive(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await answer.prepare(request)
        with contextlib.suppress(ConnectionError):
            while True:
                await answer.write(b": still here\n\n")
        return answer

    app = web.Application()
    app.router.add_post("/v1/responses", alive)
    async with TestServer(app) as server:
        with pytest.raises(ModelUnavailable, match="in time"):
            await make(base_url=str(server.make_url("/v1")), timeout=0.5).ask(asked(), on_text=lambda text: None)


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


def test_every_error_of_the_model_is_on_one_side() -> None:
    assert all(issubclass(kind, Transient) for kind in (RateLimited, ModelUnavailable))
    assert all(issubclass(kind, Permanent) for kind in (ModelRefused, ContextTooLong))


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


SECRET = st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=12, max_size=40).map(lambda text: f"zq-{text}")


@given(
    status=st.integers(400, 599),
    secret=SECRET,
    code=st.none() | st.sampled_from(["context_length_exceeded", "insufficient_quota", "model_not_found"]) | SECRET,
    attempt=st.integers(1, 4),
)
def test_no_words_of_the_other_side_are_ever_repeated(status: int, secret: str, code: str | None, attempt: int) -> None:
    request = httpx2.Request("POST", f"https://{secret}.example/v1/responses")
    error = APIStatusError(
        f"Refused {secret}",
        response=httpx2.Response(status, headers={"x-request-id": secret}, request=request),
        body={"message": f"Refused {secret}", "code": code, "param": secret, "type": secret},
    )
    failures = (error, APIConnectionError(message=secret, request=request), AnswerBroken(secret), TimeoutError(secret))
    for failure in failures:
        words = str(translate(failure, attempt))
        assert words.endswith(".")
        assert secret not in words
        assert "zq-" not in words


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
