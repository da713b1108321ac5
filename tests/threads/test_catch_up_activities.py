"""Missed mentions and direct messages are found in every channel of the bot, over the sandbox's
real wire.
"""

import time

import pytest

from tests.conversations.test_catch_up_activities import (
    BOT,
    CALL,
    CHANNELS,
    GENERAL,
    REPORTER,
    CatchUpWorkspace,
    house,
)
from threadline.errors import Permanent
from threadline.slack.history import History
from threadline.threads.catch_up_store import CatchUpStore
from threadline_devstack.slack import identity

__all__ = ["house"]


async def test_mention_and_direct_message_are_found_in_any_channel_of_the_bot(
    house: CatchUpWorkspace,
) -> None:
    random = house.workspace.create_channel("random", [BOT, REPORTER])
    await house.say(f"{CALL} before the installation", kept=False)
    assert await house.look(talk=None) == []

    called = await house.say_in(random.id, f"{CALL} add three items", kept=False)
    await house.say_in(random.id, "lunch?", kept=False)
    direct = house.workspace.open_im(REPORTER)
    asked = await house.say_in(direct.id, "what is open?", kept=False)
    await house.say_in(direct.id, "for the shop", asked, kept=False)

    assert await house.look(deep=False, talk=None) == ["message"] * 3
    assert await house.memory.said(house.thread(called)) == ["add three items"]
    assert await house.memory.said(house.thread(asked)) == ["what is open?", "for the shop"]
    assert await house.look(talk=None) == []


async def test_mention_that_an_edit_brought_is_found_as_a_message(house: CatchUpWorkspace) -> None:
    await house.look(talk=None)
    said = await house.say("add three items", kept=False)
    house.workspace.edit(GENERAL, said.ts, f"{CALL} add three items", by=REPORTER)

    assert await house.look(deep=False, talk=None) == ["message"]
    assert await house.memory.said(house.thread(said)) == ["add three items"]


async def test_channels_without_cases_take_turns(
    house: CatchUpWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("threadline.threads.catch_up.MAX_MEMBER_CHANNELS", 1)
    random = house.workspace.create_channel("random", [BOT, REPORTER])
    await house.look(talk=None)
    for channel in (GENERAL, random.id):
        await house.say_in(channel, f"{CALL} hi", kept=False)

    assert [await house.look(deep=False, talk=None) for _ in range(3)] == [
        ["message"],
        ["message"],
        [],
    ]


async def test_bot_that_may_not_list_its_channels_looks_where_it_was(
    house: CatchUpWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    await house.look(talk=None)
    await house.say(f"{CALL} hi", kept=False)

    async def refused(_: History) -> list[str]:
        raise Permanent("The bot token lacks the scope im:read.")

    monkeypatch.setattr(History, "bot_channels", refused)

    assert await house.look(deep=False, talk=None) == ["message"]


async def test_start_of_a_gateway_forgets_no_channel(house: CatchUpWorkspace) -> None:
    await house.look(talk=None)
    async with house.database.begin() as tx:
        await CatchUpStore(tx, identity.TEAM).follow_channels(CHANNELS, time.time())
    await house.say(f"{CALL} hi", kept=False)

    assert await house.look(deep=False, talk=None) == ["message"]


async def test_channel_that_the_bot_has_left_is_no_longer_read(house: CatchUpWorkspace) -> None:
    await house.look(talk=None)
    house.workspace.leave(GENERAL, BOT)
    await house.look(talk=None)

    async with house.database.begin() as tx:
        followed = await CatchUpStore(tx, identity.TEAM).channels()
    assert {each.channel for each in followed} == set(CHANNELS)
