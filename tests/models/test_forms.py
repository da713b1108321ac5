"""Answers in a form: its schema is sent over both of OpenAI's APIs, and changes nothing else."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from tests.decisions.answers import passage
from tests.models.asking import BOTH, Answering, Make, asked
from threadline.decisions.engine import COMPARISON_SCHEMA, Situation, decide, find_conflict
from threadline.decisions.model import DecisionType
from threadline.errors import Permanent, Transient
from threadline.models.client import ask_structured
from threadline.models.model import ResponseFormat, Usage
from threadline_devstack.models.sandbox import ModelSandbox
from threadline_devstack.models.script import ScriptTurn

BOOK = Situation("Book a meeting with me.", tools={"calendar_book": "Book a meeting."})


@BOTH
@pytest.mark.parametrize("types", [(), ("pricing", "policy")])
async def test_decision_is_made_over_either_api(
    make: Make, sandbox: ModelSandbox, api: str, types: tuple[str, ...]
) -> None:
    paid = list[Usage]()
    made, problems = await decide(replace(BOOK, types=types), ask_structured(make(api=api), paid))
    assert (made.type, made.tools, problems) == (DecisionType.USE_TOOL, ("calendar_book",), ())
    assert paid[0].output_tokens > 0
    [exchange] = sandbox.structured_requests
    assert (exchange.conversation.schema_name, dict(exchange.conversation.tools)) == (
        "decision",
        {},
    )
    assert not sandbox.refused


@BOTH
async def test_invalid_decision_goes_back_to_the_model(
    make: Make, sandbox: ModelSandbox, api: str
) -> None:
    async def nonsense(turn: ScriptTurn) -> None:
        await turn.text_only("I would rather not.")

    sandbox.script(nonsense, schema_name="decision")
    paid = list[Usage]()
    made, _ = await decide(BOOK, ask_structured(make(api=api), paid))
    assert (made.type, len(paid)) == (DecisionType.ESCALATE, 2)
    assert "I would rather not." in json.dumps(
        sandbox.structured_requests[-1].conversation.messages
    )


@BOTH
async def test_passages_are_compared_over_either_api(
    make: Make, sandbox: ModelSandbox, api: str
) -> None:
    ten = passage("Prices", "", "It is $10.")
    twelve = passage("FAQ", "", "It is $12.")
    ask = ask_structured(make(api=api), [])
    assert await find_conflict([(ten, twelve)], ask)
    assert not await find_conflict([(ten, ten)], ask)
    assert not sandbox.refused


async def test_slow_decision_is_transient(make: Make, sandbox: ModelSandbox) -> None:
    async def ponders(turn: ScriptTurn) -> None:
        await asyncio.Event().wait()

    sandbox.script(ponders, schema_name="decision")
    paid = list[Usage]()
    with pytest.raises(Transient, match=r"no decision within 0\.2 seconds"):
        await decide(BOOK, ask_structured(make(), paid, wait=0.2))
    assert not paid


@BOTH
async def test_form_adds_only_itself_to_a_request(
    make: Make, answering: Answering, bodies: list[Any], api: str
) -> None:
    model = make(api=api, base_url=await answering({"error": {"message": "no"}}, status=400))
    for given in (None, ResponseFormat("comparison", COMPARISON_SCHEMA)):
        with pytest.raises(Permanent):
            await model.ask(asked(form=given))
    shape = {"name": "comparison", "schema": COMPARISON_SCHEMA, "strict": True}
    added: dict[str, dict[str, Any]] = {
        "responses": {"text": {"format": {"type": "json_schema", **shape}}},
        "chat": {"response_format": {"type": "json_schema", "json_schema": shape}},
    }
    assert bodies[-1] == bodies[0] | added[api]
    assert not added[api].keys() & bodies[0].keys()
