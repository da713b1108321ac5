"""The messages of a channel and a thread, although Slack returns them in pages of any length."""

import asyncio
import contextlib

import pytest

from tests.support.faulty_sandboxes import FaultySlack
from threadline.slack.client import SlackClient
from threadline.slack.history import BURST, History, RateLimiter
from threadline_devstack.slack.identity import BOT_USER, REPORTER, REPORTS


async def test_short_or_empty_page_is_not_the_last(
    sandbox: FaultySlack, slack: SlackClient
) -> None:
    said = [
        sandbox.workspace.post(REPORTS, REPORTER, f"report {number}").ts for number in range(5)
    ]
    history = History(slack)
    latest = f"{float(said[-1]) + 1:.6f}"
    seen = list[str]()
    more = True
    sandbox.faults.short("conversations.history", 0)
    sandbox.faults.short("conversations.history", 2, count=2)
    while more:
        page, more = await history.channel_page(REPORTS, "0", latest)
        seen += [str(message["ts"]) for message in page]
        latest = seen[-1]
    assert seen == said[::-1]


async def test_thread_in_short_pages_is_read_to_its_end(
    sandbox: FaultySlack, slack: SlackClient
) -> None:
    root = sandbox.workspace.post(REPORTS, REPORTER, "report").ts
    replies = [
        sandbox.workspace.post(REPORTS, REPORTER, "more", thread_ts=root).ts for _ in range(4)
    ]
    sandbox.faults.short("conversations.replies", 2)
    sandbox.faults.short("conversations.replies", 0)
    shown = [message["ts"] async for message in History(slack).thread_messages(REPORTS, root, "0")]
    assert shown == [root, *replies]


async def test_message_is_shown_until_it_is_deleted(
    sandbox: FaultySlack, slack: SlackClient
) -> None:
    history = History(slack)
    root = sandbox.workspace.post(REPORTS, REPORTER, "report").ts
    reply = sandbox.workspace.post(REPORTS, REPORTER, "more", thread_ts=root).ts
    assert await history.exists(REPORTS, root)
    assert await history.exists(REPORTS, reply)
    sandbox.workspace.delete(REPORTS, root)
    assert not await history.exists(REPORTS, root), "a tombstone is shown there"
    assert await history.exists(REPORTS, reply)
    sandbox.workspace.delete(REPORTS, reply)
    assert not await history.exists(REPORTS, reply)


async def test_all_channels_and_direct_messages_of_the_bot_are_listed(
    sandbox: FaultySlack, slack: SlackClient
) -> None:
    direct = sandbox.workspace.open_im(REPORTER).id
    sandbox.workspace.create_channel("without", [REPORTER])
    archived = sandbox.workspace.create_channel("old", [BOT_USER])
    archived.is_archived = True
    sandbox.faults.short("users.conversations", 1)
    mine = {place.id for place in sandbox.workspace.channels.values() if BOT_USER in place.members}
    found = await History(slack).bot_channels()
    assert sorted(found) == sorted(mine - {archived.id})
    assert direct in found


async def test_cancelled_wait_for_a_call_uses_no_slot() -> None:
    limiter = RateLimiter(clock=lambda: 0.0)
    for _ in range(int(BURST)):
        await limiter.acquire()
    for _ in range(100):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.001):
                await limiter.acquire()
    assert limiter._left == pytest.approx(0.0), "a call that was never made uses no slot"
