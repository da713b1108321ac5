"""Keys that are made of what a model wrote, which may be anything."""

import hashlib

from threadline.db.values import storable

_LONGEST = 200
"""Characters of a key; an entry of an index has room for 2,700 bytes."""


def storable_key(key: str) -> str:
    """The key where Postgres can hold and index it, else a digest of it: the same again, and another's never."""
    if len(key) <= _LONGEST and storable(key) == key:
        return key
    return f"sha256:{hashlib.sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()}"
