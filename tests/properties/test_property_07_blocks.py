"""Property 7: whatever structured data a tool returns, the answer has blocks for it, and Slack takes them."""

from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.slack.limits import check, legible, tables
from threadline.conversations.blocks import answer_of
from threadline.slack.formatting import Rendered
from threadline.tools.cells import label

KINDS = st.sampled_from(
    ["appointments", "orders", "tickets", "builds", "projects", "wbs_items", "roles", "quotes", "cases", "slots"]
)
TEXTS = st.text() | st.sampled_from(["<!channel>", "@here", "x" * 5_000, "& " * 900, "2026-03-02T09:00:00Z", "|"])
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | TEXTS
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4), max_leaves=12
)
NAMES = TEXTS | st.sampled_from(["url", "key", "id", "number", "title", "status", "appointment_id", "project_id"])
RECORDS = st.lists(st.dictionaries(NAMES, VALUES, max_size=6) | VALUES, min_size=1, max_size=6)
GROUPS = st.lists(st.tuples(KINDS | TEXTS, RECORDS), min_size=1, max_size=5)
ANSWERS = st.sampled_from(["", "Here they are.", "y" * 9_000, "a|b\n-|-\n1|2\n", "é\ud800\0"]) | st.text()


def blocks_of(messages: Sequence[Rendered]) -> list[dict[str, Any]]:
    return [block for message in messages for block in message.blocks]


@settings(max_examples=200)
@given(ANSWERS, GROUPS, st.booleans())
def test_property_7_structured_data_of_any_shape_is_shown_in_blocks_that_slack_takes(
    text: str, groups: list[tuple[str, list[Any]]], detail: bool
) -> None:
    messages = answer_of(text, groups, detail)
    check(messages)
    shown = blocks_of(messages)[len(answer_of(text, (), detail)) :]
    assert len(shown) >= len({kind for kind, _ in groups})


@settings(max_examples=100)
@given(KINDS | TEXTS, RECORDS, st.integers(1, 400))
def test_property_7_however_many_records_there_are_none_disappears_without_a_word(
    kind: str, records: list[Any], times: int
) -> None:
    many = [[number, each] for number, each in enumerate((records * times)[:1_500])]
    (message,) = answer_of("", [(kind, many)])
    check([message])
    if len(many) > 1:
        assert f"({len(many):,})" in message.text
        left = len(many) - sum(len(table["rows"]) - 1 for table in tables(message))
        assert (f"Not shown: {left:,} of the records" in legible([message])) == (left > 0)


@settings(max_examples=100)
@given(st.lists(st.dictionaries(st.sampled_from("abcd"), st.integers(0, 9), min_size=1), min_size=2, max_size=9))
def test_property_7_every_value_of_a_small_table_can_be_read(records: list[dict[str, int]]) -> None:
    told = legible(answer_of("", [("things", records)]))
    for record in records:
        for name, value in record.items():
            assert label(name) in told
            assert str(value) in told
