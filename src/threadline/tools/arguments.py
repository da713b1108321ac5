"""What a model wrote as arguments, read strictly before anything runs; what is wrong is told field by field."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from threadline.tools import schemas
from threadline.tools.model import Code, ToolError
from threadline.tools.schemas import Schema

M = TypeVar("M", bound=BaseModel)

LONGEST = 1_000_000
"""Characters of one call's arguments that are read at all."""
_TOLD = 4
"""Faults that are named; the model mends these first."""
_LONGEST_NAME = 60


class InvalidArguments(Exception):
    """Nothing was executed; `error` names the fields and what was expected of them."""

    def __init__(self, message: str) -> None:
        self.error = ToolError(Code.INVALID_ARGUMENTS, message)
        super().__init__(self.error.message)


def read(model: type[M], schema: Schema, text: str) -> M:
    """The arguments as the tool's parameters; a null stands for what may be left out, as strict mode writes it.

    Args:
        model: the parameters.
        schema: pydantic's own schema of the model, not the strict one.
        text: JSON, or what the model took for it; empty means no arguments.

    Raises:
        InvalidArguments: no JSON object, a missing or unknown field at any depth, a wrong type or value.
    """
    given = _object(text)
    try:
        kept = _without_nulls(given, schema, schema.get("$defs", {}))
        return model.model_validate_json(json.dumps(kept), strict=True, extra="forbid")
    except ValidationError as invalid:
        faults = invalid.errors(include_url=False, include_context=False, include_input=False)
    except RecursionError:
        raise InvalidArguments("The arguments are nested too deeply.") from None
    told = [_fault(each, schema) for each in faults[:_TOLD]]
    more = f" {len(faults) - _TOLD:,} more faults follow." if len(faults) > _TOLD else ""
    raise InvalidArguments(" ".join(told) + more)


def canonical(arguments: BaseModel) -> str:
    """One text for equal arguments, however they were written."""
    return json.dumps(
        arguments.model_dump(mode="json", by_alias=True), sort_keys=True, separators=(",", ":"), ensure_ascii=False
    )


def readable(text: str) -> Any:
    """The arguments for the log: their JSON, or the text itself where they are none."""
    try:
        return json.loads(text[:LONGEST], parse_constant=str) if text.strip() else {}
    except (ValueError, RecursionError):
        return text


def _object(text: str) -> dict[str, Any]:
    if len(text) > LONGEST:
        raise InvalidArguments(f"The arguments are longer than {LONGEST:,} characters: send less at once.")
    try:
        given = json.loads(text or "{}", parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise InvalidArguments("The arguments are not JSON: expected one JSON object.") from None
    if not isinstance(given, dict):
        raise InvalidArguments("The arguments are JSON, but not an object: expected one JSON object.")
    if not _is_storable(given):
        raise InvalidArguments(
            "The arguments contain a character that cannot be stored (NUL or an unpaired surrogate)."
        )
    return given


def _no_number(constant: str) -> NoReturn:
    raise ValueError(constant)


def _is_storable(given: dict[str, Any]) -> bool:
    try:
        written = json.dumps(given, ensure_ascii=False).encode()
    except (UnicodeEncodeError, RecursionError):
        return False
    return b"\\u0000" not in written.replace(rb"\\", b"")  # an escaped backslash before `u0000` is no NUL


def _without_nulls(value: Any, schema: Schema, definitions: Mapping[str, Schema]) -> Any:
    """The value without the nulls of fields that may be left out and take no null themselves."""
    schema = schemas.resolved(schema, definitions)
    if isinstance(value, list):
        items: Schema = next((each["items"] for each in _options(schema, definitions) if "items" in each), {})
        return [_without_nulls(each, items, definitions) for each in value]
    if not isinstance(value, dict):
        return value
    fitting = (each for each in _options(schema, definitions) if value.keys() <= each.get("properties", {}).keys())
    schema = next(fitting, schema)
    properties, required = schema.get("properties", {}), schema.get("required", ())
    return {
        name: _without_nulls(each, properties.get(name, {}), definitions)
        for name, each in value.items()
        if each is not None or name in required or name not in properties or schemas.takes_null(properties[name])
    }


def _options(schema: Schema, definitions: Mapping[str, Schema]) -> Sequence[Schema]:
    return [schemas.resolved(each, definitions) for each in schemas.options_of(schema) or (schema,)]


def _fault(fault: ErrorDetails, schema: Schema) -> str:
    """A sentence about one field; of what was given it repeats no value, and of an unknown name only the beginning."""
    definitions = schema.get("$defs", {})
    place, around, there = _walk(fault["loc"], schema, definitions)
    if fault["type"] == "extra_forbidden":
        known = ", ".join(list(around.get("properties", {}))[:20])
        return f"`{place}` is unknown: expected {f'only {known}' if known else 'no fields'}."
    wanted = schemas.expected(there, definitions)
    if fault["type"] == "missing":
        return f"`{place}` is missing: expected {wanted}."
    if fault["type"] in ("value_error", "assertion_error"):  # a rule of ours: its words are meant for this
        return f"`{place}`: {fault['msg'].removeprefix('Value error, ').removeprefix('Assertion failed, ')}."
    return f"`{place}` does not fit: expected {wanted}."


def _walk(loc: tuple[int | str, ...], schema: Schema, definitions: Mapping[str, Schema]) -> tuple[str, Schema, Schema]:
    """The field's place such as `items/0/title`, the object that it is in, and its own schema.

    pydantic names the branch of a union as one more step, which is no field.
    """
    place: list[str] = []
    around, there = schema, schema
    for step in loc:
        branches = _options(schemas.resolved(there, definitions), definitions)
        if isinstance(step, int):
            place.append(str(step))
            there = next((each["items"] for each in branches if "items" in each), {})
        elif owner := next((each for each in branches if step in each.get("properties", {})), None):
            place.append(step)
            around, there = owner, owner["properties"][step]
        elif step == loc[-1] and len(branches) == 1:
            place.append(step[:_LONGEST_NAME])
            around = branches[0]
    return "/".join(place) or "the arguments", around, there
