"""Keys that are added, rotated or missing in one process while a case is open."""

import base64
from dataclasses import replace
from pathlib import Path

import pytest
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.client import Client, WorkflowHistory

from tests.privacy.canary_scene import case_scene_at, dev_server
from tests.support.case_scene import Agent, CaseScene, outcome
from threadline.cases.model import BUG_WORKFLOW, Action, BugState, bug_workflow_id
from threadline.db.engine import Database
from threadline.investigator.store import AgentStore
from threadline.privacy.encryption import KEY_ID
from threadline.privacy.keys import Key, KeyRing
from threadline.threads.model import CORE_QUEUE, INCOMING_MESSAGE, MessageKind, SenderType
from threadline.wiring.temporal import data_converter, replayer

pytestmark = pytest.mark.slow

A = Key("a", bytes(range(32)))
B = Key("b", bytes(range(1, 33)))
AS_TEXT = {key.id: f"{key.id}:{base64.b64encode(key.secret).decode()}" for key in (A, B)}
ASK = outcome(Action.ASK_REPORTER, title="Cart")
POST = outcome(Action.POST_FINDINGS, title="Cart")


def keys_of(history: WorkflowHistory) -> set[str]:
    """Return the keys of a history's payloads, and whether a text is there in plain."""
    raw = b"".join(event.SerializeToString() for event in history.events)
    told = {
        f"under {key.id}"
        for key in (A, B)
        if KEY_ID.encode() + b"\x12\x01" + key.id.encode() in raw
    }
    return told | ({"in clear"} if b"The cart total is wrong" in raw else set())


async def reply(client: Client, home: CaseScene, text: str) -> None:
    """Send a reply as a gateway with another client's keys does."""
    message = home.message(
        MessageKind.MESSAGE, SenderType.REPORTER, "U0REPORTER", text, "1900000000.000001"
    )
    await client.start_workflow(
        BUG_WORKFLOW,
        BugState(thread=home.thread),
        id=bug_workflow_id(home.thread),
        task_queue=CORE_QUEUE,
        start_signal=INCOMING_MESSAGE,
        start_signal_args=[message],
    )


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (None, KeyRing((A,)), {"in clear", "under a"}),
        (KeyRing((A,)), KeyRing((B, A)), {"under a", "under b"}),
    ],
    ids=["turned on", "rotated"],
)
async def test_case_goes_on_under_other_keys_and_replays(
    before: KeyRing | None,
    after: KeyRing,
    told: set[str],
    database: Database,
    agent_database: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agent = Agent(AgentStore(agent_database), [ASK, POST])
    async with dev_server(tmp_path) as address:
        async with case_scene_at(address, before, database, agent_database, agent) as home:
            await home.report()
            await home.until_status("awaiting_reporter")
            thread = home.thread
        async with case_scene_at(address, after, database, agent_database, agent) as home:
            home = replace(home, thread=thread)
            await reply(home.environment.client, home, "Firefox")
            await home.until_status("awaiting_reporter", "investigating", "pending_verification")
            await home.send(
                replace(
                    home.message(
                        MessageKind.CLOSE, SenderType.REPORTER, "U0REPORTER", "", "1900000001.1"
                    )
                )
            )
            assert await home.handle.result() == "resolved"
            history = await home.handle.fetch_history()
    assert agent.batches[1] == ["Firefox"]
    assert keys_of(history) == told
    monkeypatch.setenv("THREADLINE_PAYLOAD_KEYS", ",".join(AS_TEXT[key.id] for key in after.keys))
    await replayer().replay_workflow(history)


async def test_message_waits_until_the_worker_has_its_key(
    database: Database, agent_database: Database, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The gateway got its key first. A converter that does not know the key would drop the
    signal.
    """
    agent = Agent(AgentStore(agent_database), [ASK, POST])
    async with dev_server(tmp_path) as address:
        async with case_scene_at(address, None, database, agent_database, agent) as home:
            await home.report()
            await home.until_status("awaiting_reporter")
            gateway = await Client.connect(address, data_converter=data_converter(KeyRing((A,))))
            await reply(gateway, home, "Firefox")

            async def said() -> bool:
                return "under the key 'a', and THREADLINE_PAYLOAD_KEYS is not set" in caplog.text

            await home.until(said, "the worker says which key is missing")
            assert agent.batches == [["The cart total is wrong"]]
            thread = home.thread
        async with case_scene_at(address, KeyRing((A,)), database, agent_database, agent) as home:
            home = replace(home, thread=thread)
            await home.until_status("awaiting_reporter", "investigating", "pending_verification")
    assert agent.batches[1] == ["Firefox"]


async def test_turn_waits_until_the_agents_worker_has_the_key(
    database: Database, agent_database: Database, tmp_path: Path
) -> None:
    agent = Agent(AgentStore(agent_database), [POST])
    async with dev_server(tmp_path) as address:
        async with case_scene_at(
            address, KeyRing((A,)), database, agent_database, agent, agents_have_keys=False
        ) as home:
            await home.report()

            async def said() -> bool:
                told = await home.handle.query(
                    "__temporal_workflow_metadata", result_type=WorkflowMetadata
                )
                return (
                    "under the key 'a', and THREADLINE_PAYLOAD_KEYS is not set"
                    in told.current_details
                )

            await home.until(said, "the UI says which key the agents' worker lacks")
            await home.until_said(
                "BUG-1"
            )  # a worker that stops amid this post leaves a claim of most of a minute
            thread = home.thread
        async with case_scene_at(address, KeyRing((A,)), database, agent_database, agent) as home:
            home = replace(home, thread=thread)
            await home.until_status("new", "investigating", "pending_verification")
    assert agent.batches == [["The cart total is wrong"]]


async def test_replay_without_the_key_names_the_missing_one(
    database: Database, agent_database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        dev_server(tmp_path) as address,
        case_scene_at(address, KeyRing((A,)), database, agent_database) as home,
    ):
        await home.report()
        await home.until_status("pending_verification")
        history = await home.handle.fetch_history()
    for given, sentence in (
        ("", "THREADLINE_PAYLOAD_KEYS is not set"),
        (AS_TEXT["b"], "add it after the others"),
    ):
        monkeypatch.setenv("THREADLINE_PAYLOAD_KEYS", given)
        result = await replayer().replay_workflow(history, raise_on_replay_failure=False)
        assert "under the key 'a'" in str(result.replay_failure)
        assert sentence in str(result.replay_failure)
