"""Whether something may be posted in a channel for somebody: the bot is there, and they may read it."""

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
"""Of a channel's members: whoever is not among the first 50,000 is not found."""


class ChannelAccess:
    """Asks Slack each time, since people leave channels."""

    def __init__(self, slack: SlackClient) -> None:
        self._slack = slack

    async def admit(self, channel: str, user_id: str) -> str:
        """The id of a channel in which the bot may post what `user_id` asks for. A public channel may be read by every
        member of the workspace; a guest, somebody of another company, and everybody in a private channel or a group
        message has to be in it. A direct message is one's own. Whoever has left the workspace may read nothing. Raises
        `Permanent` when there is no such channel, it is archived, the bot is not in it, or they may not read it, and
        `Transient` when Slack did not say."""
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
                raise Permanent(f"Slack does not show the bot a channel {channel}: invite it there.") from exc
        found = dict(answer.get("channel") or {})
        if found.get("is_archived"):
            raise Permanent(f"The channel {channel} is archived: name another one.")
        # The others are shown to members alone.
        if not any(found.get(each) for each in ("is_member", "is_im", "is_mpim")):
            raise Permanent(f"The bot is not in the channel {channel}: type `/invite` and its name there.")
        if not await self._may_read(channel, found, user_id):
            raise Permanent(f"{user_id} is not in the channel {channel}, so nothing is posted there for them.")
        return channel

    async def _may_read(self, channel: str, found: Mapping[str, Any], user_id: str) -> bool:
        user = await self._slack.user(user_id)
        if user and user.deactivated:
            return False
        if found.get("is_im"):
            return bool(found.get("user") == user_id)
        everybodys = not any(found.get(each) for each in ("is_private", "is_mpim", "is_ext_shared"))
        if everybodys and user and not (user.guest or user.external):
            return True
        fetch, count = partial(self._slack.client.conversations_members, channel=channel, limit=_PAGE), 0
        async with aclosing(pages(fetch, f"channel {channel}")) as members:
            async for page in members:
                count += 1
                if user_id in (page.get("members") or ()):
                    return True
                if count == _PAGES:
                    break
        return False
