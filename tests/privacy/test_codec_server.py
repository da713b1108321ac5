"""The codec server decrypts payloads only for Temporal's UI and command line."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp.test_utils import TestServer
from google.protobuf import json_format
from temporalio.api.common.v1 import Payload, Payloads

from threadline.errors import Permanent
from threadline.privacy import codec_server as served
from threadline.privacy.codec_server import CodecServer
from threadline.privacy.encryption import EncryptionCodec, is_encrypted
from threadline.privacy.keys import Key, KeyRing
from threadline.settings import CodecSettings

TOKEN = "a-token-that-nobody-guesses"
UI = "http://localhost:8233"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
A = Key("a", bytes(32))
B = Key("b", bytes([1]) * 32)
CODEC = EncryptionCodec(KeyRing((A,)))
PLAIN = Payload(metadata={"encoding": b"json/plain"}, data=b'"the cart total is wrong"')


@asynccontextmanager
async def codec_server(
    token: str = TOKEN, origins: tuple[str, ...] = (UI,)
) -> AsyncIterator[aiohttp.ClientSession]:
    """Return a client of a running server."""
    server = TestServer(CodecServer(CODEC, token, origins).application())
    await server.start_server()
    jar = aiohttp.CookieJar(unsafe=True)  # the server's name is an address
    try:
        async with aiohttp.ClientSession(str(server.make_url("/")), cookie_jar=jar) as client:
            yield client
    finally:
        await server.close()


async def hidden(key: Key = A) -> Payload:
    return (await EncryptionCodec(KeyRing((key,))).encode([PLAIN]))[0]


async def body(*payloads: Payload) -> str:
    """Return a request body, by default with one encrypted payload."""
    return json_format.MessageToJson(Payloads(payloads=payloads or [await hidden()]))


async def read(answer: aiohttp.ClientResponse) -> list[Payload]:
    assert answer.status == 200
    return list(json_format.Parse(await answer.text(), Payloads()).payloads)


async def test_decode_decrypts_payloads_with_a_known_key_and_leaves_the_rest() -> None:
    async with codec_server() as client:
        foreign = await hidden(B)
        asked = await body(foreign, await hidden(), PLAIN)
        for path in ("/decode", "/default/decode", "/codec/of/default/decode"):
            assert await read(await client.post(path, data=asked, headers=BEARER)) == [
                foreign,
                PLAIN,
                PLAIN,
            ]


async def test_encode_encrypts_payloads_of_the_ui() -> None:
    async with codec_server() as client:
        [payload] = await read(
            await client.post("/encode", data=await body(PLAIN), headers=BEARER)
        )
        assert is_encrypted(payload)
        assert await CODEC.decode([payload]) == [PLAIN]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Cookie": "threadline_codec="},
        {"Cookie": f"threadline_codec={TOKEN}"},
        {"Cookie": f"threadline_codec=99999999999.{'0' * 64}"},
        {"Cookie": f"threadline_codec={CodecServer(CODEC, 'a-token-of-yesterday', ()).session()}"},
    ],
)
async def test_request_without_the_token_is_shown_nothing(headers: dict[str, str]) -> None:
    async with codec_server() as client:
        for path in ("/decode", "/x/decode", "/encode"):
            answer = await client.post(path, data=await body(), headers=headers)
            assert answer.status == 401
            assert "cart" not in await answer.text()


async def test_browser_logs_in_with_the_token_until_its_session_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with codec_server() as client:
        asked = await body()
        assert (await client.post("/login", data={"token": "wrong"})).status == 401
        assert (await client.post("/decode", data=asked)).status == 401
        cookie = (await client.post("/login", data={"token": TOKEN})).cookies["threadline_codec"]
        assert cookie["httponly"]
        assert (cookie["samesite"], TOKEN in cookie.value) == ("Strict", False)
        assert await read(await client.post("/decode", data=asked, headers={"Origin": UI})) == [
            PLAIN
        ]
        later = time.time() + served.SESSION + 1
        monkeypatch.setattr(time, "time", lambda: later)
        assert (await client.post("/decode", data=asked)).status == 401


@pytest.mark.parametrize("token", ["", TOKEN])
async def test_pages_of_other_origins_are_refused(token: str) -> None:
    async with codec_server(token) as client:
        for origin in ("http://evil.example", "http://localhost:8233.evil.example", "null", ""):
            answer = await client.post(
                "/decode", data=await body(), headers={**BEARER, "Origin": origin}
            )
            assert answer.status == 403
            assert "Access-Control-Allow-Origin" not in answer.headers
            answer = await client.options("/decode", headers={"Origin": origin})
            assert "Access-Control-Allow-Origin" not in answer.headers
        answer = await client.post("/decode", data=await body(), headers={**BEARER, "Origin": UI})
        assert await read(answer) == [PLAIN]
        assert answer.headers["Access-Control-Allow-Origin"] == UI


async def test_preflight_request_of_the_ui_is_answered() -> None:
    asks = {"Origin": UI, "Access-Control-Request-Headers": "content-type,x-namespace"}
    async with codec_server() as client:
        answer = await client.options("/decode", headers=asks)
        assert answer.status == 200
        assert answer.headers["Access-Control-Allow-Headers"] == "content-type,x-namespace"
        assert answer.headers["Access-Control-Allow-Credentials"] == "true"


async def test_invalid_body_is_a_bad_request() -> None:
    async with codec_server() as client:
        for asked in ("", "no json", '{"payloads": 5}', '{"payloads": [{"data": {}}]}'):
            answer = await client.post("/decode", data=asked, headers=BEARER)
            assert answer.status == 400
            assert "JSON form of protobuf" in (await answer.json())["message"]


@pytest.mark.parametrize("path", ["/decode", "/login"])
async def test_body_that_does_not_come_is_given_up(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served, "BODY_TIMEOUT", 0.2)
    never = asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        yield b'{"payloads":'
        await never.wait()

    async with codec_server() as client:
        assert (await client.post(path, data=body(), headers=BEARER)).status == 408


@pytest.mark.parametrize("host", ["::", "codec.internal"])
async def test_server_needs_a_token_unless_only_this_machine_reaches_it(host: str) -> None:
    with pytest.raises(Permanent, match="THREADLINE_CODEC_TOKEN is not set"):
        await served.serve(host, 0, KeyRing((A,)), "", (UI,), asyncio.Event())


def test_server_needs_a_long_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THREADLINE_CODEC_TOKEN", "secret")
    with pytest.raises(Permanent, match=r"THREADLINE_CODEC_TOKEN is a secret .* at least 16"):
        CodecSettings.load()
