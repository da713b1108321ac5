"""How values become Temporal's JSON: pydantic's way, with what it knows of our types kept once a process.

Temporal makes a payload converter for each workflow, and pydantic builds a schema for each type that a converter meets:
5 ms and 100 kB a type, for every workflow anew. It is passed through the sandbox, as all contracts are.
"""

from dataclasses import replace
from functools import cache
from typing import Any

from pydantic import TypeAdapter
from temporalio.api.common.v1 import Payload
from temporalio.contrib.pydantic import PydanticJSONPlainPayloadConverter, pydantic_data_converter
from temporalio.converter import (
    CompositePayloadConverter,
    DataConverter,
    DefaultPayloadConverter,
    JSONPlainPayloadConverter,
)

_SHARED = ("threadline.domain.", "threadline.contracts.")
"""Modules of which a process has one copy. A class of any other may be one workflow's own, and must go with it."""

_adapter = cache(TypeAdapter)


class SharedJson(PydanticJSONPlainPayloadConverter):
    """The same JSON as the class above it reads and writes."""

    def from_payload(self, payload: Payload, type_hint: type | None = None) -> Any:
        if isinstance(type_hint, type) and f"{type_hint.__module__}.".startswith(_SHARED):
            return _adapter(type_hint).validate_json(payload.data)
        return super().from_payload(payload, type_hint)


class SharedPayloadConverter(CompositePayloadConverter):
    def __init__(self) -> None:
        usual = DefaultPayloadConverter.default_encoding_payload_converters
        json = SharedJson()
        super().__init__(*(json if isinstance(each, JSONPlainPayloadConverter) else each for each in usual))


data_converter: DataConverter = replace(pydantic_data_converter, payload_converter_class=SharedPayloadConverter)
