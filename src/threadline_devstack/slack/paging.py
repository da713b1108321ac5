"""Cursors: `limit` items at a time, and an opaque word that says where the next page begins."""

import base64
import binascii
from collections.abc import Sequence
from typing import TypeVar

from threadline_devstack.slack.arguments import Arguments
from threadline_devstack.slack.refusal import Refused

Item = TypeVar("Item")
_PREFIX = "next:"


def page(
    given: Arguments, items: Sequence[Item], keys: Sequence[str], *, limit: int, most: int
) -> tuple[list[Item], str]:
    """The page that `given` asks for, and the cursor of the next one, which is empty at the end.

    Args:
        given: `limit` and `cursor` are read from it.
        items: all of them, in order.
        keys: a name of each item that stays the same while others come and go.
        limit: how many when the call does not say.
        most: how many at the very most.

    Raises:
        Refused: `invalid_limit`, `invalid_cursor`.
    """
    size = given.number("limit", limit) or limit
    if size < 1:
        raise Refused("invalid_limit")
    start = _start(given.text("cursor"), keys)
    end = start + min(size, most if given.most is None else given.most)
    return list(items[start:end]), _cursor(keys[end]) if end < len(keys) else ""


def _start(cursor: str, keys: Sequence[str]) -> int:
    if not cursor:
        return 0
    try:
        key = base64.b64decode(cursor, validate=True).decode().removeprefix(_PREFIX)
        return keys.index(key)
    except (binascii.Error, UnicodeDecodeError, ValueError):
        raise Refused("invalid_cursor") from None


def _cursor(key: str) -> str:
    return base64.b64encode(f"{_PREFIX}{key}".encode()).decode()
