"""Clicks over Slack's own transport: the sandbox's message with buttons, Socket Mode, the gateway,
Temporal.
"""

from collections.abc import Callable
from typing import Any

import pytest
from slack_sdk.web.async_client import AsyncWebClient
from temporalio.client import Client

from tests.gateway.conftest import ROUTING, SOCKET, KnownThreads
from tests.support.faulty_sandboxes import FaultySlack
from threadline.approvals.contract import approval_workflow_id
from threadline.approvals.model import APPROVE, REJECT, button_value
from threadline.conversations.blocks import answer_of, help_message
from threadline.conversations.help import ASK_EXAMPLE, is_example
from threadline.conversations.model.conversation import (
    ConversationTurn,
    conversation_workflow_id,
)
from threadline.conversations.model.handover import Handover, handover_workflow_id
from threadline.gateway.router import EventRouter
from threadline.handovers import blocks
from threadline.handovers.model import REPLY
from threadline.slack.client import SlackClient
from threadline.slack.model import Thread
from threadline.threads.model import (
    BUTTON_PRESSED,
    INCOMING_MESSAGE,
    ButtonPress,
    IncomingMessage,
)
from threadline_devstack.slack import identity
from threadline_devstack.slack.delivery import ACK_TIMEOUT

pytestmark = pytest.mark.asyncio(loop_scope="session")

HASH = "5e" * 32


async def posted(slack: AsyncWebClient, action_id: str) -> str:
    """A message with an approval's buttons, as the product posts it."""
    record = {
        "action_id": action_id,
        "action_hash": HASH,
        "does": "Do it",
        "approvers": [identity.DEVELOPER],
    }
    [message] = answer_of("I propose this.", [("approval", [record])])
    answer = await slack.chat_postMessage(
        channel=identity.GENERAL, text=message.text, blocks=list(message.blocks)
    )
    return str(answer["ts"])


async def test_each_click_is_acknowledged_when_temporal_has_it(
    serving: Callable[..., Any],
    sandbox: FaultySlack,
    slack: AsyncWebClient,
    temporal: Client,
    threads: KnownThreads,
) -> None:
    async with serving(
        SOCKET, EventRouter(ROUTING, temporal, threads), slack, temporal
    ) as process:
        ts = await posted(slack, "ACT-71")
        assert await sandbox.click(identity.DEVELOPER, identity.GENERAL, ts, APPROVE)
        assert await sandbox.click(identity.REPORTER, identity.GENERAL, ts, REJECT)
        assert (await process.counts())["button_press"] == 2

    clicks = []
    handle = temporal.get_workflow_handle(approval_workflow_id(identity.TEAM, "ACT-71"))
    async for event in handle.fetch_history_events():
        signal = event.workflow_execution_signaled_event_attributes
        if signal.signal_name == BUTTON_PRESSED:
            clicks += await temporal.data_converter.decode(
                list(signal.input.payloads), [ButtonPress]
            )
    told = [(each.user_id, each.action_id, each.value, each.thread_ts) for each in clicks]
    value = button_value("ACT-71", HASH)
    assert told == [
        (identity.DEVELOPER, APPROVE, value, ts),
        (identity.REPORTER, REJECT, value, ts),
    ]
    assert len({each.key for each in clicks}) == 2


async def help_in_a_thread(slack: AsyncWebClient, sandbox: FaultySlack) -> tuple[str, str]:
    """A help with two examples in a thread, as the product posts it: the thread and the help."""
    root = sandbox.workspace.post(identity.GENERAL, identity.REPORTER, "help").ts
    message = help_message("Press an example:", ("Which bugs are open?", "Which RFPs are open?"))
    answer = await slack.chat_postMessage(
        channel=identity.GENERAL,
        thread_ts=root,
        text=message.text,
        blocks=list(message.blocks),
    )
    return root, str(answer["ts"])


async def test_pressed_example_is_acknowledged_when_temporal_has_it_as_a_message(
    serving: Callable[..., Any],
    sandbox: FaultySlack,
    slack: AsyncWebClient,
    temporal: Client,
    threads: KnownThreads,
) -> None:
    async with serving(
        SOCKET, EventRouter(ROUTING, temporal, threads), slack, temporal
    ) as process:
        root, ts = await help_in_a_thread(slack, sandbox)
        second = f"{ASK_EXAMPLE}:2"
        for user in (identity.DEVELOPER, identity.DEVELOPER, identity.REPORTER):
            assert await sandbox.click(user, identity.GENERAL, ts, second)
        assert (await process.counts())["conversation"] == 3

    thread = Thread(identity.TEAM, identity.GENERAL, root)
    handle = temporal.get_workflow_handle(conversation_workflow_id(thread))
    asked = list[IncomingMessage]()
    async for event in handle.fetch_history_events():
        signal = event.workflow_execution_signaled_event_attributes
        if signal.signal_name == INCOMING_MESSAGE:
            asked += await temporal.data_converter.decode(
                list(signal.input.payloads), [IncomingMessage]
            )
    assert [each.sender_id for each in asked] == [
        identity.DEVELOPER,
        identity.DEVELOPER,
        identity.REPORTER,
    ]
    assert {each.text for each in asked} == {"Which RFPs are open?"}
    assert all(each.addressed and is_example(each.id) for each in asked)
    assert asked[0].id == asked[1].id != asked[2].id


async def test_reply_of_a_card_is_written_in_a_modal_and_signalled(
    serving: Callable[..., Any],
    sandbox: FaultySlack,
    slack: AsyncWebClient,
    temporal: Client,
    threads: KnownThreads,
) -> None:
    ref = ConversationTurn(Thread(identity.TEAM, identity.GENERAL, "1789999990.000100"), 4)
    card = blocks.card(Handover(1, ref, identity.REPORTER), "I want my money back")
    answer = await slack.chat_postMessage(
        channel=identity.ESCALATIONS, text=card.text, blocks=list(card.blocks)
    )
    router = EventRouter(ROUTING, temporal, threads, open_view=SlackClient(slack).open_view)
    async with serving(SOCKET, router, slack, temporal) as process:
        assert await sandbox.click(
            identity.DEVELOPER, identity.ESCALATIONS, str(answer["ts"]), REPLY
        )
        view = sandbox.workspace.view_of(identity.DEVELOPER)
        assert view
        assert await sandbox.submit(identity.DEVELOPER, view.id, {REPLY: "We pay it back."})
        assert sandbox.workspace.view_of(identity.DEVELOPER) is None
        counts = await process.counts()
        assert (counts["modal_opened"], counts["modal_sent"]) == (1, 1)
        sandbox.faults.refuse("views.open", "expired_trigger_id")
        sandbox.deliveries._ack_timeout = ACK_TIMEOUT
        assert not await sandbox.click(
            identity.DEVELOPER, identity.ESCALATIONS, str(answer["ts"]), REPLY
        )

    handle = temporal.get_workflow_handle(handover_workflow_id(ref.thread, 4))
    texts = list[str]()
    async for event in handle.fetch_history_events():
        signal = event.workflow_execution_signaled_event_attributes
        if signal.signal_name == BUTTON_PRESSED:
            presses = await temporal.data_converter.decode(
                list(signal.input.payloads), [ButtonPress]
            )
            texts += [each.text for each in presses]
    assert texts == ["We pay it back."]


async def test_click_that_temporal_does_not_take_is_not_acknowledged(
    serving: Callable[..., Any],
    sandbox: FaultySlack,
    slack: AsyncWebClient,
    absent_temporal: Client,
    threads: KnownThreads,
) -> None:
    async with serving(
        SOCKET, EventRouter(ROUTING, absent_temporal, threads), slack, absent_temporal
    ):
        ts = await posted(slack, "ACT-72")
        assert not await sandbox.click(identity.DEVELOPER, identity.GENERAL, ts, APPROVE)
        _, shown = await help_in_a_thread(slack, sandbox)
        example = f"{ASK_EXAMPLE}:1"
        assert not await sandbox.click(identity.DEVELOPER, identity.GENERAL, shown, example)
