"""Keys as the environment writes them: what is wrong is one sentence, and no sentence shows a key."""

import base64

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure

from threadline.errors import Permanent
from threadline.privacy.encryption import data_converter
from threadline.privacy.keys import parse_keys
from threadline.settings import PayloadSettings

OLD, NEW = (base64.b64encode(bytes([number]) * 32).decode() for number in (1, 2))


def test_the_first_key_is_the_one_that_encrypts_and_none_is_shown() -> None:
    ring = parse_keys(f"2026-11:{NEW}, 2026-05:{OLD}")
    assert [(key.id, key.secret) for key in ring.keys] == [("2026-11", bytes([2]) * 32), ("2026-05", bytes([1]) * 32)]
    assert "secret" not in repr(ring)


async def test_keys_behind_the_word_plain_decrypt_and_encrypt_nothing_yet() -> None:
    ring = parse_keys(f"plain, 2026-11:{NEW}")
    assert ([key.id for key in ring.keys], ring.encrypts) == (["2026-11"], False)
    said = Payload(metadata={"encoding": b"json/plain"}, data=b'"the cart total is wrong"')
    both, after = data_converter(ring), data_converter(parse_keys(f"2026-11:{NEW}"))
    assert both.payload_codec
    assert after.payload_codec
    assert await both.payload_codec.encode([said]) == [said]
    assert await both.payload_codec.decode(await after.payload_codec.encode([said])) == [said]
    failure, encrypted = Failure(), Failure()
    await both.encode_failure(ValueError("why"), failure)
    assert failure.message == "why"
    await after.encode_failure(ValueError("why"), encrypted)
    assert encrypted.message == "Encoded failure"
    assert "why" in str(await both.decode_failure(encrypted))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (NEW, "key 1 is not written as id:key"),
        (f"a:{NEW},{OLD}", "key 2 is not written as id:key"),
        (f"a b:{NEW}", "key 1 is not written as id:key"),
        ("a:not base64!", "the key 'a' is not base64"),
        (f"a:{NEW[:-8]}", "the key 'a' has 27 bytes instead of 32"),
        (f"a:{base64.b64encode(bytes(16)).decode()}", "the key 'a' has 16 bytes instead of 32"),
        (f"a:{NEW},b:{OLD},a:{OLD}", "the key id 'a' appears twice"),
        (",", "write it as id:key"),
        ("plain", "write it as id:key"),
        (f"a:{NEW},plain", "key 2 is not written as id:key"),
    ],
)
def test_what_is_wrong_with_the_keys_is_a_sentence_that_shows_none(
    text: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THREADLINE_PAYLOAD_KEYS", text)
    with pytest.raises(Permanent) as told:
        PayloadSettings.read()
    assert f"THREADLINE_PAYLOAD_KEYS is a secret that is not shown: {sentence}" in str(told.value)
    assert NEW[:20] not in str(told.value)
    assert OLD[:20] not in str(told.value)


def test_without_the_variable_nothing_is_encrypted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("THREADLINE_PAYLOAD_KEYS", raising=False)
    assert PayloadSettings.read().keys is None
