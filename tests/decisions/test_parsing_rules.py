"""A model's answer: read strictly, whatever bytes it is made of, and never an exception."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.decisions.answers import RIGHT, answer
from threadline.decisions.model import LONGEST_REASONING, Action, Decided
from threadline.decisions.parsing import Unreadable, form, read

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(sorted(RIGHT)), inner, max_size=4),
    max_leaves=12,
)


@given(st.text() | st.binary().map(lambda data: data.decode("utf-8", "replace")))
@example("[" * 100_000)
@example('{"decision": ' * 50_000)
@example("9" * 5_000)
@example("```json\n```")
@example("```")
@example("\ud800")
def test_any_text_is_read_and_what_is_no_answer_says_so(text: str) -> None:
    found = read(text)
    assert isinstance(found, Unreadable)
    assert all(found.faults)


@given(st.sampled_from(sorted(RIGHT)), JSON)
@example("query_complexity", 10**400)
@example("query_complexity", float("nan"))
@example("confidence", float("inf"))
@example("reasoning", "\ud800\x00")
@example("tools_needed", ["\x00"] * 1_000)
def test_an_answer_with_anything_in_one_place_is_read_in_bounds_or_says_what_is_wrong(name: str, value: Any) -> None:
    found = read(answer(**{name: value}))
    if isinstance(found, Unreadable):
        assert found.faults
        return
    assert 0 <= found.complexity <= 1
    assert 0 <= found.own_confidence <= 1
    texts = [found.reasoning, found.query, found.question, found.escalation_reason, *found.tools, *found.document_types]
    assert all(len(each) <= LONGEST_REASONING for each in texts)
    assert "\x00" not in "".join(texts)
    assert "".join(texts).encode("utf-8")


@given(JSON)
def test_any_other_json_is_unreadable(value: Any) -> None:
    assert isinstance(read(json.dumps(value)), Unreadable)


@pytest.mark.parametrize("missing", sorted(RIGHT))
def test_what_is_missing_is_named(missing: str) -> None:
    found = read(json.dumps({name: value for name, value in RIGHT.items() if name != missing}))
    assert isinstance(found, Unreadable)
    assert len(found.faults) == 1
    assert missing in found.faults[0]


@pytest.mark.parametrize("around", ["{}", "```json\n{}\n```", "Here it is:\n```\n{}\n```\nThat is all.", "\n {} \n"])
@pytest.mark.parametrize("reasoning", ["Plain.", "They sent ```json {}``` and ask.", "It has {braces} and `ticks`."])
def test_a_block_around_an_answer_is_taken_off_and_one_within_is_left(around: str, reasoning: str) -> None:
    found = read(around.replace("{}", answer(reasoning=reasoning), 1))
    assert isinstance(found, Decided)
    assert found.reasoning == reasoning


@pytest.mark.parametrize("action", Action)
def test_each_action_is_read_with_what_it_carries(action: Action) -> None:
    told = answer(
        decision=action.value,
        tools_needed=["crm_read"],
        retrieval_needed=True,
        retrieval_query="Starter price",
        clarifying_question="Which plan?",
        escalation_reason="A claim.",
        document_types=["pricing"],
    )
    found = read(told)
    assert isinstance(found, Decided)
    assert (found.action, found.tools, found.query) == (action, ("crm_read",), "Starter price")
    assert (found.question, found.escalation_reason) == ("Which plan?", "A claim.")
    assert found.document_types == ("pricing",)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("confidence", 1.01),
        ("query_complexity", -0.1),
        ("confidence", "0.9"),
        ("decision", "ANSWER"),
        ("sensitivity", "maybe"),
        ("intent_clear", "yes"),
        ("tools_needed", "crm_read"),
    ],
)
def test_what_a_word_means_is_not_guessed(name: str, value: Any) -> None:
    assert isinstance(read(answer(**{name: value})), Unreadable)


@pytest.mark.parametrize("types", [(), ("pricing", "policy")])
def test_the_form_is_strict_and_asks_for_all_that_is_read(types: tuple[str, ...]) -> None:
    schema = form(types)
    assert schema["additionalProperties"] is False
    assert set(schema["required"]) == set(schema["properties"]) == set(RIGHT)
    assert [] not in [each.get("enum") for each in (*schema["properties"].values(), _items(schema))]


def _items(schema: Any) -> Any:
    return schema["properties"]["document_types"]["items"]
