"""SlackEvent: Slack's JSON, parsed, and the envelope in which a message travels. Total: every JSON
object can be parsed, and a field that is missing or has another type is empty.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from threadline.privacy.redaction import redact
from threadline.slack.fields import string_field
from threadline.slack.formatting import redact_files
from threadline.slack.model import BOT_NAME, MAX_TEXT, FileRef, Thread
from threadline.slack.text import (
    app_team_of,
    apps_of,
    files_of,
    read_text,
    without_leading_mention,
)
from threadline.threads import phrases
from threadline.threads.model import (
    INFERRED,
    IncomingMessage,
    MessageKind,
    SenderType,
    absence_id,
    deletion_id,
    edit_id,
    message_id,
    reaction_id,
    stop_id,
)

SLACKBOT = "USLACKBOT"
REACTION_ADDED = "reaction_added"
REACTION_REMOVED = "reaction_removed"
REACTIONS = (REACTION_ADDED, REACTION_REMOVED)


@dataclass(frozen=True)
class SlackEvent:
    """One event about one message (https://docs.slack.dev/reference/events/message), or a
    reaction.

    - `correction`: EDIT or DELETION; None for any other event;
    - `words`: the author's words, for rules; `text`: the same, or the attachments of an app;
    - `forwarded`: the text that the author forwards or quotes. No rule reads it;
    - `as_written`: the author's words with the quotes in their places; empty where nothing is
      quoted;
    - `team`: our own workspace, also for an event in another company's channel;
    - `author_team`: the author's workspace, where the event names it; for an app that posts under
      no user, the one whose installation posted it. `users.info` is the authority;
    - `calls`: the ids of users whom it mentions outside of code and quotes;
    - `text_changed`: the words or a pasted table differ from those before the edit;
    - `files_removed`: the edit removed a file from the message;
    - `version`: the `ts` of an edit;
    - `apps`: the ids of the bot and of the app through which it was posted. A person may post
      through an app, so these ids do not make the author one. `app_team` is the workspace whose
      installation of it posted;
    - `by_own_app`: posted through the very app that gets the event, perhaps by another workspace's
      installation of it;
    - `item_user`: the author of the message that a reaction is on; `channel` and `ts` are that
      message's, and `user` added the reaction;
    - `event_ts`: the time of the event;
    - `is_inferred`: the catch-up inferred this deletion without an event.
    """

    type: str
    correction: MessageKind | None
    team: str
    channel: str
    channel_type: str
    ts: str
    thread_ts: str
    user: str
    author_team: str
    parent_user: str
    subtype: str
    apps: tuple[str, ...]
    app_team: str
    by_own_app: bool
    words: str
    text: str
    forwarded: str
    as_written: str
    calls: frozenset[str]
    version: str
    text_changed: bool
    files_removed: bool
    files: tuple[FileRef, ...]
    reaction: str
    item_user: str
    event_ts: str
    is_inferred: bool = False

    @property
    def sender(self) -> str:
        """The author: a user, or the bot or the app where Slack names no user."""
        return self.user or next(iter(self.apps), "")

    @property
    def is_root(self) -> bool:
        return self.thread_ts == self.ts

    @property
    def is_direct(self) -> bool:
        """Whether it is in the channel of one person and the bot;
        https://docs.slack.dev/reference/events/message.im.
        """
        return self.channel_type == "im"

    def is_reaction_to_bot(self, bot_user_id: str) -> bool:
        """Return whether it is a reaction that addresses the bot: a stop sign, or a thumb on one
        of the bot's messages. Slack omits the author of a message that an app's hook wrote.
        """
        if phrases.thumb(self.reaction) is not None:
            return self.item_user in ("", bot_user_id)
        return self.type == REACTION_ADDED and self.reaction in phrases.STOP_SIGNS

    @property
    def thread(self) -> Thread:
        return Thread(self.team, self.channel, self.thread_ts)

    @property
    def id(self) -> str:
        return message_id(self.team, self.channel, self.ts)


def is_of_installation(body: Mapping[str, Any], team: str) -> bool:
    """Return whether Slack delivered this to the installation in `team`, our workspace.

    An app that several workspaces have installed gets the events of all of them at one address.
    `context_team_id` names the workspace through which the app gets an event. In a channel that
    companies share, Slack delivers once for all installations and chooses the context, so there
    the context excludes nothing. `team_id` is the workspace where the event happened, and
    `authorizations` names one arbitrary installation: neither identifies the event's installation.
    Source: https://docs.slack.dev/apis/events-api
    """
    context = string_field(body, "context_team_id")
    return context in ("", team) or body.get("is_ext_shared_channel") is True


def parse(body: Mapping[str, Any], team: str) -> SlackEvent:
    """Parse a delivery from Slack, or any other JSON object.

    Args:
        body: the delivery.
        team: our workspace, from `auth.test`. Any team that the delivery names is ignored.
    """
    event = _object(body, "event")
    correction, said, before = _correction(event)
    item = _object(event, "item")
    event_type = string_field(event, "type")
    reaction = string_field(event, "reaction") if event_type in REACTIONS else ""
    ts = string_field(said, "ts") or (
        string_field(event, "deleted_ts") if correction == MessageKind.DELETION else ""
    )
    ts = string_field(item, "ts") if reaction else ts
    own_app = string_field(body, "api_app_id")
    is_edit = correction == MessageKind.EDIT
    is_gone = correction == MessageKind.DELETION
    user = string_field(said, "user")
    apps = apps_of(said)
    app_team = app_team_of(said)
    told = read_text(said)
    user_team = string_field(said, "user_team") or string_field(said, "source_team")
    return SlackEvent(
        type=event_type,
        correction=correction,
        team=team,
        channel=string_field(item if reaction else event, "channel"),
        channel_type=string_field(event, "channel_type"),
        ts=ts,
        thread_ts=string_field(said, "thread_ts") or ts,
        user=user,
        author_team=user_team if user else app_team,
        # Under a deleted root the parent is Slackbot, which says nothing about the root's author.
        parent_user=string_field(said, "parent_user_id").replace(SLACKBOT, ""),
        subtype=string_field(said, "subtype"),
        apps=apps,
        app_team=app_team if apps else "",
        by_own_app=bool(own_app) and string_field(said, "app_id") == own_app,
        words=told.written,
        text="" if is_gone else told.text,
        forwarded="" if is_gone else told.forwarded,
        as_written="" if is_gone else told.as_written,
        calls=told.calls,
        version=_version(event, said, before) if is_edit else "",
        text_changed=is_edit and told.own != read_text(before).own,
        files_removed=is_edit and _removes_files(said, before),
        files=() if is_gone else files_of(said),
        reaction=reaction,
        item_user=string_field(event, "item_user") if reaction else "",
        event_ts=string_field(event, "event_ts"),
        is_inferred=event.get(INFERRED) is True,
    )


def incoming_message(
    event: SlackEvent,
    kind: MessageKind,
    sender_type: SenderType,
    *,
    without_mention_of: str = "",
    bot_name: str = BOT_NAME,
    addressed: bool = False,
    root_author_id: str = "",
) -> IncomingMessage:
    """Build the envelope of an event; see `IncomingMessage` for the fields.

    Recognised secrets are redacted, so neither Temporal nor Postgres ever stores them.

    Args:
        kind: the kind of a message that is no correction.
        sender_type: as far as the event tells it.
        without_mention_of: the bot's user, whose leading mention is removed, and whose other
            mentions become `bot_name`; empty to keep all mentions.
    """
    identity = event.id
    if event.correction == MessageKind.EDIT:
        identity = edit_id(event.team, event.channel, event.ts, event.version)
    elif event.correction == MessageKind.DELETION:
        make_id = absence_id if event.is_inferred else deletion_id
        identity = make_id(event.team, event.channel, event.ts)
    text = event.text
    if without_mention_of:
        text = without_leading_mention(text, without_mention_of, bot_name)
    return IncomingMessage(
        id=identity,
        kind=event.correction or kind,
        sender_type=sender_type,
        sender_id=event.sender,
        text=redact(text)[:MAX_TEXT],
        channel=event.channel,
        ts=event.ts,
        correction_of=event.id if event.correction else "",
        version=event.version,
        files=redact_files(event.files),
        addressed=addressed,
        root_author_id=root_author_id,
        forwarded=redact(event.forwarded)[:MAX_TEXT],
        as_written=redact(event.as_written)[:MAX_TEXT],
        files_removed=event.files_removed,
    )


def reaction_message(event: SlackEvent) -> IncomingMessage:
    """Build the envelope of a reaction: a thumb that was added or removed, or a stop sign that was
    added.
    """
    user = event.user
    at = event.event_ts
    if phrases.thumb(event.reaction) is None:
        stop = stop_id(event.team, event.channel, event.ts, user, at)
        return IncomingMessage(
            stop,
            MessageKind.STOP,
            SenderType.UNKNOWN,
            sender_id=user,
            text="",
            channel=event.channel,
            ts=at,
        )
    thumb = reaction_id(event.team, event.channel, event.ts, user, event.reaction, at)
    kind = (
        MessageKind.REACTION_ADDED
        if event.type == REACTION_ADDED
        else MessageKind.REACTION_REMOVED
    )
    said = event.reaction
    return IncomingMessage(
        thumb,
        kind,
        SenderType.UNKNOWN,
        sender_id=user,
        text=said,
        channel=event.channel,
        ts=at,
        correction_of=event.id,
    )


def _correction(
    event: Mapping[str, Any],
) -> tuple[MessageKind | None, Mapping[str, Any], Mapping[str, Any]]:
    """Return the kind of correction, the message it is about, and that message as it was
    before.
    """
    after = _object(event, "message")
    before = _object(event, "previous_message")
    match string_field(event, "subtype"):
        # A root that has replies is not deleted: Slack replaces it with a tombstone.
        case "message_changed" if string_field(after, "subtype") == "tombstone":
            return MessageKind.DELETION, before, before
        case "message_changed":
            return MessageKind.EDIT, after, before
        case "message_deleted":
            return MessageKind.DELETION, before, before
    return None, event, {}


def _version(event: Mapping[str, Any], said: Mapping[str, Any], before: Mapping[str, Any]) -> str:
    """Return the `ts` of a change. If only a file was removed, `edited` still names the previous
    edit.
    """
    edited = string_field(_object(said, "edited"), "ts")
    is_new = edited and edited != string_field(_object(before, "edited"), "ts")
    return edited if is_new else string_field(event, "ts") or edited


def _removes_files(said: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    """Return whether an edit or deletion removed files. Slack omits a file that an edit removes
    from the message, and puts a tombstone where a file was deleted.
    """
    left = {file.id for file in files_of(said)}
    return any(file.id not in left for file in files_of(before))


def _object(source: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = source.get(name)
    return value if isinstance(value, Mapping) else {}
