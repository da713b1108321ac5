"""Values in the form that Postgres accepts: cleaned text, JSON, and full-text queries."""

import hashlib
import json
import math
from typing import Any


def jsonb(value: object) -> str:
    """Serialize a value for `jsonb`, without the NULs and lone surrogates that a tool's output may
    contain and Postgres refuses.
    """
    return json.dumps(storable_json(value))


def storable_json(value: object) -> object:
    """Return the value in the form that `jsonb` stores and returns unchanged; a float that is not
    finite becomes a string.
    """
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, dict):
        return {storable(str(name)): storable_json(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [storable_json(each) for each in value]
    if isinstance(value, float):
        if not math.isfinite(value):
            return str(value)
        # From 1e16 on, Postgres returns Python's digits as a whole number: only an int compares
        # equal to it.
        return int(value) if abs(value) >= 1e16 else value
    return value


def storable(text: str) -> str:
    """Remove the characters that Postgres refuses, at any length.

    Columns of type `db.columns.TEXT` and `JSON` do this when they bind a value. Call it where that
    is too late: before the text is checked, cut, stripped, split, hashed or compared in Python,
    and for SQL written as `text()`, arguments of `func` and `varchar` columns, which have no such
    type.
    """
    return text.replace("\x00", "").encode("utf-8", "replace").decode("utf-8")


_LONGEST_KEY = 200
"""Characters of a key; an index entry holds 2,700 bytes."""


DIGEST = "sha256:"
"""The prefix of a key that replaces another key."""


def storable_key(key: str) -> str:
    """Return the key if Postgres can store and index it, else its digest: deterministic, and
    distinct for each key.
    """
    if len(key) <= _LONGEST_KEY and storable(key) == key:
        return key
    return f"{DIGEST}{hashlib.sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()}"


def parsed(value: Any) -> Any:
    """Parse the value of a `jsonb` column, which asyncpg returns as text."""
    return json.loads(value) if isinstance(value, str) else value


def any_word(parameter: str) -> str:
    """Return SQL for a query that matches any of the words. Postgres evaluates it before it plans,
    so that it uses the index. Under a generic plan it evaluates it for each row: in `ts_rank`,
    write it as a subquery.

    Args:
        parameter: the bound list of `asked_words`.
    """
    return f"any_word(CAST({parameter} AS text[]))"


def words_shared(column: str, parameter: str) -> str:
    """Return SQL for the number of asked words that a row has.

    It counts the lexemes that `ts_delete` removes: unnesting the thousands of lexemes of a long
    file for each row takes several times as long. Postgres evaluates the query's lexemes once.

    Args:
        column: the row's `tsvector`.
        parameter: the bound list of `asked_words`.
    """
    asked = f"word_vector('english', CAST({parameter} AS text[]))"
    return f"length({column}) - length(ts_delete({column}, (SELECT tsvector_to_array({asked}))))"
