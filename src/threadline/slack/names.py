"""Slack's tokens as readable names of users, channels and groups, without live mentions."""

import re
from collections.abc import Collection, Mapping

from threadline.slack.mrkdwn import link

_TOKEN = re.compile(
    r"<(?P<kind>[@#!]|(?=(?:https?|mailto|tel):))(?P<target>[^<>|\s]+)(?:\|(?P<label>[^<>\n]*))?>"
)
_USER_ID = re.compile(r"[UW][A-Z0-9_]+")
_CHANNEL_ID = re.compile(r"[CDG][A-Z0-9_]+")
_GROUP = "subteam^"
_GROUP_NAME = re.compile(r"here|channel|everyone|group|subteam\^[A-Z0-9]+")
NO_NAMES: Mapping[str, str] = {}


def plain_tokens(
    text: str, names: Mapping[str, str] = NO_NAMES, kept: Collection[str] = ()
) -> str:
    """Replace Slack's tokens with plain names, and its links with links in Markdown.

    `<@U1>` becomes `@Ana` where `names` has the user, else `@U1`; `<#C1|general>` becomes
    `#general`; `<!here>` becomes `@here`.

    Args:
        names: of users, by their ids.
        kept: ids of users whose mentions stay live.
    """

    def plain(token: re.Match[str]) -> str:
        kind = token["kind"]
        target = token["target"]
        label = (token["label"] or "").strip()
        if not kind:
            return link(target, label)
        if kind == "@" and _USER_ID.fullmatch(target):
            return token[0] if target in kept else f"@{names.get(target) or label or target}"
        if kind == "#" and _CHANNEL_ID.fullmatch(target):
            return f"#{(label or target).removeprefix('#')}"
        if kind == "!" and _GROUP_NAME.fullmatch(target):
            return f"@{(label or target.removeprefix(_GROUP)).removeprefix('@')}"
        return token[0]

    return _TOKEN.sub(plain, text)
