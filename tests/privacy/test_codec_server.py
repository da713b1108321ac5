"""The codec server over HTTP, as Temporal's UI and command line ask it: who is shown what."""

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
from threadline.privacy.codec_process import run_codec
from threadline.privacy.codec_server import Access, CodecServer
from threadline.privacy.encryption import EncryptionCodec, is_encrypted
from threadline.privacy.keys import Key, KeyRing

TOKEN = "a-token-that-nobody-guesses"
UI = "http://localhost:8233"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
A, B = Key("a", bytes(32)), Key("b", bytes([1]) * 32)
CODEC = EncryptionCodec(KeyRing((A,)))
PLAIN = Payload(metadata={"encoding": b"json/plain"}, data=b'"the cart total is wrong"')


@asynccontextmanager
async def codec_server(token: str = TOKEN, origins: tuple[str, ...] = (UI,)) -> AsyncIterator[aiohttp.ClientSession]:
    """A client of a server that runs."""
    server = TestServer(CodecServer(CODEC, Access(token, origins)).application())
    await server.start_server()
    jar = aiohttp.CookieJar(unsafe=True)  # the server's name is an address
    try:
        async with aiohttp.ClientSession(str(server.make_url("/")), cookie_jar=jar) as client:
            yield client
    finally:
        await server.close()


async def body(*payloads: Payload) -> str:
    return json_format.MessageToJson(Payloads(payloads=payloads))


async def hidden(*keys: Key) -> Payload:
    return (await EncryptionCodec(KeyRing(keys or (A,))).encode([PLAIN]))[0]


async def read(answer: aiohttp.ClientResponse) -> list[Payload]:
    assert answer.status == 200
    return list(json_format.Parse(await answer.text(), Payloads()).payloads)


async def test_encrypted_payloads_are_shown_and_others_left_as_they_are() -> None:
    async with codec_server() as client:
        asked = await body(await hidden(), PLAIN)
        for path in ("/decode", "/default/decode", "/codec/of/default/decode"):
            assert await read(await client.post(path, data=asked, headers=BEARER)) == [PLAIN, PLAIN]


async def test_what_is_sent_from_the_ui_can_be_encrypted_on_its_way() -> None:
    async with codec_server() as client:
        [payload] = await read(await client.post("/encode", data=await body(PLAIN), headers=BEARER))
        assert is_encrypted(payload)
        assert await CODEC.decode([payload]) == [PLAIN]


async def test_one_payload_under_a_missing_key_does_not_hide_the_others() -> None:
    async with codec_server() as client:
        foreign = await hidden(B)
        asked = await body(foreign, await hidden())
        assert await read(await client.post("/decode", data=asked, headers=BEARER)) == [foreign, PLAIN]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": TOKEN},
        {"Authorization": f"Basic {TOKEN}"},
        {"Cookie": "threadline_codec="},
        {"Cookie": f"threadline_codec={TOKEN}"},
        {"Cookie": f"threadline_codec=99999999999.{'0' * 64}"},
    ],
)
@pytest.mark.parametrize("path", ["/decode", "/x/decode", "/encode"])
async def test_who_does_not_show_the_token_is_shown_nothing(path: str, headers: dict[str, str]) -> None:
    async with codec_server() as client:
        answer = await client.post(path, data=await body(await hidden()), headers=headers)
        assert answer.status == 401
        assert "cart" not in await answer.text()


async def test_a_browser_is_let_in_by_the_token_until_its_session_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    async with codec_server() as client:
        asked = await body(await hidden())
        assert (await client.post("/login", data={"token": "wrong"})).status == 401
        assert (await client.post("/decode", data=asked)).status == 401
        answer = await client.post("/login", data={"token": TOKEN})
        cookie = answer.cookies["threadline_codec"]
        assert cookie["httponly"]
        assert (cookie["samesite"], TOKEN in cookie.value) == ("Strict", False)
        assert await read(await client.post("/decode", data=asked, headers={"Origin": UI})) == [PLAIN]
        later = time.time() + served.SESSION + 1
        monkeypatch.setattr(time, "time", lambda: later)
        assert (await client.post("/decode", data=asked)).status == 401


async def test_another_token_ends_the_sessions_of_the_one_before() -> None:
    session = Access(TOKEN, ()).session()
    async with codec_server(token="another-token-of-today") as client:
        cookie = {"Cookie": f"threadline_codec={session}"}
        assert (await client.post("/decode", data=await body(), headers=cookie)).status == 401


@pytest.mark.parametrize("token", ["", TOKEN])
async def test_pages_of_other_origins_are_refused_whatever_they_show(token: str) -> None:
    async with codec_server(token) as client:
        asked = await body(await hidden())
        for origin in ("http://evil.example", "http://localhost:8233.evil.example", "null", ""):
            answer = await client.post("/decode", data=asked, headers={**BEARER, "Origin": origin})
            assert answer.status == 403
            assert "Access-Control-Allow-Origin" not in answer.headers
            answer = await client.options("/decode", headers={"Origin": origin})
            assert "Access-Control-Allow-Origin" not in answer.headers
        answer = await client.post("/decode", data=asked, headers={**BEARER, "Origin": UI})
        assert await read(answer) == [PLAIN]
        assert answer.headers["Access-Control-Allow-Origin"] == UI


async def test_the_uis_question_before_its_question_is_answered() -> None:
    asks = {"Origin": UI, "Access-Control-Request-Headers": "content-type,x-namespace"}
    async with codec_server() as client:
        answer = await client.options("/decode", headers=asks)
        assert answer.status == 200
        assert answer.headers["Access-Control-Allow-Headers"] == "content-type,x-namespace"
        assert answer.headers["Access-Control-Allow-Credentials"] == "true"


@pytest.mark.parametrize("asked", ["", "no json", '{"payloads": 5}', '{"payloads": [{"data": {}}]}'])
async def test_a_body_that_is_none_is_said(asked: str) -> None:
    async with codec_server() as client:
        answer = await client.post("/decode", data=asked, headers=BEARER)
        assert answer.status == 400
        assert "JSON form of protobuf" in (await answer.json())["message"]


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "codec.internal:0"])
async def test_beyond_this_machine_it_does_not_start_without_a_token(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THREADLINE_PAYLOAD_KEYS", "a:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=")
    with pytest.raises(Permanent, match="THREADLINE_CODEC_TOKEN is not set"):
        await run_codec(address, asyncio.Event())


async def test_a_token_that_is_easily_guessed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THREADLINE_PAYLOAD_KEYS", "a:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=")
    monkeypatch.setenv("THREADLINE_CODEC_TOKEN", "secret")
    with pytest.raises(Permanent, match=r"THREADLINE_CODEC_TOKEN is a secret .* at least 16"):
        await run_codec("127.0.0.1:0", asyncio.Event())
