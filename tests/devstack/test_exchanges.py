"""Scripted exchanges: the sentences that users are invited to try, and the steps that an exchange
may contain.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from threadline_devstack.filling import MissingValue, fill
from threadline_devstack.models.exchanges import (
    Exchange,
    agent_of,
    facts_of,
    result_summary,
    script_for,
    scripts,
)
from threadline_devstack.models.request import ModelRequest, RecordedResult, RecordedStep, read
from threadline_devstack.models.script import (
    Holds,
    ScriptAnswer,
    ScriptDiverged,
    ScriptReply,
    ScriptTurn,
    play,
)

ROOT = Path(__file__).parents[2]
SPEAK = "slack_post_summary"
EXAMPLES = [
    pytest.param(agent, exchange, sentence, id=sentence)
    for agent in ("bug_cases", "conversations", "operator")
    for exchange in scripts()[agent]
    for sentence in exchange.examples
]


def tools_of(agent: str) -> dict[str, Any]:
    """Return all tools that the agent's script calls."""
    return {
        call.tool: {} for each in scripts()[agent] for step in each.steps for call in step.calls
    }


def talk(*prompts: str, agent: str = "conversations", notes: str = "") -> ModelRequest:
    """Return a request of an agent over OpenAI's wires, or of a bug case."""
    fence = '<message number="1" from="{}" sender="U1" kind="message">\n{}\n</message>'
    if agent == "bug_cases":
        sender = "developer" if re.search("fix", prompts[-1]) else "reporter"
        prompts = (f"Case BUG-7, turn 1 (initial)\n{fence.format(sender, prompts[-1])}",)
    tools = [{"name": name, "input_schema": schema} for name, schema in tools_of(agent).items()]
    messages = [{"role": "user", "content": prompt} for prompt in prompts]
    request = read({"model": "m", "messages": messages, "tools": tools})
    if agent != "bug_cases":
        request = replace(request, api="responses", notes=(notes,) if notes else ())
    assert agent_of(request) == agent
    return request


def chosen(request: ModelRequest) -> Exchange:
    exchanges = scripts()[agent_of(request)]
    facts = facts_of(request)
    return next(each for each in exchanges if each.values_for(facts, request.tools) is not None)


@pytest.mark.parametrize(("agent", "exchange", "sentence"), EXAMPLES)
def test_every_example_is_answered_by_its_own_exchange(
    agent: str, exchange: Exchange, sentence: str
) -> None:
    passages = json.dumps([{"text": "It costs 29 euros."}])
    notes = (
        f"[Decision] Take facts from these.\n{passages}"
        if exchange.name == "the documents were asked"
        else ""
    )
    assert chosen(talk(sentence, agent=agent, notes=notes)) is exchange


def suggested() -> Sequence[str]:
    """Return the sentences that README, the sandbox's page and `threadline up` suggest."""
    readme = (
        (ROOT / "README.md")
        .read_text()
        .partition("open the Slack sandbox and try:")[2]
        .partition("\nSet ")[0]
    )
    page = (ROOT / "src/threadline_devstack/slack/pages/index.html").read_text()
    command = (ROOT / "src/threadline/cli/devstack.py").read_text()
    command = re.sub(
        r'"\s*\n\s*"',
        "",
        command.partition("Open the Slack sandbox")[2].partition("if stack.words")[0],
    )
    found = re.findall(r"\*([^*]{8,})\*", readme) + re.findall(r"<q>(.+?)</q>", page)
    return [" ".join(each.split()) for each in found + re.findall("“([^”]+)”", command)]


def test_every_suggested_sentence_is_in_the_script() -> None:
    sentences = suggested()
    assert len(sentences) >= 12
    for sentence in sentences:
        words = sentence.removeprefix("@threadline ")
        decided = chosen_decision(words)
        if decided != "anything else":
            continue
        agents = [
            agent for agent in ("bug_cases", "conversations", "operator") if fits(words, agent)
        ]
        assert agents, f"the script has no answer to {words!r}"


def fits(words: str, agent: str) -> bool:
    fallbacks = ("anything else", "a first report that says too little")
    return chosen(talk(words, agent=agent)).name not in fallbacks or words.lower().startswith(
        "please fix it"
    )


def chosen_decision(words: str) -> str:
    prompt = json.dumps({"query": words, "tools": {}})
    request = replace(talk(prompt), schema_name="decision")
    return chosen(request).name


@pytest.mark.parametrize(
    ("agent", "key"), [("conversations", "OPENAI_API_KEY"), ("operator", "OPENAI_API_KEY")]
)
async def test_a_sentence_outside_of_the_script_gets_examples(agent: str, key: str) -> None:
    answer = await answer_to(talk("Tell me a joke about penguins", agent=agent))
    assert isinstance(answer, ScriptReply)
    said = str(answer.calls[0][1]["text"]) if agent == "operator" else answer.text
    assert said.startswith("I am a script, not a language model, and your sentence is not in it.")
    assert key in said
    assert f"“{scripts()[agent][0].examples[0]}”" in said


async def answer_to(
    request: ModelRequest, *results: tuple[str, str] | tuple[str, str, bool]
) -> ScriptAnswer:
    """Return the next reply after calls with these results, each in its own step: tool, text,
    error.
    """
    steps = tuple(RecordedStep("", (RecordedResult(*each),)) for each in results)
    request = replace(request, steps=steps)
    return await play(script_for(request), ScriptTurn(request, Holds()))


async def test_a_result_without_an_expected_value_fails_the_turn() -> None:
    request = talk(
        "show the project PRJ-1, then create two wbs items for the tester, then update the "
        "quote totals"
    )
    details = ("estimates_getProjectDetails", '{"data": {"roles": [{"role": "designer"}]}}')
    with pytest.raises(ScriptDiverged, match="was to return"):
        await answer_to(request, details)


async def test_a_value_is_saved_from_a_result_and_strict_tools_get_null_for_the_rest() -> None:
    request = talk("show the project PRJ-1, then create one wbs item")
    strict = {"required": ["project_id", "items", "note"]}
    request = replace(request, tools={**request.tools, "estimates_createWbsItems": strict})
    answer = await answer_to(
        request,
        ("estimates_getProjectDetails", '{"data": {"roles": [{"role": "tester"}]}}\n<reminder/>'),
    )
    assert isinstance(answer, ScriptReply)
    assert answer.calls == (
        (
            "estimates_createWbsItems",
            {
                "project_id": "PRJ-1",
                "items": [{"title": "wbs item 1", "role": "tester", "days": 1}],
                "note": None,
            },
        ),
    )


async def test_a_failed_call_ends_the_exchange_with_its_error() -> None:
    error = json.dumps({"error": {"message": "It is locked.", "suggestion": "Unlock it first."}})
    answer = await answer_to(talk("use the project PRJ-2"), ("estimates_useProject", error, True))
    assert answer == ScriptReply("I could not do this: It is locked. Unlock it first.")
    spoken = await answer_to(
        talk("set the status of rfp_a1 to won", agent="operator"),
        ("opportunity_load", error, True),
    )
    assert isinstance(spoken, ScriptReply)
    assert spoken.calls[0] == (
        SPEAK,
        {"text": "I could not do this: It is locked. Unlock it first."},
    )
    refused = await answer_to(
        talk("set the status of rfp_a1 to won", agent="operator"),
        ("opportunity_load", error, True),
        (SPEAK, "no", True),
    )
    assert refused == ScriptReply("no")


async def test_no_tool_is_called_if_none_may_be_called() -> None:
    request = replace(talk("use the project PRJ-2"), tool_choice="none")
    assert await answer_to(request) == ScriptReply("I had no more calls for this.")


def test_a_change_in_a_read_only_thread_is_refused_with_its_reason() -> None:
    note = (
        "[Context] It is today.\nRead-only: the project PRJ-2 is locked. What would change "
        "something is not offered."
    )
    request = talk("create one wbs item for the designer", notes=note)
    offered = {
        name: schema
        for name, schema in request.tools.items()
        if name != "estimates_createWbsItems"
    }
    request = replace(request, tools=offered)
    assert chosen(request).name == "a change where nothing can be changed"
    assert facts_of(request)["read_only"] == "the project PRJ-2 is locked"


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ('{"success": true, "text": "Two roles.", "data": {"roles": [1, 2]}}', "Two roles."),
        (
            (
                '{"error": {"code": "READ_ONLY", "message": "It is locked.", "suggestion": '
                '"Unlock it."}}'
            ),
            "It is locked. Unlock it.",
        ),
        ('{"error": "no"}', "no."),
        ("[1, 2]", "[1, 2]"),
        ("word " * 100, f"{'word ' * 59}word …"),
    ],
)
def test_a_result_is_summarised_in_one_sentence(result: str, words: str) -> None:
    assert result_summary(result) == words


def test_texts_are_filled_and_a_name_alone_keeps_its_type() -> None:
    values: Mapping[str, Any] = {"line": 33, "path": "cart.py"}
    given = {"line": "{line}", "at": ["{path}:{line}"], "json": '{"a": 1}', "flag": True}
    assert fill(given, values) == {
        "line": 33,
        "at": ["cart.py:33"],
        "json": '{"a": 1}',
        "flag": True,
    }
    with pytest.raises(MissingValue, match="colour"):
        fill("{colour}", values)


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "x", "steps": [{"say": "a", "reply": "b"}]},
        {"name": "x", "steps": [{"if": {"prompt": "a"}}]},
        {"name": "x", "steps": [], "when": {"colour": "red"}},
        {"name": "x", "steps": [], "then": []},
        {"name": "x", "steps": [{"set": {"told": "One", "and another": None}}]},
    ],
    ids=["two things", "nothing", "unknown fact", "unknown field", "a text cut at its comma"],
)
def test_an_invalid_exchange_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Exchange.model_validate(wrong)
