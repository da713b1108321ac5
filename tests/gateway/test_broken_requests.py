"""Requests over real sockets that end in their body, never end, or are no HTTP cause no errors and
delay no others.
"""

import asyncio
import json
import logging
import socket
import struct
import time
from collections.abc import AsyncIterator, Callable
from itertools import count
from typing import Any

import pytest
import pytest_asyncio
import structlog
from slack_sdk.signature import SignatureVerifier
from slack_sdk.web.async_client import AsyncWebClient
from temporalio.client import Client

from tests.gateway.conftest import ROUTING, Process
from tests.support.patience import patient
from threadline import http_server
from threadline.gateway.router import EventRouter, ThreadLookup
from threadline.gateway.server import GatewayConfig

pytestmark = pytest.mark.asyncio(loop_scope="session")

SECRET = "signing-secret"
CONFIG = GatewayConfig(signing_secret=SECRET, port=0)
ROUNDS = 20
"""How often each broken request is sent: 300 in all."""
HEAD = b"POST /slack/events HTTP/1.1\r\nHost: gateway\r\nContent-Type: application/json\r\n"
LONG = HEAD + b"Content-Length: 1000\r\n\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"

GONE = {
    "in its headers": HEAD,
    "before its body": LONG,
    "in its body": LONG + b'{"type": "event',
    "in a chunk": CHUNKED + b"40\r\n" + b"x" * 10,
    "between two chunks": CHUNKED + b"3\r\nabc\r\n",
}
"""Bytes after which the client disconnects, by an end of its connection or by a reset."""
UNREADABLE = {
    "a chunk without a length": CHUNKED + b"zz\r\nabc\r\n0\r\n\r\n",
    "a chunk that is longer than told": CHUNKED + b"2\r\nabcdef\r\n0\r\n\r\n",
    "more than its length": HEAD + b"Content-Length: 2\r\n\r\n{}garbage\r\n\r\n",
    "a length that is no number": HEAD + b"Content-Length: many\r\n\r\n{}",
    "a negative length": HEAD + b"Content-Length: -5\r\n\r\n{}",
    "two lengths": HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "a body that is no gzip": HEAD + b"Content-Encoding: gzip\r\nContent-Length: 4\r\n\r\nabcd",
    "an endless header": HEAD + b"X-Long: " + b"x" * 20_000 + b"\r\n\r\n",
    "the greeting of TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
    + bytes(40)
    + b"\r\n\r\n",
    "no HTTP": b"hello\r\n\r\n",
}
"""Bytes after which the client waits for an answer."""

_serial = count(1)


@pytest_asyncio.fixture(loop_scope="session")
async def process(
    serving: Callable[..., Any], slack: AsyncWebClient, threads: ThreadLookup, temporal: Client
) -> AsyncIterator[Process]:
    async with serving(
        CONFIG, EventRouter(ROUTING, temporal, threads), slack, temporal
    ) as running:
        yield running


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "BODY_TIMEOUT", 0.5)


def well_formed() -> bytes:
    ts = f"{int(time.time())}.{next(_serial):06d}"
    event = {
        "type": "message",
        "channel": ROUTING.reports_channel,
        "user": "U1",
        "text": "it breaks",
        "ts": ts,
    }
    body = json.dumps(
        {"type": "event_callback", "team_id": "T1", "event_id": f"Ev{ts}", "event": event}
    )
    now = str(int(time.time()))
    signature = SignatureVerifier(SECRET).generate_signature(timestamp=now, body=body)
    signed = (
        f"X-Slack-Request-Timestamp: {now}\r\nX-Slack-Signature: {signature}\r\nConnection: "
        "close\r\n"
    )
    return HEAD + f"{signed}Content-Length: {len(body)}\r\n\r\n{body}".encode()


async def leave(port: int, sent: bytes, *, reset: bool) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    await writer.drain()
    if reset:
        connection = writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.close()
    del reader


async def status(port: int, sent: bytes) -> int:
    """The status that the gateway answers; 0 if it only hangs up."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    try:
        async with asyncio.timeout(patient(20)):
            line = await reader.readline()
    except ConnectionResetError:
        line = b""
    writer.close()
    return int(line.split()[1]) if line else 0


def assert_quiet(process: Process, caplog: pytest.LogCaptureFixture) -> None:
    """No error, no traceback, and no line for each request."""
    records = [each for each in caplog.records if each.name != "asyncio"]
    assert not [each for each in records if each.exc_info or each.levelno >= logging.ERROR]
    assert not [entry for entry in process.log if entry["level"] in ("error", "critical")]
    logged = [entry["event"] for entry in process.log if entry["level"] != "debug"]
    told = [event for event in logged if event != "gateway_ready"]
    assert set(told) <= {"requests_broken", "signatures_refused"}
    assert len(told) <= 2


async def test_requests_that_break_are_no_errors_and_delay_no_other(
    process: Process, impatient: None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    broken = list[Any]()
    sound = list[Any]()
    for _ in range(ROUNDS):
        broken += [
            leave(process.port, sent, reset=bool(len(broken) % 2)) for sent in GONE.values()
        ]
        broken += [status(process.port, sent) for sent in UNREADABLE.values()]
        sound.append(status(process.port, well_formed()))

    answered, statuses = await asyncio.gather(asyncio.gather(*sound), asyncio.gather(*broken))

    assert answered == [200] * ROUNDS
    assert not [each for each in statuses if each is not None and each >= 500]
    assert len(broken) == 300
    assert_quiet(process, caplog)


@pytest.mark.parametrize("name", UNREADABLE)
async def test_request_that_cannot_be_read_is_refused(process: Process, name: str) -> None:
    assert await status(process.port, UNREADABLE[name]) in (400, 401)


@pytest.mark.parametrize(
    "sent", [LONG + b'{"type"', CHUNKED + b"3\r\nabc\r\n", LONG], ids=["body", "chunks", "none"]
)
async def test_body_that_does_not_come_is_given_up(
    process: Process, impatient: None, caplog: pytest.LogCaptureFixture, sent: bytes
) -> None:
    assert await status(process.port, sent) == 408
    assert (await process.counts())["broken"] == 1
    assert_quiet(process, caplog)


async def test_body_that_drips_is_given_up_by_its_whole_time(
    process: Process, impatient: None
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", process.port)
    writer.write(LONG)
    answer = asyncio.create_task(reader.readline())
    async with asyncio.timeout(patient(20)):
        while not answer.done():
            writer.write(b"x")
            await asyncio.sleep(0.05)
    assert b" 408 " in answer.result()
    writer.close()


def signed(secret: str, seconds_ago: int = 0) -> bytes:
    now = str(int(time.time()) - seconds_ago)
    signature = SignatureVerifier(secret).generate_signature(timestamp=now, body="{}")
    headers = (
        f"X-Slack-Request-Timestamp: {now}\r\nX-Slack-Signature: {signature}\r\nConnection: "
        "close\r\n"
    )
    return HEAD + f"{headers}Content-Length: 2\r\n\r\n{{}}".encode()


async def test_wrong_signatures_are_logged_once_an_interval_by_reason(process: Process) -> None:
    requests = [
        signed("another"),
        signed(SECRET, seconds_ago=3600),
        HEAD + b"Content-Length: 2\r\n\r\n{}",
    ]
    assert (
        await asyncio.gather(*(status(process.port, each) for each in requests * 100))
        == [401] * 300
    )

    def lines() -> list[dict[str, Any]]:
        return [entry for entry in process.log if entry["event"] == "signatures_refused"]

    [first] = lines()
    assert (first["level"], first["count"], first["remotes"]) == ("warning", 1, ["127.0.0.1"])
    assert "SLACK_SIGNING_SECRET" in first["next"]

    process.stop.set()
    await process.task
    [_, rest] = lines()
    reasons = {
        name: first["reasons"].get(name, 0) + rest["reasons"].get(name, 0)
        for name in rest["reasons"]
    }
    assert reasons == {"wrong_secret": 100, "stale_timestamp": 100, "not_signed": 100}
    assert rest["count"] == 299


async def test_rare_log_writes_the_first_at_once_and_the_rest_together() -> None:
    told = list[tuple[int, dict[str, int]]]()

    def notice(_: Any, __: str, entry: Any) -> Any:
        told.append((entry["count"], entry["reasons"]))
        raise structlog.DropEvent

    with structlog.testing.capture_logs([notice]):
        log = http_server.RareLog("refused", "Nothing.", interval=0.2)
        for reason in ("a", "b", "b"):
            log.note(reason, "127.0.0.1")
        assert told == [(1, {"a": 1})]
        async with asyncio.timeout(patient(10)):
            while len(told) < 2:  # noqa: ASYNC110 - a timer calls
                await asyncio.sleep(0.02)
        assert told[1] == (2, {"b": 2})
        await asyncio.sleep(0.5)
        log.note("c", None)
        assert told[2:] == [(1, {"c": 1})]
        log.close()
        assert len(told) == 3
