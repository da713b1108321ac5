"""Payloads that are too large or cannot be decoded are kept or refused, and never dropped
silently.
"""

from collections.abc import Sequence
from dataclasses import asdict, replace

import pytest
import structlog
from temporalio.api.common.v1 import Payload, Payloads, WorkflowExecution
from temporalio.api.workflowservice.v1 import SignalWorkflowExecutionRequest
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.converter import PayloadCodec

from tests.limits.scene import LoadScene
from threadline.cases.model import BUG_WORKFLOW, BugState, CaseLimits
from threadline.cases.store.messages import CaseMessageStore
from threadline.db.engine import Database
from threadline.gateway.router import NotAccepted
from threadline.gateway.routes import Route, RouteTarget
from threadline.slack.model import MAX_TEXT, Thread
from threadline.threads.contract import ROUTE_REPLY_WORKFLOW
from threadline.threads.model import CLOSE_REQUESTED, CORE_QUEUE, INCOMING_MESSAGE
from threadline.threads.store import Quarantine, QuarantinedMessage

MIB = 1024 * 1024


async def _signal(ground: LoadScene, workflow_id: str, name: str, *payloads: Payload) -> None:
    """A signal with exactly these bytes."""
    await ground.client.workflow_service.signal_workflow_execution(
        SignalWorkflowExecutionRequest(
            namespace=ground.client.namespace,
            workflow_execution=WorkflowExecution(workflow_id=workflow_id),
            signal_name=name,
            input=Payloads(payloads=payloads),
        )
    )


async def _quarantine(ground: LoadScene) -> list[QuarantinedMessage]:
    async with ground.database.begin() as tx:
        return await Quarantine(tx).messages(100)


def _payload(encoding: str, data: bytes) -> Payload:
    return Payload(metadata={"encoding": encoding.encode()}, data=data)


UNREADABLE = {
    "broken JSON": _payload("json/plain", b'{"id": "T1:C1:1.0", "text": "half a mess'),
    "an encoding that nobody knows": _payload(
        "binary/encrypted", b"\x00\xffsecret of another key"
    ),
    "no encoding": Payload(data=b"words"),
    "an encoding that is no text": Payload(metadata={"encoding": b"\xff\xfe"}, data=b"words"),
    "half a character": _payload("json/plain", b'"\xc3"'),
    "a number without end": _payload("json/plain", b"9" * 5000),
    "bytes": _payload("binary/plain", b"\x00\x01"),
    "nothing": _payload("binary/null", b""),
    "a protobuf": _payload("json/protobuf", b"{}"),
    "nesting without end": _payload("json/plain", b"[" * 10_000 + b"]" * 10_000),
    "keys that are no text": _payload("json/plain", b'{"id": {"a": 1}, "ts": null}'),
}


async def test_undecodable_payload_is_kept_in_the_case_and_logged(
    ground: LoadScene,
) -> None:
    thread = ground.thread()
    with structlog.testing.capture_logs() as logged:
        async with ground.working():
            await ground.deliver(thread, ground.report(thread))
            for payload in UNREADABLE.values():
                await _signal(ground, ground.handle(thread).id, INCOMING_MESSAGE, payload)
            await _signal(
                ground, ground.handle(thread).id, CLOSE_REQUESTED, UNREADABLE["broken JSON"]
            )
            await _signal(
                ground,
                ground.handle(thread).id,
                "a_name_of_next_year",
                _payload("json/plain", b'"new"'),
            )
            await ground.deliver(thread, ground.message(thread, 1, "and on it goes"))
            await ground.until_stored()
            assert await ground.task_failures() == {}
    kept = await _quarantine(ground)
    assert {message.thread for message in kept} == {thread}
    assert len(kept) == len(UNREADABLE) + 2
    shown = "\n".join(message.text for message in kept)
    for words in ("half a mess", "binary/encrypted", "a_name_of_next_year"):
        assert words in shown
    told = [line for line in logged if line["event"] == "message_quarantined"]
    assert {line["message"] for line in told} == {message.message_id for message in kept}
    assert {line["log_level"] for line in told} == {"error"}
    assert "half a mess" not in str(told)


@pytest.mark.parametrize("workflow", [BUG_WORKFLOW, ROUTE_REPLY_WORKFLOW])
async def test_undecodable_payload_is_kept_without_a_case(
    ground: LoadScene, workflow: str
) -> None:
    thread = Thread("T1", "C0REPORTS", "1600000000.000001")
    start = BugState(thread=thread) if workflow == BUG_WORKFLOW else thread
    with structlog.testing.capture_logs() as logged:
        async with ground.working():
            handle = await ground.client.start_workflow(
                workflow, start, id="w", task_queue=CORE_QUEUE, start_signal=INCOMING_MESSAGE,
                start_signal_args=[["no", "envelope"]],
            )  # fmt: skip
            await handle.result()
    [kept] = await _quarantine(ground)
    assert kept.thread == thread
    assert kept.text == '[["no", "envelope"]]'
    assert [line["log_level"] for line in logged if line["event"] == "message_quarantined"] == [
        "error"
    ]


async def test_the_same_unreadable_signal_twice_is_kept_once_and_another_is_kept_too(
    ground: LoadScene,
) -> None:
    thread = ground.thread()
    first, second = (_payload("binary/encrypted", b"x" * 60_000 + end) for end in (b"1", b"2"))
    async with ground.working():
        await ground.deliver(thread, ground.report(thread))
        for payload in (first, first, second):
            await _signal(ground, ground.handle(thread).id, INCOMING_MESSAGE, payload)

        async def both() -> bool:
            return len(await _quarantine(ground)) == 2

        await ground.until(both, "both are kept")
    assert all(len(message.text) <= MAX_TEXT for message in await _quarantine(ground))


class Keys(PayloadCodec):
    """Encrypts nothing, but refuses payloads written with a key that it does not have."""

    def __init__(self, *known: bytes) -> None:
        self.known = known

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [
            Payload(
                metadata={"encoding": b"test", "key": self.known[0]}, data=p.SerializeToString()
            )
            for p in payloads
        ]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [self._opened(payload) for payload in payloads]

    def _opened(self, payload: Payload) -> Payload:
        if payload.metadata.get("key", b"") not in self.known:
            raise ValueError(f"there is no key {payload.metadata.get('key')!r}")
        return Payload.FromString(payload.data)


async def test_a_key_that_the_worker_lacks_stops_the_case_until_it_is_there_and_loses_nothing(
    ground: LoadScene,
) -> None:
    async def with_keys(*known: bytes) -> Client:
        converter = replace(pydantic_data_converter, payload_codec=Keys(*known))
        return await Client.connect(
            ground.client.service_client.config.target_host, data_converter=converter
        )

    thread = ground.thread()
    gateway = ground.router(await with_keys(b"new", b"old"))
    behind = await with_keys(b"old")
    said = [ground.report(thread), ground.message(thread, 1)]
    for message in said:
        await gateway.deliver(Route(RouteTarget.CASE, thread, message))
    ground.sent = {message.id: message for message in said}

    async def failed() -> bool:
        return sum((await ground.task_failures()).values()) > 0

    async with ground.working(client=behind):
        await ground.until(failed, "the task fails, where people see it")
    async with ground.working(client=await with_keys(b"new", b"old")):
        await ground.until_stored()
    assert not await _quarantine(ground)


async def test_two_mebibytes_are_refused_to_the_sender_and_leave_no_trace(
    ground: LoadScene,
) -> None:
    thread = ground.thread()
    message = replace(ground.report(thread), text="x" * 2 * MIB)
    with pytest.raises(NotAccepted) as refusal:
        await ground.router().deliver(Route(RouteTarget.CASE, thread, message))
    assert "Temporal refuses" in str(refusal.value.__cause__)
    assert [run async for run in ground.client.list_workflows()] == []


async def test_largest_messages_that_the_server_takes_are_cut_and_stored(
    ground: LoadScene,
) -> None:
    thread = ground.thread()
    message = replace(ground.message(thread, 1), text="x" * (2 * MIB - 20_000))
    names = [{**asdict(ground.message(thread, 10 + n)), "id": f"{n}" * MIB} for n in range(3)]
    many = [{"id": f"F{n}", "name": "n" * 900} for n in range(1800)]
    files = [{**asdict(ground.message(thread, 20 + n)), "files": many} for n in range(2)]
    await ground.deliver(thread, ground.report(thread))
    handle = ground.handle(thread)
    for given in (asdict(message), *names, *files):
        await handle.signal(INCOMING_MESSAGE, given)
    ground.sent |= {
        each.id: each for each in (message, ground.message(thread, 20), ground.message(thread, 21))
    }
    async with ground.working(CaseLimits(max_history_events=15)):
        await ground.deliver(thread, ground.message(thread, 30))
        await ground.until_stored()
        await ground.deliver(thread, ground.message(thread, 31))
        await ground.until_stored()
        assert await ground.faults() == []
        assert await ground.runs("ContinuedAsNew") > 0
    async with ground.database.begin() as tx:
        lengths = [len(entry.text) for entry in (await CaseMessageStore(tx).page("BUG-1")).entries]
    assert max(lengths) == MAX_TEXT
    assert [kept.thread for kept in await _quarantine(ground)] == [thread] * 3


async def test_many_large_messages_at_once_never_outgrow_a_batch_or_the_next_run(
    ground: LoadScene, database: Database, agent_database: Database
) -> None:
    """Each message has the largest size that the gateway accepts, 160 kB; thirteen of them exceed
    the server's limit.
    """
    thread = ground.thread()
    said = [(thread, ground.message(thread, number, "🪲" * MAX_TEXT)) for number in range(1, 41)]
    async with ground.working(CaseLimits(max_history_events=15)):
        await ground.deliver(thread, ground.report(thread))
        await ground.deliver_all(said, at_once=len(said))
        await ground.until_stored(60)
        assert await ground.faults() == []

        async def continued_twice() -> bool:
            return await ground.runs("ContinuedAsNew") > 1

        await ground.until(
            continued_twice, "it has continued as new with what was left, and once more"
        )
