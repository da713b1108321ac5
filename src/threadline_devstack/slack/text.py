"""Slack's text: the `rich_text` block that a person's words become, and whom they mention."""

import re
from typing import Any

_TOKEN = re.compile(r"<([^<>\s][^<>]*)>")


def mentions(text: str, user: str) -> bool:
    """Whether `text`, in Slack's stored form, mentions `user` (`<@U1>` or `<@U1|name>`)."""
    return re.search(rf"<@{re.escape(user)}(?:\|[^>]*)?>", text) is not None


def rich_text(text: str, block_id: str) -> list[dict[str, Any]]:
    """The blocks that Slack's composer makes of `text`; https://docs.slack.dev/reference/block-kit/blocks/rich-text-block."""
    elements: list[dict[str, Any]] = []
    position = 0
    for match in _TOKEN.finditer(text):
        if match.start() > position:
            elements.append({"type": "text", "text": unescape(text[position : match.start()])})
        elements.append(_element(match.group(1)))
        position = match.end()
    if position < len(text):
        elements.append({"type": "text", "text": unescape(text[position:])})
    if not elements:
        return []
    section = {"type": "rich_text_section", "elements": elements}
    return [{"type": "rich_text", "block_id": block_id, "elements": [section]}]


def unescape(text: str) -> str:
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def _element(token: str) -> dict[str, Any]:
    target, _, label = token.partition("|")
    if target.startswith("@"):
        return {"type": "user", "user_id": target[1:]}
    if target.startswith("#"):
        return {"type": "channel", "channel_id": target[1:]}
    if target.startswith("!subteam^"):
        return {"type": "usergroup", "usergroup_id": target.removeprefix("!subteam^")}
    if target.startswith("!"):
        return {"type": "broadcast", "range": target[1:]}
    link = {"type": "link", "url": unescape(target)}
    return link | {"text": unescape(label)} if label else link
