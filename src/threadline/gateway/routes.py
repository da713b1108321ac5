"""An event becomes a route: one table says, first match wins, where it goes or why it goes nowhere.

Pure and total: any JSON gets a route, since an exception here would refuse the event for ever.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from threadline.gateway import events as posts
from threadline.gateway.events import Post
from threadline.slack.model import AuthorRefusal, Thread
from threadline.slack.text import mentions_in
from threadline.threads import phrases
from threadline.threads.model import IncomingMessage, MessageKind, SenderType
from threadline.threads.workflow_client import WorkflowStart


class IgnoreReason(StrEnum):
    """Why an event reaches no workflow; each is counted."""

    NOT_A_MESSAGE = "not_a_message"
    MENTION = "mention"
    """In a channel that the bot is in, the message itself comes as well: with its files, which a mention lacks."""
    REACTION = "reaction"
    """It is no stop sign and no thumb on what the bot has said, or stands on a case's message."""
    OWN_MESSAGE = "own_message"
    BOT_MESSAGE = "bot_message"
    SUBTYPE = "subtype"
    MISSING_FIELDS = "missing_fields"
    OTHER_CHANNEL = "other_channel"
    """A message to everybody there, without a mention."""
    UNFURL = "unfurl"
    THIRD_PARTY = "third_party"
    ROOT_IN_CASE_CHANNEL = "root_in_case_channel"
    NOT_A_CASE_THREAD = "not_a_case_thread"
    NOT_FOLLOWED = "not_followed"
    """Said among people, in a thread in which nobody has spoken to the bot."""
    STORED = "stored"
    """A word to stop that came again: a conversation beside its thread has it."""
    NO_BUTTON = "no_button"
    """A click on something else than the buttons of an approval or a hand-over."""


@dataclass(frozen=True)
class RoutingConfig:
    """Which channels are those of cases, and who the bot is (from `auth.test`). A channel that is not used is empty."""

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
class Addressed:
    """Somebody speaks to the bot: the conversation of `thread` begins, or goes on."""

    thread: Thread
    message: IncomingMessage


@dataclass(frozen=True)
class Overheard:
    """Something was said or corrected in `thread`; whether the bot is part of a conversation there is looked up."""

    thread: Thread
    message: IncomingMessage


@dataclass(frozen=True)
class Sign:
    """A reaction that says something to the bot, on the message at `place`, its channel and its `ts`.

    Whose thread that is in is looked up. `message` is what it says: to stop, or what an answer was worth.
    """

    place: Thread
    message: IncomingMessage


@dataclass(frozen=True)
class StopWord:
    """A word to stop beside the threads of a direct channel: the conversation that is at work there is looked up.

    `thread` is the word's own, in which it is answered when nothing is at work.
    """

    thread: Thread
    message: IncomingMessage


@dataclass(frozen=True)
class Pressed:
    """Somebody pressed a button of a card: no event, see `gateway.interactions`.

    `start`: the card's workflow, with the press as its signal.
    """

    start: WorkflowStart


@dataclass(frozen=True)
class Ignored:
    reason: IgnoreReason | AuthorRefusal


Placed = Start | Message | Close | Lookup | Addressed | Overheard
"""A route whose thread is known."""

Route = Placed | Sign | StopWord | Ignored


def route(body: Mapping[str, Any], config: RoutingConfig) -> Route:
    """Say where an event goes.

    Args:
        body: what Slack delivered (https://docs.slack.dev/reference/events/message), or any other JSON object.
        config: the channels and the bot's own ids.
    """
    post = posts.read(body)
    return next(outcome(post, config) for matches, outcome in _RULES if matches(post, config))


_Outcome = Callable[[Post, RoutingConfig], Route]


def _start(post: Post, _: RoutingConfig) -> Route:
    return Start(post.thread, posts.envelope(post, MessageKind.REPORT, SenderType.REPORTER))


def _lookup(post: Post, _: RoutingConfig) -> Route:
    return Lookup(post.thread, posts.envelope(post, MessageKind.MESSAGE, SenderType.DEVELOPER))


def _reply(sender_type: SenderType) -> _Outcome:
    """A reply in a report's thread; only a reporter may close, and whether an unknown one is that the case decides."""

    def outcome(post: Post, _: RoutingConfig) -> Route:
        closes = not post.kind and phrases.is_close(post.text)
        message = posts.envelope(post, MessageKind.CLOSE if closes else MessageKind.MESSAGE, sender_type)
        if closes and sender_type == SenderType.REPORTER:
            return Close(post.thread, message)
        return Message(post.thread, message)

    return outcome


def _addressed(post: Post, at: RoutingConfig) -> Route:
    return Addressed(post.thread, _talk(post, at, addressed=True))


def _overheard(post: Post, at: RoutingConfig) -> Route:
    return Overheard(post.thread, _talk(post, at, addressed=False))


def _talk(post: Post, at: RoutingConfig, *, addressed: bool) -> IncomingMessage:
    """A message of a conversation, without the bot's mention.

    A channel's root stops nothing, since nothing goes on in its thread: it is answered like any other.
    """
    stops = _says_stop(post, at) and (post.is_direct or not post.is_root)
    kind = MessageKind.STOP if stops else MessageKind.MESSAGE
    root_author_id = "" if post.parent_user in (at.bot_user_id, posts.SLACKBOT) else post.parent_user
    return posts.envelope(
        post, kind, SenderType.UNKNOWN, unsaid=at.bot_user_id, addressed=addressed, root_author_id=root_author_id
    )


def _says_stop(post: Post, at: RoutingConfig) -> bool:
    """Whether the whole message is a word to stop, and said to nobody else."""
    return phrases.is_stop(post.words) and mentions_in(post.words) <= {at.bot_user_id}


def _stop_word(post: Post, at: RoutingConfig) -> Route:
    return StopWord(post.thread, _talk(post, at, addressed=True))


def _sign(post: Post, _: RoutingConfig) -> Route:
    return Sign(Thread(post.team, post.channel, post.ts), posts.sign(post))


def _ignore(reason: IgnoreReason | AuthorRefusal) -> _Outcome:
    ignored = Ignored(reason)
    return lambda *_: ignored


def _own(post: Post, config: RoutingConfig) -> bool:
    return bool(
        (post.user and post.user == config.bot_user_id) or (post.bot_id and post.bot_id == config.bot_id),
    )


def _complete(post: Post) -> bool:
    """Slack may tell of a deletion without telling whose message it was."""
    named = all((post.team, post.channel, post.ts, post.user or post.kind == MessageKind.DELETION))
    return named and bool(post.moment or not post.reaction)


def _calls_bot(post: Post, at: RoutingConfig) -> bool:
    return post.is_direct or at.bot_user_id in mentions_in(post.words)


def _in_case_channel(post: Post, at: RoutingConfig) -> bool:
    return post.channel in (at.reports_channel, at.summaries_channel, at.escalation_channel)


_SUBTYPES = ("", "file_share", "thread_broadcast", "me_message")

_RULES: tuple[tuple[Callable[[Post, RoutingConfig], bool], _Outcome], ...] = (
    (lambda post, _: post.type == "app_mention", _ignore(IgnoreReason.MENTION)),
    (
        lambda post, at: post.type in posts.REACTIONS and not post.is_sign_to(at.bot_user_id),
        _ignore(IgnoreReason.REACTION),
    ),
    (lambda post, _: post.type not in ("message", *posts.REACTIONS), _ignore(IgnoreReason.NOT_A_MESSAGE)),
    (_own, _ignore(IgnoreReason.OWN_MESSAGE)),
    (
        lambda post, _: bool(post.bot_id) or post.subtype == "bot_message" or post.user == posts.SLACKBOT,
        _ignore(IgnoreReason.BOT_MESSAGE),
    ),
    (lambda post, _: post.subtype not in _SUBTYPES, _ignore(IgnoreReason.SUBTYPE)),
    (lambda post, _: not _complete(post), _ignore(IgnoreReason.MISSING_FIELDS)),
    (
        lambda post, at: post.home not in ("", post.team) and post.channel not in at.external_people,
        _ignore(AuthorRefusal.OTHER_COMPANY),
    ),
    (lambda post, _: post.kind == MessageKind.EDIT and not post.reworded, _ignore(IgnoreReason.UNFURL)),
    # Signs are for conversations, of which a case's channels have none.
    (lambda post, at: bool(post.reaction) and _in_case_channel(post, at), _ignore(IgnoreReason.REACTION)),
    (lambda post, _: bool(post.reaction), _sign),
    # The reports channel: its roots are reports, and a thread belongs to who wrote the root.
    (lambda post, at: post.channel == at.reports_channel and post.is_root and not post.kind, _start),
    (lambda post, at: post.channel == at.reports_channel and post.is_root, _reply(SenderType.REPORTER)),
    (lambda post, at: post.channel == at.reports_channel and not post.parent_user, _reply(SenderType.UNKNOWN)),
    (
        lambda post, at: post.channel == at.reports_channel and post.parent_user == post.user,
        _reply(SenderType.REPORTER),
    ),
    (lambda post, at: post.channel == at.reports_channel, _ignore(IgnoreReason.THIRD_PARTY)),
    # The developers' channels: a case's thread is one that the bot opened.
    (lambda post, at: _in_case_channel(post, at) and post.is_root, _ignore(IgnoreReason.ROOT_IN_CASE_CHANNEL)),
    (lambda post, at: _in_case_channel(post, at) and post.parent_user in ("", at.bot_user_id), _lookup),
    (_in_case_channel, _ignore(IgnoreReason.NOT_A_CASE_THREAD)),
    # Everywhere else: conversations. A correction is addressed to nobody, and counts where its original did.
    (lambda post, _: bool(post.kind), _overheard),
    (lambda post, at: post.is_direct and post.is_root and _says_stop(post, at), _stop_word),
    (_calls_bot, _addressed),
    (lambda post, _: post.is_root, _ignore(IgnoreReason.OTHER_CHANNEL)),
    (lambda *_: True, _overheard),
)
"""Who may write in which thread, in the order in which it is decided."""
