"""The rule for silence: the messages of a thread that the bot answers, and those that it only
stores.

`attention` is the only place that decides this. The gateway asks it about the first message of a
thread, and the store, under the conversation's lock, about each later one.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

DEFAULT_QUIET = 24 * 3600.0
"""Seconds for which a thread stays quiet."""
_BEFORE_A_NAME = (
    r"(?:hi+|hey+|hello|hallo|moin|yo|ok(?:ay)?|thanks|thank you|thx|danke|merci|gracias|salut"
    r"|bonjour|hola|ola|olá|ciao|sorry|so|and|cc|fyi|ping|no|yes|yeah|yep|nope|ja|nein|oui|non|si"
    r"|sí|@)"
)
_OTHER = r"<(?:@[UW][A-Z0-9_]+|!subteam\^[A-Z0-9]+)(?:\|[^<>]*)?>"
_LEADS_WITH_OTHER = re.compile(
    rf"[\s>*_~(]*(?:{_BEFORE_A_NAME}[\s,.!:;-]+){{0,3}}{_OTHER}", re.IGNORECASE
)


class Listen(StrEnum):
    """The messages of a channel that the bot answers."""

    MENTIONED = "mentioned"
    """Only those that mention it."""
    MEANT = "meant"
    """Also answers to its questions, those of a person who is alone with it, and those among
    several people that the model takes to be meant for it.
    """
    EVERY = "every"
    """Every message that is not meant for somebody else, also a channel's new message."""


class Attention(StrEnum):
    """The treatment of one message."""

    ANSWER = "answer"
    WEIGH = "weigh"
    """A turn reads it: it answers a person who is alone with the bot, and among several people the
    model decides whether the message is meant for the bot. While a person has the thread, the turn
    only shows the message to them.
    """
    STORE = "store"
    """No turn begins. The next turn reads it as a part of the thread."""


@dataclass(frozen=True)
class Heard:
    """The facts about a message.

    - `calls_bot`: it mentions the bot, is a direct message, or presses one of the bot's buttons;
    - `is_request`: it has more than thanks, a greeting or an emoji;
    - `leads_with_other`: it begins by naming another user or a group;
    - `answers_question`: its author answers the bot's open question;
    - `follows_people`: it continues what people say to each other in the thread;
    - `is_muted`: the thread is quiet at that time;
    - `has_person`: a person has taken the thread over, or was asked to.
    """

    calls_bot: bool = False
    is_request: bool = True
    leads_with_other: bool = False
    answers_question: bool = False
    follows_people: bool = False
    is_muted: bool = False
    has_person: bool = False


def attention(listen: Listen, heard: Heard) -> Attention:
    """Decide about a message. A person who has the thread sees every message of it, so none of
    theirs is only stored.
    """
    wanted = _wanted(listen, heard)
    if wanted is Attention.STORE and heard.has_person:
        return Attention.WEIGH
    return wanted


def _wanted(listen: Listen, heard: Heard) -> Attention:
    if heard.calls_bot:
        is_idle_talk = heard.is_muted and not heard.is_request
        return Attention.STORE if is_idle_talk else Attention.ANSWER
    if heard.is_muted or listen is Listen.MENTIONED:
        return Attention.STORE
    if heard.answers_question:
        return Attention.ANSWER
    if heard.leads_with_other:
        return Attention.STORE
    if listen is Listen.MEANT:
        return Attention.WEIGH
    return Attention.STORE if heard.follows_people else Attention.ANSWER


def begins_conversation(listen: Listen, words: str, *, by_app: bool, has_more: bool) -> bool:
    """Return whether a channel's new message without a mention begins a conversation. An app has
    to mention the bot, since two bots could answer each other for ever.

    Args:
        has_more: the message has files or forwards something.
    """
    if listen is not Listen.EVERY or by_app or not (words.strip() or has_more):
        return False
    heard = Heard(leads_with_other=leads_with_other(words))
    return attention(listen, heard) is Attention.ANSWER


def leads_with_other(text: str) -> bool:
    """Return whether a text begins with the mention of a user or a group, perhaps after a greeting
    or thanks. The bot's own leading mention must be removed before.
    """
    return _LEADS_WITH_OTHER.match(text) is not None


@dataclass(frozen=True)
class Listening:
    """The settings of silence: the mode of each channel, and the seconds of a quiet thread."""

    default: Listen = Listen.MEANT
    by_channel: Mapping[str, Listen] = field(default_factory=dict)
    quiet_for: float = DEFAULT_QUIET

    def of(self, channel: str) -> Listen:
        return self.by_channel.get(channel, self.default)


DEFAULT_LISTENING = Listening()
