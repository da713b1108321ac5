"""A model's answer is parsed strictly; no input raises an error."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.decisions.answers import RIGHT, answer
from threadline.decisions.engine import decision_schema, parse_decision
from threadline.decisions.model import MAX_SENTENCE, Decision, DecisionType

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(sorted(RIGHT)), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(
    st.text()
    | st.binary().map(lambda data: data.decode("utf-8", "replace"))
    | JSON.map(json.dumps)
)
@example("[" * 100_000)
@example('{"decision": ' * 50_000)
@example("9" * 5_000)
@example("```json\n```")
@example("```")
@example("\ud800")
def test_text_without_an_answer_is_unreadable(text: str) -> None:
    found = parse_decision(text)
    assert isinstance(found, tuple)
    assert found
    assert all(found)


@given(st.sampled_from(sorted(RIGHT)), JSON)
@example("query_complexity", 10**400)
@example("query_complexity", float("nan"))
@example("confidence", float("inf"))
@example("reasoning", "\ud800\x00")
@example("tools_needed", ["\x00"] * 1_000)
def test_any_value_in_a_field_is_read_in_bounds_or_refused(name: str, value: Any) -> None:
    found = parse_decision(answer(**{name: value}))
    if isinstance(found, tuple):
        assert found
        return
    assert 0 <= found.complexity <= 1
    assert 0 <= found.model_confidence <= 1
    texts = [
        found.reasoning,
        found.query,
        found.question,
        found.escalation_reason,
        *found.tools,
        *found.document_types,
    ]
    assert all(len(each) <= MAX_SENTENCE for each in texts)
    assert "\x00" not in "".join(texts)
    assert "".join(texts).encode("utf-8")


@pytest.mark.parametrize("missing", sorted(RIGHT))
def test_missing_field_is_named(missing: str) -> None:
    found = parse_decision(
        json.dumps({name: value for name, value in RIGHT.items() if name != missing})
    )
    assert isinstance(found, tuple)
    (problem,) = found
    assert missing in problem


@pytest.mark.parametrize(
    "around", ["{}", "```json\n{}\n```", "Here it is:\n```\n{}\n```\nThat is all.", "\n {} \n"]
)
@pytest.mark.parametrize(
    "reasoning", ["They sent ```json {}``` and ask.", "It has {braces} and `ticks`."]
)
def test_code_block_around_an_answer_is_removed_and_one_within_kept(
    around: str, reasoning: str
) -> None:
    found = parse_decision(around.replace("{}", answer(reasoning=reasoning), 1))
    assert isinstance(found, Decision)
    assert found.reasoning == reasoning


@pytest.mark.parametrize("type_", DecisionType)
def test_each_type_is_read_with_its_fields(type_: DecisionType) -> None:
    written = {
        "tools_needed": ["crm_read"],
        "document_types": ["pricing"],
        "retrieval_query": "price",
    }
    found = parse_decision(
        answer(
            decision=type_,
            retrieval_needed=True,
            clarifying_question="?",
            escalation_reason="!",
            **written,
        )
    )
    assert isinstance(found, Decision)
    assert (found.type, found.tools, found.query) == (type_, ("crm_read",), "price")
    assert (found.question, found.escalation_reason, found.document_types) == (
        "?",
        "!",
        ("pricing",),
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("confidence", float("nan")),
        ("confidence", "0.9"),
        ("decision", "ANSWER"),
        ("sensitivity", "maybe"),
        ("intent_clear", "yes"),
    ],
)
def test_unfitting_value_is_not_guessed(name: str, value: Any) -> None:
    assert isinstance(parse_decision(answer(**{name: value})), tuple)


@pytest.mark.parametrize(
    ("value", "read"), [(1.01, 1.0), (85, 1.0), (-0.1, 0.0), (1, 1.0), (0.4, 0.4)]
)
def test_number_out_of_its_range_is_the_nearest_in_it(value: float, read: float) -> None:
    found = parse_decision(answer(confidence=value, query_complexity=value))
    assert isinstance(found, Decision)
    assert (found.model_confidence, found.complexity) == (read, read)


@pytest.mark.parametrize(
    "around",
    [
        "{}",
        "```json\n{}\n```",
        "Here is my decision: {}",
        "{}\n\nI hope this helps!",
        "Sure.\n{}\nDone {{x}}",
    ],
)
def test_decision_within_prose_is_read(around: str) -> None:
    found = parse_decision(around.replace("{}", answer()).replace("{{x}}", "{x}"))
    assert isinstance(found, Decision)


@pytest.mark.parametrize("types", [(), ("pricing", "policy")])
def test_form_is_strict_and_requires_every_field_that_is_read(types: tuple[str, ...]) -> None:
    schema = decision_schema(types)
    fields = schema["properties"]
    assert schema["additionalProperties"] is False
    assert set(schema["required"]) == set(fields) == set(RIGHT)
    assert [] not in [
        each.get("enum") for each in (*fields.values(), fields["document_types"]["items"])
    ]
