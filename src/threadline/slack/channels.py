"""Check that the bot may post in a channel for a user: the bot is a member, and the user may read
the channel.
"""

import re
from collections.abc import Mapping
from contextlib import aclosing
from functools import partial
from typing import Any

from slack_sdk.errors import SlackApiError

from threadline.errors import Permanent
from threadline.slack.client import SlackClient, pages
from threadline.slack.errors import error_name, translated

_ID = re.compile(r"(?:<#)?([CDG][A-Z0-9]{2,40})(?:\|[^<>]*)?>?")
_PAGE = 1000
_PAGES = 50
"""Pages of a channel's members that are read: a member after the first 50,000 is not found."""


class ChannelAccess:
    """Asks Slack on each call, since people leave channels."""

    def __init__(self, slack: SlackClient) -> None:
        self._slack = slack

    async def admit(self, channel: str, user_id: str) -> str:
        """Return the id of a channel in which the bot may post on behalf of `user_id`.

        Every member of the workspace may read a public channel. Guests and members of other
        companies must be members of the channel; in a private channel or a group message, so must
        everybody. A direct message can be read only by its own user. A deactivated user may read
        nothing.

        Raises:
            Permanent: there is no such channel, it is archived, the bot is not a member, or the
                user may not read it.
            Transient: Slack did not answer.
        """
        match = _ID.fullmatch(channel.strip())
        if match is None:
            raise Permanent(f"{channel[:60]!r} is not a channel id: give an id such as C012AB3CD")
        channel = match[1]
        async with translated(f"channel {channel}"):
            try:
                answer = await self._slack.client.conversations_info(channel=channel)
            except SlackApiError as exc:
                if error_name(exc) != "channel_not_found":
                    raise
                raise Permanent(
                    f"Slack does not show the bot a channel {channel}: invite it there."
                ) from exc
        found = dict(answer.get("channel") or {})
        if found.get("is_archived"):
            raise Permanent(f"The channel {channel} is archived: name another one.")
        # Slack shows the other kinds of channels only to their members.
        if not any(found.get(each) for each in ("is_member", "is_im", "is_mpim")):
            raise Permanent(
                f"The bot is not in the channel {channel}: type `/invite` and its name there."
            )
        if not await self._may_read(channel, found, user_id):
            raise Permanent(
                f"{user_id} is not in the channel {channel}, so nothing is posted there for them."
            )
        return channel

    async def _may_read(self, channel: str, found: Mapping[str, Any], user_id: str) -> bool:
        user = await self._slack.user(user_id)
        if user and user.deactivated:
            return False
        if found.get("is_im"):
            return bool(found.get("user") == user_id)
        everybodys = not any(
            found.get(each) for each in ("is_private", "is_mpim", "is_ext_shared")
        )
        if everybodys and user and not (user.guest or user.external):
            return True
        fetch = partial(self._slack.client.conversations_members, channel=channel, limit=_PAGE)
        count = 0
        async with aclosing(pages(fetch, f"channel {channel}")) as members:
            async for page in members:
                count += 1
                if user_id in (page.get("members") or ()):
                    return True
                if count == _PAGES:
                    break
        return False
