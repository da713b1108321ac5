"""Reading of JSON fields that may have any type."""

from collections.abc import Iterator, Mapping
from typing import Any

from threadline.slack.model import clean_text


def string_field(source: Mapping[str, Any], name: str) -> str:
    """Return the field, made storable, if it is a string; else an empty string."""
    value = source.get(name)
    return clean_text(value) if isinstance(value, str) else ""


def objects(value: Any) -> Iterator[Mapping[str, Any]]:
    """Iterate over the objects of a JSON array; empty for any other value."""
    return (
        (item for item in value if isinstance(item, Mapping))
        if isinstance(value, list)
        else iter(())
    )


def int_field(source: Mapping[str, Any], name: str) -> int:
    """Return the field if it is a whole number from 0 on; else 0."""
    value = source.get(name)
    return value if isinstance(value, int) and value >= 0 else 0
