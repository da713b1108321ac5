"""The arguments of a call: the schema that a model is shown, and what it wrote, read strictly before anything runs."""

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
"""Characters of one call's arguments that are read at all."""
_MAX_FAULTS = 4
"""Faults that are named; the model mends these first."""
_MAX_NAME = 60
_MAX_KNOWN = 20
"""Fields that are named where one is unknown."""
_CORRELATION_ID = "correlation_id"
"""The prompt tells a model the turn's; the runner knows it, so no tool takes it, and one that is given is ignored."""
_TOO_DEEP = "The arguments are nested too deeply."
_STRICT_KEYWORDS = frozenset(
    {
        *("type", "description", "enum", "const", "properties", "items", "anyOf", "$ref", "format", "pattern"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minItems", "maxItems"),
    }
)
_STRICT_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})


class InvalidArguments(Exception):
    """Nothing was executed; the message names the fields and what was expected of them."""


class InvalidTool(ValueError):
    """A tool cannot be registered as it is; found at the start, never in a thread."""


def parse_arguments(model: type[M], text: str) -> M:
    """Read the arguments as a tool's parameters. A null that a field does not take stands for leaving it out, as strict
    mode writes it. `text`: JSON, or what the model took for it; empty means no arguments. Raises `InvalidArguments`: no
    JSON object, a missing or unknown field at any depth, a wrong type or value."""
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
    """One text for equal arguments, however they were written."""
    return json.dumps(
        arguments.model_dump(mode="json", by_alias=True), sort_keys=True, separators=(",", ":"), ensure_ascii=False
    )


def loggable_arguments(text: str) -> Any:
    """The arguments for the log: their JSON, or the text itself where they are none."""
    try:
        return json.loads(text[:MAX_LENGTH], parse_constant=str) if text.strip() else {}
    except (ValueError, RecursionError):
        return text


def json_object(check: Callable[[Any], object], example: str) -> BeforeValidator:
    """What the model writes as the text of a JSON object, since strict mode has no free keys; an object does as well.
    `check` raises `Permanent` for what is none that may be kept."""

    def read(value: object) -> object:
        try:
            given = json.loads(value, parse_constant=_no_number) if isinstance(value, str) else value
        except (ValueError, RecursionError):
            raise ValueError(f"expected the text of one JSON object, such as {example}") from None
        try:
            check(given)
        except Permanent as refused:
            raise ValueError(str(refused)) from None
        if not _is_storable(given):
            raise ValueError("it contains a number or a character that cannot be stored (NUL or an unpaired surrogate)")
        return given

    return BeforeValidator(read, json_schema_input_type=str)


def strict_schema(schema: Schema, tool: str) -> dict[str, Any]:
    """The form that the provider's strict mode wants of what pydantic gives for a model: every object is closed, every
    property is required, what may be left out is nullable, and only some of JSON Schema's keywords remain. See
    https://platform.openai.com/docs/guides/structured-outputs#supported-schemas. Raises `InvalidTool`: an object with
    free keys, a value of any type, or a tuple is among it."""
    definitions = schema.get("$defs", {})
    reference = str(schema.get("$ref", "")).rpartition("/")[2]  # of parameters that hold their own kind
    made = _strict(definitions.get(reference, schema), f"{tool}: the parameters")
    if definitions:
        made["$defs"] = {name: _strict(each, f"{tool}: {name}") for name, each in definitions.items()}
    return made


def _object(text: str) -> dict[str, Any]:
    if len(text) > MAX_LENGTH:
        raise InvalidArguments(f"The arguments are longer than {MAX_LENGTH:,} characters: send less at once.")
    try:
        given = json.loads(text or "{}", parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise InvalidArguments("The arguments are not JSON: expected one JSON object.") from None
    if not isinstance(given, dict):
        raise InvalidArguments("The arguments are JSON, but not an object: expected one JSON object.")
    if not _is_storable(given):
        raise InvalidArguments(
            "The arguments contain a number or a character that cannot be stored (NUL or an unpaired surrogate)."
        )
    return given


def _no_number(constant: str) -> NoReturn:
    raise ValueError(constant)


def _is_storable(given: object) -> bool:
    try:
        written = json.dumps(given, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError):  # an endless number, half of a pair, or too deep
        return False
    return b"\\u0000" not in written.replace(rb"\\", b"")  # an escaped backslash before `u0000` is no NUL


def _validate(model: type[M], given: dict[str, Any]) -> M | list[ErrorDetails]:
    try:
        return model.model_validate_json(json.dumps(given), strict=True, extra="forbid")
    except ValidationError as invalid:
        return invalid.errors(include_url=False, include_context=False)


def _place(loc: Sequence[int | str], given: dict[str, Any]) -> tuple[list[int | str], list[Any]]:
    """The steps to a value, and the values on the way. pydantic names the branch of a union as one more step."""
    steps, values = list[int | str](), [given]
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
    """A sentence about one field; of what was given it repeats no value, and of an unknown name only the beginning."""
    loc, kind = fault["loc"], fault["type"]
    steps, values = _place(loc, given)
    if kind == "json_invalid":
        return _TOO_DEEP
    if kind == "missing" and isinstance(values[-1], dict):
        steps.append(loc[-1])
        values[-1][loc[-1]] = None  # so pydantic says what should be there
        with_null = _validate(model, given)
        faults = [] if isinstance(with_null, BaseModel) else [each for each in with_null if each["loc"] == loc]
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
        inner = [each for one in there if step in one.model_fields for each in _models(one.model_fields[str(step)])]
        branch = [each for each in there if each.__name__ == step]
        there = inner or branch or there
    return list(there[0].model_fields)


def _models(field: FieldInfo) -> list[type[BaseModel]]:
    kinds, found = [field.annotation], list[type[BaseModel]]()
    while kinds:
        kind = kinds.pop(0)
        kinds += get_args(kind)
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            found.append(kind)
    return found


def _strict(schema: Schema, place: str) -> dict[str, Any]:
    described = {"description": schema["description"]} if "description" in schema else {}
    if "$ref" in schema:  # strict mode takes no other word beside it
        reference = {"$ref": schema["$ref"]}
        return {"anyOf": [reference]} | described if described else reference
    if options := (schema.get("anyOf") or schema.get("oneOf")):
        return {"anyOf": [_strict(option, place) for option in options]} | described
    if not {"type", "enum", "const"} & schema.keys() or "prefixItems" in schema:
        raise InvalidTool(f"{place}: strict mode needs a type here: no Any, no tuple of several types")
    made = {word: value for word, value in schema.items() if word in _STRICT_KEYWORDS}
    if "(?" in str(made.get("pattern")):  # strict mode looks neither ahead nor behind
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
        raise InvalidTool(f"{place}: strict mode allows no free keys: use a list of models in place of a dict")
    properties, required = schema.get("properties", {}), schema.get("required", ())
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
    """Null stands for what is left out; the default is told, since the model cannot see it otherwise."""
    if "default" in given and given["default"] is not None:
        more = f"null: {given['default']}"
        if "$ref" in made:
            made = {"anyOf": [made], "description": more}
        else:
            made |= {"description": f"{made['description']} ({more})" if "description" in made else more}
    if any(option == {"type": "null"} for option in made.get("anyOf", ())):
        return made
    if "anyOf" in made:
        return made | {"anyOf": [*made["anyOf"], {"type": "null"}]}
    outside = {"description": made.pop("description")} if "description" in made else {}
    return {"anyOf": [made, {"type": "null"}]} | outside
