"""The payload converter writes and reads as the SDK's does, less empty defaults."""

import dataclasses
import gc
import json
import weakref
from importlib import import_module
from typing import Any, Optional

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from temporalio.contrib.pydantic import PydanticPayloadConverter

from tests.support.examples import examples
from threadline.cases.contract import FlushRequest, StoredCase
from threadline.cases.model import BugState, CaseLimits, CaseSnapshot
from threadline.jobs.model import AgentJob
from threadline.slack.model import Thread
from threadline.threads import payload_converter
from threadline.threads.model import IncomingMessage, MessageKind, SenderType
from threadline.threads.payload_converter import SHARED_MODULES, SharedPayloadConverter

THREAD = Thread("T1", "C1", "1.000001")
SAID = IncomingMessage(
    "m1",
    MessageKind.MESSAGE,
    SenderType.REPORTER,
    "U1",
    "Größe \u2028 \U0001f41b",
    "C1",
    "1.000002",
)
VALUES: list[tuple[Any, Any]] = [
    (FlushRequest(THREAD, [SAID]), FlushRequest),
    (BugState(THREAD, pending=[SAID], seen={"m1": None}), BugState),
    (StoredCase(CaseSnapshot(rev=3), CaseLimits()), StoredCase),
    (SAID, IncomingMessage | None),
    (None, IncomingMessage | None),
    ({"a": [1, "b", None]}, None),
    (b"bytes", bytes),
]


@pytest.mark.parametrize(("value", "hint"), VALUES, ids=lambda each: type(each).__name__)
def test_values_are_read_as_by_the_sdks_converter(value: Any, hint: Any) -> None:
    ours = SharedPayloadConverter()
    sdk = PydanticPayloadConverter()
    hints = [hint] if hint else None
    for payload in (
        *ours.to_payloads([value]),
        *sdk.to_payloads([value]),
    ):  # the SDK's result is that of an earlier history
        assert (
            ours.from_payloads([payload], hints) == sdk.from_payloads([payload], hints) == [value]
        )
    assert len(ours.to_payloads([value])[0].data) <= len(sdk.to_payloads([value])[0].data)


def test_empty_defaults_are_left_out_and_other_defaults_written() -> None:
    (payload,) = SharedPayloadConverter().to_payloads(
        [StoredCase(CaseSnapshot(rev=3), CaseLimits())]
    )
    written = json.loads(payload.data)
    assert written["case"] == {"rev": 3, "status": "new", "severity": "S3"}
    assert written["limits"] == {
        name: each for name, each in dataclasses.asdict(CaseLimits()).items() if each
    }


# A job is stored, and travels in no payload.
CONTRACTS = sorted(
    {
        kind
        for module in SHARED_MODULES
        if module.endswith(("contract", "activity_options"))
        for kind in vars(import_module(module)).values()
        if isinstance(kind, type)
        and dataclasses.is_dataclass(kind)
        and kind.__module__ in SHARED_MODULES
        and kind is not AgentJob
    },
    key=lambda kind: f"{kind.__module__}.{kind.__qualname__}",
)


@pytest.mark.hypothesis
@pytest.mark.parametrize("kind", CONTRACTS, ids=lambda each: each.__name__)
def test_any_value_of_a_contract_is_read_as_it_was_written(kind: type) -> None:
    @settings(examples(0.5), suppress_health_check=list(HealthCheck))
    @given(st.from_type(kind))
    def reads(value: object) -> None:
        ours = SharedPayloadConverter()
        sdk = PydanticPayloadConverter()
        read = ours.from_payloads(ours.to_payloads([value]), [kind])
        theirs = sdk.from_payloads(sdk.to_payloads([value]), [kind])
        assert read == theirs or repr(read) == repr(
            theirs
        )  # a nan equals nothing, and zero has two signs

    reads()


def test_converters_share_adapters_of_shared_types() -> None:
    """Each workflow has a converter of its own."""
    payload_converter._adapter.cache_clear()
    values: list[tuple[Any, Any]] = [
        (THREAD, Thread),
        ([THREAD], list[Thread]),
        (THREAD, Thread | None),
        (THREAD, Optional[Thread]),  # noqa: UP045 - the older form of the same
        ({"a": [1]}, dict[str, list[int]]),
        ("a", str),
        (["a"], Any),
    ]
    for _ in range(3):
        converter = SharedPayloadConverter()
        for value, hint in values:
            assert converter.from_payloads(converter.to_payloads([value]), [hint]) == [value]
    assert payload_converter._adapter.cache_info().misses == len({hint for _, hint in values})


def test_adapter_of_a_workflows_own_class_is_not_kept() -> None:
    """Such a class takes the whole sandbox of its run along."""

    @dataclasses.dataclass
    class Own:
        number: int

    payload_converter._adapter.cache_clear()
    converter = SharedPayloadConverter()
    value = Own(1)
    values: list[tuple[Any, Any]] = [
        (value, Own),
        ([value], list[Own]),
        (value, Own | None),
        ({"a": value}, dict[str, Own]),
    ]
    for each, hint in values:
        assert converter.from_payloads(converter.to_payloads([each]), [hint]) == [each]
    assert payload_converter._adapter.cache_info().currsize == 0
    kept = weakref.ref(Own)
    del Own, value, values, each, hint
    gc.collect()
    assert kept() is None
