"""Mentions, direct messages and stop signs over Slack's own transport: the sandbox, Socket Mode,
the gateway, Temporal.
"""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio
from slack_sdk.web.async_client import AsyncWebClient
from temporalio.client import Client

from tests.gateway.conftest import ROUTING, SOCKET, KnownThreads, Process
from tests.gateway.test_dispatch import accepted
from tests.support.faulty_sandboxes import FaultySlack
from threadline.conversations.model.conversation import conversation_workflow_id
from threadline.gateway.router import EventRouter
from threadline.slack.model import Thread
from threadline.threads.model import stop_id
from threadline_devstack.slack import identity

pytestmark = pytest.mark.asyncio(loop_scope="session")

CALL = f"<@{identity.BOT_USER}>"


@dataclass
class Floor:
    """A workspace with a gateway at its other end."""

    sandbox: FaultySlack
    temporal: Client
    process: Process

    async def say(self, channel: str, user: str, text: str, thread_ts: str = "") -> Thread:
        posted = self.sandbox.workspace.post(channel, user, text, thread_ts=thread_ts)
        await self.sandbox.settled()
        return Thread(identity.TEAM, posted.channel, thread_ts or posted.ts)

    async def heard(self, thread: Thread) -> list[tuple[str, str, bool]]:
        """The kind and the words of each message that the thread's conversation received."""
        handle = self.temporal.get_workflow_handle(conversation_workflow_id(thread))
        return [
            (message.kind, message.text, message.addressed)
            for _, message in await accepted(handle)
        ]


@pytest_asyncio.fixture(loop_scope="session")
async def floor(
    serving: Callable[..., Any],
    sandbox: FaultySlack,
    slack: AsyncWebClient,
    temporal: Client,
    threads: KnownThreads,
) -> AsyncIterator[Floor]:
    async with serving(
        SOCKET, EventRouter(ROUTING, temporal, threads), slack, temporal
    ) as process:
        yield Floor(sandbox, temporal, process)


async def test_mention_and_its_message_are_one_message(floor: Floor) -> None:
    thread = await floor.say(identity.GENERAL, identity.REPORTER, f"{CALL} add three items")
    await floor.say(identity.GENERAL, identity.REPORTER, "for the shop", thread.ts)
    await floor.say(identity.GENERAL, identity.BYSTANDER, "lunch?")

    assert await floor.heard(thread) == [
        ("message", "add three items", True),
        ("message", "for the shop", False),
    ]
    assert await floor.process.counts() == {
        "mention": 1,
        "conversation": 1,
        "followed_thread": 1,
        "other_channel": 1,
    }


async def test_direct_message_needs_no_mention(floor: Floor) -> None:
    place = floor.sandbox.workspace.open_im(identity.REPORTER)
    thread = await floor.say(place.id, identity.REPORTER, "what is open?")
    await floor.say(place.id, identity.REPORTER, "stop", thread.ts)

    assert await floor.heard(thread) == [
        ("message", "what is open?", True),
        ("stop", "stop", True),
    ]
    assert await floor.process.counts() == {"conversation": 1, "stop": 1}


async def test_stop_sign_on_a_message_of_the_conversation_stops_it(
    floor: Floor, threads: KnownThreads
) -> None:
    thread = await floor.say(identity.GENERAL, identity.REPORTER, f"{CALL} add three items")
    workspace = floor.sandbox.workspace
    answer = workspace.post(
        identity.GENERAL,
        identity.BOT_USER,
        "I am on it",
        thread_ts=thread.ts,
        bot_id=identity.BOT_ID,
    )
    threads.talks[answer.ts] = thread
    for name in ("eyes", "octagonal_sign", "stop_sign"):
        workspace.react(identity.GENERAL, answer.ts, identity.BYSTANDER, name)
        await floor.sandbox.settled()

    assert await floor.heard(thread) == [
        ("message", "add three items", True),
        ("stop", "", False),
        ("stop", "", False),
    ]
    [(_, first), (_, second)] = (
        await accepted(floor.temporal.get_workflow_handle(conversation_workflow_id(thread)))
    )[1:]
    signs = [
        (identity.TEAM, identity.GENERAL, answer.ts, identity.BYSTANDER, each.ts)
        for each in (first, second)
    ]
    assert [first.id, second.id] == [stop_id(*sign) for sign in signs]
    assert first.id != second.id, "a sign that is put there again after another turn stops again"
    assert float(first.ts) > float(answer.ts)


async def test_thumb_on_an_answer_reaches_its_conversation(
    floor: Floor, threads: KnownThreads
) -> None:
    thread = await floor.say(identity.GENERAL, identity.REPORTER, f"{CALL} add three items")
    workspace = floor.sandbox.workspace
    answer = workspace.post(
        identity.GENERAL, identity.BOT_USER, "Done", thread_ts=thread.ts, bot_id=identity.BOT_ID
    )
    beside = workspace.post(identity.GENERAL, identity.BOT_USER, "News", bot_id=identity.BOT_ID)
    threads.talks[answer.ts] = threads.talks[thread.ts] = thread
    for ts in (answer.ts, thread.ts, beside.ts):
        workspace.react(identity.GENERAL, ts, identity.BYSTANDER, "+1::skin-tone-2")
        await floor.sandbox.settled()
    workspace.unreact(identity.GENERAL, answer.ts, identity.BYSTANDER, "+1::skin-tone-2")
    await floor.sandbox.settled()

    assert await floor.heard(thread) == [
        ("message", "add three items", True),
        ("thumb", "+1::skin-tone-2", False),
        ("thumb_taken", "+1::skin-tone-2", False),
    ]
    counts = await floor.process.counts()
    assert (counts["rating"], counts["reaction"], counts["not_followed"]) == (2, 1, 1)


@pytest.mark.usefixtures("real_limits")
async def test_reply_comes_again_until_the_database_answers(
    floor: Floor, threads: KnownThreads
) -> None:
    thread = await floor.say(identity.GENERAL, identity.REPORTER, "lunch?")
    threads.talks[thread.ts] = thread
    threads.refusals = 2
    await floor.say(identity.GENERAL, identity.BYSTANDER, "yes", thread.ts)

    assert await floor.heard(thread) == [("message", "yes", False)]
    assert [each.attempts for each in floor.sandbox.deliveries.log] == [1, 3]
    assert (await floor.process.counts())["not_accepted"] == 2
