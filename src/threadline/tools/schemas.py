"""A tool's parameters as the provider's strict mode wants them, and as a person would say them.

Strict mode: every object closed, every property required, what may be left out nullable, and only some of JSON Schema's
words. See https://platform.openai.com/docs/guides/structured-outputs#supported-schemas.
"""

from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]

_KEPT = frozenset(
    {
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
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minItems",
        "maxItems",
    }
)
_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})
_TYPES = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
}
_AS_TEXT = {"date-time": "a date and time with its zone", "date": "a date", "time": "a time", "uuid": "an id (UUID)"}


class Unsuitable(ValueError):
    """These parameters have no strict form; the message names the place and what to write instead."""


def strict(schema: Schema) -> dict[str, Any]:
    """The strict form of what pydantic gives for a model.

    Raises:
        Unsuitable: an object with free keys, a value of any type, or a tuple is among it.
    """
    definitions = schema.get("$defs", {})
    made = _strict(resolved(schema, definitions), "the parameters")
    if definitions:
        made["$defs"] = {name: _strict(each, name) for name, each in definitions.items()}
    return made


def _strict(schema: Schema, place: str) -> dict[str, Any]:
    described = {"description": schema["description"]} if "description" in schema else {}
    if "$ref" in schema:  # strict mode takes no other word beside it
        reference = {"$ref": schema["$ref"]}
        return {"anyOf": [reference]} | described if described else reference
    if options := options_of(schema):
        return {"anyOf": [_strict(option, place) for option in options]} | described
    if not {"type", "enum", "const"} & schema.keys() or "prefixItems" in schema:
        raise Unsuitable(f"{place}: strict mode needs a type here: no Any, no tuple of several types")
    made = {word: value for word, value in schema.items() if word in _KEPT and _is_supported(word, value)}
    if schema.get("type") == "array":
        made["items"] = _strict(schema.get("items", {}), f"{place}, each entry")
    if schema.get("type") == "object":
        made |= _object(schema, place)
    return made


def _object(schema: Schema, place: str) -> dict[str, Any]:
    if schema.get("additionalProperties", False) is not False:
        raise Unsuitable(f"{place}: strict mode allows no free keys: use a list of models in place of a dict")
    properties, required = schema.get("properties", {}), schema.get("required", ())
    return {
        "properties": {
            name: _strict(each, name) if name in required else _nullable(_strict(each, name), each)
            for name, each in properties.items()
        },
        "required": list(properties),
        "additionalProperties": False,
    }


def _nullable(made: dict[str, Any], given: Schema) -> dict[str, Any]:
    """Null stands for what is left out; the default is told, since the model cannot see it otherwise."""
    if "default" in given and given["default"] is not None:
        made = _described(made, f"null: {given['default']}")
    if any(option == {"type": "null"} for option in made.get("anyOf", ())):
        return made
    if "anyOf" in made:
        return made | {"anyOf": [*made["anyOf"], {"type": "null"}]}
    outside = {"description": made.pop("description")} if "description" in made else {}
    return {"anyOf": [made, {"type": "null"}]} | outside


def _described(made: dict[str, Any], more: str) -> dict[str, Any]:
    if "$ref" in made:
        return {"anyOf": [made], "description": more}
    return made | {"description": f"{made['description']} ({more})" if "description" in made else more}


def _is_supported(word: str, value: Any) -> bool:
    if word == "pattern":  # strict mode looks neither ahead nor behind
        return "(?" not in str(value)
    return word != "format" or value in _FORMATS


def takes_null(schema: Schema) -> bool:
    return schema.get("type") == "null" or any(takes_null(option) for option in options_of(schema))


def options_of(schema: Schema) -> tuple[Schema, ...]:
    return tuple(schema.get("anyOf") or schema.get("oneOf") or ())


def resolved(schema: Schema, definitions: Mapping[str, Schema]) -> Schema:
    """The schema itself where it is only a reference to a definition."""
    while "$ref" in schema:
        schema = definitions.get(str(schema["$ref"]).rsplit("/", 1)[-1], {})
    return schema


def expected(schema: Schema, definitions: Mapping[str, Schema]) -> str:
    """What a value should be, in words: "a whole number from 1 to 100", "a list of texts", "one of a, b"."""
    schema = resolved(schema, definitions)
    if options := options_of(schema):
        return " or ".join(dict.fromkeys(expected(option, definitions) for option in options))
    if "const" in schema or "enum" in schema:
        values = [str(value) for value in schema.get("enum", [schema.get("const")])]
        return values[0] if len(values) == 1 else f"one of {', '.join(values[:20])}"
    kind = str(schema.get("type", ""))
    if kind == "object":
        return f"an object with {', '.join(list(schema.get('properties', {}))[:20]) or 'nothing in it'}"
    if kind == "array":
        items = resolved(schema.get("items", {}), definitions)
        each = (
            "a list" if items.get("type") == "array" else expected(items, definitions)
        )  # a list may hold its own kind
        return f"a list{_bounds(schema, 'minItems', 'maxItems')}, each {each}"
    said = _AS_TEXT.get(str(schema.get("format", "")), _TYPES.get(kind, "another value"))
    if kind == "string":
        return f"{said}{_bounds(schema, 'minLength', 'maxLength')}"
    return f"{said}{_bounds(schema, 'minimum', 'maximum')}{_open_bounds(schema)}"


def _bounds(schema: Schema, low: str, high: str) -> str:
    least, most = schema.get(low), schema.get(high)
    counted = {"minItems": " entries", "minLength": " characters"}.get(low, "")
    if least is not None and most is not None:
        return f" from {least} to {most}{counted}" if not counted else f" of {least} to {most}{counted}"
    if least is not None:
        return f" of at least {least}{counted}"
    return f" of at most {most}{counted}" if most is not None else ""


def _open_bounds(schema: Schema) -> str:
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    parts = [f"above {above}"] * (above is not None) + [f"below {below}"] * (below is not None)
    return f" {' and '.join(parts)}" if parts else ""
