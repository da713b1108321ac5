"""The keys that encrypt payloads, parsed from the environment."""

import base64
import binascii
import re
from dataclasses import dataclass, field

KEY_BYTES = 32
"""AES-256."""
DECRYPT_ONLY = "plain"
"""The first entry that turns encryption off: the keys after it only decrypt. Used before
encryption starts and after it ends.
"""

_ID = re.compile(r"[A-Za-z0-9._-]{1,40}")


@dataclass(frozen=True)
class Key:
    """An encryption key. Each payload holds the `id` in clear, so that decryption finds it."""

    id: str
    secret: bytes = field(repr=False)


@dataclass(frozen=True)
class KeyRing:
    """All keys decrypt; the first one encrypts if `encrypts`."""

    keys: tuple[Key, ...]
    encrypts: bool = True


def parse_keys(text: str) -> KeyRing:
    """Read comma-separated `id:base64key` entries, optionally preceded by the word `plain`.

    Raises:
        ValueError: a sentence that names the id and never shows a key.
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    encrypts = parts[:1] != [DECRYPT_ONLY]
    keys = [_key(part, place) for place, part in enumerate(parts[not encrypts :], start=1)]
    if not keys:
        raise ValueError("write it as id:key, where `openssl rand -base64 32` makes the key")
    ids = [key.id for key in keys]
    if twice := [name for name in dict.fromkeys(ids) if ids.count(name) > 1]:
        raise ValueError(
            f"the key id {twice[0]!r} appears twice: give each key its own id, and never reuse one"
        )
    return KeyRing(tuple(keys), encrypts)


def _key(part: str, place: int) -> Key:
    name, colon, encoded = part.partition(":")
    if not colon or not _ID.fullmatch(name):
        # The text may be a key without its id, so the error does not repeat it.
        raise ValueError(
            f"key {place} is not written as id:key, with an id of letters, digits, dots, - and _"
        )
    try:
        secret = base64.b64decode(encoded, validate=True)
    except binascii.Error:
        raise ValueError(
            f"the key {name!r} is not base64: make one with `openssl rand -base64 32`"
        ) from None
    if len(secret) != KEY_BYTES:
        raise ValueError(
            f"the key {name!r} has {len(secret)} bytes instead of {KEY_BYTES}: make one with "
            "`openssl rand -base64 32`"
        )
    return Key(name, secret)
