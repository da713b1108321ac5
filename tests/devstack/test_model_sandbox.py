"""The model sandbox over plain HTTP."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from tests.devstack.model_reset import reset
from tests.support.patience import patient
from threadline_devstack.models import sandbox as sandbox_module
from threadline_devstack.models.sandbox import ModelSandbox
from threadline_devstack.models.script import ScriptFailure, ScriptReply, ScriptTurn
from threadline_devstack.processes import poll

GREP = {"name": "Grep", "input_schema": {"type": "object"}}
PROMPT = {"role": "user", "content": "Case BUG-7, turn 1 (initial)\nThe cart is odd."}


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served_model() -> AsyncIterator[ModelSandbox]:
    async with ModelSandbox.running() as running:
        yield running


@pytest.fixture
def model(served_model: ModelSandbox) -> ModelSandbox:
    return reset(served_model)


async def post(url: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    async with (
        aiohttp.ClientSession() as session,
        session.post(url, json=body, headers=headers) as response,
    ):
        text = await response.text()
        return response.status, json.loads(text) if text.startswith("{") else text


async def ask(sandbox: ModelSandbox, *messages: Mapping[str, Any], **more: Any) -> tuple[int, Any]:
    body = {"model": "m", "messages": [PROMPT, *messages], "tools": [GREP], "max_tokens": 9} | more
    return await post(f"{sandbox.url}/v1/messages", body)


def called(*calls: tuple[str, str], text: str = "") -> dict[str, Any]:
    """Return an assistant's message with tool calls, given as pairs of id and name."""
    said = [{"type": "text", "text": text}] if text else []
    uses = [
        {"type": "tool_use", "id": identity, "name": name, "input": {}} for identity, name in calls
    ]
    return {"role": "assistant", "content": [*said, *uses]}


def returned(*results: tuple[str, str], text: str = "") -> dict[str, Any]:
    """Return a user's message with tool results, given as pairs of id and text."""
    blocks = [
        {"type": "tool_result", "tool_use_id": identity, "content": said}
        for identity, said in results
    ]
    return {
        "role": "user",
        "content": [*blocks, *([{"type": "text", "text": text}] if text else [])],
    }


async def looks_twice(turn: ScriptTurn) -> None:
    first = await turn.call("Grep", pattern="one")
    second, third = await turn.call_together(
        ("Grep", {"pattern": first.text}), ("Read", {"file_path": "a"})
    )
    await turn.finish(action=f"{second.text}+{third.text}")


async def test_a_request_is_answered_with_the_first_step_that_it_has_not_recorded(
    model: ModelSandbox,
) -> None:
    model.script(looks_twice)
    one = [called(("a", "Grep")), returned(("a", "found"))]
    two = [called(("b", "Grep"), ("c", "Read")), returned(("c", "second"), ("b", "first"))]
    _, answer = await ask(model)
    assert [block["input"] for block in answer["content"]] == [{"pattern": "one"}]
    assert answer["stop_reason"] == "tool_use"
    assert answer["usage"]["input_tokens"] > 0
    _, answer = await ask(model, *one)
    assert [block["name"] for block in answer["content"]] == ["Grep", "Read"]
    assert answer["content"][0]["input"] == {"pattern": "found"}
    _, answer = await ask(model, *one, *two)
    assert answer["content"][0]["input"] == {"action": "first+second"}


async def test_text_of_the_cli_itself_is_no_prompt_and_no_result(
    model: ModelSandbox,
) -> None:
    async def echo(turn: ScriptTurn) -> None:
        result = await turn.call("Grep", pattern=turn.prompt)
        await turn.text_only(result.text)
        await turn.finish(action=turn.prompt)

    model.script(echo)
    noise = "<system-reminder>\nThe date is today.\n</system-reminder>"
    nudge = "[structured-output-enforce] You MUST call the StructuredOutput tool"
    recorded = [called(("a", "Grep")), returned(("a", f"hit\n{noise}"), text=noise)]
    _, answer = await ask(model, *recorded)
    assert answer["content"] == [{"type": "text", "text": "hit"}]
    _, answer = await ask(
        model,
        *recorded,
        {"role": "assistant", "content": "hit"},
        {"role": "user", "content": nudge},
    )
    assert answer["content"][0]["input"] == {"action": PROMPT["content"]}


async def test_a_new_prompt_starts_the_script_again_with_the_history(model: ModelSandbox) -> None:
    async def remember(turn: ScriptTurn) -> None:
        await turn.text_only(f"{turn.bug_id} {turn.prompt} {'The cart is odd.' in turn.history}")

    model.script(remember)
    _, answer = await ask(model, called(("a", "Grep")), returned(("a", "hit"), text="Go on."))
    assert answer["content"][0]["text"] == "BUG-7 Go on. True"


async def test_effects_of_recorded_steps_are_not_repeated(model: ModelSandbox) -> None:
    async def troubled(turn: ScriptTurn) -> None:
        await turn.hold("never")
        await turn.error(529)
        await turn.disconnect()
        await turn.sse_error()
        await turn.slow(3600)
        await turn.call("Grep")
        await turn.text_only("through")

    model.script(troubled)
    status, answer = await ask(model, called(("a", "Grep")), returned(("a", "hit")))
    assert (status, answer["content"][0]["text"]) == (200, "through")


async def test_a_step_counts_its_requests_from_all_processes(model: ModelSandbox) -> None:
    async def count(turn: ScriptTurn) -> None:
        await turn.text_only(str(turn.asked))

    model.script(count)
    reminder = {"type": "text", "text": "<system-reminder>another day</system-reminder>"}
    other_process = {
        "role": "user",
        "content": [reminder, {"type": "text", "text": PROMPT["content"]}],
    }
    replies = [
        await ask(model),
        await ask(model, messages=[other_process]),
        await ask(model, returned(text="More?")),
    ]
    assert [answer["content"][0]["text"] for _, answer in replies] == ["1", "2", "1"]


async def test_the_oldest_steps_are_forgotten_when_too_many_are_counted(
    model: ModelSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def count(turn: ScriptTurn) -> None:
        await turn.text_only(str(turn.asked))

    async def asked(prompt: str) -> str:
        _, answer = await ask(model, messages=[PROMPT | {"content": prompt}])
        return str(answer["content"][0]["text"])

    monkeypatch.setattr(sandbox_module, "COUNTED_STEPS", 2)
    model.script(count)
    replies = [await asked(prompt) for prompt in ("one", "two", "one", "three", "one", "two")]
    assert replies == ["1", "1", "2", "1", "3", "1"], "step two was requested least recently"
    assert len(model._asked) == 2


async def test_a_fault_that_is_used_up_is_forgotten(model: ModelSandbox) -> None:
    model.fail_next(2, status=500)
    model.fail_next(status=429)
    assert [(await ask(model))[0] for _ in range(4)] == [500, 500, 429, 200]
    assert model._faults == []


async def test_the_script_registered_last_wins_if_it_matches(model: ModelSandbox) -> None:
    def says(text: str) -> Callable[[ScriptTurn], Any]:
        async def script(turn: ScriptTurn) -> None:
            await turn.text_only(text)

        return script

    model.script(says("any"))
    model.script(says("case"), bug_id="BUG-7")
    model.script(says("other case"), bug_id="BUG-70")
    model.script(says("report"), report="cart is odd")
    model.script(says("big"), when=lambda conversation: conversation.model == "big")
    replies = [
        await ask(model),
        await ask(model, model="big"),
        await ask(model, messages=[PROMPT | {"content": "Case BUG-7"}]),
        await ask(model, messages=[PROMPT | {"content": "Hello"}]),
    ]
    assert [answer["content"][0]["text"] for _, answer in replies] == [
        "report",
        "big",
        "case",
        "any",
    ]


async def test_a_script_that_departs_from_the_record_gets_an_error(model: ModelSandbox) -> None:
    model.script(looks_twice)
    status, answer = await ask(model, called(("a", "Write")), returned(("a", "written")))
    assert status == 400
    assert "Write" in answer["error"]["message"]


async def test_only_the_accepted_key_is_let_in() -> None:
    async with ModelSandbox.running(api_key="right") as model:
        body = {"messages": [PROMPT]}
        status, answer = await post(f"{model.url}/v1/messages", body, **{"x-api-key": "wrong"})
        assert (status, answer["error"]["type"]) == (401, "authentication_error")
        status, _ = await post(
            f"{model.url}/v1/messages/count_tokens", body, **{"x-api-key": "right"}
        )
        assert status == 200


async def test_small_questions_of_the_cli_reach_no_script(model: ModelSandbox) -> None:
    status, answer = await ask(model, tools=[])
    assert (status, answer["stop_reason"], len(model.log)) == (200, "end_turn", 0)


async def test_an_invalid_request_is_refused_with_a_reason(model: ModelSandbox) -> None:
    bodies: list[Any] = [{}, [], {"messages": [{"role": "user", "content": [{}]}]}]
    for body in bodies:
        status, answer = await post(f"{model.url}/v1/messages", body)
        assert (status, answer["error"]["type"]) == (400, "invalid_request_error")


async def test_a_reply_is_broken_off_once(model: ModelSandbox) -> None:
    model.disconnect_next(bug_id="BUG-7")
    with pytest.raises(aiohttp.ClientPayloadError):
        await ask(model, stream=True)
    assert (await ask(model, stream=True))[0] == 200


async def test_an_error_has_a_retry_delay_and_the_log_has_both_calls(model: ModelSandbox) -> None:
    model.fail_next(status=429, retry_after=2.5, bug_id="BUG-7")
    async with aiohttp.ClientSession() as session:
        body = {"messages": [PROMPT], "tools": [GREP]}
        async with session.post(f"{model.url}/v1/messages", json=body) as response:
            assert (response.status, response.headers["retry-after"]) == (429, "2.5")
        async with session.post(f"{model.url}/v1/messages", json=body) as response:
            assert response.status == 200
    refused, answered = model.log
    assert isinstance(refused.answer, ScriptFailure)
    assert isinstance(answered.answer, ScriptReply)
    assert [name for name, _ in answered.answer.calls] == ["StructuredOutput"]
    assert [each.messages for each in model.requests("BUG-7")] == [[PROMPT]] * 2


async def test_an_armed_hold_stops_a_case_until_it_is_released(model: ModelSandbox) -> None:
    model.holds.arm("investigating:BUG-7")
    asking = asyncio.create_task(ask(model))
    await asyncio.wait_for(model.holds.reached("investigating:BUG-7"), patient(10))
    status, other = await ask(
        model, messages=[PROMPT | {"content": "Case BUG-8, turn 1 (initial)\nA cart."}]
    )
    assert (status, other["stop_reason"]) == (200, "tool_use")
    assert not asking.done()
    assert model.holds.waiting("investigating:BUG-7")
    await model.holds.release("investigating:BUG-7")
    assert (await asyncio.wait_for(asking, patient(10)))[0] == 200
    assert (await asyncio.wait_for(ask(model), patient(10)))[0] == 200


async def test_a_caller_that_left_does_not_wait_at_a_hold(model: ModelSandbox) -> None:
    model.holds.arm("investigating:BUG-7")
    asking = asyncio.create_task(ask(model))
    await asyncio.wait_for(model.holds.reached("investigating:BUG-7"), patient(10))
    asking.cancel()
    async for _ in poll(10, 0.01):
        if not model.holds.waiting("investigating:BUG-7"):
            return
    pytest.fail("it still waits")
