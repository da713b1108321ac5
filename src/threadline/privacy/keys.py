"""The keys under which payloads are encrypted, as the environment writes them."""

import base64
import binascii
import re
from dataclasses import dataclass, field

KEY_BYTES = 32
"""AES-256."""
DECRYPT_ONLY = "plain"
"""As the first entry: these keys decrypt, and nothing is encrypted yet, or any more."""

_ID = re.compile(r"[A-Za-z0-9._-]{1,40}")


@dataclass(frozen=True)
class Key:
    """`id` is written beside each payload, in clear, so that the right key is found again."""

    id: str
    secret: bytes = field(repr=False)


@dataclass(frozen=True)
class KeyRing:
    """All keys decrypt; the first one encrypts, unless nothing is to be encrypted."""

    keys: tuple[Key, ...]
    encrypts: bool = True


def parse_keys(text: str) -> KeyRing:
    """Read `id:base64key`, several separated by commas, with the word `plain` before them or not. Raises `ValueError`
    with a sentence that names the id and never shows a key."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    encrypts = parts[:1] != [DECRYPT_ONLY]
    keys = [_key(part, place) for place, part in enumerate(parts[not encrypts :], start=1)]
    if not keys:
        raise ValueError("write it as id:key, where `openssl rand -base64 32` makes the key")
    ids = [key.id for key in keys]
    if twice := [name for name in dict.fromkeys(ids) if ids.count(name) > 1]:
        raise ValueError(f"the key id {twice[0]!r} appears twice: give each key its own id, and never reuse one")
    return KeyRing(tuple(keys), encrypts)


def _key(part: str, place: int) -> Key:
    name, colon, encoded = part.partition(":")
    if not colon or not _ID.fullmatch(name):
        # What stands there may be a key without its id: it is not repeated.
        raise ValueError(f"key {place} is not written as id:key, with an id of letters, digits, dots, - and _")
    try:
        secret = base64.b64decode(encoded, validate=True)
    except binascii.Error:
        raise ValueError(f"the key {name!r} is not base64: make one with `openssl rand -base64 32`") from None
    if len(secret) != KEY_BYTES:
        raise ValueError(
            f"the key {name!r} has {len(secret)} bytes instead of {KEY_BYTES}: make one with `openssl rand -base64 32`"
        )
    return Key(name, secret)
