"""Any content of a signal becomes a message, without an error and without a loss."""

import json
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadline.slack.model import MAX_TEXT, FileRef, clean_text
from threadline.threads.model import KINDS, IncomingMessage, MessageKind, SenderType, parse_message

JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
MESSAGE = IncomingMessage(
    id="T1:C1:1.0",
    kind=MessageKind.MESSAGE,
    sender_type=SenderType.DEVELOPER,
    sender_id="U1",
    text="please fix it",
    channel="C1",
    ts="1.0",
    files=(FileRef("F1", "a.png", "image/png", 10),),
)


def test_message_survives_json() -> None:
    assert parse_message([json.loads(json.dumps(asdict(MESSAGE)))]) == MESSAGE


@given(st.lists(JSON, max_size=4))
def test_any_arguments_become_a_message(args: list[Any]) -> None:
    message = parse_message(args)
    assert message.kind in (*KINDS, MessageKind.QUARANTINED)
    assert message.id


@given(st.dictionaries(st.sampled_from(list(asdict(MESSAGE))), JSON))
def test_fields_of_a_wrong_type_lose_no_message(fields: dict[str, Any]) -> None:
    message = parse_message([{**asdict(MESSAGE), **fields, "id": "T1:C1:1.0"}])
    assert message.id == "T1:C1:1.0" or message.kind == MessageKind.QUARANTINED


@pytest.mark.parametrize(
    "args", [[], ["reporter", "U1", "hello"], [{"id": ""}], [{"text": "no id"}]]
)
def test_unreadable_signal_is_quarantined_with_its_text(args: list[Any]) -> None:
    message = parse_message(args)
    assert message.kind == MessageKind.QUARANTINED
    assert message.text == json.dumps(args, sort_keys=True)
    assert parse_message(args).id == message.id
    assert parse_message([*args, "more"]).id != message.id


def test_unknown_sender_type_is_left_to_the_case() -> None:
    assert (
        parse_message([{**asdict(MESSAGE), "sender_type": "martian"}]).sender_type
        == SenderType.UNKNOWN
    )


def test_unknown_field_is_ignored() -> None:
    assert parse_message([{**asdict(MESSAGE), "mood": {"deep": [1]}}]) == MESSAGE


@given(st.text())
def test_cleaned_text_can_be_stored(text: str) -> None:
    assert "\x00" not in clean_text(text)
    clean_text(text).encode("utf-8")
    assert clean_text("a\x00b\ud800c") == "ab?c"
    assert len(clean_text("x" * 50_000)) == MAX_TEXT
