"""Slack's events as pure payloads, and the texts in them;
https://docs.slack.dev/reference/events.
"""

import re
from itertools import groupby
from typing import Any

from threadline_devstack.slack.identity import APP_ID, BOT_USER, TEAM
from threadline_devstack.slack.model import Json, SandboxChannel, SandboxMessage, SandboxUser

_TOKEN = re.compile(r"<([^<>\s][^<>]*)>")
_CODE_BLOCK = re.compile(r"```(.+?)```", re.DOTALL)
_CODE = re.compile(r"`([^`\n]+)`")


def posted(place: SandboxChannel, message: SandboxMessage) -> Json:
    """Return the `message` event of a new message."""
    return message.as_slack() | {
        "channel": place.id,
        "channel_type": place.kind,
        "event_ts": message.ts,
    }


def shared(
    message: SandboxMessage, place: SandboxChannel, author: SandboxUser, base_url: str
) -> Json:
    """Return the attachment of a forwarded message. Slack's reference does not describe it; the
    source is https://github.com/slackapi/java-slack-sdk/issues/1179.
    """
    return {
        "id": 1,
        "ts": message.ts,
        "author_id": author.id,
        "author_name": author.real_name,
        "author_subname": author.real_name,
        "channel_id": place.id,
        "channel_name": place.name or "Direct Message",
        "channel_team": place.host,
        "from_url": f"{base_url}/archives/{place.id}/p{message.ts.replace('.', '')}",
        "is_msg_unfurl": True,
        "is_share": True,
        "message_blocks": [
            {
                "team": message.team,
                "channel": place.id,
                "ts": message.ts,
                "message": {"blocks": message.blocks},
            }
        ],
        "fallback": f"{author.name}: {message.text}",
        "text": message.text,
        "mrkdwn_in": ["text"],
    }


def pasted_tables(text: str) -> tuple[str, list[Json]]:
    """Turn cells that are pasted into a message into an attached table, as Slack's client does. It
    is in neither the text nor the blocks: https://github.com/vercel/chat/issues/803.

    Returns:
        The other lines, and the attachments.
    """
    said: list[str] = []
    attachments: list[Json] = []
    for is_table, lines in groupby(text.split("\n"), lambda line: "\t" in line):
        rows = list(lines)
        if not is_table or len(rows) == 1:
            said += rows
            continue
        cells = [
            [{"type": "raw_text", "text": unescape(cell)} for cell in row.split("\t")]
            for row in rows
        ]
        blocks = [{"type": "table", "block_id": f"table{len(attachments) + 1}", "rows": cells}]
        attachments.append(
            {"id": len(attachments) + 1, "blocks": blocks, "fallback": "[no preview available]"}
        )
    return "\n".join(said).strip("\n"), attachments


def changed(
    place: SandboxChannel, message: SandboxMessage, before: SandboxMessage, moment: str
) -> Json:
    """Return the `message_changed` event: for an edit, a preview that Slack adds, and a deleted
    root whose replies remain.
    """
    both = {"message": message.as_slack(), "previous_message": before.as_slack()}
    return _hidden(place, moment) | {"subtype": "message_changed"} | both


def deleted(place: SandboxChannel, before: SandboxMessage, moment: str) -> Json:
    gone = {"deleted_ts": before.ts, "previous_message": before.as_slack()}
    return _hidden(place, moment) | {"subtype": "message_deleted"} | gone


def reaction(kind: str, message: SandboxMessage, user: str, name: str, moment: str) -> Json:
    """Return a reaction's event. `kind` is `reaction_added` or `reaction_removed`."""
    item = {"type": "message", "channel": message.channel, "ts": message.ts}
    return {
        "type": kind,
        "user": user,
        "reaction": name,
        "item": item,
        "item_user": message.user,
        "event_ts": moment,
    }


def membership(kind: str, place: SandboxChannel, user: str, moment: str) -> Json:
    """Return a membership's event. `kind` is `member_joined_channel` or `member_left_channel`."""
    where = {"channel": place.id, "channel_type": "C", "team": TEAM}
    return {"type": kind, "user": user, "event_ts": moment} | where


def mention_twin(event: Json) -> Json | None:
    """Return the `app_mention` that accompanies a message which mentions the bot, also after an
    edit that still or newly does.

    It carries no `files`: https://docs.slack.dev/reference/events/app_mention.
    """
    if event.get("type") != "message" or event.get("channel_type") == "im":
        return None
    edited = event.get("subtype") == "message_changed"
    message = event["message"] if edited else event
    if edited and "edited" not in message:
        return None
    if (
        message.get("subtype") not in (None, "file_share", "thread_broadcast")
        or message.get("user") == BOT_USER
    ):
        return None
    if not mentions(str(message.get("text", "")), BOT_USER):
        return None
    kept: tuple[str, ...] = (
        "user",
        "text",
        "ts",
        "thread_ts",
        "parent_user_id",
        "client_msg_id",
        "team",
        "user_team",
    )
    kept += ("source_team", "blocks", "edited", "bot_id")
    twin = {name: message[name] for name in kept if name in message}
    return {
        "type": "app_mention",
        "channel": event["channel"],
        "event_ts": event["event_ts"],
    } | twin


def inviting_mention(place: SandboxChannel, moment: str) -> Json | None:
    """Return the `app_mention` of the newest message that mentions the bot. Slack sends only this
    event after the mention led to the bot's invitation.
    """
    for message in reversed(place.messages.values()):
        event = posted(place, message) | {"event_ts": moment}
        if twin := mention_twin(event):
            return twin
    return None


def author(event: Json) -> str:
    """Return the user who caused the event, if it names one."""
    if event.get("subtype") == "message_changed":
        return str(event["message"].get("user", ""))
    if event.get("subtype") == "message_deleted":
        return str(event["previous_message"].get("user", ""))
    user = event.get("user", "")
    return user if isinstance(user, str) else ""


def channel_of(event: Json) -> str:
    """Return the channel's id; empty for an event without a channel."""
    place = event.get("channel", event.get("item", {}).get("channel", ""))
    return place if isinstance(place, str) else ""


def callback(
    event: Json, event_id: str, event_time: int, place: SandboxChannel | None = None
) -> Json:
    """Return the envelope of an event;
    https://docs.slack.dev/apis/events-api#event-type-structure.

    `team_id` is the workspace in which the event happened: the host's, in a channel that companies
    share. `authorizations` has one of the installations that may see the event. `place`: the
    event's channel, if it has one.
    """
    host, context, shared = (
        (place.host, place.context, place.is_shared) if place else (TEAM, TEAM, False)
    )
    authorization = {
        "enterprise_id": None,
        "team_id": context,
        "user_id": BOT_USER,
        "is_bot": True,
    }
    return {
        "token": "sandbox-verification-token",
        "team_id": host,
        "context_team_id": context,
        "context_enterprise_id": None,
        "api_app_id": APP_ID,
        "event": event,
        "type": "event_callback",
        "event_id": event_id,
        "event_time": event_time,
        "authorizations": [authorization | {"is_enterprise_install": False}],
        "is_ext_shared_channel": shared,
        "event_context": f"4-{event_id}",
    }


def _hidden(place: SandboxChannel, moment: str) -> Json:
    common = {"type": "message", "hidden": True, "channel": place.id, "channel_type": place.kind}
    return common | {"ts": moment, "event_ts": moment}


def mentions(text: str, user: str) -> bool:
    """Return whether `text`, in Slack's stored form, mentions `user` (`<@U1>` or `<@U1|name>`)."""
    return re.search(rf"<@{re.escape(user)}(?:\|[^>]*)?>", text) is not None


def rich_text(text: str, block_id: str) -> list[dict[str, Any]]:
    """Return the blocks that Slack's composer makes of `text`: code blocks, quotes, and sections
    with code in a line.

    https://docs.slack.dev/reference/block-kit/blocks/rich-text-block
    """
    elements: list[dict[str, Any]] = []
    position = 0
    for code in _CODE_BLOCK.finditer(text):
        elements += _lines(text[position : code.start()].removesuffix("\n"))
        elements.append(
            {"type": "rich_text_preformatted", "elements": _pieces(code[1].strip("\n"))}
        )
        position = code.end()
        if text[position : position + 1] == "\n":
            position += 1
    elements += _lines(text[position:])
    return [{"type": "rich_text", "block_id": block_id, "elements": elements}] if elements else []


def _lines(text: str) -> list[dict[str, Any]]:
    """Return sections and quotes, in order; `text` is outside of code blocks."""
    elements: list[dict[str, Any]] = []
    for is_quote, lines in groupby(
        text.split("\n") if text else [], lambda line: line.startswith("&gt;")
    ):
        shown = [re.sub(r"^&gt; ?", "", line) if is_quote else line for line in lines]
        kind = "rich_text_quote" if is_quote else "rich_text_section"
        if pieces := _styled("\n".join(shown)):
            elements.append({"type": kind, "elements": pieces})
    return elements


def _styled(text: str) -> list[dict[str, Any]]:
    pieces: list[dict[str, Any]] = []
    position = 0
    for code in _CODE.finditer(text):
        pieces += _pieces(text[position : code.start()])
        pieces += [piece | {"style": {"code": True}} for piece in _pieces(code[1])]
        position = code.end()
    return pieces + _pieces(text[position:])


def _pieces(text: str) -> list[dict[str, Any]]:
    pieces: list[dict[str, Any]] = []
    position = 0
    for match in _TOKEN.finditer(text):
        if match.start() > position:
            pieces.append({"type": "text", "text": unescape(text[position : match.start()])})
        pieces.append(_element(match.group(1)))
        position = match.end()
    if position < len(text):
        pieces.append({"type": "text", "text": unescape(text[position:])})
    return pieces


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
