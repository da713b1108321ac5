"""Encrypts each payload on its way to Temporal, and decrypts it on its way back."""

import os
from collections.abc import Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from google.protobuf.message import DecodeError
from temporalio.api.common.v1 import Payload
from temporalio.converter import PayloadCodec

from threadline.errors import Permanent
from threadline.privacy.keys import KeyRing

ENCODING = b"binary/encrypted"
KEY_ID = "encryption-key-id"
_NONCE_BYTES = 12
"""Bytes of a random nonce for each payload: safe for 2³² payloads under one key (NIST SP 800-38D,
8.3).
"""
_FORMAT = b"threadline payload 1\0"


class DecryptionFailed(Permanent):
    """The payload's key is missing or wrong, or the payload was changed. Not an
    `ApplicationError`: Temporal retries the workflow task until the key is there, and nothing is
    lost.
    """


class EncryptionCodec(PayloadCodec):
    """Encrypts the whole payload, its metadata included, with AES-256-GCM, and authenticates the
    key's id.

    Without keys, or with keys that only decrypt, it encrypts nothing but stays installed: a
    converter that does not know the encoding would drop an encrypted signal with a line in the
    log, while this one holds the workflow until the key is there. Unencrypted payloads pass
    through, so that an admin can turn encryption on while workflows are open.
    """

    def __init__(self, keys: KeyRing | None) -> None:
        self._ciphers = {key.id: AESGCM(key.secret) for key in keys.keys} if keys else {}
        self._current = keys.keys[0].id if keys and keys.encrypts else ""

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Encrypt each payload under the first key."""
        if not self._current:
            return list(payloads)
        encrypted = list[Payload]()
        bound = _associated_data(self._current)
        for payload in payloads:
            nonce = os.urandom(_NONCE_BYTES)
            sealed = self._ciphers[self._current].encrypt(
                nonce, payload.SerializeToString(), bound
            )
            metadata = {"encoding": ENCODING, KEY_ID: self._current.encode()}
            encrypted.append(Payload(metadata=metadata, data=nonce + sealed))
        return encrypted

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Decrypt each encrypted payload with the key that it names; other payloads pass through.

        Raises:
            DecryptionFailed: names the key's id.
        """
        return [
            self.decrypt(payload) if is_encrypted(payload) else payload for payload in payloads
        ]

    def decrypt(self, payload: Payload) -> Payload:
        """Return the original of an encrypted payload; raises `DecryptionFailed`."""
        key_id = key_id_of(payload)
        cipher = self._ciphers.get(key_id)
        if cipher is None:
            reason = (
                "and THREADLINE_PAYLOAD_KEYS is not set: give every process that talks to "
                "Temporal the same keys."
            )
            if self._ciphers:
                others = ", ".join(map(repr, self._ciphers))
                reason = (
                    f"which THREADLINE_PAYLOAD_KEYS lacks: add it after the others ({others}), "
                    "and restart."
                )
            raise DecryptionFailed(f"A payload is encrypted under the key {key_id!r}, {reason}")
        nonce = payload.data[:_NONCE_BYTES]
        sealed = payload.data[_NONCE_BYTES:]
        try:
            return Payload.FromString(cipher.decrypt(nonce, sealed, _associated_data(key_id)))
        except (InvalidTag, ValueError, DecodeError) as error:
            raise DecryptionFailed(
                f"A payload under the key {key_id!r} cannot be decrypted: either the key had "
                "another value when the payload was written (put that one into "
                "THREADLINE_PAYLOAD_KEYS), or somebody has changed the payload."
            ) from error


def is_encrypted(payload: Payload) -> bool:
    return payload.metadata.get("encoding") == ENCODING


def key_id_of(payload: Payload) -> str:
    """Return the key's id, which the payload holds in clear; empty if it holds none."""
    return payload.metadata.get(KEY_ID, b"").decode(errors="replace")


def _associated_data(key_id: str) -> bytes:
    """Return the data that is authenticated but not encrypted. It excludes the workflow's id: a
    codec server gets payloads without it, and a replay reads them from files.
    """
    return _FORMAT + key_id.encode()
