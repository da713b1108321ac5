"""The arguments of a call: the schema that the model gets, and the strict parsing of its text
before anything runs.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar, get_args

from pydantic import BaseModel, BeforeValidator, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from threadline.errors import Permanent

Schema = Mapping[str, Any]
M = TypeVar("M", bound=BaseModel)

MAX_LENGTH = 1_000_000
"""Characters of one call's arguments; longer ones are refused."""
_MAX_FAULTS = 4
"""Faults that an error names; the model corrects these first."""
_MAX_NAME = 60
_MAX_KNOWN = 20
"""Known fields that an error about an unknown one names."""
_CORRELATION_ID = "correlation_id"
"""A field that every call may carry and every tool ignores: the prompt shows the model the turn's
correlation id, and the runner knows it already.
"""
_TOO_DEEP = "The arguments are nested too deeply."
_STRICT_KEYWORDS = frozenset(
    {
        *(
            "type",
            "description",
            "enum",
            "const",
            "properties",
            "items",
            "anyOf",
            "$ref",
            "format",
            "pattern",
        ),
        *(
            "minimum",
            "maximum",
            "exclusiveMinimum",
            "exclusiveMaximum",
            "multipleOf",
            "minItems",
            "maxItems",
        ),
    }
)
_STRICT_FORMATS = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
)


class InvalidArguments(Exception):
    """The arguments were refused and nothing ran; the message names the fields and the expected
    values.
    """


class InvalidTool(ValueError):
    """A tool cannot be registered in this form; raised at startup, never in a thread."""


def parse_arguments(model: type[M], text: str) -> M:
    """Parse the arguments as a tool's parameters.

    A null for a field that takes no null counts as omitted, since strict mode writes it so.

    Args:
        text: the model's text, usually JSON; empty means no arguments.

    Raises:
        InvalidArguments: no JSON object, a missing or unknown field at any depth, or a wrong type
            or value.
    """
    given = _object(text)
    given.pop(_CORRELATION_ID, None)
    try:
        read = _validate(model, given)
        if not isinstance(read, BaseModel):
            for fault in read:
                if fault["input"] is None and fault["type"] != "extra_forbidden":
                    _remove(given, fault["loc"])
            read = _validate(model, given)
    except RecursionError:
        raise InvalidArguments(_TOO_DEEP) from None
    if isinstance(read, BaseModel):
        return read
    told = [_sentence(each, given, model) for each in read[:_MAX_FAULTS]]
    more = f" {len(read) - _MAX_FAULTS:,} more faults follow." if len(read) > _MAX_FAULTS else ""
    raise InvalidArguments(" ".join(told) + more)


def canonical_json(arguments: BaseModel) -> str:
    """Return the same text for equal arguments, regardless of their spelling."""
    return json.dumps(
        arguments.model_dump(mode="json", by_alias=True),
        sort_keys=True,
        separators=(",", ":"),
        ensure_ascii=False,
    )


def loggable_arguments(text: str) -> Any:
    """Return the arguments for the log: parsed JSON, or the text itself if it is no JSON."""
    try:
        return json.loads(text[:MAX_LENGTH], parse_constant=str) if text.strip() else {}
    except (ValueError, RecursionError):
        return text


def json_object(check: Callable[[Any], object], example: str) -> BeforeValidator:
    """Return a validator for a JSON object, written as text because strict mode allows no free
    keys; it accepts an object as well. `check` raises `Permanent` for a value that must not be
    stored.
    """

    def read(value: object) -> object:
        try:
            given = (
                json.loads(value, parse_constant=_no_number) if isinstance(value, str) else value
            )
        except (ValueError, RecursionError):
            raise ValueError(f"expected the text of one JSON object, such as {example}") from None
        try:
            check(given)
        except Permanent as refused:
            raise ValueError(str(refused)) from None
        if not _is_storable(given):
            raise ValueError(
                "it contains a number or a character that cannot be stored (NUL or an "
                "unpaired surrogate)"
            )
        return given

    return BeforeValidator(read, json_schema_input_type=str)


def strict_schema(schema: Schema, tool: str) -> dict[str, Any]:
    """Convert pydantic's schema of a model for the provider's strict mode.

    Every object becomes closed, every property required, every optional one nullable, and only
    some of JSON Schema's keywords remain. See
    https://platform.openai.com/docs/guides/structured-outputs#supported-schemas.

    Raises:
        InvalidTool: the schema contains an object with free keys, a value of any type, or a tuple.
    """
    definitions = schema.get("$defs", {})
    # for parameters that contain their own type
    reference = str(schema.get("$ref", "")).rpartition("/")[2]
    made = _strict(definitions.get(reference, schema), f"{tool}: the parameters")
    if definitions:
        made["$defs"] = {
            name: _strict(each, f"{tool}: {name}") for name, each in definitions.items()
        }
    return made


def _object(text: str) -> dict[str, Any]:
    if len(text) > MAX_LENGTH:
        raise InvalidArguments(
            f"The arguments are longer than {MAX_LENGTH:,} characters: send less at once."
        )
    try:
        given = json.loads(text or "{}", parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise InvalidArguments("The arguments are not JSON: expected one JSON object.") from None
    if not isinstance(given, dict):
        raise InvalidArguments(
            "The arguments are JSON, but not an object: expected one JSON object."
        )
    if not _is_storable(given):
        raise InvalidArguments(
            "The arguments contain a number or a character that cannot be stored (NUL or an "
            "unpaired surrogate)."
        )
    return given


def _no_number(constant: str) -> NoReturn:
    raise ValueError(constant)


def _is_storable(given: object) -> bool:
    try:
        written = json.dumps(given, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError):  # infinity, NaN, a lone surrogate, or too deep
        return False
    # an escaped backslash before `u0000` is no NUL
    return b"\\u0000" not in written.replace(rb"\\", b"")


def _validate(model: type[M], given: dict[str, Any]) -> M | list[ErrorDetails]:
    try:
        return model.model_validate_json(json.dumps(given), strict=True, extra="forbid")
    except ValidationError as invalid:
        return invalid.errors(include_url=False, include_context=False)


def _place(loc: Sequence[int | str], given: dict[str, Any]) -> tuple[list[int | str], list[Any]]:
    """Return the steps to a value, and the values along the path. pydantic adds a step for the
    branch of a union, which is skipped.
    """
    steps = list[int | str]()
    values = [given]
    for step in loc:
        there: Any = values[-1]
        is_key = isinstance(there, dict) and step in there
        if is_key or (isinstance(there, list) and isinstance(step, int) and step < len(there)):
            steps.append(step)
            values.append(there[step])
    return steps, values


def _remove(given: dict[str, Any], loc: Sequence[int | str]) -> None:
    steps, values = _place(loc, given)
    if steps and values[-1] is None and isinstance(values[-2], dict):
        del values[-2][steps[-1]]


def _sentence(fault: ErrorDetails, given: dict[str, Any], model: type[BaseModel]) -> str:
    """Describe a fault in one sentence; it repeats no given value, and only the beginning of an
    unknown name.
    """
    loc = fault["loc"]
    kind = fault["type"]
    steps, values = _place(loc, given)
    if kind == "json_invalid":
        return _TOO_DEEP
    if kind == "missing" and isinstance(values[-1], dict):
        steps.append(loc[-1])
        # a null makes pydantic name the expected type
        values[-1][loc[-1]] = None
        with_null = _validate(model, given)
        faults = (
            []
            if isinstance(with_null, BaseModel)
            else [each for each in with_null if each["loc"] == loc]
        )
        fault = faults[0] if faults else fault
    place = "/".join(str(step)[:_MAX_NAME] for step in steps) or "the arguments"
    if kind == "extra_forbidden":
        known = ", ".join(_fields_at(model, loc[:-1])[:_MAX_KNOWN])
        return f"`{place}` is unknown: expected {f'only {known}' if known else 'no fields'}."
    said = "Input should be an object" if fault["type"] == "model_type" else fault["msg"]
    said = said.removeprefix("Value error, ").removeprefix("Assertion failed, ")
    return f"`{place}` is missing: {said}." if kind == "missing" else f"`{place}`: {said}."


def _fields_at(model: type[BaseModel], loc: Sequence[int | str]) -> list[str]:
    there: list[type[BaseModel]] = [model]
    for step in loc:
        inner = [
            each
            for one in there
            if step in one.model_fields
            for each in _models(one.model_fields[str(step)])
        ]
        branch = [each for each in there if each.__name__ == step]
        there = inner or branch or there
    return list(there[0].model_fields)


def _models(field: FieldInfo) -> list[type[BaseModel]]:
    kinds = [field.annotation]
    found = list[type[BaseModel]]()
    while kinds:
        kind = kinds.pop(0)
        kinds += get_args(kind)
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            found.append(kind)
    return found


def _strict(schema: Schema, place: str) -> dict[str, Any]:
    described = {"description": schema["description"]} if "description" in schema else {}
    if "$ref" in schema:  # strict mode allows no other keyword next to it
        reference = {"$ref": schema["$ref"]}
        return {"anyOf": [reference]} | described if described else reference
    if options := (schema.get("anyOf") or schema.get("oneOf")):
        return {"anyOf": [_strict(option, place) for option in options]} | described
    if not {"type", "enum", "const"} & schema.keys() or "prefixItems" in schema:
        raise InvalidTool(
            f"{place}: strict mode needs a type here: no Any, no tuple of several types"
        )
    made = {word: value for word, value in schema.items() if word in _STRICT_KEYWORDS}
    if "(?" in str(made.get("pattern")):  # strict mode supports no lookaround
        del made["pattern"]
    if made.get("format") not in _STRICT_FORMATS:
        made.pop("format", None)
    if schema.get("type") == "array":
        made["items"] = _strict(schema.get("items", {}), f"{place}, each entry")
    if schema.get("type") == "object":
        made |= _strict_object(schema, place)
    return made


def _strict_object(schema: Schema, place: str) -> dict[str, Any]:
    if schema.get("additionalProperties", False) is not False:
        raise InvalidTool(
            f"{place}: strict mode allows no free keys: use a list of models in place of a dict"
        )
    properties = schema.get("properties", {})
    required = schema.get("required", ())
    return {
        "properties": {
            name: made if name in required else _nullable(made, each)
            for name, each in properties.items()
            for made in [_strict(each, f"{place}, {name}")]
        },
        "required": list(properties),
        "additionalProperties": False,
    }


def _nullable(made: dict[str, Any], given: Schema) -> dict[str, Any]:
    """Add null for an omitted field, and name the default, which the model cannot see
    otherwise.
    """
    if "default" in given and given["default"] is not None:
        more = f"null: {given['default']}"
        if "$ref" in made:
            made = {"anyOf": [made], "description": more}
        else:
            made |= {
                "description": f"{made['description']} ({more})" if "description" in made else more
            }
    if any(option == {"type": "null"} for option in made.get("anyOf", ())):
        return made
    if "anyOf" in made:
        return made | {"anyOf": [*made["anyOf"], {"type": "null"}]}
    outside = {"description": made.pop("description")} if "description" in made else {}
    return {"anyOf": [made, {"type": "null"}]} | outside
