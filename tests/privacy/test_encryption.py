"""The codec: what it hides, what it lets through, and what it says when it cannot decrypt."""

from dataclasses import dataclass

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.exceptions import ApplicationError

from threadline.privacy.encryption import ENCODING, KEY_ID, EncryptionCodec, Undecipherable, data_converter
from threadline.privacy.keys import Key, KeyRing

A, B = Key("a", bytes(range(32))), Key("b", bytes(range(1, 33)))
TEXT = "the cart total is wrong"


@dataclass
class Said:
    text: str


def ring(*keys: Key) -> KeyRing:
    return KeyRing(keys)


def plain(text: str = TEXT) -> Payload:
    return Payload(metadata={"encoding": b"json/plain", "messageType": b"Said"}, data=f'"{text}"'.encode())


async def test_a_payload_comes_back_with_its_metadata_and_is_hidden_meanwhile() -> None:
    codec = EncryptionCodec(ring(A))
    [hidden] = await codec.encode([plain()])
    assert dict(hidden.metadata) == {"encoding": ENCODING, KEY_ID: b"a"}
    assert TEXT.encode() not in hidden.SerializeToString()
    assert b"Said" not in hidden.SerializeToString()
    assert await codec.decode([hidden]) == [plain()]


async def test_the_same_payload_is_never_encrypted_into_the_same_bytes() -> None:
    hidden = await EncryptionCodec(ring(A)).encode([plain()] * 100)
    assert len({payload.data[:12] for payload in hidden}) == 100
    assert len({payload.data for payload in hidden}) == 100


async def test_what_was_never_encrypted_is_read_as_it_is() -> None:
    empty = Payload(metadata={"encoding": b"binary/null"})
    [hidden] = await EncryptionCodec(ring(A)).encode([plain("new")])
    assert await EncryptionCodec(ring(A)).decode([plain("old"), hidden, empty]) == [plain("old"), plain("new"), empty]


async def test_keys_rotate_the_first_encrypts_and_all_decrypt() -> None:
    [old] = await EncryptionCodec(ring(A)).encode([plain("old")])
    rotated = EncryptionCodec(ring(B, A))
    [new] = await rotated.encode([plain("new")])
    assert new.metadata[KEY_ID] == b"b"
    assert await rotated.decode([old, new]) == [plain("old"), plain("new")]


@pytest.mark.parametrize(
    ("known", "sentence"),
    [
        (ring(B), r"under the key 'a', which THREADLINE_PAYLOAD_KEYS lacks: add it after the others \('b'\)"),
        (None, "under the key 'a', and THREADLINE_PAYLOAD_KEYS is not set"),
        (ring(Key("a", B.secret)), "under the key 'a' cannot be decrypted"),
    ],
)
async def test_a_payload_whose_key_is_missing_or_another_names_its_id(known: KeyRing | None, sentence: str) -> None:
    hidden = await EncryptionCodec(ring(A)).encode([plain()])
    with pytest.raises(Undecipherable, match=sentence):
        await EncryptionCodec(known).decode(hidden)


async def test_a_payload_that_was_changed_is_refused() -> None:
    twins = EncryptionCodec(ring(A, Key("twin", A.secret)))
    [hidden] = await twins.encode([plain()])
    flipped = hidden.data[:-1] + bytes([hidden.data[-1] ^ 1])
    renamed = {"encoding": ENCODING, KEY_ID: b"twin"}  # the same key by another name: only the bound id tells
    changed = [
        Payload(metadata=hidden.metadata, data=flipped),
        Payload(metadata=hidden.metadata, data=hidden.data[:5]),
        Payload(metadata=hidden.metadata),
        Payload(metadata=renamed, data=hidden.data),
    ]
    for payload in changed:
        with pytest.raises(Undecipherable, match="somebody has changed the payload"):
            await twins.decode([payload])


async def test_without_keys_payloads_are_left_as_they_are() -> None:
    assert await EncryptionCodec(None).encode([plain()]) == [plain()]
    assert await EncryptionCodec(None).decode([plain()]) == [plain()]


async def test_the_message_the_details_and_the_causes_of_a_failure_are_hidden() -> None:
    converter, failure = data_converter(ring(A)), Failure()
    error = ApplicationError("words of the error", "words of its details", type="Permanent")
    error.__cause__ = ValueError("words of its cause")
    await converter.encode_failure(error, failure)
    raw = failure.SerializeToString()
    assert b"words" not in raw
    assert (failure.message, failure.stack_trace) == ("Encoded failure", "")
    told = await data_converter(ring(A)).decode_failure(failure)
    assert isinstance(told, ApplicationError)
    assert (told.message, told.details, told.type) == ("words of the error", ("words of its details",), "Permanent")
    assert "words of its cause" in str(told.__cause__)


async def test_values_are_converted_as_without_encryption() -> None:
    [said] = await data_converter(ring(A)).decode(await data_converter(ring(A)).encode([Said(TEXT)]), [Said])
    assert said == Said(TEXT)
