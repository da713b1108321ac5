"""Converts values to Temporal's JSON with pydantic, whose schemas of our types are cached once a
process.

A third of a history's payloads were fields without information. So a field of our types is omitted
when it is empty (None, False, 0, "", no items) and empty by default: the reader gets the same
value. An empty default is therefore a promise to existing histories; a field that needs another
default gets another name. Other defaults are always written, and may change.

Temporal makes a payload converter for each workflow, and pydantic a schema for each type that a
converter meets: 5 ms and 100 kB a type. The sandbox therefore passes this module and
`SHARED_MODULES` through. A class of any other module may belong to one workflow, and must be
released with it.
"""

from dataclasses import MISSING, fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic import TypeAdapter
from temporalio.api.common.v1 import Payload
from temporalio.contrib.pydantic import PydanticJSONPlainPayloadConverter, pydantic_data_converter
from temporalio.converter import (
    CompositePayloadConverter,
    DefaultPayloadConverter,
    JSONPlainPayloadConverter,
)

_PACKAGE = Path(__file__).parents[1]
_FILES = ("model.py", "model/[!_]*.py", "contract.py", "workflow.py")
_OTHERS = """
    cases.audience cases.sla conversations.turn errors jobs.times knowledge.languages
    privacy.redaction privacy.secret_rules
    slack.fields slack.mrkdwn slack.rendering slack.splitting slack.text
    threads.activity_options threads.buttons threads.calls threads.inbox
    threads.payload_converter threads.phrases threads.run_loop tools.public_text
"""
SHARED_MODULES = frozenset(
    {
        *(
            ".".join(("threadline", *path.relative_to(_PACKAGE).with_suffix("").parts))
            for each in _FILES
            for path in _PACKAGE.glob(f"*/{each}")
        ),
        *(f"threadline.{name}" for name in _OTHERS.split()),
    }
)
"""Modules that the workflow sandbox passes through, so that a process has one copy of them.

They are every model, contract and workflow, and the modules in `_OTHERS`: all code that a workflow
runs. The sandbox would load them again for each run, at 230 KiB and some milliseconds. In place of
the sandbox, ruff bans clocks, random numbers and loggers from them, and
tests/threads/test_workflow_code_rules.py bans other sources of chance and state that runs would
share.
"""
_adapter = cache(TypeAdapter)


@cache
def _fields(kind: type) -> tuple[tuple[str, object], ...]:
    """Return the names of a dataclass's fields, each with its default where that is empty."""
    found = []
    for each in fields(kind):
        made = each.default_factory() if each.default_factory is not MISSING else each.default
        found.append((each.name, made if made is not MISSING and not made else MISSING))
    return tuple(found)


def _lean(value: Any) -> Any:
    kind = type(value)
    if is_dataclass(kind) and kind.__module__ in SHARED_MODULES:
        given = ((name, getattr(value, name), default) for name, default in _fields(kind))
        return {
            name: _lean(each)
            for name, each, default in given
            if not (type(each) is type(default) and each == default)
        }
    if kind in (list, tuple):
        return [_lean(each) for each in value]
    return {name: _lean(each) for name, each in value.items()} if kind is dict else value


def _is_shared(hint: Any) -> bool:
    """Return whether a type and all its arguments (`list[Execution]`) come from shared modules."""
    parts = get_args(hint)
    if parts:
        return all(map(_is_shared, (get_origin(hint), *parts)))
    module = getattr(hint, "__module__", "")
    return module in SHARED_MODULES or module in ("builtins", "types", "typing")


class SharedJson(PydanticJSONPlainPayloadConverter):
    """Reads and writes the same JSON as its base class, without fields that have empty
    defaults.
    """

    def to_payload(self, value: Any) -> Payload | None:
        return super().to_payload(_lean(value))

    def from_payload(self, payload: Payload, type_hint: type | None = None) -> Any:
        if _is_shared(type_hint):
            return _adapter(type_hint).validate_json(payload.data)
        return super().from_payload(payload, type_hint)


class SharedPayloadConverter(CompositePayloadConverter):
    """The SDK makes one for each workflow task; all share the same parts."""

    _parts = tuple(
        SharedJson(max_cached_type_adapters=0)
        if isinstance(each, JSONPlainPayloadConverter)
        else each
        for each in DefaultPayloadConverter.default_encoding_payload_converters
    )

    def __init__(self) -> None:
        super().__init__(*self._parts)


data_converter = replace(pydantic_data_converter, payload_converter_class=SharedPayloadConverter)
