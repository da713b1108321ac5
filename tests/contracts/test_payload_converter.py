"""What is kept once a process about our types changes nothing of what is written and read."""

import dataclasses
from typing import Any

import pytest
from temporalio.contrib.pydantic import PydanticPayloadConverter

from threadline.contracts import payload_converter
from threadline.contracts.bug import FlushRequest, Opened
from threadline.contracts.payload_converter import SharedPayloadConverter
from threadline.domain.addressing import Thread
from threadline.domain.bug import BugState, Limits, Marks
from threadline.domain.messages import IncomingMessage

THREAD = Thread("T1", "C1", "1.000001")
SAID = IncomingMessage("m1", "message", "reporter", "U1", "Größe \u2028 \U0001f41b", "C1", "1.000002")
VALUES: list[tuple[Any, Any]] = [
    (FlushRequest(THREAD, [SAID]), FlushRequest),
    (BugState(THREAD, pending=[SAID], seen={"m1": None}), BugState),
    (Opened(Marks(rev=3), Limits()), Opened),
    (SAID, IncomingMessage | None),
    (None, IncomingMessage | None),
    ({"a": [1, "b", None]}, None),
    (b"bytes", bytes),
]


@pytest.mark.parametrize(("value", "hint"), VALUES, ids=lambda each: type(each).__name__)
def test_it_writes_and_reads_what_the_sdks_own_writes_and_reads(value: Any, hint: Any) -> None:
    ours, sdk = SharedPayloadConverter(), PydanticPayloadConverter()
    (payload,) = ours.to_payloads([value])
    assert payload == sdk.to_payloads([value])[0]
    hints = [hint] if hint else None
    assert ours.from_payloads([payload], hints) == sdk.from_payloads([payload], hints) == [value]


def test_workflows_share_what_is_known_of_our_types() -> None:
    """Each workflow has a converter of its own."""
    payload_converter._adapter.cache_clear()
    for _ in range(3):
        converter = SharedPayloadConverter()
        assert converter.from_payloads(converter.to_payloads([THREAD]), [Thread]) == [THREAD]
    assert payload_converter._adapter.cache_info().misses == 1


def test_a_class_that_may_be_a_workflows_own_is_not_kept() -> None:
    @dataclasses.dataclass
    class Own:
        number: int

    payload_converter._adapter.cache_clear()
    converter = SharedPayloadConverter()
    assert converter.from_payloads(converter.to_payloads([Own(1)]), [Own]) == [Own(1)]
    assert payload_converter._adapter.cache_info().currsize == 0
