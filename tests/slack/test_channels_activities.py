"""Channels in which the bot may post for a user: the bot is a member, and the user may read it."""

from dataclasses import replace
from typing import Any

import pytest

from tests.support.faulty_sandboxes import FaultySlack
from threadline.errors import Permanent
from threadline.slack.channels import ChannelAccess
from threadline.slack.client import SlackClient
from threadline_devstack.slack.identity import BOT_USER, BYSTANDER, DEVELOPER, GENERAL
from threadline_devstack.slack.model import SandboxUser


@pytest.fixture
def channels(slack: SlackClient) -> ChannelAccess:
    return ChannelAccess(slack)


async def test_public_channel_is_open_to_everybody_of_the_workspace(
    channels: ChannelAccess,
) -> None:
    for named in (f" {GENERAL} ", f"<#{GENERAL}>", f"<#{GENERAL}|general>"):
        assert await channels.admit(named, DEVELOPER) == GENERAL


async def test_unknown_channel_is_refused(channels: ChannelAccess) -> None:
    for named in ("#general", "", "C" * 100, "<!channel>"):
        with pytest.raises(Permanent, match="id"):
            await channels.admit(named, DEVELOPER)
    with pytest.raises(Permanent, match="C0NOWHERE"):
        await channels.admit("C0NOWHERE", DEVELOPER)


async def test_channel_without_the_bot_and_archived_channel_are_refused(
    channels: ChannelAccess, sandbox: FaultySlack
) -> None:
    without = sandbox.workspace.create_channel("without", [DEVELOPER])
    with pytest.raises(Permanent, match="/invite"):
        await channels.admit(without.id, DEVELOPER)
    old = sandbox.workspace.create_channel("old", [DEVELOPER, BOT_USER])
    sandbox.workspace.archive(old.id)
    with pytest.raises(Permanent, match="archived"):
        await channels.admit(old.id, DEVELOPER)


async def test_private_channel_and_direct_message_are_open_only_to_their_members(
    channels: ChannelAccess, sandbox: FaultySlack
) -> None:
    private = sandbox.workspace.create_channel("board", [BOT_USER, DEVELOPER])
    private.is_private = True
    for channel in (private.id, sandbox.workspace.open_im(DEVELOPER).id):
        assert await channels.admit(channel, DEVELOPER) == channel
        with pytest.raises(Permanent, match="is not in the channel"):
            await channels.admit(channel, BYSTANDER)


@pytest.mark.parametrize("kind", ["is_restricted", "is_ultra_restricted", "is_stranger"])
async def test_guest_sees_only_the_channels_that_they_are_in(
    channels: ChannelAccess, sandbox: FaultySlack, kind: str
) -> None:
    guest: dict[str, Any] = {kind: True}
    sandbox.workspace.add_user(replace(SandboxUser("U0GUEST", "guest", "guest"), **guest))
    with pytest.raises(Permanent, match="is not in the channel"):
        await channels.admit(GENERAL, "U0GUEST")
    sandbox.workspace.join(GENERAL, "U0GUEST")
    assert await channels.admit(GENERAL, "U0GUEST") == GENERAL


async def test_user_who_left_the_workspace_may_read_nothing(
    channels: ChannelAccess, sandbox: FaultySlack
) -> None:
    own = sandbox.workspace.open_im(DEVELOPER)
    sandbox.workspace.users[DEVELOPER] = replace(sandbox.workspace.users[DEVELOPER], deleted=True)
    for channel in (GENERAL, own.id):
        with pytest.raises(Permanent, match="is not in the channel"):
            await channels.admit(channel, DEVELOPER)
