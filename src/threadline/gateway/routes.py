"""Route: the target of an event, or the reason why it is ignored. One table decides, and its first
matching rule wins. Pure and total: any JSON object gets a route, since an exception here would
refuse the event for ever.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from threadline.conversations.model.listening import (
    DEFAULT_LISTENING,
    Listening,
    begins_conversation,
)
from threadline.conversations.replies import asks_for_help
from threadline.gateway import events
from threadline.gateway.events import SlackEvent
from threadline.slack.model import BOT_NAME, MAX_NAME, AuthorRefusal, Thread
from threadline.threads import phrases
from threadline.threads.model import IncomingMessage, MessageKind, SenderType


class IgnoreReason(StrEnum):
    """The reason why an event reaches no workflow. Each is counted."""

    NOT_A_MESSAGE = "not_a_message"
    MENTION = "mention"
    """`app_mention`: a hint, by which `gateway.mention_hints` fetches the message if that does not
    come by itself.
    """
    REACTION = "reaction"
    """Neither a stop sign nor a thumb on one of the bot's messages, or on a message of a case."""
    OWN_MESSAGE = "own_message"
    BOT_MESSAGE = "bot_message"
    SUBTYPE = "subtype"
    MISSING_FIELDS = "missing_fields"
    """Missing fields, or fields that are no ids of Slack."""
    OTHER_CHANNEL = "other_channel"
    """A root message without a mention, in a channel whose every message is not answered."""
    UNFURL = "unfurl"
    THIRD_PARTY = "third_party"
    ROOT_IN_CASE_CHANNEL = "root_in_case_channel"
    NOT_A_CASE_THREAD = "not_a_case_thread"
    NOT_FOLLOWED = "not_followed"
    """In a thread that is no conversation with the bot."""
    ALREADY_STORED = "already_stored"
    """A redelivered stop word: the conversation that it stopped has stored it."""
    OTHER_INSTALLATION = "other_installation"
    """Delivered to the installation of another workspace."""
    UNKNOWN_BUTTON = "unknown_button"
    """A press of another button, or another modal, than those of approvals, handovers and help."""


class RouteTarget(StrEnum):
    """The kind of a route's thread. The counts on /readyz use these names."""

    CASE = "case"
    """The thread in which a case was reported."""
    CASE_THREAD = "case_thread"
    """A thread that the bot opened in a developers' channel. The case is looked up."""
    CASE_THREAD_DEFERRED = "case_thread_deferred"
    """The same, of a case that was not found: `RouteReplyWorkflow` keeps the reply and continues
    the search.
    """
    CONVERSATION = "conversation"
    """A message to the bot: the conversation of the thread begins or continues."""
    FOLLOWED_THREAD = "followed_thread"
    """A thread with a new or corrected message, which counts if the thread is a conversation."""
    REACTED_MESSAGE = "reacted_message"
    """A message with a reaction for the bot; `Route.thread.ts` is that message's. Its thread is
    looked up.
    """
    DIRECT_STOP = "direct_stop"
    """A stop word as a root in a direct channel. The active conversation there is looked up."""


@dataclass(frozen=True)
class RoutingConfig:
    """The channels of cases, and the installation.

    An unused channel is empty. `team`, `enterprise` and the fields with the prefix `bot_` come
    from `auth.test`. Without a `team` every event is refused. `enterprise` is empty outside of an
    Enterprise Grid.
    """

    reports_channel: str = ""
    summaries_channel: str = ""
    escalation_channel: str = ""
    bot_user_id: str = ""
    bot_id: str = ""
    bot_name: str = BOT_NAME
    team: str = ""
    enterprise: str = ""
    external_people: frozenset[str] = frozenset()
    """Channels in which people of other companies count as our own do."""
    allowed_apps: frozenset[str] = frozenset()
    """Ids of bots and apps whose messages count."""
    listening: Listening = DEFAULT_LISTENING
    """The messages that the bot answers in each channel."""


@dataclass(frozen=True)
class Route:
    """The target of an event. `apps`: the ids of the bot and the app through which the message was
    posted; `app_team`: the workspace of that app's installation.
    """

    target: RouteTarget
    thread: Thread
    message: IncomingMessage
    apps: tuple[str, ...] = ()
    app_team: str = ""


Ignored = IgnoreReason | AuthorRefusal
"""The reasons why an event is ignored."""


def route(body: Mapping[str, Any], config: RoutingConfig) -> Route | Ignored:
    """Find the route of a delivery (https://docs.slack.dev/reference/events/message), or of any
    other JSON object.
    """
    if not events.is_of_installation(body, config.team):
        return IgnoreReason.OTHER_INSTALLATION
    event = events.parse(body, config.team)
    found = next(found for matches, found in _RULES if matches(event, config))
    if isinstance(found, Ignored):
        return found
    return replace(found(event, config), apps=event.apps, app_team=event.app_team)


_Make = Callable[[SlackEvent, RoutingConfig], Route]


def _of_case(target: RouteTarget, kind: MessageKind, sender_type: SenderType) -> _Make:
    def make(event: SlackEvent, at: RoutingConfig) -> Route:
        addressed = at.bot_user_id in event.calls
        message = events.incoming_message(event, kind, sender_type, addressed=addressed)
        return Route(target, event.thread, message)

    return make


def _reply(sender_type: SenderType) -> _Make:
    """Route a reply in a report's thread. The case decides whether an unknown sender may close
    it.
    """

    def make(event: SlackEvent, at: RoutingConfig) -> Route:
        closes = not event.correction and phrases.is_close(event.words)
        kind = MessageKind.CLOSE if closes else MessageKind.MESSAGE
        return _of_case(RouteTarget.CASE, kind, sender_type)(event, at)

    return make


def _conversation(target: RouteTarget) -> _Make:
    """Route a message of a conversation, without the bot's leading mention.

    A root in a channel stops nothing, since no turn runs in its thread; it is answered like any
    other message. An edit is addressed to the bot if the message mentions it now; the conversation
    knows whether it did before.
    """

    def make(event: SlackEvent, at: RoutingConfig) -> Route:
        stops = _says_stop(event, at) and (event.is_direct or not event.is_root)
        calls_since_edit = event.correction == MessageKind.EDIT and at.bot_user_id in event.calls
        message = events.incoming_message(
            event,
            MessageKind.STOP if stops else MessageKind.MESSAGE,
            SenderType.UNKNOWN,
            without_mention_of=at.bot_user_id,
            bot_name=at.bot_name,
            addressed=target is not RouteTarget.FOLLOWED_THREAD or calls_since_edit,
            root_author_id=""
            if event.parent_user in (at.bot_user_id, events.SLACKBOT)
            else event.parent_user,
        )
        return Route(target, event.thread, message)

    return make


def _reaction(event: SlackEvent, _: RoutingConfig) -> Route:
    place = Thread(event.team, event.channel, event.ts)
    return Route(RouteTarget.REACTED_MESSAGE, place, events.reaction_message(event))


def _says_stop(event: SlackEvent, at: RoutingConfig) -> bool:
    """Return whether the whole message is a stop word and mentions no user except the bot."""
    return phrases.is_stop(event.words) and event.calls <= {at.bot_user_id}


def _is_complete(event: SlackEvent) -> bool:
    """Return whether the ids are present, in a form that Temporal and Postgres accept. A deletion
    may come without its author.
    """
    named = all(
        (
            event.team,
            event.channel,
            event.ts,
            event.sender or event.correction == MessageKind.DELETION,
        )
    )
    ids = (
        event.team,
        event.channel,
        event.ts,
        event.thread_ts,
        event.sender,
        event.event_ts,
        event.version,
    )
    sound = all(each.isascii() and len(each) <= MAX_NAME for each in ids)
    return named and sound and bool(event.event_ts or not event.reaction)


def _is_unknown_app(event: SlackEvent, at: RoutingConfig) -> bool:
    """Return whether an app that is not allowed wrote it under no user. For a message under a
    user, of a person or a bot, `threads.authors` asks Slack: a person may have posted it through
    an app.
    """
    by_app = bool(event.apps) or event.subtype == _BOT_MESSAGE
    return by_app and not event.user and at.allowed_apps.isdisjoint(event.apps)


def _names_another_company(event: SlackEvent, at: RoutingConfig) -> bool:
    """Return whether the event itself names another company as its author's. The absence of a name
    proves nothing: `threads.authors` asks Slack. In an Enterprise Grid an event may name a
    workspace, or the organisation, of people who belong to ours as well.
    """
    if (
        at.enterprise
        or event.correction == MessageKind.DELETION
        or event.channel in at.external_people
    ):
        return False
    return event.author_team not in ("", at.team)


def _in_case_channel(event: SlackEvent, at: RoutingConfig) -> bool:
    return event.channel in (at.reports_channel, at.summaries_channel, at.escalation_channel)


def _is_changed(event: SlackEvent, at: RoutingConfig) -> bool:
    """Return whether an edit changes the words, or removes files that may be shown in another
    thread as well.

    A case keeps its files. Cards of handovers may be posted in the channel of escalations.
    """
    keeps_files = _in_case_channel(event, at) and event.channel != at.escalation_channel
    return event.text_changed or (event.files_removed and not keeps_files)


def _asks_developers_help(event: SlackEvent, at: RoutingConfig) -> bool:
    """Return whether a new root in a developers' channel only calls the bot, greets it or asks it
    for help. Cases begin in the reports channel, so no other root there counts.
    """
    is_new_root = event.is_root and not event.correction
    brings_more = bool(event.files or event.forwarded)
    calls_bot = is_new_root and event.calls == {at.bot_user_id} and not brings_more
    return calls_bot and asks_for_help(event.words)


def _begins_conversation(event: SlackEvent, at: RoutingConfig) -> bool:
    """Return whether a new root without a mention begins a conversation."""
    return event.is_root and begins_conversation(
        at.listening.of(event.channel),
        event.words,
        by_app=bool(event.apps),
        has_more=bool(event.files or event.forwarded),
    )


def _in_reports(event: SlackEvent, at: RoutingConfig) -> bool:
    return event.channel == at.reports_channel


_BOT_MESSAGE = "bot_message"
_SUBTYPES = ("", "file_share", "thread_broadcast", "me_message", _BOT_MESSAGE)

_RULES: tuple[tuple[Callable[[SlackEvent, RoutingConfig], bool], _Make | Ignored], ...] = (
    (lambda event, _: event.type == "app_mention", IgnoreReason.MENTION),
    (
        lambda event, at: (
            event.type in events.REACTIONS and not event.is_reaction_to_bot(at.bot_user_id)
        ),
        IgnoreReason.REACTION,
    ),
    (
        lambda event, _: event.type not in ("message", *events.REACTIONS),
        IgnoreReason.NOT_A_MESSAGE,
    ),
    (
        lambda event, at: bool(event.user) and event.user == at.bot_user_id,
        IgnoreReason.OWN_MESSAGE,
    ),
    (lambda event, at: event.by_own_app or at.bot_id in event.apps, IgnoreReason.OWN_MESSAGE),
    (
        lambda event, at: event.user == events.SLACKBOT or _is_unknown_app(event, at),
        IgnoreReason.BOT_MESSAGE,
    ),
    (lambda event, _: event.subtype not in _SUBTYPES, IgnoreReason.SUBTYPE),
    (lambda event, _: not _is_complete(event), IgnoreReason.MISSING_FIELDS),
    (lambda event, at: _names_another_company(event, at), AuthorRefusal.OTHER_COMPANY),
    (
        lambda event, at: event.correction == MessageKind.EDIT and not _is_changed(event, at),
        IgnoreReason.UNFURL,
    ),
    # Reactions are for conversations, of which the channels of cases have none.
    (
        lambda event, at: bool(event.reaction) and _in_case_channel(event, at),
        IgnoreReason.REACTION,
    ),
    (lambda event, _: bool(event.reaction), _reaction),
    # The reports channel: its roots are reports, and a thread belongs to the author of its root.
    (
        lambda event, at: _in_reports(event, at) and event.is_root and not event.correction,
        _of_case(RouteTarget.CASE, MessageKind.REPORT, SenderType.REPORTER),
    ),
    (lambda event, at: _in_reports(event, at) and event.is_root, _reply(SenderType.REPORTER)),
    (
        lambda event, at: _in_reports(event, at) and not event.parent_user,
        _reply(SenderType.UNKNOWN),
    ),
    (
        lambda event, at: _in_reports(event, at) and event.parent_user == event.sender,
        _reply(SenderType.REPORTER),
    ),
    # An app may have written the root: then the case decides.
    (
        lambda event, at: _in_reports(event, at) and bool(at.allowed_apps),
        _reply(SenderType.UNKNOWN),
    ),
    (_in_reports, IgnoreReason.THIRD_PARTY),
    # The developers' channels: only threads that the bot opened belong to cases.
    (
        lambda event, at: _in_case_channel(event, at) and _asks_developers_help(event, at),
        _conversation(RouteTarget.CONVERSATION),
    ),
    (
        lambda event, at: _in_case_channel(event, at) and event.is_root,
        IgnoreReason.ROOT_IN_CASE_CHANNEL,
    ),
    (
        lambda event, at: (
            _in_case_channel(event, at) and event.parent_user in ("", at.bot_user_id)
        ),
        _of_case(RouteTarget.CASE_THREAD, MessageKind.MESSAGE, SenderType.DEVELOPER),
    ),
    (_in_case_channel, IgnoreReason.NOT_A_CASE_THREAD),
    # Everywhere else: conversations. A correction counts where its original did.
    (lambda event, _: bool(event.correction), _conversation(RouteTarget.FOLLOWED_THREAD)),
    (
        lambda event, at: event.is_direct and event.is_root and _says_stop(event, at),
        _conversation(RouteTarget.DIRECT_STOP),
    ),
    (
        lambda event, at: event.is_direct or at.bot_user_id in event.calls,
        _conversation(RouteTarget.CONVERSATION),
    ),
    (_begins_conversation, _conversation(RouteTarget.CONVERSATION)),
    (lambda event, _: event.is_root, IgnoreReason.OTHER_CHANNEL),
    (lambda *_: True, _conversation(RouteTarget.FOLLOWED_THREAD)),
)
"""The routing table: the first matching rule wins."""
