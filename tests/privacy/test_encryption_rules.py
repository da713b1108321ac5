"""Keys as the environment gives them, and payloads encrypted under them."""

import base64
from dataclasses import dataclass

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.exceptions import ApplicationError

from threadline.errors import Permanent
from threadline.privacy.encryption import ENCODING, KEY_ID, DecryptionFailed, EncryptionCodec
from threadline.privacy.keys import Key, KeyRing, parse_keys
from threadline.settings import PayloadSettings
from threadline.wiring.temporal import data_converter

A = Key("a", bytes([1]) * 32)
B = Key("b", bytes([2]) * 32)
A_TEXT, B_TEXT = (base64.b64encode(key.secret).decode() for key in (A, B))
TEXT = "the cart total is wrong"


@dataclass
class Said:
    text: str


def codec(*keys: Key) -> EncryptionCodec:
    return EncryptionCodec(KeyRing(keys))


def plain(text: str = TEXT) -> Payload:
    return Payload(
        metadata={"encoding": b"json/plain", "messageType": b"Said"}, data=f'"{text}"'.encode()
    )


def test_first_key_encrypts_and_none_is_shown() -> None:
    ring = parse_keys(f"2026-11:{B_TEXT}, 2026-05:{A_TEXT}")
    assert ring == KeyRing((Key("2026-11", B.secret), Key("2026-05", A.secret)))
    assert "secret" not in repr(ring)


async def test_keys_after_plain_only_decrypt() -> None:
    ring = parse_keys(f"plain, b:{B_TEXT}")
    assert ([key.id for key in ring.keys], ring.encrypts) == (["b"], False)
    both = data_converter(ring)
    after = data_converter(KeyRing((B,)))
    assert both.payload_codec
    assert after.payload_codec
    assert await both.payload_codec.encode([plain()]) == [plain()]
    assert await both.payload_codec.decode(await after.payload_codec.encode([plain()])) == [
        plain()
    ]
    failure = Failure()
    encrypted = Failure()
    await both.encode_failure(ValueError("why"), failure)
    assert failure.message == "why"
    await after.encode_failure(ValueError("why"), encrypted)
    assert encrypted.message == "Encoded failure"
    assert "why" in str(await both.decode_failure(encrypted))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"a:{B_TEXT},{A_TEXT}", "key 2 is not written as id:key"),
        (f"a b:{B_TEXT}", "key 1 is not written as id:key"),
        ("a:not base64!", "the key 'a' is not base64"),
        (f"a:{B_TEXT[:-8]}", "the key 'a' has 27 bytes instead of 32"),
        (f"a:{B_TEXT},b:{A_TEXT},a:{A_TEXT}", "the key id 'a' appears twice"),
        ("plain", "write it as id:key"),
        (f"a:{B_TEXT},plain", "key 2 is not written as id:key"),
    ],
)
def test_invalid_keys_are_refused_without_showing_one(
    text: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THREADLINE_PAYLOAD_KEYS", text)
    with pytest.raises(Permanent) as told:
        PayloadSettings.load()
    assert f"THREADLINE_PAYLOAD_KEYS is a secret that is not shown: {reason}" in str(told.value)
    assert B_TEXT[:20] not in str(told.value)
    assert A_TEXT[:20] not in str(told.value)


async def test_payloads_without_keys_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("THREADLINE_PAYLOAD_KEYS", raising=False)
    keys = PayloadSettings.load().payload_keys
    assert keys is None
    assert await EncryptionCodec(keys).encode([plain()]) == [plain()]
    assert await EncryptionCodec(keys).decode([plain()]) == [plain()]


async def test_payload_is_hidden_and_comes_back_with_its_metadata() -> None:
    [hidden] = await codec(A).encode([plain()])
    assert dict(hidden.metadata) == {"encoding": ENCODING, KEY_ID: b"a"}
    assert TEXT.encode() not in hidden.SerializeToString()
    assert b"Said" not in hidden.SerializeToString()
    assert await codec(A).decode([hidden]) == [plain()]


async def test_same_payload_never_becomes_the_same_bytes() -> None:
    hidden = await codec(A).encode([plain()] * 100)
    assert len({payload.data[:12] for payload in hidden}) == 100, "the nonce"
    assert len({payload.data for payload in hidden}) == 100


async def test_first_key_encrypts_all_keys_decrypt_and_plain_is_read() -> None:
    [old] = await codec(A).encode([plain("old")])
    [new] = await codec(B, A).encode([plain("new")])
    assert new.metadata[KEY_ID] == b"b"
    empty = Payload(metadata={"encoding": b"binary/null"})
    assert await codec(B, A).decode([old, new, plain(), empty]) == [
        plain("old"),
        plain("new"),
        plain(),
        empty,
    ]


@pytest.mark.parametrize(
    ("known", "reason"),
    [
        (
            KeyRing((B,)),
            (
                r"under the key 'a', which THREADLINE_PAYLOAD_KEYS lacks: add it after the "
                r"others \('b'\)"
            ),
        ),
        (None, "under the key 'a', and THREADLINE_PAYLOAD_KEYS is not set"),
        (KeyRing((Key("a", B.secret),)), "under the key 'a' cannot be decrypted"),
    ],
)
async def test_missing_or_wrong_key_is_named_by_its_id(known: KeyRing | None, reason: str) -> None:
    hidden = await codec(A).encode([plain()])
    with pytest.raises(DecryptionFailed, match=reason):
        await EncryptionCodec(known).decode(hidden)


async def test_changed_payload_is_refused() -> None:
    twins = codec(A, Key("twin", A.secret))
    [hidden] = await twins.encode([plain()])
    renamed = {
        "encoding": ENCODING,
        KEY_ID: b"twin",
    }  # the same key under another name: only the bound id differs
    for payload in (
        Payload(metadata=hidden.metadata, data=hidden.data[:-1] + bytes([hidden.data[-1] ^ 1])),
        Payload(metadata=hidden.metadata, data=hidden.data[:5]),
        Payload(metadata=hidden.metadata),
        Payload(metadata=renamed, data=hidden.data),
    ):
        with pytest.raises(DecryptionFailed, match="somebody has changed the payload"):
            await twins.decode([payload])


async def test_message_details_and_causes_of_a_failure_are_hidden() -> None:
    converter = data_converter(KeyRing((A,)))
    failure = Failure()
    error = ApplicationError("words of the error", "words of its details", type="Permanent")
    error.__cause__ = ValueError("words of its cause")
    await converter.encode_failure(error, failure)
    assert b"words" not in failure.SerializeToString()
    assert (failure.message, failure.stack_trace) == ("Encoded failure", "")
    told = await converter.decode_failure(failure)
    assert isinstance(told, ApplicationError)
    assert (told.message, told.details, told.type) == (
        "words of the error",
        ("words of its details",),
        "Permanent",
    )
    assert "words of its cause" in str(told.__cause__)


async def test_values_are_converted_as_without_encryption() -> None:
    converter = data_converter(KeyRing((A,)))
    assert await converter.decode(await converter.encode([Said(TEXT)]), [Said]) == [Said(TEXT)]
