"""Slack's JSON, read: what one event says of one message, and the envelope in which that travels.

Total: any JSON can be read, and a field that is missing or of another type is empty.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from threadline.privacy.redaction import redact
from threadline.slack.model import MAX_TEXT, FileRef, Thread
from threadline.slack.redaction import redact_files
from threadline.slack.rich_text import mappings, string, text_of, words_of
from threadline.slack.text import remove_mention
from threadline.threads import phrases
from threadline.threads.model import (
    IncomingMessage,
    MessageKind,
    SenderType,
    deletion_id,
    edit_id,
    message_id,
    reaction_id,
    stop_id,
)

SLACKBOT = "USLACKBOT"
REACTION_ADDED, REACTION_REMOVED = "reaction_added", "reaction_removed"
REACTIONS = (REACTION_ADDED, REACTION_REMOVED)


@dataclass(frozen=True)
class Post:
    """What one event says of one message; a field that Slack left out is empty. `kind` is empty unless it corrects.

    `words` are the author's own, `text` has those of what they share as well. A reaction has the place of the message
    that it is put on or taken from, whose author is `about`, and the user who did so at `moment`.
    """

    type: str
    kind: MessageKind | None
    team: str
    channel: str
    channel_type: str
    ts: str
    root: str
    user: str
    home: str
    parent_user: str
    subtype: str
    bot_id: str
    words: str
    text: str
    version: str
    reworded: bool
    files: tuple[FileRef, ...]
    reaction: str
    about: str
    moment: str

    @property
    def is_root(self) -> bool:
        return self.root == self.ts

    @property
    def is_direct(self) -> bool:
        """In the channel of one person and the bot; https://docs.slack.dev/reference/events/message.im."""
        return self.channel_type == "im"

    def is_sign_to(self, bot_user_id: str) -> bool:
        """Whether it is a reaction that says something to the bot: a stop sign, or a thumb on what the bot has said.

        Slack leaves out whose message it is where an app's hook has written it.
        """
        if phrases.thumb(self.reaction) is not None:
            return self.about in ("", bot_user_id)
        return self.type == REACTION_ADDED and self.reaction in phrases.STOP_SIGNS

    @property
    def thread(self) -> Thread:
        return Thread(self.team, self.channel, self.root)

    @property
    def id(self) -> str:
        return message_id(self.team, self.channel, self.ts)


def read(body: Mapping[str, Any]) -> Post:
    """Read what Slack delivered: https://docs.slack.dev/reference/events/message, or a reaction."""
    event = _object(body, "event")
    kind, said, before = _correction(event)
    item, kind_of_event = _object(event, "item"), string(event, "type")
    reaction = string(event, "reaction") if kind_of_event in REACTIONS else ""
    ts = string(said, "ts") or (string(event, "deleted_ts") if kind == MessageKind.DELETION else "")
    ts = string(item, "ts") if reaction else ts
    return Post(
        type=kind_of_event,
        kind=kind,
        team=_team(body),
        channel=string(item if reaction else event, "channel"),
        channel_type=string(event, "channel_type"),
        ts=ts,
        root=string(said, "thread_ts") or ts,
        user=string(said, "user"),
        home=string(said, "user_team"),
        # Under a deleted root the parent is Slackbot, which says as little of the root's author as nothing.
        parent_user=string(said, "parent_user_id").replace(SLACKBOT, ""),
        subtype=string(said, "subtype"),
        bot_id=string(said, "bot_id"),
        words=words_of(said),
        text="" if kind == MessageKind.DELETION else text_of(said),
        version=(string(_object(said, "edited"), "ts") or string(event, "ts")) if kind == MessageKind.EDIT else "",
        reworded=words_of(said) != words_of(before),
        files=() if kind == MessageKind.DELETION else _files(said),
        reaction=reaction,
        about=string(event, "item_user") if reaction else "",
        moment=string(event, "event_ts"),
    )


def envelope(
    post: Post,
    kind: MessageKind,
    sender_type: SenderType,
    *,
    unsaid: str = "",
    addressed: bool = False,
    root_author_id: str = "",
) -> IncomingMessage:
    """What travels, without secrets: nothing behind this, Temporal included, ever holds one that was recognised.

    Args:
        post: what was read.
        kind: what the message is unless it corrects another.
        sender_type: as far as the event says so.
        unsaid: the user whose mentions are left out: the bot's own are no part of what it is asked.
        addressed: it is meant for the bot.
        root_author_id: whoever else is part of the thread, since they wrote its root.
    """
    identity = post.id
    if post.kind == MessageKind.EDIT:
        identity = edit_id(post.team, post.channel, post.ts, post.version)
    elif post.kind == MessageKind.DELETION:
        identity = deletion_id(post.team, post.channel, post.ts)
    text = remove_mention(post.text, unsaid) if unsaid else post.text
    return IncomingMessage(
        id=identity,
        kind=post.kind or kind,
        sender_type=sender_type,
        sender_id=post.user,
        text=redact(text)[:MAX_TEXT],
        channel=post.channel,
        ts=post.ts,
        correction_of=post.id if post.kind else "",
        version=post.version,
        files=redact_files(post.files),
        addressed=addressed,
        root_author_id=root_author_id,
    )


def sign(post: Post) -> IncomingMessage:
    """What a reaction says: to stop, when it was put there; or that a thumb is on a message, or not any more."""
    if phrases.thumb(post.reaction) is not None:
        kind = MessageKind.REACTION_ADDED if post.type == REACTION_ADDED else MessageKind.REACTION_REMOVED
        return IncomingMessage(
            id=reaction_id(post.team, post.channel, post.ts, post.user, post.reaction, post.moment),
            kind=kind,
            sender_type=SenderType.UNKNOWN,
            sender_id=post.user,
            text=post.reaction,
            channel=post.channel,
            ts=post.moment,
            correction_of=post.id,
        )
    identity = stop_id(post.team, post.channel, post.ts, post.user, post.moment)
    return IncomingMessage(identity, MessageKind.STOP, SenderType.UNKNOWN, post.user, "", post.channel, post.moment)


def _correction(event: Mapping[str, Any]) -> tuple[MessageKind | None, Mapping[str, Any], Mapping[str, Any]]:
    """The kind of correction, the message it is about, and that message as it was before."""
    after, before = _object(event, "message"), _object(event, "previous_message")
    match string(event, "subtype"):
        # A root that has replies is not deleted: Slack puts a tombstone of its own in its place.
        case "message_changed" if string(after, "subtype") == "tombstone":
            return MessageKind.DELETION, before, before
        case "message_changed":
            return MessageKind.EDIT, after, before
        case "message_deleted":
            return MessageKind.DELETION, before, before
    return None, event, {}


def _team(body: Mapping[str, Any]) -> str:
    """The workspace of the installation: in a shared channel the event itself may name the author's."""
    named = (string(granted, "team_id") for granted in mappings(body.get("authorizations")))
    return string(body, "team_id") or next(filter(None, named), "")


def _object(source: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = source.get(name)
    return value if isinstance(value, Mapping) else {}


def _files(said: Mapping[str, Any]) -> tuple[FileRef, ...]:
    return tuple(
        FileRef(id=string(item, "id"), name=string(item, "name"), mimetype=string(item, "mimetype"), size=_size(item))
        for item in mappings(said.get("files"))
        if string(item, "id") and item.get("mode") != "tombstone"
    )


def _size(item: Mapping[str, Any]) -> int:
    size = item.get("size")
    return size if isinstance(size, int) and size >= 0 else 0
