"""JSON as it is kept: how large and how deep it may be, when two are the same, and how one is patched."""

import json
from collections.abc import Mapping
from typing import Any

Document = dict[str, Any]
DEEPEST = 20
"""Objects and lists within each other."""


def merged(target: object, patch: object) -> Any:
    """JSON Merge Patch (https://www.rfc-editor.org/rfc/rfc7396#section-2); neither argument is changed."""
    if not isinstance(patch, Mapping):
        return patch
    result = dict(target) if isinstance(target, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


def flaw(value: object, most: int) -> str:
    """Why it is not kept, as the end of a sentence; empty when it is an object that may be.

    Args:
        most: bytes as JSON.
    """
    if not isinstance(value, dict):
        return "must be a JSON object"
    if _is_deeper(value, DEEPEST):
        return f"nests more than {DEEPEST} objects and lists"
    if (size := len(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))) > most:
        return f"has {size:,} bytes, and the maximum is {most:,}"
    return ""


def same(one: object, other: object) -> bool:
    """Whether they are the same JSON: 1, 1.0 and true are not, though Python takes them for equal."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _is_deeper(value: object, most: int) -> bool:
    """Layer by layer, so that no depth is too deep to be looked at."""
    layer, depth = [value], 0
    while layer := [each for each in layer if isinstance(each, dict | list)]:
        if (depth := depth + 1) > most:
            return True
        layer = [inner for each in layer for inner in (each.values() if isinstance(each, dict) else each)]
    return False
