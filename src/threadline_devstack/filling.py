"""Fills texts of scripts and stories with values: replaces `{name}` anywhere in a structure."""

import re
from collections.abc import Mapping
from typing import Any

_NAME = re.compile(r"\{([a-z_]+)\}")


class MissingValue(LookupError):
    """A text names a value that does not exist."""


def fill(value: Any, values: Mapping[str, Any]) -> Any:
    """Return the structure with its texts filled. A text that consists of one name becomes the
    value with its type.
    """
    if isinstance(value, Mapping):
        return {name: fill(each, values) for name, each in value.items()}
    if isinstance(value, list):
        return [fill(each, values) for each in value]
    if not isinstance(value, str):
        return value

    def one(name: str) -> Any:
        if name not in values:
            raise MissingValue(f"there is no value {{{name}}}")
        return values[name]

    whole = _NAME.fullmatch(value)
    return one(whole[1]) if whole else _NAME.sub(lambda found: str(one(found[1])), value)
