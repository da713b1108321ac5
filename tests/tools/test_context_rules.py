"""The context that every tool gets."""

from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from tests.support.tool_fakes import context
from threadline.errors import Permanent
from threadline.tools.context import Services

INVISIBLE = [
    *(
        "\u200b",
        "\u200c\u200d",
        "\u2060",
        "\ufeff",
        "\u200e \u200f",
        "\u061c",
        "\u180e",
        "\u00ad",
        "\u034f",
    ),
    *(
        "\u2800",
        "\u3164",
        "\uffa0",
        "\ufe0f",
        "\ufff9\ufffb",
        "\U000e0020",
        "\U0001d173",
        "\U0001bca0",
        "\x00\x1b",
    ),
]
"""Characters without a width that are no blanks to Python."""


class Words(str):
    setup_hint = "Set THREADLINE_WORDS."


@pytest.mark.parametrize(
    "name", ["team", "channel", "thread_ts", "user_id", "request_id", "correlation_id"]
)
def test_context_needs_each_identity(name: str) -> None:
    values: list[Any] = [None, "", "  ", 7, "x" * 201]
    for value in [*values, *INVISIBLE]:
        with pytest.raises(ValueError, match=name):
            context(**{name: value})


def test_context_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        context().user_id = "U2"  # type: ignore[misc]


def test_operation_key_differs_for_each_call_and_stays_for_a_retry() -> None:
    places: list[dict[str, Any]] = [
        {},
        {"call_id": "call_2"},
        {"turn": 2},
        {"step": 2},
        {"thread_ts": "1760000000.000200"},
        {"team": "T2"},
    ]
    assert len({context(**each).operation_key for each in places}) == 6
    assert context(retries_left=2).operation_key == context().operation_key


def test_error_of_a_missing_port_names_the_setting() -> None:
    none = Services()
    some = none.with_service(Words, Words("hello"))
    assert some[Words] == "hello"
    assert Words in some
    assert Words not in none
    with pytest.raises(Permanent, match="Set THREADLINE_WORDS"):
        none[Words]
