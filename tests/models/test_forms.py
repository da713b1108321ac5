"""Answers in a form: the schema goes over both of OpenAI's APIs, and a prompt without one is what it was."""

import asyncio
import json
from typing import Any

import pytest

from tests.models.asking import BOTH, Answering, Make, asked, user
from threadline.decisions import conflicts as comparing
from threadline.decisions.engine import Known, Offered, Situation, decide
from threadline.decisions.model import Action
from threadline.decisions.parsing import form
from threadline.errors import Permanent, Transient
from threadline.models.chat_model import Form
from threadline.models.model import Usage
from threadline.models.structured import asking
from threadline_devstack.models import ModelSandbox, Turn

BOOK = Situation("Book a meeting with me.", tools=(Offered("calendar_book", "Book a meeting."),), types=("pricing",))


@BOTH
async def test_a_decision_is_made_over_either_api(make: Make, sandbox: ModelSandbox, api: str) -> None:
    paid = list[Usage]()
    made = await decide(BOOK, asking(make(api=api), paid))
    assert (made.decided.action, made.decided.tools, made.faults) == (Action.USE_TOOL, ("calendar_book",), ())
    assert paid[0].output_tokens > 0
    [exchange] = sandbox.forms
    assert (exchange.conversation.form, dict(exchange.conversation.tools)) == ("decision", {})
    assert not sandbox.refused


@BOTH
async def test_the_fault_of_a_decision_goes_back_to_the_model_with_its_own_words(
    make: Make, sandbox: ModelSandbox, api: str
) -> None:
    async def nonsense(turn: Turn) -> None:
        await turn.text_only("I would rather not.")

    sandbox.script(nonsense, form="decision")
    paid = list[Usage]()
    made = await decide(BOOK, asking(make(api=api), paid))
    assert (made.decided.action, len(paid)) == (Action.ESCALATE, 2)
    assert "I would rather not." in json.dumps(sandbox.forms[-1].conversation.messages)


@BOTH
async def test_passages_are_compared_over_either_api(make: Make, api: str) -> None:
    ten, twelve = Known("Prices", "", "It is $10."), Known("FAQ", "", "It is $12.")
    ask = asking(make(api=api), [])
    assert await comparing.conflicting([(ten, twelve)], ask)
    assert not await comparing.conflicting([(ten, ten)], ask)


async def test_an_answer_that_takes_too_long_is_tried_again(make: Make, sandbox: ModelSandbox) -> None:
    async def ponders(turn: Turn) -> None:
        await asyncio.Event().wait()

    sandbox.script(ponders, form="decision")
    paid = list[Usage]()
    with pytest.raises(Transient, match=r"no decision within 0\.2 seconds"):
        await decide(BOOK, asking(make(), paid, wait=0.2))
    assert not paid


@BOTH
@pytest.mark.parametrize("types", [(), ("pricing", "policy")])
async def test_the_forms_keep_the_rules_of_strict_mode(
    make: Make, sandbox: ModelSandbox, api: str, types: tuple[str, ...]
) -> None:
    for each in (Form("decision", form(types)), Form(comparing.NAME, comparing.FORM)):
        await make(api=api).ask(asked(tools=(), messages=(user("{}"),), form=each))
    assert not sandbox.refused


@BOTH
async def test_a_form_is_all_that_it_adds_to_a_request(
    make: Make, answering: Answering, bodies: list[Any], api: str
) -> None:
    """The endpoint refuses everything: what counts is what it was sent."""
    model = make(api=api, base_url=await answering({"error": {"message": "no"}}, status=400))
    for given in (None, Form(comparing.NAME, comparing.FORM)):
        with pytest.raises(Permanent):
            await model.ask(asked(form=given))
    shape = {"name": comparing.NAME, "schema": comparing.FORM, "strict": True}
    added: dict[str, dict[str, Any]] = {
        "responses": {"text": {"format": {"type": "json_schema", **shape}}},
        "chat": {"response_format": {"type": "json_schema", "json_schema": shape}},
    }
    assert bodies[-1] == bodies[0] | added[api]
    assert not added[api].keys() & bodies[0].keys()
