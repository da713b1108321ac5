"""Slack's tokens as people read them: names of users, channels and groups, which call nobody."""

import re
from collections.abc import Collection, Mapping

from threadline.slack.mrkdwn import link

_TOKEN = re.compile(r"<(?P<kind>[@#!]|(?=(?:https?|mailto|tel):))(?P<target>[^<>|\s]+)(?:\|(?P<label>[^<>\n]*))?>")
_USER_ID = re.compile(r"[UW][A-Z0-9_]+")
_CHANNEL_ID = re.compile(r"[CDG][A-Z0-9_]+")
_GROUP = "subteam^"
_GROUP_NAME = re.compile(r"here|channel|everyone|group|subteam\^[A-Z0-9]+")
NO_NAMES: Mapping[str, str] = {}


def plain_tokens(text: str, names: Mapping[str, str] = NO_NAMES, kept: Collection[str] = ()) -> str:
    """A text in which Slack's tokens are plain names, and its links are links in Markdown.

    `<@U1>` is `@Ana` where `names` has the user, else `@U1`; `<#C1|general>` is `#general`; `<!here>` is `@here`.

    Args:
        names: of users, by their ids.
        kept: ids of users whose mentions stay live.
    """

    def plain(token: re.Match[str]) -> str:
        kind, target, label = token["kind"], token["target"], (token["label"] or "").strip()
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
