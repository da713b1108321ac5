"""Temporal keeps a message without the secrets in it."""

from itertools import count
from typing import Any

import pytest
from temporalio.client import Client

from tests.gateway.slack_events import CONFIG, Json
from threadline.cases.model import bug_workflow_id
from threadline.gateway.router import EventRouter, ThreadLookup
from threadline.slack.model import Thread

TOKEN = "gh" + "p_" + "a1B2" * 9
KEY = "-----BEGIN " + "PRIVATE KEY-----\n" + "aB3d" * 16 + "\n-----END PRIVATE KEY-----"
WORD = "swordfish"
_serial = count(1)


def event(text: str, **fields: Any) -> Json:
    ts = f"77{next(_serial)}.000001"
    return {
        "type": "message",
        "channel": "C_REPORTS",
        "user": "U1",
        "text": text,
        "ts": ts,
        **fields,
    }


def body(event: Json) -> Json:
    return {"type": "event_callback", "team_id": "T1", "event": event}


async def kept(temporal: Client, ts: str) -> bytes:
    """The whole history of a case, as Temporal sends it."""
    handle = temporal.get_workflow_handle(bug_workflow_id(Thread("T1", "C_REPORTS", ts)))
    return b"".join(each.SerializeToString() for each in (await handle.fetch_history()).events)


@pytest.mark.asyncio(loop_scope="session")
async def test_temporal_never_holds_a_recognised_secret(
    temporal: Client, threads: ThreadLookup
) -> None:
    report = event(
        f"clone with {TOKEN}, DB_PASSWORD={WORD}\n{KEY}\nand the canary sings",
        files=[{"id": "F1", "name": f"log {TOKEN}.txt"}],
        subtype="file_share",
    )
    reply = event(f"I meant {TOKEN}", thread_ts=report["ts"], parent_user_id="U1")
    edited = {
        **event(""),
        "subtype": "message_changed",
        "message": {**reply, "text": f"no, password is {WORD}2", "edited": {"ts": "778.0"}},
        "previous_message": reply,
    }
    rich = event("", thread_ts=report["ts"], parent_user_id="U1")
    pieces = [{"type": "text", "text": f"it is {TOKEN}"}]
    rich["blocks"] = [
        {"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": pieces}]}
    ]

    router = EventRouter(CONFIG, temporal, threads)
    outcomes = [
        (await router.handle(body(each))).outcome for each in (report, reply, edited, rich)
    ]

    assert outcomes == ["report", "case", "case", "case"]
    whole = await kept(temporal, report["ts"])
    assert b"and the canary sings" in whole
    for secret in (TOKEN, WORD, "aB3d" * 4):
        assert secret.encode() not in whole
