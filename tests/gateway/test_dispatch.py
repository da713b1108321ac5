"""A route becomes one signal that Temporal has accepted, or an error that says it has not."""

import time
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHandle
from temporalio.service import RPCError

from tests.gateway.conftest import KnownThreads, within_slacks_limit
from tests.gateway.slack_events import CONFIG, edit, outcome
from tests.gateway.slack_events import said as slack_message
from threadline.cases.model import BugState, bug_workflow_id
from threadline.gateway.router import EventRouter, NotAccepted
from threadline.gateway.routes import Route, RouteTarget
from threadline.slack.model import Thread
from threadline.threads.contract import Handled, route_reply_workflow_id
from threadline.threads.model import (
    IncomingMessage,
    MessageKind,
    SenderType,
    message_id,
    parse_message,
)
from threadline.threads.workflow_client import CHANNEL_ATTRIBUTE

pytestmark = pytest.mark.asyncio(loop_scope="session")

_serial = count(1)


def new_thread(channel: str = "C_REPORTS") -> Thread:
    return Thread("T1", channel, f"{time.time_ns() // 1_000_000_000}.{next(_serial):06d}")


def said(
    thread: Thread,
    *,
    kind: MessageKind = MessageKind.MESSAGE,
    ts: str = "",
    sender: SenderType = SenderType.REPORTER,
) -> IncomingMessage:
    return IncomingMessage(
        id=message_id(thread.team, thread.channel, ts or thread.ts),
        kind=kind,
        sender_type=sender,
        sender_id="U1",
        text="it breaks",
        channel=thread.channel,
        ts=ts or thread.ts,
    )


async def accepted(handle: WorkflowHandle[Any, Any]) -> list[tuple[str, IncomingMessage]]:
    """The signals in a workflow's history, which is where Temporal keeps them until a worker
    comes.
    """
    history = await handle.fetch_history()
    found = [e.workflow_execution_signaled_event_attributes for e in history.events]
    return [
        (s.signal_name, parse_message(await decoded(handle, s.input.payloads)))
        for s in found
        if s.signal_name
    ]


async def decoded(
    handle: WorkflowHandle[Any, Any], payloads: Any, types: list[type] | None = None
) -> list[Any]:
    return await handle._client.data_converter.decode(payloads, types)


async def started_with(handle: WorkflowHandle[Any, Any], state: type) -> Any:
    first = (await handle.fetch_history()).events[0].workflow_execution_started_event_attributes
    return (await decoded(handle, first.input.payloads, [state]))[0]


async def test_report_starts_its_case(temporal: Client, threads: KnownThreads) -> None:
    thread = new_thread()
    report = said(thread, kind=MessageKind.REPORT)

    assert (
        await outcome(
            EventRouter(CONFIG, temporal, threads), Route(RouteTarget.CASE, thread, report)
        )
        == "report"
    )

    handle = temporal.get_workflow_handle(bug_workflow_id(thread))
    assert await accepted(handle) == [("incoming_message", report)]
    assert await started_with(handle, BugState) == BugState(thread=thread)
    described = await handle.describe()
    assert (described.workflow_type, described.task_queue) == (
        "BugInvestigationWorkflow",
        "threadline",
    )
    assert described.typed_search_attributes[CHANNEL_ATTRIBUTE] == "C_REPORTS"


async def test_messages_of_a_case_reach_one_run_in_order(
    temporal: Client, threads: KnownThreads
) -> None:
    thread = new_thread()
    router = EventRouter(CONFIG, temporal, threads)
    report = said(thread, kind=MessageKind.REPORT)
    reply = said(thread, ts="2.0")
    close = said(thread, kind=MessageKind.CLOSE, ts="3.0")

    await router.deliver(Route(RouteTarget.CASE, thread, report))
    run = (await temporal.get_workflow_handle(bug_workflow_id(thread)).describe()).run_id
    await router.deliver(Route(RouteTarget.CASE, thread, report))
    await router.deliver(Route(RouteTarget.CASE, thread, reply))
    assert await outcome(router, Route(RouteTarget.CASE, thread, close)) == "close"

    handle = temporal.get_workflow_handle(bug_workflow_id(thread))
    assert (await handle.describe()).run_id == run
    assert await accepted(handle) == [
        ("incoming_message", report),
        ("incoming_message", report),
        ("incoming_message", reply),
        ("close_requested", close),
    ]


async def test_message_after_the_end_starts_a_new_run(
    temporal: Client, threads: KnownThreads
) -> None:
    thread = new_thread()
    router = EventRouter(CONFIG, temporal, threads)
    await router.deliver(Route(RouteTarget.CASE, thread, said(thread)))
    handle = temporal.get_workflow_handle(bug_workflow_id(thread))
    first = (await handle.describe()).run_id
    await handle.terminate()
    late = said(thread, ts="9.0")

    await router.deliver(Route(RouteTarget.CASE, thread, late))

    described = await handle.describe()
    assert described.run_id != first
    assert described.status is WorkflowExecutionStatus.RUNNING
    assert await accepted(handle) == [("incoming_message", late)]


async def test_developers_reply_reaches_the_case_of_its_thread(
    temporal: Client, threads: KnownThreads
) -> None:
    case = new_thread()
    summary = new_thread("C_SUMMARIES")
    threads.cases[summary.ts] = case
    reply = said(summary, sender=SenderType.DEVELOPER)

    router = EventRouter(CONFIG, temporal, threads)
    assert await outcome(router, Route(RouteTarget.CASE_THREAD, summary, reply)) == "case_thread"

    assert await accepted(temporal.get_workflow_handle(bug_workflow_id(case))) == [
        ("incoming_message", reply)
    ]
    with pytest.raises(RPCError, match="not found"):
        await temporal.get_workflow_handle(route_reply_workflow_id(summary)).describe()


def missing(_: KnownThreads) -> None:
    """The row is missing, or not there yet."""


def failing(threads: KnownThreads) -> None:
    threads.fails = True


def hanging(threads: KnownThreads) -> None:
    threads.hangs = True


@pytest.mark.usefixtures("real_limits")
@pytest.mark.parametrize("trouble", [missing, failing, hanging])
async def test_reply_whose_case_is_not_found_is_kept(
    temporal: Client, threads: KnownThreads, trouble: Callable[[KnownThreads], None]
) -> None:
    trouble(threads)
    summary = new_thread("C_SUMMARIES")
    reply = said(summary, sender=SenderType.DEVELOPER)

    router = EventRouter(CONFIG, temporal, threads)
    assert (
        await outcome(router, Route(RouteTarget.CASE_THREAD, summary, reply))
        == "case_thread_deferred"
    )

    handle = temporal.get_workflow_handle(route_reply_workflow_id(summary))
    assert await accepted(handle) == [("incoming_message", reply)]
    assert await started_with(handle, Thread) == summary
    assert (await handle.describe()).workflow_type == "RouteReplyWorkflow"


async def test_ignored_event_is_not_delivered(
    absent_temporal: Client, threads: KnownThreads
) -> None:
    unfurled = {
        "type": "event_callback",
        "team_id": "T1",
        "event": edit(slack_message(), slack_message()),
    }
    assert await EventRouter(CONFIG, absent_temporal, threads).handle(unfurled) == Handled(
        "unfurl"
    )


async def test_absent_temporal_is_an_error_within_slacks_three_seconds(
    absent_temporal: Client, threads: KnownThreads
) -> None:
    threads.hangs = True
    thread = new_thread()
    for route in (
        Route(RouteTarget.CASE, thread, said(thread)),
        Route(RouteTarget.CASE_THREAD, thread, said(thread)),
    ):
        async with within_slacks_limit():
            with pytest.raises(NotAccepted, match=f"did not accept T1:C_REPORTS:{thread.ts}"):
                await EventRouter(CONFIG, absent_temporal, threads).deliver(route)
