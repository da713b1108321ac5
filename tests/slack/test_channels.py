"""Where something may be posted for whom: the bot is there, and they may read it."""

from dataclasses import replace
from typing import Any

import pytest

from threadline.slack.channels import ChannelRefused, Channels
from threadline.slack.client import Slack
from threadline_devstack.slack import SlackSandbox
from threadline_devstack.slack.identity import BOT_USER, BYSTANDER, DEVELOPER, GENERAL
from threadline_devstack.slack.model import User


@pytest.fixture
def channels(slack: Slack) -> Channels:
    return Channels(slack)


@pytest.mark.parametrize("named", [GENERAL, f" {GENERAL} ", f"<#{GENERAL}>", f"<#{GENERAL}|general>"])
async def test_a_public_channel_is_open_to_everybody_of_the_workspace(channels: Channels, named: str) -> None:
    assert await channels.admit(named, DEVELOPER) == GENERAL


@pytest.mark.parametrize(
    ("named", "says"),
    [
        ("#general", "give an id"),
        ("", "give an id"),
        ("C" * 100, "give an id"),
        ("<!channel>", "give an id"),
        ("C0NOWHERE", "does not show the bot"),
    ],
)
async def test_what_is_no_channel_is_refused(channels: Channels, named: str, says: str) -> None:
    with pytest.raises(ChannelRefused, match=says):
        await channels.admit(named, DEVELOPER)


async def test_the_bot_has_to_be_there_and_the_channel_in_use(channels: Channels, sandbox: SlackSandbox) -> None:
    without = sandbox.workspace.create_channel("without", [DEVELOPER])
    with pytest.raises(ChannelRefused, match="/invite"):
        await channels.admit(without.id, DEVELOPER)
    old = sandbox.workspace.create_channel("old", [DEVELOPER, BOT_USER])
    sandbox.workspace.archive(old.id)
    with pytest.raises(ChannelRefused, match="archived"):
        await channels.admit(old.id, DEVELOPER)


async def test_a_private_channel_is_open_to_its_members_alone(channels: Channels, sandbox: SlackSandbox) -> None:
    private = sandbox.workspace.create_channel("board", [BOT_USER, DEVELOPER])
    private.is_private = True
    assert await channels.admit(private.id, DEVELOPER) == private.id
    with pytest.raises(ChannelRefused, match="is not in the channel"):
        await channels.admit(private.id, BYSTANDER)


@pytest.mark.parametrize("kind", ["is_restricted", "is_ultra_restricted", "is_stranger"])
async def test_a_guest_sees_only_the_channels_that_they_are_in(
    channels: Channels, sandbox: SlackSandbox, kind: str
) -> None:
    guest: dict[str, Any] = {kind: True}
    sandbox.workspace.add_user(replace(User("U0GUEST", "guest", "guest"), **guest))
    with pytest.raises(ChannelRefused, match="is not in the channel"):
        await channels.admit(GENERAL, "U0GUEST")
    sandbox.workspace.join(GENERAL, "U0GUEST")
    assert await channels.admit(GENERAL, "U0GUEST") == GENERAL


async def test_a_direct_message_is_ones_own(channels: Channels, sandbox: SlackSandbox) -> None:
    own = sandbox.workspace.open_im(DEVELOPER)
    assert await channels.admit(own.id, DEVELOPER) == own.id
    with pytest.raises(ChannelRefused, match="is not in the channel"):
        await channels.admit(own.id, BYSTANDER)


async def test_who_has_left_the_workspace_may_read_nothing(channels: Channels, sandbox: SlackSandbox) -> None:
    own = sandbox.workspace.open_im(DEVELOPER)
    sandbox.workspace.users[DEVELOPER] = replace(sandbox.workspace.users[DEVELOPER], deleted=True)
    for channel in (GENERAL, own.id):
        with pytest.raises(ChannelRefused, match="is not in the channel"):
            await channels.admit(channel, DEVELOPER)
