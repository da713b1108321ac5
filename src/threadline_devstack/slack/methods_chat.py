"""`chat.*` and `reactions.*`; https://docs.slack.dev/reference/methods."""

from collections.abc import Mapping
from typing import Any

from threadline_devstack.slack.arguments import Arguments
from threadline_devstack.slack.blocks import check_blocks, check_text
from threadline_devstack.slack.identity import BOT_ID, BOT_USER
from threadline_devstack.slack.model import Json, Message
from threadline_devstack.slack.refusal import Refused
from threadline_devstack.slack.web_api import Method
from threadline_devstack.slack.workspace import Workspace


class ChatMethods:
    """What the bot may do with messages, under the bot's name."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def table(self) -> Mapping[str, Method]:
        return {
            "chat.postMessage": self.post_message,
            "chat.update": self.update,
            "chat.delete": self.delete,
            "chat.postEphemeral": self.post_ephemeral,
            "chat.getPermalink": self.get_permalink,
            "reactions.add": self.add_reaction,
            "reactions.remove": self.remove_reaction,
            "reactions.get": self.get_reactions,
        }

    def post_message(self, given: Arguments) -> Json:
        place = self._workspace.open_channel(self._target(given))
        if BOT_USER not in place.members:
            raise Refused("not_in_channel")
        content = _content(given)
        message = self._workspace.post(
            place.id,
            BOT_USER,
            given.text("text"),
            thread_ts=given.text("thread_ts"),
            broadcast=given.flag("reply_broadcast"),
            bot_id=BOT_ID,
            username=given.text("username"),
            subtype="bot_message" if given.text("username") else "",
            **content,
        )
        return {"channel": place.id, "ts": message.ts, "message": message.as_slack(include_metadata=True)}

    def update(self, given: Arguments) -> Json:
        place = self._workspace.open_channel(given.text("channel"))
        changes = _content(given)
        if "metadata" not in given:
            del changes["metadata"]
        message = self._workspace.edit(place.id, given.text("ts"), given.text("text"), by=BOT_USER, **changes)
        shown = message.as_slack(include_metadata=True)
        return {"channel": place.id, "ts": message.ts, "text": message.text, "message": shown}

    def delete(self, given: Arguments) -> Json:
        place = self._workspace.open_channel(given.text("channel"))
        self._workspace.delete(place.id, given.text("ts"), by=BOT_USER)
        return {"channel": place.id, "ts": given.text("ts")}

    def post_ephemeral(self, given: Arguments) -> Json:
        content = _content(given)
        ts = self._workspace.post_ephemeral(
            given.text("channel"), given.text("user"), given.text("text"), content["blocks"], given.text("thread_ts")
        )
        return {"message_ts": ts}

    def get_permalink(self, given: Arguments) -> Json:
        message = self._workspace.message(given.text("channel"), given.text("message_ts"))
        link = f"{given.base_url}/archives/{message.channel}/p{message.ts.replace('.', '')}"
        thread = f"?thread_ts={message.thread_ts}&cid={message.channel}" if message.thread_ts else ""
        return {"channel": message.channel, "permalink": link + thread}

    def add_reaction(self, given: Arguments) -> Json:
        message, name = self._reacted(given), _reaction_name(given)
        self._workspace.react(message.channel, message.ts, BOT_USER, name)
        return {}

    def remove_reaction(self, given: Arguments) -> Json:
        message, name = self._reacted(given), _reaction_name(given)
        self._workspace.unreact(message.channel, message.ts, BOT_USER, name)
        return {}

    def get_reactions(self, given: Arguments) -> Json:
        message = self._reacted(given)
        return {"type": "message", "channel": message.channel, "message": message.as_slack()}

    def _target(self, given: Arguments) -> str:
        channel = given.text("channel")
        return self._workspace.open_im(channel).id if channel in self._workspace.users else channel

    def _reacted(self, given: Arguments) -> Message:
        place = self._workspace.channel(given.text("channel"))
        if BOT_USER not in place.members:
            raise Refused("not_in_channel")
        return self._workspace.message(place.id, given.text("timestamp"))


def _content(given: Arguments) -> dict[str, Any]:
    """Blocks, attachments and metadata of a post, checked."""
    text = given.text("text")
    blocks = given.structure("blocks", "invalid_blocks_format") or []
    if given.text("markdown_text"):
        if text or blocks:
            raise Refused("markdown_text_conflict")
        blocks = [{"type": "markdown", "text": given.text("markdown_text")}]
    attachments = given.structure("attachments", "invalid_attachments") or []
    if not (text or blocks or attachments):
        raise Refused("no_text")
    check_text(text)
    return {"blocks": check_blocks(blocks), "attachments": attachments, "metadata": _metadata(given)}


def _metadata(given: Arguments) -> Json | None:
    """https://docs.slack.dev/messaging/message-metadata: a type and a flat payload."""
    metadata = given.structure("metadata", "invalid_metadata_format")
    if metadata is None:
        return None
    if not isinstance(metadata, dict) or not isinstance(metadata.get("event_payload"), dict):
        raise Refused("invalid_metadata_format")
    if not isinstance(metadata.get("event_type"), str) or not metadata["event_type"]:
        raise Refused("invalid_metadata_format")
    return {"event_type": metadata["event_type"], "event_payload": metadata["event_payload"]}


def _reaction_name(given: Arguments) -> str:
    name = given.text("name").strip(":")
    if not name:
        raise Refused("invalid_name")
    return name
