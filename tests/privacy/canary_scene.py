"""A whole case on a dev server that writes to a file, with canaries in everything that people and agents say."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import aiohttp
import asyncpg
from temporalio.api.common.v1 import Payload, Payloads, WorkflowExecution
from temporalio.api.workflowservice.v1 import SignalWorkflowExecutionRequest
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

from tests.support.case_scene import Agent, House, core_activities, outcome
from tests.support.temporal import activities_of, worker
from threadline.cases.contract import AgentActivities
from threadline.cases.model import Action
from threadline.db.engine import Database
from threadline.errors import Permanent
from threadline.investigator.store import AgentTurns
from threadline.privacy.encryption import data_converter
from threadline.privacy.keys import KeyRing
from threadline.slack.client import Slack, make_client
from threadline.threads import addressing, messages
from threadline.threads.addressing import AGENTS_QUEUE, Thread
from threadline.wiring.temporal import WORKFLOWS
from threadline_devstack import environment, temporal
from threadline_devstack.ports import Ports
from threadline_devstack.processes import Family
from threadline_devstack.slack import SlackSandbox, identity
from threadline_devstack.slack.identity import BOT_TOKEN, REPORTER, REPORTS, SUMMARIES

UNPROTECTED = "canary-that-stands-in-the-clients-identity"
"""Planted where no codec reaches: whoever searches must find it."""

TOLD = {
    name: f"canary-{name}-{number:04d}"
    for number, name in enumerate(
        (
            "report",
            "reply",
            "edit",
            "question",
            "title",
            "unreadable",
            "undecodable",
            "error",
            "cause",
            "developer",
            "close",
        ),
        start=4711,
    )
}
"""What is said on the way through Temporal, by where it is said."""
FINDINGS = "canary-findings-4700"
"""What the agent found goes from its worker to Postgres, past Temporal."""


@asynccontextmanager
async def dev_server(folder: Path) -> AsyncIterator[str]:
    """The address of a server whose file lies below the folder; when this is over, it is stopped and has written it."""
    family = Family(folder)
    machine = environment.pick(os.environ, environment.MACHINE)
    try:
        yield (await temporal.start(family, folder, Ports(usual=False), machine)).address
    finally:
        await family.stop_all([])


@asynccontextmanager
async def house_at(
    address: str,
    ring: KeyRing | None,
    database: Database,
    agent_pool: asyncpg.Pool,
    agent: Agent | None = None,
    *,
    agents_have_keys: bool = True,
) -> AsyncIterator[House]:
    """A house whose workers and gateway have these keys, or none."""
    agents = await Client.connect(address, data_converter=data_converter(ring if agents_have_keys else None))
    client = await Client.connect(address, data_converter=data_converter(ring), identity=UNPROTECTED)
    async with SlackSandbox.running() as slack, aiohttp.ClientSession() as session:
        around = WorkflowEnvironment.from_client(client)
        activities = core_activities(database, client, Slack(make_client(BOT_TOKEN, slack.api_url, session)))
        agent = agent or Agent(AgentTurns(agent_pool))
        root = slack.workspace.post(REPORTS, REPORTER, TOLD["report"])
        async with (
            worker(around, WORKFLOWS, activities),
            worker(WorkflowEnvironment.from_client(agents), [], activities_of(agent, AgentActivities), AGENTS_QUEUE),
        ):
            yield House(around, database, slack, agent, Thread(identity.TEAM, REPORTS, root.ts))


async def play(home: House) -> None:
    """From the report to the close: a question, an edit, signals that nobody can read, two failures, findings."""
    home.agent.script += [
        outcome(Action.ASK_REPORTER, FINDINGS, clarification_question=TOLD["question"], title=TOLD["title"]),
        Permanent(TOLD["error"]),
        ValueError(TOLD["cause"]),
        outcome(Action.POST_FINDINGS, FINDINGS, title=TOLD["title"]),
    ]
    await home.report(TOLD["report"])
    await home.until_status("awaiting_reporter")
    await _edit(home)
    await home.handle.signal(addressing.INCOMING_MESSAGE, {"no": "envelope", "but": TOLD["unreadable"]})
    await _signal_undecodable(home)
    await home.reporter(TOLD["reply"])
    await home.until_status("investigating", "escalated")
    await home.developer(TOLD["developer"])
    await home.until_status("escalated", "investigating", "escalated")
    await home.developer("look again")
    await home.until_said(FINDINGS, SUMMARIES)
    await home.until_status("investigating", "pending_verification")
    await home.reporter(TOLD["close"], messages.CLOSE)
    assert await home.handle.result() == "resolved"


async def _edit(home: House) -> None:
    original = home.message(messages.REPORT, messages.REPORTER, REPORTER, TOLD["edit"], home.thread.ts)
    version = "1700000000.000001"
    await home.send(
        replace(
            original,
            id=addressing.edit_id(identity.TEAM, REPORTS, original.ts, version),
            kind=messages.EDIT,
            correction_of=original.id,
            version=version,
        )
    )


async def _signal_undecodable(home: House) -> None:
    """What the SDK itself cannot make a value of; the codec of the sender encrypts it like any other."""
    client = home.environment.client
    broken = Payload(metadata={"encoding": b"json/plain"}, data=b'{"text": "' + TOLD["undecodable"].encode())
    codec = client.data_converter.payload_codec
    assert codec
    await client.workflow_service.signal_workflow_execution(
        SignalWorkflowExecutionRequest(
            namespace=client.namespace,
            workflow_execution=WorkflowExecution(workflow_id=home.handle.id),
            signal_name=addressing.INCOMING_MESSAGE,
            input=Payloads(payloads=await codec.encode([broken])),
        )
    )
