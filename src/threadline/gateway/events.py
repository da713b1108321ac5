"""Slack's JSON becomes a route: one table says, first match wins, where an event goes or why it goes nowhere.

Pure and total: any JSON gets a route, since an exception here would refuse the event for ever.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from threadline.domain import addressing, messages, phrases
from threadline.domain.addressing import Thread
from threadline.domain.messages import FileRef, IncomingMessage
from threadline.domain.redaction import redact, redact_files
from threadline.domain.rich_text import mappings, string, text_of, words_of

_SLACKBOT = "USLACKBOT"


class IgnoreReason(StrEnum):
    """Why an event reaches no workflow; each is counted."""

    NOT_A_MESSAGE = "not_a_message"
    MENTION = "mention"
    """In a channel that the bot is in, the message itself comes as well: with its files, which a mention lacks."""
    OWN_MESSAGE = "own_message"
    BOT_MESSAGE = "bot_message"
    SUBTYPE = "subtype"
    MISSING_FIELDS = "missing_fields"
    OTHER_CHANNEL = "other_channel"
    UNFURL = "unfurl"
    THIRD_PARTY = "third_party"
    ROOT_IN_CASE_CHANNEL = "root_in_case_channel"
    NOT_A_CASE_THREAD = "not_a_case_thread"
    OTHER_COMPANY = "other_company"
    """In a channel shared by Slack Connect: such people count as neither reporters nor developers."""
    STRANGER = "stranger"
    """Somebody whom Slack does not show to the workspace."""
    GUEST = "guest"


@dataclass(frozen=True)
class RoutingConfig:
    """Which channels are listened to, and who the bot is (from `auth.test`). A channel that is not used is empty."""

    reports_channel: str
    summaries_channel: str
    escalation_channel: str
    bot_user_id: str
    bot_id: str
    external_people: frozenset[str] = frozenset()
    """Channels in which people of other companies count like others."""


@dataclass(frozen=True)
class Start:
    """A report: the root message of `thread`."""

    thread: Thread
    message: IncomingMessage


@dataclass(frozen=True)
class Message:
    """Something for the case that was reported in `thread`."""

    thread: Thread
    message: IncomingMessage


@dataclass(frozen=True)
class Close:
    """The reporter asks to close the case that was reported in `thread`."""

    thread: Thread
    message: IncomingMessage


@dataclass(frozen=True)
class Lookup:
    """A reply in `thread`, which the bot opened in a developers' channel; whose case it is has to be looked up."""

    thread: Thread
    message: IncomingMessage


@dataclass(frozen=True)
class Ignored:
    reason: IgnoreReason


Route = Start | Message | Close | Lookup | Ignored


def route(body: Mapping[str, Any], config: RoutingConfig) -> Route:
    """Say where an event goes.

    Args:
        body: what Slack delivered (https://docs.slack.dev/reference/events/message), or any other JSON object.
        config: the channels and the bot's own ids.
    """
    post = _read(body)
    return next(outcome(post) for matches, outcome in _RULES if matches(post, config))


@dataclass(frozen=True)
class _Post:
    """What one event says of one message; a field that Slack left out is empty. `kind` is empty unless it corrects."""

    type: str
    kind: str
    team: str
    channel: str
    ts: str
    root: str
    user: str
    home: str
    parent_user: str
    subtype: str
    bot_id: str
    text: str
    version: str
    reworded: bool
    files: tuple[FileRef, ...]

    @property
    def is_root(self) -> bool:
        return self.root == self.ts

    @property
    def thread(self) -> Thread:
        return Thread(self.team, self.channel, self.root)


def _read(body: Mapping[str, Any]) -> _Post:
    event = _object(body, "event")
    kind, said, before = _correction(event)
    ts = string(said, "ts") or (string(event, "deleted_ts") if kind == messages.DELETION else "")
    return _Post(
        type=string(event, "type"),
        kind=kind,
        team=_team(body),
        channel=string(event, "channel"),
        ts=ts,
        root=string(said, "thread_ts") or ts,
        user=string(said, "user"),
        home=string(said, "user_team"),
        # Under a deleted root the parent is Slackbot, which says as little of the root's author as nothing.
        parent_user=string(said, "parent_user_id").replace(_SLACKBOT, ""),
        subtype=string(said, "subtype"),
        bot_id=string(said, "bot_id"),
        text="" if kind == messages.DELETION else text_of(said),
        version=(string(_object(said, "edited"), "ts") or string(event, "ts")) if kind == messages.EDIT else "",
        reworded=words_of(said) != words_of(before),
        files=() if kind == messages.DELETION else _files(said),
    )


def _correction(event: Mapping[str, Any]) -> tuple[str, Mapping[str, Any], Mapping[str, Any]]:
    """The kind of correction, the message it is about, and that message as it was before."""
    after, before = _object(event, "message"), _object(event, "previous_message")
    match string(event, "subtype"):
        # A root that has replies is not deleted: Slack puts a tombstone of its own in its place.
        case "message_changed" if string(after, "subtype") == "tombstone":
            return messages.DELETION, before, before
        case "message_changed":
            return messages.EDIT, after, before
        case "message_deleted":
            return messages.DELETION, before, before
    return "", event, {}


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


def _envelope(post: _Post, kind: str, sender_type: str) -> IncomingMessage:
    """What travels, without secrets: nothing behind this, Temporal included, ever holds one that was recognised."""
    identity = original = addressing.message_id(post.team, post.channel, post.ts)
    if post.kind == messages.EDIT:
        identity = addressing.edit_id(post.team, post.channel, post.ts, post.version)
    elif post.kind == messages.DELETION:
        identity = addressing.deletion_id(post.team, post.channel, post.ts)
    return IncomingMessage(
        id=identity,
        kind=post.kind or kind,
        sender_type=sender_type,
        sender_id=post.user,
        text=redact(post.text)[: messages.MAX_TEXT],
        channel=post.channel,
        ts=post.ts,
        correction_of=original if post.kind else "",
        version=post.version,
        files=redact_files(post.files),
    )


def _start(post: _Post) -> Route:
    return Start(post.thread, _envelope(post, messages.REPORT, messages.REPORTER))


def _lookup(post: _Post) -> Route:
    return Lookup(post.thread, _envelope(post, messages.MESSAGE, messages.DEVELOPER))


def _reply(sender_type: str) -> Callable[[_Post], Route]:
    """A reply in a report's thread; only a reporter may close, and whether an unknown one is that the case decides."""

    def outcome(post: _Post) -> Route:
        closes = not post.kind and phrases.is_close(post.text)
        message = _envelope(post, messages.CLOSE if closes else messages.MESSAGE, sender_type)
        if closes and sender_type == messages.REPORTER:
            return Close(post.thread, message)
        return Message(post.thread, message)

    return outcome


def _ignore(reason: IgnoreReason) -> Callable[[_Post], Route]:
    ignored = Ignored(reason)
    return lambda _: ignored


def _own(post: _Post, config: RoutingConfig) -> bool:
    return bool(
        (post.user and post.user == config.bot_user_id) or (post.bot_id and post.bot_id == config.bot_id),
    )


def _complete(post: _Post) -> bool:
    """Slack may tell of a deletion without telling whose message it was."""
    return all((post.team, post.channel, post.ts, post.user or post.kind == messages.DELETION))


_SUBTYPES = ("", "file_share", "thread_broadcast", "me_message")

_RULES: tuple[tuple[Callable[[_Post, RoutingConfig], bool], Callable[[_Post], Route]], ...] = (
    (lambda post, _: post.type == "app_mention", _ignore(IgnoreReason.MENTION)),
    (lambda post, _: post.type != "message", _ignore(IgnoreReason.NOT_A_MESSAGE)),
    (_own, _ignore(IgnoreReason.OWN_MESSAGE)),
    (
        lambda post, _: bool(post.bot_id) or post.subtype == "bot_message" or post.user == _SLACKBOT,
        _ignore(IgnoreReason.BOT_MESSAGE),
    ),
    (lambda post, _: post.subtype not in _SUBTYPES, _ignore(IgnoreReason.SUBTYPE)),
    (lambda post, _: not _complete(post), _ignore(IgnoreReason.MISSING_FIELDS)),
    (
        lambda post, at: post.home not in ("", post.team) and post.channel not in at.external_people,
        _ignore(IgnoreReason.OTHER_COMPANY),
    ),
    (lambda post, _: post.kind == messages.EDIT and not post.reworded, _ignore(IgnoreReason.UNFURL)),
    # The reports channel: its roots are reports, and a thread belongs to who wrote the root.
    (lambda post, at: post.channel == at.reports_channel and post.is_root and not post.kind, _start),
    (lambda post, at: post.channel == at.reports_channel and post.is_root, _reply(messages.REPORTER)),
    (lambda post, at: post.channel == at.reports_channel and not post.parent_user, _reply(messages.UNKNOWN)),
    (
        lambda post, at: post.channel == at.reports_channel and post.parent_user == post.user,
        _reply(messages.REPORTER),
    ),
    (lambda post, at: post.channel == at.reports_channel, _ignore(IgnoreReason.THIRD_PARTY)),
    # The developers' channels: a case's thread is one that the bot opened.
    (
        lambda post, at: post.channel not in (at.summaries_channel, at.escalation_channel),
        _ignore(IgnoreReason.OTHER_CHANNEL),
    ),
    (lambda post, _: post.is_root, _ignore(IgnoreReason.ROOT_IN_CASE_CHANNEL)),
    (lambda post, at: post.parent_user in ("", at.bot_user_id), _lookup),
    (lambda *_: True, _ignore(IgnoreReason.NOT_A_CASE_THREAD)),
)
"""Who may write in which thread, in the order in which it is decided."""
