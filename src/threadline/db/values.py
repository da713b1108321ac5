"""Values as Postgres takes them: text without what it refuses, JSON, and the words of a question to search for."""

import hashlib
import json
import math
from typing import Any


def jsonb(value: object) -> str:
    """JSON that `jsonb` takes: a NUL or a lone surrogate, which a tool's output may hold, is refused by Postgres."""
    return json.dumps(storable_json(value))


def storable_json(value: object) -> object:
    """The same value as `jsonb` takes it and gives it back; a float that is no number becomes a word."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, dict):
        return {storable(str(name)): storable_json(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [storable_json(each) for each in value]
    if isinstance(value, float):
        if not math.isfinite(value):
            return str(value)
        # From 1e16 on Postgres gives the digits that Python wrote, as a whole number: only in full is it the same one.
        return int(value) if abs(value) >= 1e16 else value
    return value


def storable(text: str) -> str:
    """Text that Postgres takes, at any length. A column of type `db.columns.TEXT` or `JSON` does this to what it is
    bound with. Call it where that is too late: before the text is checked, cut, stripped, split, hashed or compared in
    Python, and for SQL written as `text()`, arguments of `func` and `varchar` columns, which have no such type."""
    return text.replace("\x00", "").encode("utf-8", "replace").decode("utf-8")


_LONGEST_KEY = 200
"""Characters of a key; an entry of an index has room for 2,700 bytes."""


DIGEST = "sha256:"
"""What a key begins with that stands for another."""


def storable_key(key: str) -> str:
    """The key where Postgres can hold and index it, else a digest of it: the same again, and another's never."""
    if len(key) <= _LONGEST_KEY and storable(key) == key:
        return key
    return f"{DIGEST}{hashlib.sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()}"


def parsed(value: Any) -> Any:
    """What a `jsonb` column holds: asyncpg hands it over as text."""
    return json.loads(value) if isinstance(value, str) else value


def any_word(parameter: str) -> str:
    """A query for whatever has one of the words. Postgres reckons it before it plans, so that it uses the index."""
    return f"replace(CAST(plainto_tsquery('english', left({parameter}, 4000)) AS text), '&', '|')::tsquery"


def words_shared(column: str, parameter: str) -> str:
    """How many of the words a row has; `column` is its `tsvector`. Counted by what goes when they are taken out: to lay
    out the thousands of words of a long file for each row takes several times as long. Those asked for are reckoned
    once."""
    asked = f"(SELECT tsvector_to_array(to_tsvector('english', left({parameter}, 4000))))"
    return f"length({column}) - length(ts_delete({column}, {asked}))"
