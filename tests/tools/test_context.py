"""The context that every tool is given."""

from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from tests.support.tool_fakes import context
from threadline.errors import Permanent
from threadline.tools.context import Port, Ports

WORDS = Port[str]("Words", "Set THREADLINE_WORDS.")


@pytest.mark.parametrize("name", ["team", "channel", "thread_ts", "user_id", "request_id", "correlation_id"])
@pytest.mark.parametrize("value", [None, "", "  ", 7, "x" * 201])
def test_a_context_without_an_identity_cannot_be_made(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=name):
        context(**{name: value})


def test_a_context_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        context().user_id = "U2"  # type: ignore[misc]


def test_the_key_of_an_operation_differs_for_each_call_and_stays_for_a_retry() -> None:
    one = context(turn=1, step=2)
    others = [
        context(turn=1, step=2, call_id="call_2"),
        context(turn=2, step=2),
        context(turn=1, step=3),
        context(turn=1, step=2, thread_ts="1760000000.000200"),
        context(turn=1, step=2, team="T2"),
    ]
    assert len({each.operation_key for each in [one, *others]}) == 6
    assert context(turn=1, step=2, retries_left=2).operation_key == one.operation_key


def test_a_port_gives_what_was_bound_and_a_missing_one_says_what_to_set() -> None:
    none = Ports()
    some = none.having(WORDS, "hello")
    assert some[WORDS] == "hello"
    assert WORDS in some
    assert WORDS not in none
    with pytest.raises(Permanent, match="Set THREADLINE_WORDS"):
        none[WORDS]
