"""A whole case on a dev server that writes to a file, with canaries in all its texts, and a search
for them.
"""

import base64
import os
import sqlite3
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path

import aiohttp
from temporalio.api.common.v1 import Payload, Payloads, WorkflowExecution
from temporalio.api.workflowservice.v1 import SignalWorkflowExecutionRequest
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

from tests.support.case_scene import Agent, CaseScene, core_activities, outcome
from tests.support.faulty_sandboxes import FaultySlack
from tests.support.temporal import worker
from threadline.cases.model import Action
from threadline.db.engine import Database
from threadline.errors import Permanent
from threadline.investigator.store import AgentStore
from threadline.privacy.keys import KeyRing
from threadline.slack.client import SlackClient, make_web_client
from threadline.slack.model import Thread
from threadline.threads.activity_options import activities_of
from threadline.threads.model import (
    AGENTS_QUEUE,
    INCOMING_MESSAGE,
    MessageKind,
    SenderType,
    edit_id,
)
from threadline.wiring.temporal import WORKFLOWS, data_converter
from threadline_devstack import environment, temporal
from threadline_devstack.processes import FreePorts, ProcessGroup
from threadline_devstack.slack import identity
from threadline_devstack.slack.identity import BOT_TOKEN, REPORTER, REPORTS, SUMMARIES

UNPROTECTED = "canary-that-stands-in-the-clients-identity"
"""No codec reaches it, so the search must find it."""

_PLACES = (
    "report",
    "reply",
    "edit",
    "question",
    "title",
    "unreadable",
    "undecodable",
    "error",
    "cause",
)
TOLD = {
    name: f"canary-{name}-{number}"
    for number, name in enumerate((*_PLACES, "developer", "close"), start=4711)
}
"""The texts that pass through Temporal, by their source."""
FINDINGS = "canary-findings-4700"
"""The agent's findings go from its worker to Postgres without Temporal."""


@asynccontextmanager
async def dev_server(folder: Path) -> AsyncIterator[str]:
    """Return the address of a server whose file is below the folder; afterwards the server has
    written the file and is stopped.
    """
    family = ProcessGroup(folder)
    machine = environment.pick(os.environ, environment.MACHINE)
    try:
        yield (await temporal.start(family, folder, FreePorts(usual=False), machine)).address
    finally:
        await family.stop_all([])


@asynccontextmanager
async def case_scene_at(
    address: str,
    ring: KeyRing | None,
    database: Database,
    agent_database: Database,
    agent: Agent | None = None,
    *,
    agents_have_keys: bool = True,
) -> AsyncIterator[CaseScene]:
    """Return a case scene whose workers and gateway have these keys, or none."""
    agents = await Client.connect(
        address, data_converter=data_converter(ring if agents_have_keys else None)
    )
    client = await Client.connect(
        address, data_converter=data_converter(ring), identity=UNPROTECTED
    )
    async with FaultySlack.running() as slack, aiohttp.ClientSession() as session:
        around = WorkflowEnvironment.from_client(client)
        activities = core_activities(
            database, client, SlackClient(make_web_client(BOT_TOKEN, slack.api_url, session))
        )
        agent = agent or Agent(AgentStore(agent_database))
        root = slack.workspace.post(REPORTS, REPORTER, TOLD["report"])
        async with (
            worker(around, WORKFLOWS, activities),
            worker(
                WorkflowEnvironment.from_client(agents), [], activities_of(agent), AGENTS_QUEUE
            ),
        ):
            yield CaseScene(
                around, database, slack, agent, Thread(identity.TEAM, REPORTS, root.ts)
            )


async def play(home: CaseScene) -> None:
    """Play from the report to the close: a question, an edit, undecodable signals, two failures,
    findings.
    """
    home.agent.script += [
        outcome(
            Action.ASK_REPORTER,
            FINDINGS,
            clarification_question=TOLD["question"],
            title=TOLD["title"],
        ),
        Permanent(TOLD["error"]),
        ValueError(TOLD["cause"]),
        outcome(Action.POST_FINDINGS, FINDINGS, title=TOLD["title"]),
    ]
    await home.report(TOLD["report"])
    await home.until_status("awaiting_reporter")
    await _edit(home)
    await home.handle.signal(INCOMING_MESSAGE, {"no": "envelope", "but": TOLD["unreadable"]})
    await _signal_undecodable(home)
    await home.reporter(TOLD["reply"])
    await home.until_status("investigating", "escalated")
    await home.developer(TOLD["developer"])
    await home.until_status("escalated", "investigating", "escalated")
    await home.developer("look again")
    await home.until_said(FINDINGS, SUMMARIES)
    await home.until_status("investigating", "pending_verification")
    await home.reporter(TOLD["close"], MessageKind.CLOSE)
    assert await home.handle.result() == "resolved"


async def _edit(home: CaseScene) -> None:
    original = home.message(
        MessageKind.REPORT, SenderType.REPORTER, REPORTER, TOLD["edit"], home.thread.ts
    )
    version = "1700000000.000001"
    await home.send(
        replace(
            original,
            id=edit_id(identity.TEAM, REPORTS, original.ts, version),
            kind=MessageKind.EDIT,
            correction_of=original.id,
            version=version,
        )
    )


async def _signal_undecodable(home: CaseScene) -> None:
    """Signal a payload that the SDK cannot decode; the sender's codec encrypts it like any
    other.
    """
    client = home.environment.client
    broken = Payload(
        metadata={"encoding": b"json/plain"}, data=b'{"text": "' + TOLD["undecodable"].encode()
    )
    codec = client.data_converter.payload_codec
    assert codec
    await client.workflow_service.signal_workflow_execution(
        SignalWorkflowExecutionRequest(
            namespace=client.namespace,
            workflow_execution=WorkflowExecution(workflow_id=home.handle.id),
            signal_name=INCOMING_MESSAGE,
            input=Payloads(payloads=await codec.encode([broken])),
        )
    )


def _forms(word: str) -> tuple[bytes, ...]:
    """Return a word in plain, hex and UTF-16, and in the base64 of a text around it, at each of
    three offsets.
    """
    raw = word.encode()
    return (
        raw,
        raw.hex().encode(),
        word.encode("utf-16-le"),
        *(_within_base64(raw, offset) for offset in range(3)),
    )


def found(words: Iterable[str], folder: Path) -> set[str]:
    """Return the words that are in any file below the folder, in any form."""
    pieces = list(_pieces(folder))
    return {
        word for word in words if any(form in piece for form in _forms(word) for piece in pieces)
    }


def _within_base64(raw: bytes, offset: int) -> bytes:
    """Return the base64 characters that depend only on this word, where it begins `offset` bytes
    into a group of a longer text.
    """
    encoded = base64.b64encode(bytes(offset) + raw)
    first = -(-offset * 8 // 6)
    last = (offset + len(raw)) * 8 // 6
    return encoded[first:last]


def _pieces(folder: Path) -> Iterator[bytes]:
    """Yield each file with its deleted rows, and each value: a long one is spread over pages."""
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            yield file.read_bytes()
    for file in folder.rglob("*.db"):
        with closing(sqlite3.connect(file)) as database:
            database.text_factory = bytes
            tables = database.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table'"
            ).fetchall()
            for [table] in tables:
                for row in database.execute(f'SELECT * FROM "{table.decode()}"'):  # noqa: S608
                    yield from (value for value in row if isinstance(value, bytes))
