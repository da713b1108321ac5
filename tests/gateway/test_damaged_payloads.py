"""The gateway answers every signed request with 200 or, if it is no JSON object, 400: never with
an error of its own.

`payloads.json` has one of each payload that Slack's documentation describes and the gateway may
receive (https://docs.slack.dev/reference/events, …/reference/interaction-payloads).
"""

import asyncio
import hashlib
import hmac
import json
import logging
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from aiohttp import ClientSession
from slack_sdk.web.async_client import AsyncWebClient
from temporalio.client import Client

from tests.gateway.conftest import KnownThreads
from threadline.gateway.router import EventRouter
from threadline.gateway.routes import RoutingConfig
from threadline.gateway.server import GatewayConfig
from threadline_devstack.slack import identity

SECRET = "signing-secret"
ROUTING = RoutingConfig(
    "C_REPORTS", "C_SUMMARIES", "C_ESCALATIONS", identity.BOT_USER, identity.BOT_ID, team="T1"
)
PAYLOADS: dict[str, dict[str, Any]] = json.loads(
    Path(__file__).with_name("payloads.json").read_text(encoding="utf-8")
)
JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
CONTENT_TYPES = (
    JSON,
    FORM,
    "text/plain",
    "multipart/form-data; boundary=x",
    "application/json; charset=utf-16",
    "?",
)
DAMAGED = 3_000
AT_ONCE = 4

Place = tuple[Any, ...]


@dataclass
class Sent:
    """One request. `readable`: it is a JSON object or a command, in the content type that Slack
    uses.
    """

    name: str
    path: str
    content_type: str
    body: bytes
    readable: bool = True


def encode(kind: str, name: str, value: Any) -> Sent:
    if kind == "events":
        return Sent(name, "/slack/events", JSON, json.dumps(value).encode())
    form = value if kind == "commands" else {"payload": json.dumps(value)}
    body = urlencode(form, errors="surrogatepass").encode()
    return Sent(
        name, "/slack/interactions", FORM, body, readable="command" in form or "payload" in form
    )


def places(value: Any, path: Place = ()) -> Iterator[Place]:
    yield path
    inside: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        inside = value.items()
    elif isinstance(value, list):
        inside = enumerate(value)
    for key, each in inside:
        yield from places(each, (*path, key))


def changed(value: Any, path: Place, change: Callable[[Any], Any]) -> Any:
    """A copy with another value at a path; `...` removes it."""
    if not path:
        return change(value)
    key, *rest = path
    new = changed(value[key], tuple(rest), change)
    if isinstance(value, dict):
        return {name: each for name, each in {**value, key: new}.items() if each is not ...}
    return [
        each
        for index, old in enumerate(value)
        if (each := new if index == key else old) is not ...
    ]


def nested(value: Any, depth: int) -> Any:
    for level in range(depth):
        value = {"x": value} if level % 2 else [value]
    return value


def retyped(value: Any) -> Any:
    match value:
        case str():
            return float(value) if value.replace(".", "", 1).isdigit() else [value]
        case dict():
            return list(value.values())
        case list():
            return {str(index): each for index, each in enumerate(value)}
    return str(value)


ODD: tuple[Any, ...] = (
    *(
        None,
        True,
        0,
        -1,
        1e308,
        float("nan"),
        float("-inf"),
        10**400,
        "",
        " ",
        [],
        {},
        [None],
        {"": None},
    ),
    *(
        "\x00",
        "\ud800",
        "\udcff\ud83d",
        "\u202e\u2066",
        "e\u0301" * 50,
        "🛑" * 60,
        "x" * 5_000,
        "<" * 3_000,
        ":" * 3_000,
    ),
    *(
        "<@U0THREADLINE> stop",
        "message",
        "message_changed",
        "C_REPORTS",
        "T1",
        "../../etc",
        "1e999",
        "nan",
        "9" * 190,
    ),
)


CHANGES: tuple[Callable[[random.Random], Callable[[Any], Any]], ...] = (
    lambda _: lambda _: ...,
    lambda rng: partial(lambda odd, _: odd, rng.choice(ODD)),
    lambda rng: partial(nested, depth=rng.choice((1, 2, 30, 200))),
    lambda _: retyped,
)


def damage(rng: random.Random, kind: str, name: str, value: Any) -> Sent:
    """A payload with one to three faults in its JSON, and sometimes one in its bytes."""
    for _ in range(rng.randint(1, 3)):
        place = rng.choice(list(places(value))[1:] or [()])
        value = changed(value, place, rng.choice(CHANGES)(rng)) if place else value
    sent = encode(kind, name, value)
    match rng.randrange(10):
        case 0:
            sent.body = sent.body[: rng.randrange(len(sent.body))]
        case 1:
            at = rng.randrange(len(sent.body))
            sent.body = (
                sent.body[:at]
                + rng.choice((b"\xff", b"\x00", b"1" * 5_000, b"[" * 5_000))
                + sent.body[at:]
            )
        case 2:
            sent.content_type = rng.choice(CONTENT_TYPES)
        case _:
            return sent
    sent.readable = False
    return sent


def signed(sent: Sent) -> dict[str, str]:
    now = str(int(time.time()))
    digest = hmac.new(
        SECRET.encode(), b"v0:" + now.encode() + b":" + sent.body, hashlib.sha256
    ).hexdigest()
    return {
        "Content-Type": sent.content_type,
        "X-Slack-Request-Timestamp": now,
        "X-Slack-Signature": f"v0={digest}",
    }


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="session")
async def test_damaged_payload_is_never_answered_by_an_error(
    serving: Callable[..., Any],
    slack: AsyncWebClient,
    temporal: Client,
    threads: KnownThreads,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    rng = random.Random(20)  # noqa: S311 - it must be the same each time
    whole = [
        (kind, name, value) for kind, named in PAYLOADS.items() for name, value in named.items()
    ]
    sent = [encode(*each) for each in whole] + [
        damage(rng, *rng.choice(whole)) for _ in range(DAMAGED)
    ]
    answers: list[int] = [0] * len(sent)
    router = EventRouter(ROUTING, temporal, threads)
    async with (
        serving(
            GatewayConfig(signing_secret=SECRET, port=0), router, slack, temporal, 100
        ) as process,
        ClientSession(f"http://127.0.0.1:{process.port}") as http,
    ):

        async def send(start: int) -> None:
            for index in range(start, len(sent), AT_ONCE):
                each = sent[index]
                async with http.post(each.path, data=each.body, headers=signed(each)) as answer:
                    answers[index] = answer.status

        await asyncio.gather(*map(send, range(AT_ONCE)))
        counts = await process.counts()

    wrong = [
        (each, status)
        for each, status in zip(sent, answers, strict=True)
        if status not in (200, 400)
    ]
    refused = [
        each for each, status in zip(sent, answers, strict=True) if each.readable and status != 200
    ]
    expected = "slack_rate_limited_events"
    assert [
        entry for entry in process.log if entry["level"] == "error" and entry["event"] != expected
    ] == []
    assert (wrong[:3], refused[:3]) == ([], [])
    assert answers[: len(whole)] == [200] * len(whole)
    assert Counter(answers)[400] == counts["malformed"]
    assert [entry for entry in process.log if "exc_info" in entry or "exception" in entry] == []
    assert [
        record.getMessage()
        for record in caplog.records
        if record.exc_info or record.levelno >= logging.ERROR
    ] == []
